//! The clock of the stores. Rules take the time as an argument; stores read it here.

use codeq_queue::Time;
use codeq_queue::clock::{Reading, Slew};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub trait Clock: Send + Sync {
    fn now(&self) -> Time;

    /// Whether it goes by itself, so that it can be compared with another clock.
    fn flows(&self) -> bool {
        true
    }

    /// How long this process has run: what waits are measured by. It only grows, whatever happens to the
    /// wall clock.
    fn elapsed(&self) -> Duration {
        begun().elapsed()
    }

    /// The time that retention goes by: never ahead of `now`.
    fn aged(&self) -> Time {
        self.now()
    }

    /// A store was last written then; time does not go back behind it.
    fn saw(&self, last: Time) {
        let _ = last;
    }

    /// How far the wall clock is ahead of `now`, in milliseconds; below zero: behind.
    fn wall_ahead_ms(&self) -> i64 {
        0
    }

    /// Asks to be told when the clock jumps. A clock that only flows need not remember the hook.
    fn on_jump(&self, hook: Box<dyn Fn() + Send + Sync>) {
        drop(hook);
    }
}

/// The wall clock.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

fn begun() -> Instant {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    *BEGUN.get_or_init(Instant::now)
}

/// A difference between the clocks that is told: smaller ones are followed at once.
const TOLD: Duration = Duration::from_secs(5);

/// The clock that a server and its stores share: the wall clock, without its steps. See
/// [`codeq_queue::clock`] for what is promised.
pub struct SlewedClock {
    slew: Mutex<Slewed>,
}

struct Slewed {
    slew: Slew,
    is_told: bool,
}

impl SlewedClock {
    /// The one of this process.
    pub fn shared() -> Arc<SlewedClock> {
        static SHARED: OnceLock<Arc<SlewedClock>> = OnceLock::new();
        let make = || {
            let slew = Slew::begin(SystemClock.now(), begun().elapsed());
            Arc::new(SlewedClock { slew: Mutex::new(Slewed { slew, is_told: false }) })
        };
        SHARED.get_or_init(make).clone()
    }

    fn look(&self) -> Reading {
        let mut slewed = self.slew.lock().expect("no one panics holding the clock");
        // One after the other, and the monotonic one last: a thread that is stopped in between sees the wall
        // clock a little behind, which costs nothing.
        let wall = SystemClock.now();
        let reading = slewed.slew.look(wall, begun().elapsed());
        let is_apart = reading.wall_ahead_ms.unsigned_abs() > TOLD.as_millis() as u64;
        if is_apart != slewed.is_told {
            slewed.is_told = is_apart;
            drop(slewed);
            tell(is_apart, reading);
        }
        reading
    }
}

fn tell(is_apart: bool, reading: Reading) {
    let wall_ahead_seconds = reading.wall_ahead_ms / 1000;
    match is_apart {
        true => tracing::warn!(wall_ahead_seconds, "the wall clock was set; it is followed gradually"),
        false => tracing::info!("the wall clock is followed again"),
    }
}

impl Clock for SlewedClock {
    fn now(&self) -> Time {
        self.look().now
    }

    fn aged(&self) -> Time {
        self.look().aged
    }

    fn saw(&self, last: Time) {
        self.slew.lock().expect("no one panics holding the clock").slew.saw(last);
    }

    fn wall_ahead_ms(&self) -> i64 {
        self.look().wall_ahead_ms
    }
}

/// The clock of a server under test: it stands still until it is moved. Waits go by real time all the same.
pub struct TestClock {
    now: Mutex<Time>,
    hooks: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
}

impl TestClock {
    /// The one of this process, which begins with the wall clock.
    pub fn shared() -> Arc<TestClock> {
        static SHARED: OnceLock<Arc<TestClock>> = OnceLock::new();
        let make = || TestClock { now: Mutex::new(SystemClock.now()), hooks: Mutex::default() };
        SHARED.get_or_init(|| Arc::new(make())).clone()
    }

    /// Moves forward, never back, and tells everyone who asked.
    pub fn move_to(&self, to: Time) {
        let mut now = self.now.lock().expect("no one panics holding the clock");
        *now = to.max(*now);
        drop(now);
        for hook in self.hooks.lock().expect("no one panics holding the hooks").iter() {
            hook();
        }
    }
}

impl Clock for TestClock {
    fn now(&self) -> Time {
        *self.now.lock().expect("no one panics holding the clock")
    }

    fn flows(&self) -> bool {
        false
    }

    fn on_jump(&self, hook: Box<dyn Fn() + Send + Sync>) {
        self.hooks.lock().expect("no one panics holding the hooks").push(hook);
    }
}

/// A clock that stands still until it is moved; for tests.
pub struct ManualClock {
    now: Mutex<Time>,
    elapsed: Mutex<Duration>,
    hooks: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
}

impl ManualClock {
    pub fn at(now: Time) -> ManualClock {
        let elapsed = Mutex::new(Duration::ZERO);
        ManualClock { now: Mutex::new(now), elapsed, hooks: Mutex::new(Vec::new()) }
    }

    /// Moves to `now`, forward or back, and tells everyone who asked. What lies between passes, unless it is
    /// set back.
    pub fn set(&self, now: Time) {
        let before = std::mem::replace(&mut *self.now.lock().expect("no one panics holding the clock"), now);
        *self.elapsed.lock().expect("no one panics holding the clock") += now.since(before);
        for hook in self.hooks.lock().expect("no one panics holding the hooks").iter() {
            hook();
        }
    }

    pub fn advance(&self, by: Duration) {
        self.set(self.now().plus(by));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        *self.now.lock().expect("no one panics holding the clock")
    }

    fn flows(&self) -> bool {
        false
    }

    fn elapsed(&self) -> Duration {
        *self.elapsed.lock().expect("no one panics holding the clock")
    }

    fn on_jump(&self, hook: Box<dyn Fn() + Send + Sync>) {
        self.hooks.lock().expect("no one panics holding the hooks").push(hook);
    }
}
