//! Worker streams: the handshake, and reports with their acks.
//!
//! A worker has two streams under one identity. One carries Readys and tasks, and is half-closed at shutdown:
//! the server then ends the Readys it holds, and what it had sent before is read to the end. The other carries
//! reports until the last job is settled.

use super::context::Said as Carried;
use super::fate::Fate;
use super::identity::Identity;
use super::link::{CancelNotice, Report, ReportAnswer, Word, told};
use crate::pipe::{Answers, Open, Protocol};
use crate::{Connection, Error, limits, refusal, stream};
use codeq_api::grpc::worker as pb;
use pb::server_event::Event as Said;
use pb::worker_event::Event;
use pb::worker_stream_client::WorkerStreamClient;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

/// Where the stream is and who we are on it.
#[derive(Clone)]
pub(super) struct Dialer {
    pub address: String,
    pub identity: Identity,
    pub connection: Connection,
}

impl Dialer {
    /// A stream after its handshake; `outbound` events may wait for the transport. One that accepts cancels hears
    /// at once when a task is to end.
    pub async fn open(
        &self,
        outbound: usize,
        accepts_cancel: bool,
    ) -> Result<(mpsc::Sender<pb::WorkerEvent>, Streaming<pb::ServerEvent>), Error> {
        let channel = stream::connect(&self.address, &self.connection).await?;
        stream::in_time(self.connection.timeout, self.greet(channel, outbound, accepts_cancel)).await
    }

    async fn greet(
        &self,
        channel: tonic::transport::Channel,
        outbound: usize,
        accepts_cancel: bool,
    ) -> Result<(mpsc::Sender<pb::WorkerEvent>, Streaming<pb::ServerEvent>), Error> {
        let (events, receiver) = mpsc::channel(outbound);
        let token = self.connection.token.get().await?;
        let hello = event(Event::Hello(pb::Hello {
            token,
            worker_id: self.identity.name.clone(),
            info: Some(self.identity.message()),
            accepts_cancel,
        }));
        events.try_send(hello).map_err(|_| Error::unavailable("the stream broke"))?;
        let mut client = WorkerStreamClient::new(channel).max_decoding_message_size(limits::ANSWER_BYTES);
        let opened = client.stream(ReceiverStream::new(receiver)).await;
        let mut messages = opened.map_err(|status| refusal::from_status(&status))?.into_inner();
        match messages.message().await.map_err(|status| refusal::from_status(&status))? {
            Some(pb::ServerEvent { event: Some(Said::HelloAck(_)) }) => Ok((events, messages)),
            _ => Err(Error::unavailable("the server did not greet")),
        }
    }
}

pub(super) fn event(event: Event) -> pb::WorkerEvent {
    pb::WorkerEvent { event: Some(event) }
}

/// How reports travel: an ack names its task and is of the kind of its report.
pub(super) struct Reports {
    pub dialer: Dialer,
    pub fate: Arc<Fate>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Kind {
    Heartbeat,
    Result,
    Nack,
    Abandon,
}

impl Protocol for Reports {
    type Item = Report;
    type Answer = ReportAnswer;
    type Key = (Kind, String);
    type Event = pb::WorkerEvent;
    type Message = pb::ServerEvent;

    async fn open(&self) -> Result<Open<Reports>, Error> {
        let (events, messages) = self.dialer.open(limits::OUTBOUND, false).await?;
        Ok(Open { events, messages })
    }

    fn patience(&self) -> Duration {
        self.dialer.connection.timeout
    }

    fn key(&self, report: &mut Report) -> (Kind, String) {
        let kind = match report.word {
            Word::Heartbeat { .. } => Kind::Heartbeat,
            Word::Complete { .. } | Word::Fail { .. } => Kind::Result,
            Word::Nack { .. } => Kind::Nack,
            Word::Abandon { .. } => Kind::Abandon,
        };
        (kind, report.id.clone())
    }

    fn bytes(report: &Report) -> usize {
        let text = match &report.word {
            Word::Complete { result, .. } => result.get().len(),
            Word::Fail { text, .. } | Word::Nack { reason: text, .. } => text.len(),
            Word::Heartbeat { said: Carried { progress, checkpoint }, .. } => {
                [progress, checkpoint].into_iter().flatten().map(|value| value.get().len()).sum()
            }
            Word::Abandon { .. } => 0,
        };
        text + report.id.len() + 64
    }

