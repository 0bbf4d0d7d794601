//! Where the stores get the time from. Rules take time as an argument; this is who gives it.

use codeq_queue::Time;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

pub trait Clock: Send + Sync {
    fn now(&self) -> Time;

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

/// A clock that stands still until it is moved; for tests.
pub struct ManualClock {
    now: Mutex<Time>,
    hooks: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
}

impl ManualClock {
    pub fn at(now: Time) -> ManualClock {
        ManualClock { now: Mutex::new(now), hooks: Mutex::new(Vec::new()) }
    }

    /// Moves to `now`, forward or back, and tells everyone who asked.
    pub fn set(&self, now: Time) {
        *self.now.lock().expect("no one panics holding the clock") = now;
        for hook in self.hooks.lock().expect("no one panics holding the hooks").iter() {
            hook();
        }
    }

    pub fn advance(&self, by: std::time::Duration) {
        self.set(self.now().plus(by));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        *self.now.lock().expect("no one panics holding the clock")
    }

    fn on_jump(&self, hook: Box<dyn Fn() + Send + Sync>) {
        self.hooks.lock().expect("no one panics holding the hooks").push(hook);
    }
}
