//! The producer's stream: creates in, acks out.

use super::StreamContext;
use super::desk::{Desk, Settled};
use super::handshake::{self, hello_first};
use super::session::{Entered, Role};
use super::texts::{self, Text};
use crate::broker::Broker;
use crate::telemetry::traces::context::Written;
use crate::telemetry::traces::http::Carried;
use codeq_api::grpc::producer::producer_event::Event;
use codeq_api::grpc::producer::server_event::Event as Out;
use codeq_api::grpc::producer::{
    CreateAck, CreateAckBatch, CreateTask, HelloAck, ProducerEvent, ServerError, ServerEvent, Unique,
};
use codeq_queue::create::CreateRequest;
use codeq_queue::options::{OptionsRequest, UniqueRequest};
use codeq_queue::store::Created;
use codeq_queue::{Refusal, Time, limits};
use prost::Message;
use prost_types::Timestamp;
use std::sync::Arc;
use tonic::Status;

/// Bytes that a create is reckoned to take besides its message.
const CREATE_BYTES: usize = 512;

pub struct Producing {
    broker: Arc<Broker>,
    tenant: Arc<str>,
    /// From the metadata of the stream, for creates without a context of their own.
    carried: Option<Carried>,
    gathered: Vec<CreateTask>,
}

impl Role for Producing {
    const SERVICE: &'static str = "producerpb.ProducerStream";
    type Event = ProducerEvent;
    type Answer = ServerEvent;

    async fn enter(
        office: &Arc<StreamContext>,
        first: ProducerEvent,
        carried: Option<Carried>,
    ) -> Result<Entered<Producing>, Status> {
        let Some(Event::Hello(hello)) = first.event else { return Err(hello_first()) };
        let caller = handshake::producer(office, &hello.token).await?.0;
        let welcome = HelloAck { tenant_id: caller.tenant.to_string(), subject: caller.subject.to_string() };
        let role = Producing {
            broker: office.broker.clone(),
            tenant: caller.tenant.clone(),
            carried,
            gathered: Vec::new(),
        };
        let ends_at = caller.ends_at;
        Ok(Entered { role, welcome: event(Out::HelloAck(welcome)), caller, ends_at })
    }

    fn take(&mut self, given: ProducerEvent, desk: &mut Desk<ServerEvent>) -> usize {
        match given.event {
            Some(Event::Create(create)) => {
                let bytes = create.encoded_len();
                self.gathered.push(create);
                return bytes;
            }
            Some(Event::CreateBatch(batch)) => return self.batch(batch.tasks, desk),
            Some(Event::Hello(_)) => {
                desk.answer(error(texts::FAILED_PRECONDITION, texts::ALREADY_AUTHENTICATED));
            }
            None => desk.answer(error(texts::INVALID_ARGUMENT, texts::UNKNOWN_EVENT)),
        }
        0
    }

    fn dispatch(&mut self, desk: &mut Desk<ServerEvent>) {
        if self.gathered.is_empty() {
            return;
        }
        let tasks = std::mem::take(&mut self.gathered);
        let (events, bytes) = (tasks.len(), size(&tasks));
        let created = self.create(tasks, false);
        desk.call(events, bytes, async move {
            let acks = created.await.into_iter();
            acks.map(|ack| (event(Out::CreateAck(ack)), 1)).collect()
        });
    }
}

impl Producing {
    /// What was sent as one batch may name its own items.
    fn create(
        &self,
        tasks: Vec<CreateTask>,
        is_batch: bool,
    ) -> impl Future<Output = Vec<CreateAck>> + Send + use<> {
        create(self.broker.clone(), self.tenant.clone(), self.carried.clone(), tasks, is_batch)
    }

    fn batch(&self, tasks: Vec<CreateTask>, desk: &mut Desk<ServerEvent>) -> usize {
        let (events, bytes) = (tasks.len(), size(&tasks));
        let settle = move |acks| -> Settled<ServerEvent> {
            (event(Out::CreateAckBatch(CreateAckBatch { acks })), events)
        };
        if events > limits::STREAM_BATCH {
            let text = Refusal::BatchTooLarge(limits::STREAM_BATCH).to_string();
            let acks = tasks.iter().map(|task| refused(task.seq, text.clone().into())).collect();
            desk.answer_many(settle(acks).0, events);
        } else if events > 0 {
            let created = self.create(tasks, true);
            desk.call(events, bytes, async move { vec![settle(created.await)] });
        }
        bytes
    }
}