    /// Results that are ready together travel together.
    fn events(reports: Vec<Report>) -> Vec<pb::WorkerEvent> {
        let (mut results, mut events) = (Vec::new(), Vec::new());
        for report in reports {
            match message(report) {
                Event::Result(result) => results.push(result),
                other => events.push(event(other)),
            }
        }
        match results.len() {
            0 => {}
            1 => events.extend(results.pop().map(|result| event(Event::Result(result)))),
            _ => events.push(event(Event::ResultBatch(pb::ResultBatch { results }))),
        }
        events
    }

    fn answers(&self, message: pb::ServerEvent) -> Answers<Reports> {
        let result = |ack: pb::ResultAck| ((Kind::Result, ack.task_id), answer(ack.ok, &ack.error_message));
        match message.event {
            Some(Said::ResultAck(ack)) => vec![result(ack)],
            Some(Said::ResultAckBatch(batch)) => batch.acks.into_iter().map(result).collect(),
            Some(Said::HeartbeatAck(ack)) => {
                let told = answer(ack.ok, &ack.error_message).map(|told| match told {
                    ReportAnswer::Accepted(_) => ReportAnswer::Accepted(ack.cancel.as_ref().map(notice)),
                    lost => lost,
                });
                vec![((Kind::Heartbeat, ack.task_id), told)]
            }
            Some(Said::NackAck(ack)) => vec![((Kind::Nack, ack.task_id), answer(ack.ok, &ack.error_message))],
            Some(Said::AbandonAck(ack)) => {
                vec![((Kind::Abandon, ack.task_id), answer(ack.ok, &ack.error_message))]
            }
            Some(Said::Error(error)) => {
                let error = refusal::from_text(&error.message);
                tracing::error!(%error, "the worker stream complains");
                // It does not say about which report, but that the worker may not report at all.
                if !error.is_retryable() {
                    self.fate.end_mute(error);
                }
                Vec::new()
            }
            _ => Vec::new(),
        }
    }
}

fn message(report: Report) -> Event {
    let Report { id: task_id, attempt, word } = report;
    let attempt = i32::try_from(attempt).unwrap_or(i32::MAX);
    let seconds = |seconds: i64| i32::try_from(seconds).unwrap_or(i32::MAX);
    let result = |status: &str, result: String, error: String| pb::Result {
        task_id: task_id.clone(),
        status: status.to_owned(),
        result_json: result.into_bytes().into(),
        error,
        attempt,
    };
    match word {
        Word::Complete { result: value, .. } => {
            Event::Result(result("COMPLETED", text_of(value), String::new()))
        }
        Word::Fail { text, .. } => Event::Result(result("FAILED", String::new(), text)),
        Word::Heartbeat { extend_seconds, said } => Event::Heartbeat(pb::Heartbeat {
            task_id,
            extend_seconds: seconds(extend_seconds),
            attempt,
            progress: said.progress.map(text_of).unwrap_or_default().into_bytes().into(),
            checkpoint: said.checkpoint.map(text_of).unwrap_or_default().into_bytes().into(),
        }),
        Word::Nack { reason, delay_seconds, hold } => Event::Nack(pb::Nack {
            task_id,
            delay_seconds: seconds(delay_seconds),
            reason,
            attempt,
            hold: hold.map(|hold| hold.word().to_owned()).unwrap_or_default(),
            ..Default::default()
        }),
        Word::Abandon { refund } => {
            Event::Abandon(pb::Abandon { task_id, attempt, refund, ..Default::default() })
        }
    }
}

fn text_of(value: Box<RawValue>) -> String {
    String::from(Box::<str>::from(value))
}

/// What a request to stop says.
pub(super) fn notice(cancel: &pb::Cancel) -> CancelNotice {
    let deadline = cancel.deadline.and_then(|deadline| deadline.try_into().ok());
    CancelNotice { reason: cancel.reason.clone(), deadline }
}

fn answer(ok: bool, text: &str) -> Result<ReportAnswer, Error> {
    match ok {
        true => Ok(ReportAnswer::Accepted(None)),
        false => told(refusal::from_text(text)),
    }
}
