//! Bugs that can be planted in this process, to see that the simulation finds them. Builds without debug
//! assertions have none of the places where they would bite.

use std::sync::atomic::{AtomicU8, Ordering};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Bug {
    /// Frames of the journal are believed whatever their hash says.
    SkippedChecksum = 1,
    /// Timers go off a millisecond early.
    TimerOffByOne = 2,
    /// One task more runs than the policy of a queue allows.
    LimitOffByOne = 3,
    /// A member of a batch that ends is counted twice.
    CountedTwice = 4,
    /// What waits for a task is not told of its end.
    EndNotTold = 5,
}

static PLANTED: AtomicU8 = AtomicU8::new(0);

/// From now on, in every store of this process; `None` takes it out again.
pub fn plant(bug: Option<Bug>) {
    PLANTED.store(bug.map_or(0, |bug| bug as u8), Ordering::SeqCst);
}

pub fn is_planted(bug: Bug) -> bool {
    PLANTED.load(Ordering::Relaxed) == bug as u8
}
