//! The worker's stream: readiness and reports in, tasks and acks out.

use super::codec::Answer;
use super::desk::Desk;
use super::handshake::{self, hello_first};
use super::held::{Held, Lot, Ready};
use super::session::{Entered, Role};
use super::{HELD_READYS, Office, assignment, texts};
use crate::auth::{Caller, Scope};
use crate::broker::{Broker, ClaimRequest, ReportRequest};
use crate::telemetry::traces::http::Carried;
use codeq_api::grpc::worker::server_event::Event as Out;
use codeq_api::grpc::worker::worker_event::Event;
use codeq_api::grpc::worker::{
    self, AbandonAck, HeartbeatAck, HelloAck, NackAck, ResultAck, ResultAckBatch, ServerError, ServerEvent,
    WorkerEvent,
};
use codeq_queue::{Owner, limits};
use prost::Message;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tonic::Status;
use tonic::codec::EncodeBuf;

/// What a stream says to its worker. Smaller than the generated event, which has room for a whole task.
pub enum Said {
    Hello(HelloAck),
    Tasks(Lot),
    Result(ResultAck),
    Results(ResultAckBatch),
    Nack(NackAck),
    Heartbeat(HeartbeatAck),
    Abandon(AbandonAck),
    Error(ServerError),
}

impl Answer for Said {
    fn write(self, buffer: &mut EncodeBuf<'_>) {
        let event = match self {
            Said::Tasks(lot) => return assignment::write(lot, buffer),
            Said::Hello(ack) => Out::HelloAck(ack),
            Said::Result(ack) => Out::ResultAck(ack),
            Said::Results(batch) => Out::ResultAckBatch(batch),
            Said::Nack(ack) => Out::NackAck(ack),
            Said::Heartbeat(ack) => Out::HeartbeatAck(ack),
            Said::Abandon(ack) => Out::AbandonAck(ack),
            Said::Error(error) => Out::Error(error),
        };
        ServerEvent { event: Some(event) }.encode(buffer).expect("the buffer grows");
    }
}

pub struct Working {
    pub(super) reporter: Reporter,
    caller: Arc<Caller>,
    /// None once the stream ends.
    held: Option<Held>,
    pub(super) gathered: Gathered,
}

/// Who reports, for calls that outlive the event.
#[derive(Clone)]
pub struct Reporter {
    pub broker: Arc<Broker>,
    pub tenant: Arc<str>,
    pub owner: Arc<Owner>,
}

impl Reporter {
    /// No attempt is none; any other number has to be the current one.
    pub fn report(&self, id: String, attempt: i32) -> ReportRequest {
        let attempt = (attempt != 0).then_some(i64::from(attempt));
        ReportRequest { id, owner: self.owner.clone(), attempt }
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
    type Answer = Said;

    async fn enter(
        office: &Arc<Office>,
        first: WorkerEvent,
        _: Option<Carried>,
    ) -> Result<Entered<Working>, Status> {
        let Some(Event::Hello(hello)) = first.event else { return Err(hello_first()) };
        let (worker, owner) = handshake::worker(office, &hello.token, &hello.worker_id).await?;
        let caller = worker.0;
        let (worker_id, tenant_id) = (owner.worker_id.to_string(), caller.tenant.to_string());
        let broker = office.broker.clone();
        let role = Working {
            held: Some(Held::new(broker.clone(), caller.clone(), owner.clone())),
            reporter: Reporter { broker, tenant: caller.tenant.clone(), owner },
            gathered: Gathered::default(),
            caller: caller.clone(),
        };
        let welcome = Said::Hello(HelloAck { worker_id, tenant_id });
        Ok(Entered { role, welcome, ends_at: caller.ends_at })
    }

    fn take(&mut self, given: WorkerEvent, desk: &mut Desk<Said>) -> usize {
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
                let bytes = result.result_json.len();
                self.gathered.results.push(result);
                return bytes;
            }
            Event::ResultBatch(batch) => return self.result_batch(batch.results, desk),
            Event::Nack(nack) => self.gathered.nacks.push(nack),
            Event::Heartbeat(heartbeat) => self.gathered.heartbeats.push(heartbeat),
            Event::Abandon(abandon) => self.gathered.abandons.push(abandon),
        }
        0
    }

    fn dispatch(&mut self, desk: &mut Desk<Said>) {
        self.report(desk);
    }

    fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<Said> {
        let Some(held) = &mut self.held else { return Poll::Pending };
        held.poll(context).map(|answer| match answer {
            Ok(lot) => Said::Tasks(lot),
            Err(refusal) => {
                let (code, message) = texts::ready(&refusal);
                error(code, &message)
            }
        })
    }

    fn stop(&mut self) {
        self.held = None;
    }
}

impl Working {
    fn hold(&self, ready: worker::Ready, desk: &mut Desk<Said>) {
        let mut commands = ready.commands;
        commands.retain(|command| !command.trim().is_empty());
        let count = usize::try_from(ready.count).unwrap_or(0).clamp(1, limits::STREAM_BATCH);
        let request = ClaimRequest {
            commands: Some(commands),
            lease_seconds: ready.lease_seconds.into(),
            wait: Duration::MAX,
            count,
        };
        let ready = Ready { request, is_batch: count > 1 };
        if self.held.as_ref().is_some_and(|held| !held.hold(ready)) {
            let text = format!("too many held Readys (max {HELD_READYS})");
            desk.finish(Status::resource_exhausted(text));
        }
    }
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

fn error(code: &str, message: &str) -> Said {
    Said::Error(ServerError { code: code.to_owned(), message: message.to_owned() })
}
