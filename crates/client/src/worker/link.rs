//! What a worker says to the server and hears from it, whatever the transport.

use super::http::HttpLink;
use super::outcome::{End, Outcome};
use super::stream::Reports;
use crate::Error;
use crate::pipe::Pipe;
use serde_json::value::RawValue;
use std::collections::HashMap;
use tokio::time::Instant;

/// A task that was lent to us.
#[derive(Clone, Debug)]
pub(super) struct Assigned {
    pub id: String,
    pub command: String,
    pub payload: String,
    pub attempt: u32,
    pub max_attempts: u32,
    pub priority: u8,
    pub headers: HashMap<String, String>,
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
    Heartbeat { extend_seconds: i64 },
    Complete(Box<RawValue>),
    Fail(String),
    Nack { reason: String, delay_seconds: i64 },
    Abandon { refund: bool },
}

impl Report {
    pub fn new(id: &str, attempt: u32, outcome: Outcome) -> Report {
        let word = match outcome.0 {
            End::Complete(result) => Word::Complete(result),
            End::Fail(text) => Word::Fail(text),
            End::Nack { reason, delay_seconds } => Word::Nack { reason, delay_seconds },
            End::Abandon { refund } => Word::Abandon { refund },
        };
        Report { id: id.to_owned(), attempt, word }
    }
}

/// The answer to a report that the server understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Told {
    Accepted,
    /// The attempt is not ours any more, and why.
    Lost(String),
}

/// Turns a refusal that means "not yours" into an answer.
pub(super) fn told(error: Error) -> Result<Told, Error> {
    const LOST: [&str; 5] = ["lease_lost", "not_owner", "cancelled", "not_in_progress", "task_not_found"];
    match error {
        Error::Refused { code, message, .. } if LOST.contains(&code.as_str()) => Ok(Told::Lost(message)),
        other => Err(other),
    }
}

pub(super) enum Link {
    Http(HttpLink),
    Stream(Pipe<Reports>),
}

impl Link {
    /// Sends the report once.
    pub async fn report(&self, report: Report) -> Result<Told, Error> {
        match self {
            Link::Http(http) => http.report(&report).await,
            Link::Stream(pipe) => pipe.ask(report).await,
        }
    }
}
