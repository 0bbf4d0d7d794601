//! Creates over the producer stream.

use crate::pipe::{Answers, Open, Pipe, Protocol};
use crate::task::{Created, NewTask};
use crate::{Connection, Error, limits, refusal, stream};
use codeq_api::grpc::producer as pb;
use pb::producer_event::Event;
use pb::producer_stream_client::ProducerStreamClient;
use pb::server_event::Event as Said;
use prost::Message;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// How creates travel: every item has a number, which its ack repeats.
pub(super) struct Creates {
    address: String,
    connection: Connection,
    last: AtomicU64,
}

impl Creates {
    pub fn new(address: &str, connection: &Connection) -> Creates {
        Creates { address: address.to_owned(), connection: connection.clone(), last: AtomicU64::new(0) }
    }
}

/// One answer for every task, in order. What comes after tasks that all found nobody is not sent.
pub(super) async fn create(pipe: &Pipe<Creates>, tasks: &[&NewTask]) -> Vec<Result<Created, Error>> {
    let mut answers: Vec<Result<Created, Error>> = Vec::with_capacity(tasks.len());
    for window in tasks.chunks(limits::UNANSWERED) {
        let is_away = |answer: &Result<Created, Error>| matches!(answer, Err(error) if error.is_retryable());
        match answers.last() {
            Some(Err(error)) if answers.iter().all(is_away) => {
                let error = error.clone();
                answers.resize(answers.len() + window.len(), Err(error));
            }
            _ => answers.extend(create_window(pipe, window).await),
        }
    }
    answers
}

async fn create_window(pipe: &Pipe<Creates>, tasks: &[&NewTask]) -> Vec<Result<Created, Error>> {
    let messages: Vec<Result<pb::CreateTask, Error>> = tasks.iter().map(|task| task.message()).collect();
    let sound = messages.iter().filter_map(|message| message.as_ref().ok().cloned()).collect();
    let mut answers = pipe.ask_all(sound).await.into_iter();
    let answer = |message: Result<pb::CreateTask, Error>| match message {
        Ok(_) => answers.next().unwrap_or_else(|| Err(Error::unavailable("no answer"))),
        Err(error) => Err(error),
    };
    messages.into_iter().map(answer).collect()
}

impl Protocol for Creates {
    type Item = pb::CreateTask;
    type Answer = Created;
    type Key = u64;
    type Event = pb::ProducerEvent;
    type Message = pb::ServerEvent;

    async fn open(&self) -> Result<Open<Creates>, Error> {
        let channel = stream::connect(&self.address, &self.connection).await?;
        stream::in_time(self.connection.timeout, self.greet(channel)).await
    }

    fn patience(&self) -> Duration {
        self.connection.timeout
    }

    fn key(&self, item: &mut pb::CreateTask) -> u64 {
        item.seq = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        item.seq
    }

    fn bytes(item: &pb::CreateTask) -> usize {
        item.encoded_len()
    }

    fn events(mut tasks: Vec<pb::CreateTask>) -> Vec<pb::ProducerEvent> {
        let event = match tasks.len() {
            0 => return Vec::new(),
            1 => Event::Create(tasks.remove(0)),
            _ => Event::CreateBatch(pb::CreateTaskBatch { tasks }),
        };
        vec![pb::ProducerEvent { event: Some(event) }]
    }

    fn answers(&self, message: pb::ServerEvent) -> Answers<Creates> {
        let acks = match message.event {
            Some(Said::CreateAck(ack)) => vec![ack],
            Some(Said::CreateAckBatch(batch)) => batch.acks,
            Some(Said::Error(error)) => {
                tracing::warn!(code = error.code, "the producer stream says: {}", error.message);
                Vec::new()
            }
            Some(Said::HelloAck(_)) | None => Vec::new(),
        };
        acks.into_iter().map(|ack| (ack.seq, created(ack))).collect()
    }
}

impl Creates {
    async fn greet(&self, channel: tonic::transport::Channel) -> Result<Open<Creates>, Error> {
        let (events, receiver) = mpsc::channel(limits::OUTBOUND);
        let hello = Event::Hello(pb::Hello { token: self.connection.token.get().await? });
        let hello = pb::ProducerEvent { event: Some(hello) };
        events.try_send(hello).map_err(|_| Error::unavailable("the stream broke"))?;
        let mut client = ProducerStreamClient::new(channel).max_decoding_message_size(limits::ANSWER_BYTES);
        let opened = client.stream(ReceiverStream::new(receiver)).await;
        let mut messages = opened.map_err(|status| refusal::from_status(&status))?.into_inner();
        match messages.message().await.map_err(|status| refusal::from_status(&status))? {
            Some(pb::ServerEvent { event: Some(Said::HelloAck(_)) }) => Ok(Open { events, messages }),
            _ => Err(Error::unavailable("the server did not greet")),
        }
    }
}

fn created(ack: pb::CreateAck) -> Result<Created, Error> {
    match ack.ok {
        true => Ok(Created { id: ack.task_id, replayed: ack.replayed, deduplicated: ack.deduplicated }),
        false => Err(refusal::from_text(&ack.error_message)),
    }
}
