//! Leases: time-limited, exclusive ownership of a running task.

use crate::limits;
use crate::time::Time;
use std::sync::Arc;
use std::time::Duration;

/// Who holds a lease: the subject of the token and the worker id together.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Owner {
    /// The `sub` of the token.
    pub subject: Box<str>,
    /// The name that the worker gave itself, or the subject.
    pub worker_id: Box<str>,
}

impl Owner {
    /// Who works under this name with the token of this subject.
    pub fn new(subject: &str, worker_id: &str) -> Owner {
        Owner { subject: subject.into(), worker_id: worker_id.into() }
    }
}

/// The right to one attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    /// Whose reports are accepted.
    pub owner: Arc<Owner>,
    /// The task is the owner's strictly before this instant.
    pub until: Time,
    /// When the attempt began: the longest run counts from here.
    pub claimed_at: Time,
    /// Someone wants the task to stop.
    pub cancel: Option<Arc<CancelRequest>>,
}

impl Lease {
    /// A lease that nobody has asked to stop.
    pub fn new(owner: Arc<Owner>, until: Time, claimed_at: Time) -> Lease {
        Lease { owner, until, claimed_at, cancel: None }
    }

    /// When the store acts on it: at its end, or at the deadline of a cancel before that.
    pub fn acts_at(&self) -> Time {
        self.cancel.as_ref().map_or(self.until, |cancel| cancel.deadline.min(self.until))
    }
}

/// A running task is to stop. What its owner reports before the deadline counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CancelRequest {
    /// When the task ends as cancelled if its owner has not reported.
    pub deadline: Time,
    /// Given by whoever cancelled; `None` if no reason was given.
    pub reason: Option<Arc<str>>,
}

impl CancelRequest {
    /// With a request that came before: a deadline is only ever moved forward in time, its reason stays.
    pub fn after(self, earlier: Option<&CancelRequest>) -> CancelRequest {
        match earlier {
            None => self,
            Some(earlier) => CancelRequest {
                deadline: self.deadline.min(earlier.deadline),
                reason: earlier.reason.clone().or(self.reason),
            },
        }
    }
}

/// The length of a lease for a requested number of seconds: nothing or less means `default`, more than
/// twelve hours means twelve hours.
pub fn lease_length(requested_seconds: i64, default: Duration) -> Duration {
    match u64::try_from(requested_seconds) {
        Ok(0) | Err(_) => default.min(Duration::from_secs(limits::LEASE_SECONDS)),
        Ok(seconds) => Duration::from_secs(seconds.min(limits::LEASE_SECONDS)),
    }
}

/// When a lease of this length ends that is given or extended now: never later than the longest run allows.
pub fn lease_end(claimed_at: Time, now: Time, length: Duration, longest: Option<Duration>) -> Time {
    let asked = now.plus(length);
    longest.map_or(asked, |longest| asked.min(claimed_at.plus(longest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_lease_outlives_the_longest_run() {
        let at = Time::from_millis;
        let second = Duration::from_secs(1);
        assert_eq!(lease_end(at(0), at(500), second, None), at(1_500));
        assert_eq!(lease_end(at(0), at(500), second, Some(2 * second)), at(1_500));
        assert_eq!(lease_end(at(0), at(1_900), second, Some(2 * second)), at(2_000));
    }

    #[test]
    fn lease_lengths_fall_back_and_clamp() {
        let default = Duration::from_secs(300);
        for (asked, got) in [
            (i64::MIN, 300),
            (-1, 300),
            (0, 300),
            (1, 1),
            (43_200, 43_200),
            (43_201, 43_200),
            (i64::MAX, 43_200),
        ] {
            assert_eq!(lease_length(asked, default), Duration::from_secs(got), "{asked}");
        }
    }
}
