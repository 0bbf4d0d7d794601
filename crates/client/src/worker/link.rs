//! What a worker says to the server and hears from it, whatever the transport.

use super::context::{Artifact, Said};
use super::http::HttpLink;
use super::outcome::{End, Hold, Outcome};
use super::stream::Reports;
use crate::Error;
use crate::pipe::Pipe;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::time::SystemTime;
use tokio::time::Instant;

/// A task that was lent to us.
#[derive(Clone, Debug)]
pub(crate) struct Assigned {
    pub id: String,
    pub command: String,
    pub payload: String,
    pub attempt: u32,
    pub max_attempts: u32,
    pub priority: u8,
    pub headers: HashMap<String, String>,
    pub lane: String,
    pub tags: Vec<String>,
    pub trace_parent: String,
    pub trace_state: String,
    /// What an earlier attempt saved last.
    pub checkpoint: Option<Box<RawValue>>,
    pub received: Instant,
}

/// A word about one attempt of one task.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub id: String,
    pub attempt: u32,
    pub word: Word,
}

#[derive(Clone, Debug)]
pub(super) enum Word {
    Heartbeat { extend_seconds: i64, said: Said },
    Complete { result: Box<RawValue>, artifacts: Vec<Artifact> },
    Fail { text: String, artifacts: Vec<Artifact> },
    Nack { reason: String, delay_seconds: i64, hold: Option<Hold> },
    Abandon { refund: bool },
}

impl Report {
    pub fn new(id: &str, attempt: u32, outcome: Outcome, artifacts: Vec<Artifact>) -> Report {
        let word = match outcome.0 {
            End::Complete(result) => Word::Complete { result, artifacts },
            End::Fail(text) => Word::Fail { text, artifacts },
            End::Nack { reason, delay_seconds, hold } => Word::Nack { reason, delay_seconds, hold },
            End::Abandon { refund } => Word::Abandon { refund },
        };
        Report { id: id.to_owned(), attempt, word }
    }

    fn has_artifacts(&self) -> bool {
        match &self.word {
            Word::Complete { artifacts, .. } | Word::Fail { artifacts, .. } => !artifacts.is_empty(),
            _ => false,
        }
    }
}

/// Somebody asks for the end of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct CancelNotice {
    pub reason: String,
    pub deadline: Option<SystemTime>,
}

/// The answer to a report that the server understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ReportAnswer {
    /// To a heartbeat it may say that the task is to end.
    Accepted(Option<CancelNotice>),
    /// The attempt is not ours any more, and why.
    Lost(String),
}

/// Turns a refusal that means "not yours" into an answer.
pub(super) fn told(error: Error) -> Result<ReportAnswer, Error> {
    const LOST: [&str; 5] = ["lease_lost", "not_owner", "cancelled", "not_in_progress", "task_not_found"];
    match error {
        Error::Refused { code, message, .. } if LOST.contains(&code.as_str()) => {
            Ok(ReportAnswer::Lost(message))
        }
        other => Err(other),
    }
}

pub(super) enum Link {
    Http(HttpLink),
    /// Artifacts go over HTTP, where the address of it is known.
    Stream(Pipe<Reports>, Option<HttpLink>),
}

impl Link {
    /// Sends the report once.
    pub async fn report(&self, report: Report) -> Result<ReportAnswer, Error> {
        match self {
            Link::Http(http) | Link::Stream(_, Some(http)) if report.has_artifacts() => {
                http.report(report).await
            }
            Link::Http(http) => http.report(report).await,
            Link::Stream(..) if report.has_artifacts() => {
                let text = "artifacts need the base URL of the HTTP API: set it with Connection::http";
                Err(Error::refused(400, "invalid_artifact", text))
            }
            Link::Stream(pipe, _) => pipe.ask(report).await,
        }
    }
}
