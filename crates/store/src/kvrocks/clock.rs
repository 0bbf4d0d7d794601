//! The time as this process sees it: it never goes back. And numbers that only grow.

use crate::clock::Clock;
use codeq_queue::Time;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

pub struct Now {
    clock: Arc<dyn Clock>,
    latest: AtomicI64,
    /// Numbers of ready tasks: microseconds, or one more than the last.
    sequence: AtomicU64,
}

impl Now {
    pub fn new(clock: Arc<dyn Clock>) -> Now {
        Now { clock, latest: AtomicI64::new(0), sequence: AtomicU64::new(0) }
    }

    pub fn get(&self) -> Time {
        let now = self.clock.now().millis();
        Time::from_millis(self.latest.fetch_max(now, Ordering::AcqRel).max(now))
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The first of `count` numbers that no one had before in this process, and likely no one elsewhere.
    pub fn numbers(&self, count: u64) -> u64 {
        let floor = u64::try_from(self.get().millis()).unwrap_or(0) * 1000;
        let taken = self.sequence.fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| {
            Some(last.max(floor) + count)
        });
        taken.unwrap_or(0).max(floor)
    }
}
