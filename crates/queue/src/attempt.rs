//! The history of a task: its last deliveries and how they ended.

use crate::limits;
use crate::time::Time;

/// What became of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttemptOutcome {
    /// The worker submitted COMPLETED.
    Completed,
    /// The worker submitted FAILED.
    Failed,
    /// The worker said that the attempt failed, and gave the task back; it counts.
    Nack,
    /// The worker gave the task back though nothing failed; the attempt counts.
    Abandoned,
    /// Given back with a refund: the attempt does not count.
    Refunded,
    /// The lease ended before the worker reported.
    LeaseExpired,
    /// A cancel ended the task.
    Cancelled,
}

impl AttemptOutcome {
    /// All of them.
    pub const ALL: [AttemptOutcome; 7] = [
        AttemptOutcome::Completed,
        AttemptOutcome::Failed,
        AttemptOutcome::Nack,
        AttemptOutcome::Abandoned,
        AttemptOutcome::Refunded,
        AttemptOutcome::LeaseExpired,
        AttemptOutcome::Cancelled,
    ];

    /// The word of the wire.
    pub fn word(self) -> &'static str {
        match self {
            AttemptOutcome::Completed => "completed",
            AttemptOutcome::Failed => "failed",
            AttemptOutcome::Nack => "nack",
            AttemptOutcome::Abandoned => "abandoned",
            AttemptOutcome::Refunded => "refunded",
            AttemptOutcome::LeaseExpired => "lease_expired",
            AttemptOutcome::Cancelled => "cancelled",
        }
    }
}

/// One delivery of a task to a worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempt {
    /// 1 for the first delivery.
    pub attempt: u32,
    /// Who held the lease.
    pub worker_id: Box<str>,
    /// When the lease was given.
    pub claimed_at: Time,
    /// `None` while the attempt runs.
    pub end: Option<AttemptEnd>,
}

/// When and how an attempt ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AttemptEnd {
    /// When the store ended it.
    pub at: Time,
    /// What ended it: a report, the end of the lease, or a cancel.
    pub outcome: AttemptOutcome,
    /// The failure text, cut to [`limits::ATTEMPT_ERROR_BYTES`]; `None` where nothing failed.
    pub error: Option<Box<str>>,
}

impl AttemptEnd {
    /// An end with its text cut to what a history keeps.
    pub fn new(at: Time, outcome: AttemptOutcome, error: Option<&str>) -> AttemptEnd {
        let error = error.map(|text| limits::cut(text, limits::ATTEMPT_ERROR_BYTES).into());
        AttemptEnd { at, outcome, error }
    }
}

/// Appends, forgetting the oldest beyond [`limits::ATTEMPTS_KEPT`].
pub fn remember(history: &mut Vec<Attempt>, attempt: Attempt) {
    if history.len() >= limits::ATTEMPTS_KEPT {
        let surplus = history.len() + 1 - limits::ATTEMPTS_KEPT;
        history.drain(..surplus);
    }
    history.push(attempt);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_attempts_are_remembered() {
        let mut history = Vec::new();
        for attempt in 1..=25 {
            remember(
                &mut history,
                Attempt { attempt, worker_id: "w".into(), claimed_at: Time::ZERO, end: None },
            );
        }
        let kept: Vec<u32> = history.iter().map(|a| a.attempt).collect();
        assert_eq!(kept, (6..=25).collect::<Vec<u32>>());
    }
}
