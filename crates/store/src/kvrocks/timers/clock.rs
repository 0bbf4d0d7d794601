//! The time as this process sees it: it never goes back. And numbers that only grow.
//!
//! What counts is the clock of the store's server, measured from time to time. In between the time goes on with the
//! monotonic clock of this process, so that a wall clock that is set here changes nothing there: what one process wrote
//! minutes ahead would keep all the others waiting.

use crate::clock::Clock;
use codeq_queue::Time;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A clock that begins like another and goes on by itself.
struct Steady {
    clock: Arc<dyn Clock>,
    /// What the other said, less what had passed then.
    base: i64,
}

fn elapsed_ms(clock: &dyn Clock) -> i64 {
    i64::try_from(clock.elapsed().as_millis()).unwrap_or(i64::MAX / 4)
}

impl Steady {
    fn new(clock: Arc<dyn Clock>) -> Steady {
        let base = clock.now().millis() - elapsed_ms(&*clock);
        Steady { clock, base }
    }
}

impl Clock for Steady {
    fn now(&self) -> Time {
        Time::from_millis(self.base + elapsed_ms(&*self.clock))
    }

    fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    fn saw(&self, last: Time) {
        self.clock.saw(last);
    }

    fn wall_ahead_ms(&self) -> i64 {
        self.clock.wall_ahead_ms()
    }

    fn on_jump(&self, hook: Box<dyn Fn() + Send + Sync>) {
        self.clock.on_jump(hook);
    }
}

pub struct Now {
    clock: Arc<dyn Clock>,
    latest: AtomicI64,
    /// Milliseconds from the clock to that of the store.
    offset: AtomicI64,
    ready: Numbers,
    created: Numbers,
}

impl Now {
    pub fn new(clock: Arc<dyn Clock>) -> Now {
        let clock: Arc<dyn Clock> = if clock.flows() { Arc::new(Steady::new(clock)) } else { clock };
        let (ready, created) = (Numbers::default(), Numbers::default());
        Now { clock, latest: AtomicI64::new(0), offset: AtomicI64::new(0), ready, created }
    }

    /// By the store's clock, as far as it is known.
    pub fn get(&self) -> Time {
        let now = self.clock.now().millis();
        let now = self.latest.fetch_max(now, Ordering::AcqRel).max(now);
        Time::from_millis(now + self.offset())
    }

    pub fn offset(&self) -> i64 {
        self.offset.load(Ordering::Acquire)
    }

    /// The store's clock was measured.
    pub fn follow(&self, offset: i64) {
        self.offset.store(offset, Ordering::Release);
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
