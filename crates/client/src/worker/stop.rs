//! Why a handler is to end, and how it hears of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use tokio_util::sync::CancellationToken;

/// Why a job is to end, see [`Job::stop`](super::Job::stop).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Stop {
    /// Somebody asked for the end of the task. What the handler returns counts until the deadline.
    Requested {
        /// Empty if none was given.
        reason: String,
        /// When the task ends as cancelled; `None` if the server named no instant.
        deadline: Option<SystemTime>,
    },
    /// The task is not ours any more. What the handler returns is dropped.
    LeaseLost,
    /// The worker ends and its grace is over. The task is given back without counting the attempt.
    Shutdown,
}

#[derive(Clone, Default, Debug)]
pub(crate) struct StopSignal {
    token: CancellationToken,
    why: Arc<Mutex<Option<Stop>>>,
}

impl StopSignal {
    /// The first reason counts, but a lost lease outweighs it.
    pub fn stop(&self, why: Stop) {
        let mut held = self.lock();
        if held.is_none() || why == Stop::LeaseLost {
            *held = Some(why);
        }
        drop(held);
        self.token.cancel();
    }

    pub fn why(&self) -> Option<Stop> {
        self.lock().clone()
    }

    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    fn lock(&self) -> MutexGuard<'_, Option<Stop>> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_counts_but_a_lost_lease_outweighs_it() {
        let signal = StopSignal::default();
        assert_eq!((signal.why(), signal.token().is_cancelled()), (None, false));
        let requested = Stop::Requested { reason: "enough".into(), deadline: None };
        signal.stop(requested.clone());
        signal.stop(Stop::Shutdown);
        assert_eq!((signal.why(), signal.token().is_cancelled()), (Some(requested), true));
        signal.stop(Stop::LeaseLost);
        assert_eq!(signal.why(), Some(Stop::LeaseLost));
    }
}
