//! A task in the hands of a handler.

use super::context::{Artifact, Context, Kept, Said};
use super::link::Assigned;
use super::stop::Stop;
use crate::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// One delivery of a task, with its payload as a `T`.
///
/// `T` is anything that serde can read; `Box<serde_json::value::RawValue>` is the text as it was sent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Job<T> {
    /// The id that its create answered with.
    pub id: String,
    /// Spelled as in the create.
    pub command: String,
    /// What the producer sent.
    pub payload: T,
    /// With the id the fencing token: a later delivery of the task has a larger number.
    pub attempt: u32,
    /// Attempts that may count; when they are used up the task is a dead letter.
    pub max_attempts: u32,
    /// 0 to 9.
    pub priority: u8,
    /// What the producer sent beside the payload.
    pub headers: HashMap<String, String>,
    /// Empty: none.
    pub lane: String,
    /// What the producer tagged the task with.
    pub tags: Vec<String>,
    /// The trace of the create as W3C writes it, to make a span of the handler its child. Empty: none.
    pub trace_parent: String,
    /// The W3C trace state that goes with `trace_parent`. Empty: none.
    pub trace_state: String,
    context: Context,
}

impl<T> Job<T> {
    pub(super) fn new(task: Assigned, payload: T, context: Context) -> Job<T> {
        Job {
            id: task.id,
            command: task.command,
            payload,
            attempt: task.attempt,
            max_attempts: task.max_attempts,
            priority: task.priority,
            headers: task.headers,
            lane: task.lane,
            tags: task.tags,
            trace_parent: task.trace_parent,
            trace_state: task.trace_state,
            context,
        }
    }

    /// Resolves when the job is to end: somebody asks for it, the lease is lost, or the worker shuts down and its
    /// grace is over. [`Job::stop`] says which; what the handler returns then counts in the first case only.
    pub async fn cancelled(&self) {
        self.context.signal.token().cancelled().await;
    }

    /// Whether [`Job::cancelled`] has resolved; for code that cannot wait.
    pub fn is_cancelled(&self) -> bool {
        self.context.signal.token().is_cancelled()
    }

    /// The token behind [`Job::cancelled`], to be handed to other tasks.
    pub fn cancellation(&self) -> CancellationToken {
        self.context.signal.token().clone()
    }

    /// Why the job is to end; none while it is not.
    pub fn stop(&self) -> Option<Stop> {
        self.context.signal.why()
    }

    /// How long the lease lives if no further heartbeat gets through.
    pub fn deadline(&self) -> Duration {
        self.context.teller.until().saturating_duration_since(Instant::now())
    }

    /// Shows how far the work is, at most 4 KiB of JSON. Advisory: the last value counts, and it may be lost.
    pub async fn progress(&self, value: &(impl Serialize + ?Sized)) -> Result<(), Error> {
        let said = Said { progress: Some(raw(value)?), ..Said::default() };
        self.context.teller.tell(said).await
    }

    /// Saves where the next attempt can go on, at most 64 KiB of JSON. Durable when this returns.
    pub async fn checkpoint(&self, value: &(impl Serialize + ?Sized)) -> Result<(), Error> {
        self.context.checkpoint(raw(value)?).await
    }

    /// What was saved last, by this attempt or an earlier one.
    pub fn saved<S: DeserializeOwned>(&self) -> Result<Option<S>, Error> {
        let read = |saved: Box<RawValue>| serde_json::from_str(saved.get());
        self.context.saved().map(read).transpose().map_err(|error| Error::Json(error.to_string()))
    }

    /// Adds a file to the result; it is sent with it. At most 16. On a stream this needs the address of the HTTP
    /// API as well.
    pub fn attach(
        &self,
        name: impl Into<String>,
        content: impl Into<Vec<u8>>,
        content_type: &str,
    ) -> Result<(), Error> {
        let kept = Kept::Content(content.into());
        self.context.attach(Artifact { name: name.into(), kept, content_type: content_type.to_owned() })
    }

    /// Adds a link to the result.
    pub fn attach_link(&self, name: impl Into<String>, url: impl Into<String>) -> Result<(), Error> {
        let kept = Kept::Link(url.into());
        self.context.attach(Artifact { name: name.into(), kept, content_type: String::new() })
    }
}

fn raw(value: &(impl Serialize + ?Sized)) -> Result<Box<RawValue>, Error> {
    to_raw_value(value).map_err(|error| Error::Json(error.to_string()))
}
