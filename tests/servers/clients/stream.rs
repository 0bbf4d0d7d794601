//! Over gRPC: one stream at a time, opened anew when it breaks, one question at a time.

use super::{Claimed, Deed, Lent, PATIENCE, Report, TOKEN, Told, Trouble, Wish, refused};
use crate::servers::order::Order;
use codeq_api::grpc::producer::producer_stream_client::ProducerStreamClient;
use codeq_api::grpc::producer::{
    self as producing, CreateTaskBatch, ProducerEvent, producer_event::Event as Create,
    server_event::Event as Acked,
};
use codeq_api::grpc::worker::worker_stream_client::WorkerStreamClient;
use codeq_api::grpc::worker::{
    self as working, WorkerEvent, server_event::Event as Said, worker_event::Event as Say,
};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status, Streaming};

/// How long a held Ready is waited for at a time.
const HELD: Duration = Duration::from_secs(1);

struct Talk<E, A> {
    address: String,
    events: mpsc::Sender<E>,
    answers: Streaming<A>,
}

impl<E, A> Talk<E, A> {
    /// A stream whose greeting was answered.
    async fn greeted(
        address: &str,
        events: mpsc::Sender<E>,
        answers: Result<Response<Streaming<A>>, Status>,
    ) -> Result<Talk<E, A>, Trouble> {
        let answers = answers.map_err(|_| Trouble::Unsent)?.into_inner();
        let mut talk = Talk { address: address.to_owned(), events, answers };
        talk.hear().await.map_err(|_| Trouble::Unsent)?;
        Ok(talk)
    }

    async fn say(&self, event: E) -> Result<(), Trouble> {
        self.events.send(event).await.map_err(|_| Trouble::Unknown)
    }

    async fn hear(&mut self) -> Result<A, Trouble> {
        match timeout(PATIENCE, self.answers.message()).await {
            Ok(Ok(Some(answer))) => Ok(answer),
            _ => Err(Trouble::Unknown),
        }
    }
}

/// Nothing but greetings has been said when this fails.
async fn connect(address: &str) -> Result<Channel, Trouble> {
    let endpoint = Endpoint::from_shared(address.to_owned()).map_err(|_| Trouble::Unsent)?;
    endpoint.connect_timeout(PATIENCE).connect().await.map_err(|_| Trouble::Unsent)
}

#[derive(Default)]
pub struct Creates {
    talk: Option<Talk<ProducerEvent, producing::ServerEvent>>,
    last_seq: u64,
}

impl Creates {
    /// One answer for every order, in order.
    pub async fn create(&mut self, address: &str, orders: &[Order]) -> Vec<Result<String, Trouble>> {
        match self.try_create(address, orders).await {
            Ok(answers) => answers,
            Err(trouble) => {
                self.talk = None;
                vec![Err(trouble); orders.len()]
            }
        }
    }

    async fn try_create(
        &mut self,
        address: &str,
        orders: &[Order],
    ) -> Result<Vec<Result<String, Trouble>>, Trouble> {
        let first = self.last_seq + 1;
        self.last_seq += orders.len() as u64;
        let mut tasks: Vec<_> = orders.iter().zip(first..).map(|(order, seq)| order.message(seq)).collect();
        let event = match tasks.len() {
            1 => Create::Create(tasks.remove(0)),
            _ => Create::CreateBatch(CreateTaskBatch { tasks }),
        };
        let talk = self.open(address).await?;
        talk.say(ProducerEvent { event: Some(event) }).await?;
        let acks = match talk.hear().await?.event {
            Some(Acked::CreateAck(ack)) => vec![ack],
            Some(Acked::CreateAckBatch(batch)) => batch.acks,
            other => return Err(Trouble::Refused(format!("not an ack: {other:?}"))),
        };
        if acks.len() != orders.len() || acks.iter().zip(first..).any(|(ack, seq)| ack.seq != seq) {
            return Err(Trouble::Refused(format!("not the acks of {first}..: {acks:?}")));
        }
        let answer = |ack: producing::CreateAck| match ack.ok {
            true => Ok(ack.task_id),
            false => Err(refused(&ack.error_message)),
        };
        Ok(acks.into_iter().map(answer).collect())
    }

