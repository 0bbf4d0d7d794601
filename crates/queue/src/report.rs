//! What a worker tells of a task that it holds, and what it is answered.

use crate::TaskId;
use crate::lease::{CancelRequest, Owner};
use crate::policy::Hold;
use crate::result::Outcome;
use crate::retry::Ending;
use crate::time::Time;
use std::sync::Arc;
use std::time::Duration;

/// Names one attempt of one task by one caller.
#[derive(Clone, Debug)]
pub struct Report {
    /// Taken from the token.
    pub tenant: Arc<str>,
    /// One of another tenant is refused like an unknown one.
    pub id: TaskId,
    /// Who reports; refused if somebody else holds the lease.
    pub owner: Arc<Owner>,
    /// Fencing: refuse if this is not the current attempt.
    pub attempt: Option<u32>,
}

/// A worker goes on with its task.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    /// Which attempt.
    pub report: Report,
    /// The lease ends this long from now, even if it would have ended later.
    pub extend: Duration,
    /// JSON for those who watch.
    pub progress: Option<Arc<str>>,
    /// JSON for the next attempt.
    pub checkpoint: Option<Arc<str>>,
}

impl Heartbeat {
    /// One that extends the lease and says nothing else.
    pub fn new(report: Report, extend: Duration) -> Heartbeat {
        Heartbeat { report, extend, progress: None, checkpoint: None }
    }
}

/// What a heartbeat is answered with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Beat {
    /// When the lease ends now.
    pub lease_until: Time,
    /// Set when the task is to stop.
    pub cancel: Option<Arc<CancelRequest>>,
}

/// A worker gives a task back because the attempt failed.
#[derive(Clone, Debug)]
pub struct Nack {
    /// Which attempt.
    pub report: Report,
    /// Above zero overrides the backoff policy.
    pub delay_seconds: i64,
    /// Becomes the task's error text; blank leaves the one it has.
    pub reason: Option<String>,
    /// The attempt does not count; there is a delay.
    pub refund: bool,
    /// Holds back the lane or the queue for the same time; then the attempt does not count.
    pub hold: Option<Hold>,
    /// JSON for the next attempt.
    pub checkpoint: Option<Arc<str>>,
}

impl Nack {
    /// One that holds nothing back and uses an attempt.
    pub fn new(report: Report, delay_seconds: i64, reason: Option<String>) -> Nack {
        Nack { report, delay_seconds, reason, refund: false, hold: None, checkpoint: None }
    }

    /// How the attempt ends.
    pub fn ending(&self) -> Ending {
        let is_exact = self.hold.is_some();
        Ending::Nack { delay_seconds: self.delay_seconds, refund: self.refund || is_exact, is_exact }
    }
}

/// A worker gives a task back though nothing failed.
#[derive(Clone, Debug)]
pub struct Abandon {
    /// Which attempt.
    pub report: Report,
    /// The attempt does not count.
    pub refund: bool,
    /// JSON for the next attempt.
    pub checkpoint: Option<Arc<str>>,
}

impl Abandon {
    /// One that leaves no checkpoint.
    pub fn new(report: Report, refund: bool) -> Abandon {
        Abandon { report, refund, checkpoint: None }
    }
}

/// A worker says how its task ended.
#[derive(Clone, Debug)]
pub struct Submit {
    /// Which attempt.
    pub report: Report,
    /// How it ended, not checked yet.
    pub outcome: Outcome,
}

/// Where a nacked or abandoned task went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Returned {
    /// It is ready again, or delayed.
    Requeued {
        /// How long it is delayed; 0 if it is ready.
        delay_seconds: u64,
    },
    /// It was out of attempts.
    Dead,
    /// It was to stop, and has.
    Cancelled,
}
