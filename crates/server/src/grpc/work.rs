//! The worker's stream: readiness and reports in, tasks and acks out.

use super::codec::Answer;
use super::desk::Desk;
use super::handshake::{self, hello_first};
use super::held::{Held, Lot, Ready};
use super::session::{Entered, Role};
use super::{HELD_READYS, StreamContext, assignment, report, texts};
use crate::auth::{Caller, Scope};
use crate::broker::{Broker, ClaimRequest, ReportRequest};
use crate::stops::StopListener;
use crate::telemetry::traces::http::Carried;
use crate::workers::Protocol;
use codeq_api::grpc::worker::server_event::Event as Out;
use codeq_api::grpc::worker::worker_event::Event;
use codeq_api::grpc::worker::{
    self, AbandonAck, Cancel, HeartbeatAck, HelloAck, NackAck, ResultAck, ResultAckBatch, ServerError,
    ServerEvent, WorkerEvent,
};
use codeq_api::work::WorkerInfo;
use codeq_queue::{Order, Owner, Refusal, Weights, limits};
use prost::Message;
use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tonic::Status;
use tonic::codec::EncodeBuf;

/// What a held Ready takes in memory besides the names in it, and what each name takes besides its text.
const READY_BYTES: usize = 512;
const NAME_BYTES: usize = 32;

/// What a stream says to its worker. Smaller than the generated event, which has room for a whole task.
pub enum WorkerAnswer {
    Hello(HelloAck),
    Tasks(Lot),
    Result(ResultAck),
    Results(ResultAckBatch),
    Nack(NackAck),
    Heartbeat(HeartbeatAck),
    Abandon(AbandonAck),
    Cancel(Cancel),
    Error(ServerError),
}

impl Answer for WorkerAnswer {
    fn write(self, buffer: &mut EncodeBuf<'_>) {
        let event = match self {
            WorkerAnswer::Tasks(lot) => return assignment::write(lot, buffer),
            WorkerAnswer::Hello(ack) => Out::HelloAck(ack),
            WorkerAnswer::Result(ack) => Out::ResultAck(ack),
            WorkerAnswer::Results(batch) => Out::ResultAckBatch(batch),
            WorkerAnswer::Nack(ack) => Out::NackAck(ack),
            WorkerAnswer::Heartbeat(ack) => Out::HeartbeatAck(ack),
            WorkerAnswer::Abandon(ack) => Out::AbandonAck(ack),
            WorkerAnswer::Cancel(cancel) => Out::Cancel(cancel),
            WorkerAnswer::Error(error) => Out::Error(error),
        };
        ServerEvent { event: Some(event) }.encode(buffer).expect("the buffer grows");
    }
}

pub struct Working {
    pub(super) reporter: Reporter,
    caller: Arc<Caller>,
    /// None once the stream ends.
    held: Option<Held>,
    /// Where the worker wants to be told at once.
    stops: Option<StopListener>,
    pub(super) gathered: Gathered,
}

/// Who reports, for calls that outlive the event.
#[derive(Clone)]
pub struct Reporter {
    pub broker: Arc<Broker>,
    pub tenant: Arc<str>,
    pub owner: Arc<Owner>,
    /// What the worker told of itself.
    pub info: Option<Arc<WorkerInfo>>,
}

impl Reporter {
    /// No attempt is none; any other number has to be the current one.
    pub fn report(&self, id: String, attempt: i32) -> ReportRequest {
        let attempt = (attempt != 0).then_some(i64::from(attempt));
        ReportRequest { id, owner: self.owner.clone(), attempt, protocol: Protocol::Grpc }
    }
}

/// Reports that have arrived together.
#[derive(Default)]
pub struct Gathered {
    pub results: Vec<worker::Result>,
    pub nacks: Vec<worker::Nack>,
    pub heartbeats: Vec<worker::Heartbeat>,
    pub abandons: Vec<worker::Abandon>,
}

impl Role for Working {
    const SERVICE: &'static str = "workerpb.WorkerStream";
    type Event = WorkerEvent;
    type Answer = WorkerAnswer;

    async fn enter(
        office: &Arc<StreamContext>,
        first: WorkerEvent,
        _: Option<Carried>,
    ) -> Result<Entered<Working>, Status> {
        let Some(Event::Hello(hello)) = first.event else { return Err(hello_first()) };
        let (worker, owner) = handshake::worker(office, &hello.token, &hello.worker_id).await?;
        let info = info(hello.info)?;
        let caller = worker.0;
        let (worker_id, tenant_id) = (owner.worker_id.to_string(), caller.tenant.to_string());
        let broker = office.broker.clone();
        let stops = hello.accepts_cancel.then(|| broker.listen_for_stops(&caller.tenant, &owner));
        let role = Working {
            held: Some(Held::new(broker.clone(), caller.clone(), owner.clone())),
            reporter: Reporter { broker, tenant: caller.tenant.clone(), owner, info },
            gathered: Gathered::default(),
            stops,
            caller: caller.clone(),
        };
        let welcome = WorkerAnswer::Hello(HelloAck { worker_id, tenant_id });
        let ends_at = caller.ends_at;
        Ok(Entered { role, welcome, caller, ends_at })
    }