fn size(tasks: &[CreateTask]) -> usize {
    tasks.iter().map(|task| task.encoded_len() + CREATE_BYTES).sum()
}

/// One call of the store; an ack for each task, in order.
async fn create(
    broker: Arc<Broker>,
    tenant: Arc<str>,
    carried: Option<Carried>,
    tasks: Vec<CreateTask>,
    is_batch: bool,
) -> Vec<CreateAck> {
    let mut asked = Vec::with_capacity(tasks.len());
    let mut requests = Vec::with_capacity(tasks.len());
    for task in tasks {
        let seq = task.seq;
        let request = request(&tenant, carried.as_ref(), task);
        asked.push((seq, request.as_ref().err().copied()));
        // The broker keeps the place of what is refused here.
        requests.push(request.map_err(|_| Refusal::InvalidBody));
    }
    let created = match is_batch {
        true => broker.create_items(requests).await,
        false => broker.create(requests).await,
    };
    texts::log_failure(&created);
    let answered = asked.into_iter().zip(created);
    answered.map(|((seq, text), created)| ack(seq, text, created)).collect()
}

fn ack(seq: u64, text: Option<&'static str>, created: Result<Created, crate::broker::Error>) -> CreateAck {
    match (text, created) {
        (Some(text), _) => refused(seq, text.into()),
        (None, Err(error)) => refused(seq, texts::create(&error)),
        (None, Ok(created)) => CreateAck {
            seq,
            ok: true,
            task_id: created.task.id.to_string(),
            error_message: String::new(),
            replayed: created.is_replay,
            deduplicated: created.is_duplicate,
        },
    }
}

fn refused(seq: u64, text: Text) -> CreateAck {
    CreateAck { seq, error_message: text.into_owned(), ..CreateAck::default() }
}

/// What the rules have to check, or what is wrong before they can.
fn request(
    tenant: &Arc<str>,
    carried: Option<&Carried>,
    task: CreateTask,
) -> Result<CreateRequest, &'static str> {
    if task.command.trim().is_empty() {
        return Err("command is required");
    }
    let payload = match std::str::from_utf8(&task.payload) {
        Ok("") => "null".to_owned(),
        Ok(text) => text.to_owned(),
        Err(_) => return Err("invalid payload"),
    };
    let mut headers: Vec<(String, String)> = task.headers.into_iter().collect();
    headers.sort_unstable();
    let given = |text: String| (!text.is_empty()).then_some(text);
    let context = match task.trace_parent.is_empty() {
        true => carried.and_then(|carried| carried.parent.written()).unwrap_or_default(),
        false => Written { trace_parent: task.trace_parent, trace_state: task.trace_state },
    };
    let options = OptionsRequest {
        lane: given(task.lane),
        tags: task.tags,
        unique: task.unique.map(unique),
        expires_at: task.expires_at.map(time),
        expire_seconds: (task.expire_seconds != 0).then_some(task.expire_seconds),
        max_run_seconds: (task.max_run_seconds != 0).then_some(task.max_run_seconds.into()),
        after: task.after,
        on_dependency_failure: given(task.on_dependency_failure),
        batch_id: given(task.batch_id),
    };
    Ok(CreateRequest {
        tenant: tenant.clone(),
        command: task.command,
        payload,
        priority: task.priority.into(),
        webhook: given(task.webhook),
        headers,
        max_attempts: task.max_attempts.into(),
        idempotency_key: given(task.idempotency_key),
        run_at: task.run_at.map(time),
        delay_seconds: task.delay_seconds.into(),
        trace_parent: given(context.trace_parent),
        trace_state: given(context.trace_state),
        options,
        baggage: carried.and_then(|carried| carried.baggage.clone()),
    })
}

fn unique(given: Unique) -> UniqueRequest {
    let text = |text: String| (!text.is_empty()).then_some(text);
    let seconds = |seconds: i64| (seconds != 0).then_some(seconds);
    UniqueRequest {
        key: given.key,
        until: text(given.until),
        until_seconds: seconds(given.until_seconds),
        on_conflict: text(given.on_conflict),
        max_wait_seconds: seconds(given.max_wait_seconds),
    }
}

fn time(stamp: Timestamp) -> Time {
    let millis = stamp.seconds.saturating_mul(1000);
    Time::from_millis(millis.saturating_add(i64::from(stamp.nanos / 1_000_000)))
}

fn event(event: Out) -> ServerEvent {
    ServerEvent { event: Some(event) }
}

fn error(code: &str, message: &str) -> ServerEvent {
    event(Out::Error(ServerError { code: code.to_owned(), message: message.to_owned() }))
}
