//! What can happen to a task.
//!
//! A task is held, ready, delayed or running while it lives, and completed, failed, cancelled or dead
//! afterwards. [`guard`] is the one gate in front of everything a worker may do to a running task; its
//! order of checks is part of the contract.

use crate::dependency::Held;
use crate::lease::{Lease, Owner};
use crate::options::{TaskOptions, UniqueRule};
use crate::refusal::Refusal;
use crate::time::Time;
use crate::{TaskId, result};
use std::sync::Arc;
use std::time::Duration;

/// What the producer gave; never changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Body {
    /// Taken from the token.
    pub tenant: Arc<str>,
    /// Spelled as the producer did.
    pub command: Box<str>,
    /// Exact JSON text.
    pub payload: Box<str>,
    /// The URL that is sent the result.
    pub webhook: Option<Box<str>>,
    /// Names with values, as the producer sent them.
    pub headers: Box<[(String, String)]>,
    /// Another create with it answers with this task.
    pub idempotency_key: Option<Box<str>>,
    /// W3C `traceparent` of the create.
    pub trace_parent: Option<Box<str>>,
    /// W3C `tracestate` of the create.
    pub trace_state: Option<Box<str>>,
    /// What few tasks have.
    pub options: Option<Box<TaskOptions>>,
}

impl Body {
    /// The lane it is in, if it has one.
    pub fn lane(&self) -> Option<&str> {
        self.options.as_ref()?.lane.as_deref()
    }

    /// What it is tagged with.
    pub fn tags(&self) -> &[Box<str>] {
        self.options.as_ref().map_or(&[], |options| &options.tags)
    }

    /// The unique key it asks for.
    pub fn unique(&self) -> Option<&UniqueRule> {
        self.options.as_ref()?.unique.as_ref()
    }

    /// By when it has to be claimed for the first time.
    pub fn expires_at(&self) -> Option<Time> {
        self.options.as_ref()?.expires_at
    }

    /// The longest that one attempt may take.
    pub fn max_run(&self) -> Option<Duration> {
        self.options.as_ref()?.max_run
    }

    /// Tasks and batches that it waited, or waits, for.
    pub fn after(&self) -> &[TaskId] {
        self.options.as_ref().map_or(&[], |options| &options.after)
    }

    /// The batch it is a member of.
    pub fn batch(&self) -> Option<TaskId> {
        self.options.as_ref()?.batch
    }

    /// Roughly what it occupies in memory.
    pub fn bytes(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| 48 + name.len() + value.len()).sum();
        let options = self.options.as_ref().map_or(0, |options| options.bytes());
        let webhook = self.webhook.as_ref().map_or(0, |url| url.len());
        160 + self.payload.len() + self.command.len() + headers + webhook + options
    }
}

/// Where a task is in its life.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// It may be claimed.
    Ready {
        /// Grows with every task that becomes ready: the order within a priority.
        seq: u64,
    },
    /// It waits for its time.
    Delayed {
        /// When it becomes ready.
        until: Time,
    },
    /// A worker holds its lease.
    Running(Arc<Lease>),
    /// Waits for tasks or batches to end.
    Held(Arc<Held>),
    /// A worker submitted COMPLETED.
    Completed,
    /// A worker submitted FAILED, or it expired, or something that it waited for failed.
    Failed,
    /// Ended by a cancel.
    Cancelled,
    /// Ran out of attempts.
    Dead,
}

/// What the wire calls the states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskStatus {
    /// Ready, delayed or held.
    Pending,
    /// Running.
    InProgress,
    /// A worker submitted COMPLETED.
    Completed,
    /// Failed, cancelled or dead.
    Failed,
}

impl TaskStatus {
    /// The word of the wire.
    pub fn word(self) -> &'static str {
        match self {
            TaskStatus::Pending => "PENDING",
            TaskStatus::InProgress => "IN_PROGRESS",
            TaskStatus::Completed => "COMPLETED",
            TaskStatus::Failed => "FAILED",
        }
    }
}