    fn take(&mut self, given: WorkerEvent, desk: &mut Desk<WorkerAnswer>) -> usize {
        let Some(event) = given.event else {
            desk.answer(error(texts::INVALID_ARGUMENT, texts::UNKNOWN_EVENT));
            return 0;
        };
        if scope(&event).is_some_and(|scope| !self.caller.scopes.contains(scope)) {
            desk.answer(error(texts::PERMISSION_DENIED, texts::MISSING_SCOPE));
            return 0;
        }
        match event {
            Event::Hello(_) => {
                desk.answer(error(texts::FAILED_PRECONDITION, texts::ALREADY_AUTHENTICATED));
            }
            Event::Ready(ready) => self.hold(ready, desk),
            Event::Result(result) => {
                let bytes = result.result_json.len() + result.error.len();
                self.gathered.results.push(result);
                return bytes;
            }
            Event::ResultBatch(batch) => return self.result_batch(batch.results, desk),
            Event::Nack(nack) => {
                let bytes = nack.reason.len() + nack.checkpoint.len();
                self.gathered.nacks.push(nack);
                return bytes;
            }
            Event::Heartbeat(heartbeat) => {
                let bytes = heartbeat.progress.len() + heartbeat.checkpoint.len();
                self.gathered.heartbeats.push(heartbeat);
                return bytes;
            }
            Event::Abandon(abandon) => {
                let bytes = abandon.checkpoint.len();
                self.gathered.abandons.push(abandon);
                return bytes;
            }
        }
        0
    }

    fn dispatch(&mut self, desk: &mut Desk<WorkerAnswer>) {
        self.report(desk);
    }

    fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<WorkerAnswer> {
        if let Some(stops) = &mut self.stops
            && let Poll::Ready(notice) = stops.poll(context)
        {
            let cancel = report::cancel(notice.task.to_string(), notice.attempt, &notice.cancel);
            return Poll::Ready(WorkerAnswer::Cancel(cancel));
        }
        let Some(held) = &mut self.held else { return Poll::Pending };
        held.poll(context).map(|answer| match answer {
            Ok(lot) => WorkerAnswer::Tasks(lot),
            Err(refusal) => {
                let (code, message) = texts::ready(&refusal);
                error(code, &message)
            }
        })
    }

    fn stop(&mut self) {
        self.held = None;
        self.stops = None;
    }
}

impl Working {
    fn hold(&self, ready: worker::Ready, desk: &mut Desk<WorkerAnswer>) {
        let mut commands = ready.commands;
        commands.retain(|command| !command.trim().is_empty());
        commands.shrink_to_fit();
        let count = usize::try_from(ready.count).unwrap_or(0).clamp(1, limits::STREAM_BATCH);
        // At once: what may not be asked for is not kept until it is its turn.
        let allowed = Broker::check_commands(&self.caller, &commands);
        let order = match allowed.and_then(|()| order(&ready.order, &ready.weights)) {
            Ok(order) => order,
            Err(refusal) => {
                let (code, message) = texts::ready(&refusal);
                return desk.answer(error(code, &message));
            }
        };
        let names = commands.iter().chain(ready.weights.keys());
        let bytes = READY_BYTES + names.map(|name| NAME_BYTES + name.len()).sum::<usize>();
        let Ok(weight) = desk.weigh(bytes) else {
            return desk.finish(Status::resource_exhausted("too many bytes in flight"));
        };
        let request = ClaimRequest {
            commands: Some(commands),
            lease_seconds: ready.lease_seconds.into(),
            wait: Duration::MAX,
            count,
            order,
            info: self.reporter.info.clone(),
            protocol: Protocol::Grpc,
        };
        let ready = Ready { _weight: weight, request, is_batch: count > 1 };
        if self.held.as_ref().is_some_and(|held| !held.hold(ready)) {
            let text = format!("too many held Readys (max {HELD_READYS})");
            desk.finish(Status::resource_exhausted(text));
        }
    }
}

/// Empty and zero are absent.
fn info(given: Option<worker::WorkerInfo>) -> Result<Option<Arc<WorkerInfo>>, Status> {
    let Some(given) = given else { return Ok(None) };
    if given.encoded_len() > limits::WORKER_INFO_BYTES {
        return Err(Status::invalid_argument("invalid info (at most 512 bytes)"));
    }
    let text = |text: String| Some(text).filter(|text| !text.is_empty());
    let number = |number: i32| (number != 0).then_some(i64::from(number));
    Ok(Some(Arc::new(WorkerInfo {
        host: text(given.host),
        pid: number(given.pid),
        sdk: text(given.sdk),
        version: text(given.version),
        slots: number(given.slots),
    })))
}

fn order(order: &str, weights: &HashMap<String, i32>) -> Result<Order, Refusal> {
    let given = weights.iter().map(|(name, weight)| (name.as_str(), i64::from(*weight)));
    let weights = (!weights.is_empty()).then(|| Weights::read(given)).transpose()?;
    Order::read(order, weights)
}

fn scope(event: &Event) -> Option<Scope> {
    match event {
        Event::Hello(_) => None,
        Event::Ready(_) => Some(Scope::Claim),
        Event::Result(_) | Event::ResultBatch(_) => Some(Scope::Result),
        Event::Nack(_) => Some(Scope::Nack),
        Event::Heartbeat(_) => Some(Scope::Heartbeat),
        Event::Abandon(_) => Some(Scope::Abandon),
    }
}

fn error(code: &str, message: &str) -> WorkerAnswer {
    WorkerAnswer::Error(ServerError { code: code.to_owned(), message: message.to_owned() })
}
