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
    pub tenant: Arc<str>,
    pub id: TaskId,
    pub owner: Arc<Owner>,
    /// Fencing: refuse if this is not the current attempt.
    pub attempt: Option<u32>,
}

/// A worker goes on with its task.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    pub report: Report,
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
    pub lease_until: Time,
    /// Set when the task is to stop.
    pub cancel: Option<Arc<CancelRequest>>,
}

/// A worker gives a task back because the attempt failed.
#[derive(Clone, Debug)]
pub struct Nack {
    pub report: Report,
    /// Above zero overrides the backoff policy.
    pub delay_seconds: i64,
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
    pub report: Report,
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
    pub report: Report,
    pub outcome: Outcome,
}

/// Where a nacked or abandoned task went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Returned {
    Requeued {
        delay_seconds: u64,
    },
    Dead,
    /// It was to stop, and has.
    Cancelled,
}
