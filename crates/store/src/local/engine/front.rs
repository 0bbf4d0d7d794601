//! Who answers callers goes first.
//!
//! The scheduler lets a thread that has begun go on for milliseconds, however far it steps back behind others,
//! and when that happens on every processor, all callers wait. So the feeder looks here several times in a
//! millisecond, and sleeps for a moment when someone in front of it has waited for long.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A thread that was woken usually runs after a tenth of this.
const WAKE_DELAY_MAX: Duration = Duration::from_micros(100);
/// A sync that takes longer may be over already, and its thread wait for a processor. On a slow disk it is not:
/// there the feeder goes on at half of its speed, which suffices for what such a disk takes in.
const LONG_SYNC: Duration = Duration::from_micros(300);
/// Enough for another thread to take the processor.
const MOMENT: Duration = Duration::from_micros(50);

/// Since when something has been so.
pub struct Since {
    origin: Instant,
    /// Microseconds from the origin; 0 if it is not so.
    at: AtomicU64,
}

impl Since {
    fn new() -> Since {
        Since { origin: Instant::now(), at: AtomicU64::new(0) }
    }

    /// The first of several counts.
    pub fn begin(&self) {
        if self.at.load(Ordering::Relaxed) == 0 {
            self.at.store(self.now(), Ordering::Relaxed);
        }
    }

    pub fn end(&self) {
        self.at.store(0, Ordering::Relaxed);
    }

    fn is_longer_than(&self, time: Duration) -> bool {
        let at = self.at.load(Ordering::Relaxed);
        at > 0 && u128::from(self.now().saturating_sub(at)) > time.as_micros()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_micros()).unwrap_or(u64::MAX).max(1)
    }
}

/// What the threads of a shard that answer its callers may wait for.
pub struct LatencyGuard {
    /// The owner was woken and does not run yet.
    pub owner_woken: Since,
    /// A group was handed to the committer, which has not taken it yet.
    pub group_handed: Since,
    pub syncing: Since,
}

impl LatencyGuard {
    pub fn new() -> LatencyGuard {
        LatencyGuard { owner_woken: Since::new(), group_handed: Since::new(), syncing: Since::new() }
    }

    /// Sleeps for a moment if one of them has waited for long.
    pub fn give_way(&self) {
        if self.is_waiting() {
            std::thread::sleep(MOMENT);
        }
    }

    fn is_waiting(&self) -> bool {
        self.owner_woken.is_longer_than(WAKE_DELAY_MAX)
            || self.group_handed.is_longer_than(WAKE_DELAY_MAX)
            || self.syncing.is_longer_than(LONG_SYNC)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether someone waits when a little more than this time has passed.
    fn waits_after(front: &LatencyGuard, time: Duration) -> bool {
        let (begun, time) = (Instant::now(), time + Duration::from_micros(2));
        while begun.elapsed() <= time {
            std::hint::spin_loop();
        }
        front.is_waiting()
    }

    #[test]
    fn whoever_was_woken_and_does_not_run_is_let_past() {
        let front = LatencyGuard::new();
        assert!(!waits_after(&front, WAKE_DELAY_MAX));
        let waits = [
            (&front.owner_woken, WAKE_DELAY_MAX),
            (&front.group_handed, WAKE_DELAY_MAX),
            (&front.syncing, LONG_SYNC),
        ];
        for (since, long) in waits {
            since.begin();
            assert!(waits_after(&front, long));
            since.begin();
            assert!(front.is_waiting(), "the second of two does not begin anew");
            since.end();
            assert!(!front.is_waiting());
        }
    }
}