    async fn open(
        &mut self,
        address: &str,
    ) -> Result<&mut Talk<ProducerEvent, producing::ServerEvent>, Trouble> {
        if self.talk.as_ref().is_none_or(|talk| talk.address != address) {
            let greeting = async {
                let (events, receiver) = mpsc::channel(16);
                let mut client = ProducerStreamClient::new(connect(address).await?);
                let hello = Create::Hello(producing::Hello { token: TOKEN.into() });
                let _ = events.send(ProducerEvent { event: Some(hello) }).await;
                Talk::greeted(address, events, client.stream(ReceiverStream::new(receiver)).await).await
            };
            self.talk = Some(timeout(PATIENCE, greeting).await.unwrap_or(Err(Trouble::Unsent))?);
        }
        self.talk.as_mut().ok_or(Trouble::Unsent)
    }
}

pub struct Works {
    token: &'static str,
    name: String,
    talk: Option<Talk<WorkerEvent, working::ServerEvent>>,
    /// A Ready that the server still holds: when it was sent, and the lease it asked for.
    held: Option<(Instant, Duration)>,
}

impl Works {
    pub fn new(token: &'static str, name: &str) -> Works {
        Works { token, name: name.to_owned(), talk: None, held: None }
    }

    fn hang_up(&mut self, trouble: Trouble) -> Trouble {
        (self.talk, self.held) = (None, None);
        trouble
    }

    /// No tasks if none came for a while; the Ready stays with the server.
    pub async fn claim(&mut self, address: &str, wish: &Wish) -> Result<Claimed, Trouble> {
        let claimed = self.try_claim(address, wish).await;
        claimed.map_err(|trouble| self.hang_up(trouble))
    }

    async fn try_claim(&mut self, address: &str, wish: &Wish) -> Result<Claimed, Trouble> {
        // A held Ready keeps its stream, wherever it leads.
        if self.held.is_none() {
            self.open(address).await?;
        }
        let talk = self.talk.as_mut().ok_or(Trouble::Unsent)?;
        let (sent, lease) = match self.held {
            Some(held) => held,
            None => {
                let ready = working::Ready {
                    commands: wish.commands.clone(),
                    lease_seconds: i32::try_from(wish.lease.as_secs()).expect("leases are short"),
                    count: i32::try_from(wish.count).expect("batches are small"),
                    ..Default::default()
                };
                let held = (Instant::now(), wish.lease);
                talk.say(WorkerEvent { event: Some(Say::Ready(ready)) }).await?;
                *self.held.insert(held)
            }
        };
        let heard = match timeout(HELD, talk.answers.message()).await {
            Err(_) => return Ok(Claimed { sent, received: Instant::now(), lease, tasks: Vec::new() }),
            Ok(Ok(Some(heard))) => heard,
            Ok(_) => return Err(Trouble::Unknown),
        };
        let received = Instant::now();
        self.held = None;
        let tasks = match heard.event {
            Some(Said::Task(assignment)) => assignment.task.into_iter().collect(),
            Some(Said::TaskBatch(batch)) => batch.tasks,
            other => return Err(Trouble::Refused(format!("not a task: {other:?}"))),
        };
        Ok(Claimed { sent, received, lease, tasks: tasks.into_iter().map(lent).collect() })
    }

    /// One answer for every report, in order. Several ends go in one message.
    pub async fn report(&mut self, address: &str, reports: &[Report]) -> Vec<Result<Told, Trouble>> {
        match self.try_report(address, reports).await {
            Ok(answers) => answers,
            Err(trouble) => vec![Err(self.hang_up(trouble)); reports.len()],
        }
    }

