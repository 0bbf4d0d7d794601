//! A stream from the client's side.

use crate::harness::Server;
use codeq_api::grpc::producer::producer_stream_client::ProducerStreamClient;
use codeq_api::grpc::producer::{self, CreateAck, CreateTask, ProducerEvent, producer_event, server_event};
use codeq_api::grpc::worker::worker_stream_client::WorkerStreamClient;
use codeq_api::grpc::worker::{self, Ready, Task, WorkerEvent, worker_event};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

pub use producer::server_event::Event as FromProducerStream;
pub use producer_event::Event as ToProducerStream;
pub use worker::server_event::Event as FromWorkerStream;
pub use worker_event::Event as ToWorkerStream;

/// Longer than any test waits for an answer that comes.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Talk<E, A> {
    sender: Option<mpsc::Sender<E>>,
    answers: Streaming<A>,
}

pub type Producer = Talk<ProducerEvent, producer::ServerEvent>;
pub type Worker = Talk<WorkerEvent, worker::ServerEvent>;

/// A connection. The small window makes it easy not to read.
pub async fn connect(address: &str) -> Channel {
    let endpoint = Endpoint::from_shared(address.to_owned()).expect("an address");
    let endpoint = endpoint.initial_stream_window_size(65_535).initial_connection_window_size(1 << 20);
    endpoint.connect().await.expect("the server accepts")
}

impl<E, A> Talk<E, A> {
    pub async fn send_event(&self, event: E) {
        assert!(self.try_send(event).await.is_ok(), "the stream takes events");
    }

    pub async fn try_send(&self, event: E) -> Result<(), ()> {
        self.sender.as_ref().expect("not half-closed").send(event).await.map_err(|_| ())
    }

    /// No more events; answers are still read.
    pub fn half_close(&mut self) {
        self.sender = None;
    }

    pub async fn answer(&mut self) -> Result<Option<A>, Status> {
        tokio::time::timeout(PATIENCE, self.answers.message()).await.expect("an answer in time")
    }

    /// How the stream ended.
    pub async fn status(&mut self) -> Status {
        match self.answer().await {
            Err(status) => status,
            Ok(None) => Status::ok(""),
            Ok(Some(_)) => panic!("the stream goes on"),
        }
    }
}

impl Producer {
    pub async fn open(address: &str) -> Producer {
        let mut client = ProducerStreamClient::new(connect(address).await);
        let (sender, events) = mpsc::channel(256);
        let answers = client.stream(ReceiverStream::new(events)).await.expect("a stream").into_inner();
        Talk { sender: Some(sender), answers }
    }

    /// Greeted with the token of `acme`.
    pub async fn of(server: &Server) -> Producer {
        let mut producer = Producer::open(&server.producer_streams).await;
        producer.hello("p").await;
        let FromProducerStream::HelloAck(ack) = producer.next().await else { panic!("no HelloAck") };
        assert_eq!((&*ack.tenant_id, &*ack.subject), ("acme", "producer"));
        producer
    }

    pub async fn hello(&self, token: &str) {
        self.send(ToProducerStream::Hello(producer::Hello { token: token.into() })).await;
    }

    pub async fn send(&self, event: ToProducerStream) {
        self.send_event(ProducerEvent { event: Some(event) }).await;
    }

    pub async fn next(&mut self) -> server_event::Event {
        self.answer().await.expect("no status").expect("not the end").event.expect("an event")
    }

    pub async fn ack(&mut self) -> CreateAck {
        match self.next().await {
            FromProducerStream::CreateAck(ack) => ack,
            other => panic!("not an ack: {other:?}"),
        }
    }

    /// Creates one task and gives its id.
    pub async fn create(&mut self, create: CreateTask) -> String {
        self.send(ToProducerStream::Create(create)).await;
        let ack = self.ack().await;
        assert!(ack.ok, "{}", ack.error_message);
        ack.task_id
    }
}

pub fn create(seq: u64, command: &str) -> CreateTask {
    CreateTask { seq, command: command.into(), payload: "{}".into(), ..CreateTask::default() }
}

impl Worker {
    pub async fn open(address: &str) -> Worker {
        Worker::on(connect(address).await).await
    }

    pub async fn on(channel: Channel) -> Worker {
        // What is sent is bounded by the server, and tasks may be large.
        let mut client = WorkerStreamClient::new(channel).max_decoding_message_size(64 << 20);
        let (sender, events) = mpsc::channel(256);
        let answers = client.stream(ReceiverStream::new(events)).await.expect("a stream").into_inner();
        Talk { sender: Some(sender), answers }
    }

    /// Greeted with this token.
    pub async fn of(server: &Server, token: &str, id: &str) -> Worker {
        let mut worker = Worker::open(&server.worker_streams).await;
        worker.hello(token, id).await;
        worker.greeted().await;
        worker
    }

    pub async fn greeted(&mut self) -> worker::HelloAck {
        match self.next().await {
            FromWorkerStream::HelloAck(ack) => ack,
            other => panic!("not a HelloAck: {other:?}"),
        }
    }

    pub async fn hello(&self, token: &str, id: &str) {
        let hello = worker::Hello { token: token.into(), worker_id: id.into(), ..Default::default() };
        self.send(ToWorkerStream::Hello(hello)).await;
    }

    pub async fn send(&self, event: ToWorkerStream) {
        self.send_event(WorkerEvent { event: Some(event) }).await;
    }

    pub async fn ready(&self, commands: &[&str], count: i32) {
        let commands = commands.iter().map(|command| (*command).to_owned()).collect();
        self.send(ToWorkerStream::Ready(Ready { commands, lease_seconds: 0, count, ..Default::default() }))
            .await;
    }

    pub async fn next(&mut self) -> FromWorkerStream {
        self.answer().await.expect("no status").expect("not the end").event.expect("an event")
    }

    pub async fn task(&mut self) -> Task {
        match self.next().await {
            FromWorkerStream::Task(assignment) => assignment.task.expect("a task"),
            other => panic!("not a task: {other:?}"),
        }
    }

    pub async fn tasks(&mut self) -> Vec<Task> {
        match self.next().await {
            FromWorkerStream::TaskBatch(batch) => batch.tasks,
            other => panic!("not a batch: {other:?}"),
        }
    }

    pub async fn error(&mut self) -> (String, String) {
        match self.next().await {
            FromWorkerStream::Error(error) => (error.code, error.message),
            other => panic!("not an error: {other:?}"),
        }
    }
}
