//! The time as this process sees it: it never goes back. And numbers that only grow.
//!
//! What counts is the clock of the store's server, measured from time to time. In between the time goes on with the
//! monotonic clock of this process, so that a wall clock that is set here changes nothing there: what one process wrote
//! minutes ahead would keep all the others waiting. A server's clock that is set, or that of another server that was promoted,
//! is followed as [`codeq_queue::clock`] promises: by a few minutes at once, beyond that gradually, and what is kept for a
//! day is kept for a day that has passed.

use crate::clock::Clock;
use codeq_queue::clock::{Reading, Slew};
use codeq_queue::{Time, limits};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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
    /// That of this machine, which may be set.
    wall: Arc<dyn Clock>,
    latest: AtomicI64,
    /// `None` if the clock is moved by hand.
    flow: Option<Mutex<Flow>>,
    ready: Numbers,
    created: Numbers,
}

/// The store's clock without its steps.
struct Flow {
    slew: Slew,
    /// Milliseconds from our clock to that of the store; 0 until it was measured.
    offset: i64,
    is_measured: bool,
    is_told: bool,
}

/// A difference from the store's clock that is told.
const TOLD_MS: i64 = 5_000;

impl Now {
    pub fn new(clock: Arc<dyn Clock>) -> Now {
        let wall = clock.clone();
        let clock: Arc<dyn Clock> = if clock.flows() { Arc::new(Steady::new(clock)) } else { clock };
        let (ready, created) = (Numbers::default(), Numbers::default());
        let flow = clock.flows().then(|| {
            let slew = Slew::begin(clock.now(), clock.elapsed());
            Mutex::new(Flow { slew, offset: 0, is_measured: false, is_told: false })
        });
        Now { clock, wall, latest: AtomicI64::new(0), flow, ready, created }
    }

    /// By the store's clock, as far as it is known.
    pub fn get(&self) -> Time {
        if let Some(flow) = &self.flow {
            return self.look(&mut flow.lock().unwrap_or_else(PoisonError::into_inner)).now;
        }
        let now = self.clock.now().millis();
        Time::from_millis(self.latest.fetch_max(now, Ordering::AcqRel).max(now))
    }

    /// The time that retention goes by: at or before the time. What this machine's clock says counts as well, because at the
    /// start the store's may be wrong by any amount.
    pub fn aged(&self) -> Time {
        let Some(flow) = &self.flow else { return self.get() };
        let aged = self.look(&mut flow.lock().unwrap_or_else(PoisonError::into_inner)).aged;
        aged.min(self.wall.now().plus(limits::CLOCK_AHEAD))
    }

    fn look(&self, flow: &mut Flow) -> Reading {
        flow.slew.look(Time::from_millis(self.clock.now().millis() + flow.offset), self.clock.elapsed())
    }

    /// The store's clock was measured. The first time there is nothing to compare it with.
    pub fn follow(&self, offset: i64) {
        let Some(flow) = &self.flow else { return };
        let mut flow = flow.lock().unwrap_or_else(PoisonError::into_inner);
        flow.offset = offset;
        if !std::mem::replace(&mut flow.is_measured, true) {
            let now = Time::from_millis(self.clock.now().millis() + offset);
            flow.slew = Slew::begin(now, self.clock.elapsed());
        }
        let server_ahead_seconds = self.look(&mut flow).wall_ahead_ms / 1000;
        let is_apart = server_ahead_seconds.abs() * 1000 > TOLD_MS;
        if is_apart != std::mem::replace(&mut flow.is_told, is_apart) {
            match is_apart {
                true => tracing::warn!(
                    server_ahead_seconds,
                    "the clock of the store's server was set; it is followed gradually"
                ),
                false => tracing::info!("the clock of the store's server is followed again"),
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_700_000_000_000;
    const YEARS: i64 = 10 * 365 * 24 * 3_600_000;

    /// A clock that flows as far as it is pushed.
    struct Pushed(AtomicI64);

    impl Clock for Pushed {
        fn now(&self) -> Time {
            Time::from_millis(START).plus(self.elapsed())
        }

        fn elapsed(&self) -> Duration {
            Duration::from_millis(self.0.load(Ordering::Acquire).unsigned_abs())
        }
    }

    fn now() -> (Now, Arc<Pushed>) {
        let clock = Arc::new(Pushed(AtomicI64::new(0)));
        (Now::new(clock.clone()), clock)
    }

    #[test]
    fn the_first_measure_is_believed() {
        let (now, _) = now();
        now.follow(-600_000);
        assert_eq!(now.get(), Time::from_millis(START - 600_000));
    }

    /// A server's clock that was ten years ahead for seconds took all results with it, and let nothing fall due for ten years
    /// when it was right again.
    #[test]
    fn a_server_clock_that_is_wrong_for_seconds_costs_minutes_at_most() {
        let (now, clock) = now();
        now.follow(0);
        now.follow(YEARS);
        clock.0.store(5_000, Ordering::Release);
        assert!(now.get() <= Time::from_millis(START + 5_000 + 300_000 + 5_000), "{:?}", now.get());
        assert!(now.aged() <= Time::from_millis(START + 5_000), "{:?}", now.aged());
        now.follow(0);
        let wrong = now.get();
        clock.0.store(10_000, Ordering::Release);
        assert!(now.get() > wrong, "time goes on");
    }

    /// Nothing tells at the start that the server's clock is wrong, but for that of this machine.
    #[test]
    fn a_server_clock_that_is_wrong_at_the_start_removes_nothing() {
        let (now, _) = now();
        now.follow(YEARS);
        assert!(now.aged() <= Time::from_millis(START + 300_000), "{:?}", now.aged());
    }
}