    async fn try_report(
        &mut self,
        address: &str,
        reports: &[Report],
    ) -> Result<Vec<Result<Told, Trouble>>, Trouble> {
        self.open(address).await?;
        let talk = self.talk.as_mut().ok_or(Trouble::Unsent)?;
        talk.say(WorkerEvent { event: Some(said(reports)) }).await?;
        let answer = |ok: bool, text: &str, told: Told| if ok { Ok(told) } else { Err(refused(text)) };
        let (ids, answers): (Vec<String>, Vec<_>) = match talk.hear().await?.event {
            Some(Said::ResultAck(ack)) => {
                (vec![ack.task_id], vec![answer(ack.ok, &ack.error_message, Told::Done)])
            }
            Some(Said::ResultAckBatch(batch)) => {
                let pair =
                    |ack: working::ResultAck| (ack.task_id, answer(ack.ok, &ack.error_message, Told::Done));
                batch.acks.into_iter().map(pair).unzip()
            }
            Some(Said::HeartbeatAck(ack)) => {
                (vec![ack.task_id], vec![answer(ack.ok, &ack.error_message, Told::Done)])
            }
            Some(Said::AbandonAck(ack)) => {
                let told = if ack.dlq { Told::Dead } else { Told::Back { delay: Duration::ZERO } };
                (vec![ack.task_id], vec![answer(ack.ok, &ack.error_message, told)])
            }
            Some(Said::NackAck(ack)) => {
                let delay = Duration::from_secs(u64::try_from(ack.applied_delay_seconds).unwrap_or(0));
                let told = if ack.dlq { Told::Dead } else { Told::Back { delay } };
                (vec![ack.task_id], vec![answer(ack.ok, &ack.error_message, told)])
            }
            other => return Err(Trouble::Refused(format!("not an ack: {other:?}"))),
        };
        match ids.iter().eq(reports.iter().map(|report| &report.id)) {
            true => Ok(answers),
            false => Err(Trouble::Refused(format!("acks of {ids:?}"))),
        }
    }

    async fn open(&mut self, address: &str) -> Result<(), Trouble> {
        if self.talk.as_ref().is_some_and(|talk| talk.address == address) {
            return Ok(());
        }
        let greeting = async {
            let (events, receiver) = mpsc::channel(16);
            let mut client = WorkerStreamClient::new(connect(address).await?);
            let hello = working::Hello {
                token: self.token.into(),
                worker_id: self.name.clone(),
                ..Default::default()
            };
            let _ = events.send(WorkerEvent { event: Some(Say::Hello(hello)) }).await;
            Talk::greeted(address, events, client.stream(ReceiverStream::new(receiver)).await).await
        };
        self.talk = Some(timeout(PATIENCE, greeting).await.unwrap_or(Err(Trouble::Unsent))?);
        Ok(())
    }
}

fn said(reports: &[Report]) -> Say {
    let number = |n: u32| i32::try_from(n).expect("small");
    if let [report] = reports {
        let (task_id, attempt) = (report.id.clone(), number(report.attempt));
        return match report.deed {
            Deed::Complete | Deed::Fail => Say::Result(result(report)),
            Deed::Nack { delay_seconds } => {
                let delay_seconds = number(delay_seconds);
                Say::Nack(working::Nack {
                    task_id,
                    delay_seconds,
                    attempt,
                    reason: String::new(),
                    ..Default::default()
                })
            }
            Deed::Abandon { refund } => {
                Say::Abandon(working::Abandon { task_id, attempt, refund, ..Default::default() })
            }
            Deed::Beat { extend } => {
                let extend_seconds = i32::try_from(extend.as_secs()).expect("small");
                Say::Heartbeat(working::Heartbeat { task_id, extend_seconds, attempt, ..Default::default() })
            }
        };
    }
    Say::ResultBatch(working::ResultBatch { results: reports.iter().map(result).collect() })
}

fn result(report: &Report) -> working::Result {
    let is_failure = report.deed == Deed::Fail;
    let json = if is_failure { String::new() } else { json!({"mark": report.mark}).to_string() };
    working::Result {
        task_id: report.id.clone(),
        status: if is_failure { "FAILED" } else { "COMPLETED" }.into(),
        result_json: json.into(),
        error: if is_failure { report.mark.clone() } else { String::new() },
        attempt: i32::try_from(report.attempt).expect("small"),
    }
}

fn lent(task: working::Task) -> Lent {
    Lent {
        id: task.id,
        attempt: u32::try_from(task.attempts).unwrap_or(0),
        payload: task.payload.into(),
        lease_until: task.lease_until,
    }
}