/// The index a task is found in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Ready.
    PendingList,
    /// Delayed.
    DelayedSet,
    /// Running.
    InProgressSet,
    /// Held.
    HeldSet,
    /// Dead.
    DeadLetterSet,
    /// Completed, failed or cancelled.
    None,
}

impl Place {
    /// The word of the wire.
    pub fn word(self) -> &'static str {
        match self {
            Place::PendingList => "PENDING_LIST",
            Place::DelayedSet => "DELAYED_ZSET",
            Place::InProgressSet => "INPROG_SET",
            Place::HeldSet => "HELD_SET",
            Place::DeadLetterSet => "DLQ_SET",
            Place::None => "NONE",
        }
    }
}

impl State {
    /// What the wire calls this state.
    pub fn status(&self) -> TaskStatus {
        match self {
            State::Ready { .. } | State::Delayed { .. } | State::Held(_) => TaskStatus::Pending,
            State::Running(_) => TaskStatus::InProgress,
            State::Completed => TaskStatus::Completed,
            State::Failed | State::Cancelled | State::Dead => TaskStatus::Failed,
        }
    }

    /// Where, in the words of the wire, a task of this state is kept.
    pub fn place(&self) -> Place {
        match self {
            State::Ready { .. } => Place::PendingList,
            State::Delayed { .. } => Place::DelayedSet,
            State::Running(_) => Place::InProgressSet,
            State::Held(_) => Place::HeldSet,
            State::Dead => Place::DeadLetterSet,
            State::Completed | State::Failed | State::Cancelled => Place::None,
        }
    }

    /// Whether it has not ended.
    pub fn is_live(&self) -> bool {
        matches!(self, State::Ready { .. } | State::Delayed { .. } | State::Running(_) | State::Held(_))
    }

    /// Ended without success: an operator may give it another set of attempts.
    pub fn has_failed(&self) -> bool {
        matches!(self, State::Failed | State::Cancelled | State::Dead)
    }

    /// What it waits for.
    pub fn held(&self) -> Option<&Held> {
        match self {
            State::Held(held) => Some(held),
            _ => None,
        }
    }

    /// Who runs it, if it runs.
    pub fn lease(&self) -> Option<&Lease> {
        match self {
            State::Running(lease) => Some(lease),
            _ => None,
        }
    }
}

/// One task as it is at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Task {
    /// The same for the whole life of the task, and where it is imported.
    pub id: TaskId,
    /// What its producer gave.
    pub body: Arc<Body>,
    /// 0 to 9; higher ones are served first.
    pub priority: u8,
    /// Where it is in its life, and what belongs to that.
    pub state: State,
    /// Deliveries so far; with the id the fencing token. Never falls.
    pub attempts: u32,
    /// Deliveries that do not count against `max_attempts`.
    pub refunds: u32,
    /// Attempts that may count; an operator's requeue may change it.
    pub max_attempts: u32,
    /// The last failure text.
    pub error: Option<Arc<str>>,
    /// JSON that an attempt left for the next one; none once the task has completed.
    pub checkpoint: Option<Arc<str>>,
    /// JSON that the running attempt told last. Not durable.
    pub progress: Option<Arc<str>>,
    /// Never changes.
    pub created_at: Time,
    /// When its last transition happened.
    pub updated_at: Time,
}

impl Task {
    /// Attempts that count.
    pub fn used(&self) -> u32 {
        used(self.attempts, self.refunds)
    }

    /// Whether it has ended.
    pub fn has_result(&self) -> bool {
        !self.state.is_live()
    }
}

/// Deliveries that count against `max_attempts`.
pub fn used(attempts: u32, refunds: u32) -> u32 {
    attempts.saturating_sub(refunds)
}

