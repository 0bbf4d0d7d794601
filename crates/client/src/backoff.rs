//! Pauses before something is tried again: doubling, with full jitter, bounded.

use crate::limits;
use rand::Rng;
use std::time::Duration;

#[derive(Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// After a success the next pause is short again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// The next pause, at least what the server asked for.
    pub fn next(&mut self, asked: Option<Duration>) -> Duration {
        let (first, longest) = limits::BACKOFF;
        let ceiling = first.saturating_mul(1 << self.failures.min(16)).min(longest);
        self.failures += 1;
        // Never zero: a server that refuses at once must not be asked in a busy loop.
        let pause = rand::rng().random_range(ceiling / 4..=ceiling);
        pause.max(asked.unwrap_or_default().min(limits::RETRY_AFTER))
    }

    pub async fn pause(&mut self, asked: Option<Duration>) {
        tokio::time::sleep(self.next(asked)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_start_over_after_a_success() {
        let mut backoff = Backoff::default();
        assert!(backoff.next(None) <= Duration::from_millis(50));
        for _ in 0..100 {
            assert!(backoff.next(None) <= limits::BACKOFF.1);
        }
        assert!(backoff.next(None) >= limits::BACKOFF.1 / 4);
        backoff.reset();
        assert!(backoff.next(None) <= Duration::from_millis(50));
    }

    #[test]
    fn a_pause_is_at_least_what_the_server_asks_for_within_reason() {
        let mut backoff = Backoff::default();
        assert!(backoff.next(Some(Duration::from_secs(3))) >= Duration::from_secs(3));
        assert_eq!(backoff.next(Some(Duration::from_secs(1_000_000))), limits::RETRY_AFTER);
    }
}
