//! The time as this process sees it: it never goes back. And numbers that only grow.

use crate::clock::Clock;
use codeq_queue::Time;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

pub struct Now {
    clock: Arc<dyn Clock>,
    latest: AtomicI64,
    ready: Numbers,
    created: Numbers,
}

impl Now {
    pub fn new(clock: Arc<dyn Clock>) -> Now {
        let (ready, created) = (Numbers::default(), Numbers::default());
        Now { clock, latest: AtomicI64::new(0), ready, created }
    }

    pub fn get(&self) -> Time {
        let now = self.clock.now().millis();
        Time::from_millis(self.latest.fetch_max(now, Ordering::AcqRel).max(now))
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The first of `count` numbers for tasks that become ready.
    pub fn numbers(&self, count: u64) -> u64 {
        self.ready.take(count)
    }

    /// The number of a task that is created.
    pub fn creation(&self) -> u64 {
        self.created.take(1)
    }
}

/// Numbers that only grow, in one process and, as far as clocks agree, over all of them and over restarts: the
/// microseconds of the wall clock, or one more than the last. They order; they do not tell time.
#[derive(Default)]
struct Numbers(AtomicU64);

impl Numbers {
    fn take(&self, count: u64) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let floor = u64::try_from(since.as_micros()).unwrap_or(0);
        let taken =
            self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| Some(last.max(floor) + count));
        taken.unwrap_or(0).max(floor)
    }
}