/// The gate in front of nack, abandon and result, and the first part of heartbeat's.
///
/// The caller has already found the task in its own tenant; an unknown or foreign id is
/// [`Refusal::NotFound`] before this. Checks in order: cancelled, fencing attempt, running, owner.
pub fn guard<'a>(
    state: &'a State,
    attempts: u32,
    caller: &Owner,
    attempt: Option<u32>,
) -> Result<&'a Lease, Refusal> {
    if *state == State::Cancelled {
        return Err(Refusal::Cancelled);
    }
    if attempt.is_some_and(|given| given != attempts) {
        return Err(Refusal::LeaseLost);
    }
    let State::Running(lease) = state else { return Err(Refusal::NotInProgress) };
    if *lease.owner != *caller {
        return Err(Refusal::NotOwner);
    }
    Ok(lease)
}

/// Heartbeat's gate: as [`guard`], and the lease must still be alive.
pub fn guard_heartbeat(
    state: &State,
    attempts: u32,
    caller: &Owner,
    attempt: Option<u32>,
    now: Time,
) -> Result<(), Refusal> {
    let lease = guard(state, attempts, caller, attempt)?;
    if lease.until <= now {
        return Err(Refusal::LeaseLost);
    }
    Ok(())
}

/// Whether an operator's run-now changes the task: what waits for its time becomes ready, what is ready stays so.
pub fn run_now(state: &State) -> Result<bool, Refusal> {
    match state {
        State::Delayed { .. } => Ok(true),
        State::Ready { .. } => Ok(false),
        _ => Err(Refusal::NotDelayed),
    }
}

/// The failure reason of every dead letter, and its error where nothing better is known.
pub const MAX_ATTEMPTS: &str = "MAX_ATTEMPTS";
/// The error of a task whose worker was not heard of in time.
pub const LEASE_EXPIRED: &str = "LEASE_EXPIRED";
/// The failure reason of a task that was cancelled, and its error where no reason was given.
pub const CANCELLED: &str = "CANCELLED";
/// The failure reason and the error of a task that nobody claimed in time.
pub const EXPIRED: &str = "EXPIRED";

/// The error text of a cancelled task.
pub fn cancelled_text(reason: Option<&str>) -> Arc<str> {
    match reason {
        None => CANCELLED.into(),
        Some(reason) => {
            crate::limits::cut(&format!("{CANCELLED}: {reason}"), crate::limits::ERROR_BYTES).into()
        }
    }
}

/// A worker's note as it is kept, unless it is too large.
pub fn check_progress(text: &str) -> Result<Arc<str>, Refusal> {
    match text.len() > crate::limits::PROGRESS_BYTES {
        true => Err(Refusal::ProgressTooLarge),
        false => Ok(text.into()),
    }
}

/// What a worker leaves for the next attempt, unless it is too large.
pub fn check_checkpoint(text: &str) -> Result<Arc<str>, Refusal> {
    match text.len() > crate::limits::CHECKPOINT_BYTES {
        true => Err(Refusal::CheckpointTooLarge),
        false => Ok(text.into()),
    }
}

/// The text of a nack's reason as it is kept: blank is none, long is cut.
pub fn reason_text(reason: Option<&str>) -> Option<Arc<str>> {
    let reason = reason.filter(|text| !text.trim().is_empty())?;
    Some(crate::limits::cut(reason, crate::limits::ERROR_BYTES).into())
}

/// The callback body that a terminal task with a webhook sends; fixed at the transition.
pub fn callback_body(id: TaskId, command: &str, record: &result::ResultRecord, completed_at: &str) -> String {
    let text = |s: &str| serde_json::Value::from(s).to_string();
    let artifacts: Vec<String> = record
        .artifacts
        .iter()
        .map(|artifact| format!("{{\"name\":{},\"url\":{}}}", text(&artifact.name), text(&artifact.url)))
        .collect();
    format!(
        "{{\"taskId\":\"{id}\",\"eventType\":{},\"status\":\"{}\",\"result\":{},\"error\":{},\"artifacts\":[{}],\"completedAt\":{}}}",
        text(command),
        record.status.word(),
        record.result.as_deref().unwrap_or("null"),
        text(record.error.as_deref().unwrap_or("")),
        artifacts.join(","),
        text(completed_at),
    )
}

#[cfg(test)]
mod tests;
