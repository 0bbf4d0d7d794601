//! The two streams from a client's side, as little work per message as a client can do.

use super::super::store::PAYLOAD_BYTES;
use anyhow::{Context, bail};
use codeq_api::grpc::producer::producer_event::Event as ProducerEvent;
use codeq_api::grpc::producer::producer_stream_client::ProducerStreamClient;
use codeq_api::grpc::producer::server_event::Event as ProducerAnswer;
use codeq_api::grpc::producer::{self, CreateAck, CreateTask, CreateTaskBatch};
use codeq_api::grpc::worker::server_event::Event as WorkerAnswer;
use codeq_api::grpc::worker::worker_event::Event as WorkerEvent;
use codeq_api::grpc::worker::worker_stream_client::WorkerStreamClient;
use codeq_api::grpc::worker::{self, Ready, Task};
use std::net::SocketAddr;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;

/// Messages between a bench and its connection.
const QUEUE: usize = 1024;

async fn channel(address: SocketAddr) -> anyhow::Result<Channel> {
    let endpoint = Channel::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
    let endpoint = endpoint.initial_stream_window_size(1 << 20).initial_connection_window_size(4 << 20);
    endpoint.connect().await.with_context(|| format!("cannot connect to {address}"))
}

/// A create whose payload tells when it was sent, and is as large as those of the other benches.
pub fn task(seq: u64, command: &str, sent_us: u64) -> CreateTask {
    let head = format!("{{\"at\":{sent_us:020},\"p\":\"");
    let payload = format!("{head}{}\"}}", "p".repeat(PAYLOAD_BYTES - head.len() - 2));
    CreateTask { seq, command: command.to_owned(), payload: payload.into(), ..CreateTask::default() }
}

/// When the task of [`task`] was sent.
pub fn sent_us(task: &Task) -> Option<u64> {
    std::str::from_utf8(task.payload.get(6..26)?).ok()?.parse().ok()
}

pub struct Producer {
    events: mpsc::Sender<producer::ProducerEvent>,
    answers: Streaming<producer::ServerEvent>,
}

impl Producer {
    pub async fn connect(address: SocketAddr, token: &str) -> anyhow::Result<Producer> {
        let (events, outgoing) = mpsc::channel(QUEUE);
        let hello = ProducerEvent::Hello(producer::Hello { token: token.to_owned() });
        events.send(producer::ProducerEvent { event: Some(hello) }).await?;
        let mut client = ProducerStreamClient::new(channel(address).await?);
        let mut answers = client.stream(ReceiverStream::new(outgoing)).await?.into_inner();
        match answers.message().await?.and_then(|answer| answer.event) {
            Some(ProducerAnswer::HelloAck(_)) => Ok(Producer { events, answers }),
            other => bail!("the producer stream began with {other:?}"),
        }
    }

    pub async fn create(&self, task: CreateTask) -> anyhow::Result<()> {
        self.send(ProducerEvent::Create(task)).await
    }

    pub async fn create_batch(&self, tasks: Vec<CreateTask>) -> anyhow::Result<()> {
        self.send(ProducerEvent::CreateBatch(CreateTaskBatch { tasks })).await
    }

    async fn send(&self, event: ProducerEvent) -> anyhow::Result<()> {
        Ok(self.events.send(producer::ProducerEvent { event: Some(event) }).await?)
    }

    /// The next acks; an error unless all of them are good.
    pub async fn acks(&mut self) -> anyhow::Result<Vec<CreateAck>> {
        let acks = match self.answers.message().await?.and_then(|answer| answer.event) {
            Some(ProducerAnswer::CreateAck(ack)) => vec![ack],
            Some(ProducerAnswer::CreateAckBatch(batch)) => batch.acks,
            other => bail!("the producer stream went on with {other:?}"),
        };
        match acks.iter().find(|ack| !ack.ok) {
            Some(refused) => bail!("a create was refused: {}", refused.error_message),
            None => Ok(acks),
        }
    }
}

