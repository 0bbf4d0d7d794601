//! A task in the hands of a handler.

use super::link::Assigned;
use std::collections::HashMap;
use tokio_util::sync::CancellationToken;

/// One delivery of a task, with its payload as a `T`.
///
/// `T` is anything that serde can read; `Box<serde_json::value::RawValue>` is the text as it was sent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Job<T> {
    pub id: String,
    pub command: String,
    pub payload: T,
    /// With the id the fencing token: a later delivery of the task has a larger number.
    pub attempt: u32,
    pub max_attempts: u32,
    pub priority: u8,
    pub headers: HashMap<String, String>,
    cancelled: CancellationToken,
}

impl<T> Job<T> {
    pub(super) fn new(task: Assigned, payload: T, cancelled: CancellationToken) -> Job<T> {
        Job {
            id: task.id,
            command: task.command,
            payload,
            attempt: task.attempt,
            max_attempts: task.max_attempts,
            priority: task.priority,
            headers: task.headers,
            cancelled,
        }
    }

    /// Resolves when the job is no longer ours: the lease is lost, the task was cancelled by an operator, or
    /// the worker shuts down and its grace is over. Whatever the handler returns from then on is dropped.
    pub async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    /// Whether [`Job::cancelled`] has resolved; for code that cannot wait.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }

    /// The token behind [`Job::cancelled`], to be handed to other tasks.
    pub fn cancellation(&self) -> CancellationToken {
        self.cancelled.clone()
    }
}
