//! Leases: time-limited, exclusive ownership of a running task.

use crate::limits;
use crate::time::Time;
use std::sync::Arc;
use std::time::Duration;

/// Who holds a lease: the subject of the token and the worker id together.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Owner {
    pub subject: Box<str>,
    pub worker_id: Box<str>,
}

impl Owner {
    pub fn new(subject: &str, worker_id: &str) -> Owner {
        Owner { subject: subject.into(), worker_id: worker_id.into() }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    pub owner: Arc<Owner>,
    /// The task is the owner's strictly before this instant.
    pub until: Time,
    pub claimed_at: Time,
}

/// The length of a lease for a requested number of seconds: nothing or less means `default`, more than
/// twelve hours means twelve hours.
pub fn lease_length(requested_seconds: i64, default: Duration) -> Duration {
    match u64::try_from(requested_seconds) {
        Ok(0) | Err(_) => default.min(Duration::from_secs(limits::LEASE_SECONDS)),
        Ok(seconds) => Duration::from_secs(seconds.min(limits::LEASE_SECONDS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