pub enum Answer {
    Tasks(Vec<Task>),
    /// Results acknowledged.
    Done(usize),
}

pub struct Worker {
    events: mpsc::Sender<worker::WorkerEvent>,
    answers: Streaming<worker::ServerEvent>,
}

impl Worker {
    pub async fn connect(address: SocketAddr, token: &str) -> anyhow::Result<Worker> {
        let (events, outgoing) = mpsc::channel(QUEUE);
        let hello = WorkerEvent::Hello(worker::Hello {
            token: token.to_owned(),
            worker_id: String::new(),
            ..Default::default()
        });
        events.send(worker::WorkerEvent { event: Some(hello) }).await?;
        let mut client = WorkerStreamClient::new(channel(address).await?);
        let mut answers = client.stream(ReceiverStream::new(outgoing)).await?.into_inner();
        match answers.message().await?.and_then(|answer| answer.event) {
            Some(WorkerAnswer::HelloAck(_)) => Ok(Worker { events, answers }),
            other => bail!("the worker stream began with {other:?}"),
        }
    }

    pub async fn send(&self, event: WorkerEvent) -> anyhow::Result<()> {
        Ok(self.events.send(worker::WorkerEvent { event: Some(event) }).await?)
    }

    pub async fn ready(&self, command: &str, count: usize) -> anyhow::Result<()> {
        let count = i32::try_from(count)?;
        self.send(WorkerEvent::Ready(Ready {
            commands: vec![command.to_owned()],
            lease_seconds: 60,
            count,
            ..Default::default()
        }))
        .await
    }

    /// Completes tasks, several in one message.
    pub async fn complete(&self, tasks: Vec<Task>) -> anyhow::Result<()> {
        const RESULT: &[u8] = br#"{"ok":true,"note":"as large as a result usually is: a few fields, a number or two (42), some words about what was done and where the output can be found"}"#;
        let mut results: Vec<worker::Result> = tasks
            .into_iter()
            .map(|task| worker::Result {
                task_id: task.id,
                status: "COMPLETED".to_owned(),
                result_json: RESULT.into(),
                error: String::new(),
                attempt: task.attempts,
            })
            .collect();
        match (results.len(), results.pop()) {
            (1, Some(result)) => self.send(WorkerEvent::Result(result)).await,
            (_, Some(last)) => {
                results.push(last);
                self.send(WorkerEvent::ResultBatch(worker::ResultBatch { results })).await
            }
            (_, None) => Ok(()),
        }
    }

    /// Whatever comes next.
    pub async fn answer(&mut self) -> anyhow::Result<WorkerAnswer> {
        let answer = self.answers.message().await?.and_then(|answer| answer.event);
        answer.context("the worker stream ended")
    }

    pub async fn next(&mut self) -> anyhow::Result<Answer> {
        let acks = match self.answer().await? {
            WorkerAnswer::Task(assigned) => {
                return Ok(Answer::Tasks(assigned.task.into_iter().collect()));
            }
            WorkerAnswer::TaskBatch(batch) => return Ok(Answer::Tasks(batch.tasks)),
            WorkerAnswer::ResultAck(ack) => vec![ack],
            WorkerAnswer::ResultAckBatch(batch) => batch.acks,
            other => bail!("the worker stream went on with {other:?}"),
        };
        match acks.iter().find(|ack| !ack.ok) {
            Some(refused) => bail!("a result was refused: {}", refused.error_message),
            None => Ok(Answer::Done(acks.len())),
        }
    }

    /// The task of the one Ready that is held.
    pub async fn task(&mut self) -> anyhow::Result<Task> {
        match self.next().await? {
            Answer::Tasks(mut tasks) => tasks.pop().context("an empty assignment"),
            Answer::Done(_) => bail!("an ack where a task was expected"),
        }
    }

    pub async fn finish(&mut self, task: Task) -> anyhow::Result<()> {
        self.complete(vec![task]).await?;
        match self.next().await? {
            Answer::Done(1) => Ok(()),
            _ => bail!("no ack of a result"),
        }
    }
}
