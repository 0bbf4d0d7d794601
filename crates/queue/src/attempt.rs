//! The history of a task: its last deliveries and how they ended.

use crate::limits;
use crate::time::Time;

/// What became of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttemptOutcome {
    Completed,
    Failed,
    Nack,
    Abandoned,
    Refunded,
    LeaseExpired,
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

/// One delivery of a task to a worker. A running attempt has no end yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempt {
    pub attempt: u32,
    pub worker_id: Box<str>,
    pub claimed_at: Time,
    pub end: Option<AttemptEnd>,
}

/// When and how an attempt ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AttemptEnd {
    pub at: Time,
    pub outcome: AttemptOutcome,
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
