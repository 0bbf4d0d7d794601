//! Who answers callers goes first.
//!
//! The scheduler lets a thread that has begun go on for milliseconds, however far it steps back behind others,
//! and when that happens on every processor, all callers wait. So the feeder looks here several times in a
//! millisecond, and sleeps for a moment when someone in front of it has waited for long.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A thread that was woken usually runs after a tenth of this.
const LATE: Duration = Duration::from_micros(100);
/// A sync that takes longer may be over already, and its thread wait for a processor. On a slow disk it is not:
/// there the feeder goes on at half of its speed, which suffices for what such a disk takes in.
const LONG_SYNC: Duration = Duration::from_micros(300);
/// Enough for another thread to take the processor.
const MOMENT: Duration = Duration::from_micros(50);

/// Since when something has been so, in microseconds; 0 if it is not.
#[derive(Default)]
struct Since(AtomicU64);

/// The threads of a shard that answer its callers.
pub struct Front {
    begun: Instant,
    owner_woken: Since,
    group_handed: Since,
    syncing: Since,
}

impl Front {
    pub fn new() -> Front {
        let (owner_woken, group_handed, syncing) = Default::default();
        Front { begun: Instant::now(), owner_woken, group_handed, syncing }
    }

    pub fn wake_owner(&self) {
        self.begin(&self.owner_woken);
    }

    pub fn owner_runs(&self) {
        self.end(&self.owner_woken);
    }

    pub fn hand_group(&self) {
        self.begin(&self.group_handed);
    }

    pub fn group_taken(&self) {
        self.end(&self.group_handed);
    }

    pub fn begin_sync(&self) {
        self.begin(&self.syncing);
    }

    pub fn end_sync(&self) {
        self.end(&self.syncing);
    }

    /// Sleeps for a moment if one of them has waited for long.
    pub fn give_way(&self) {
        if self.is_waiting() {
            std::thread::sleep(MOMENT);
        }
    }

    fn is_waiting(&self) -> bool {
        let now = self.now();
        let waits = |since: &Since, long: Duration| {
            let at = since.0.load(Ordering::Relaxed);
            at > 0 && u128::from(now.saturating_sub(at)) > long.as_micros()
        };
        waits(&self.owner_woken, LATE) || waits(&self.group_handed, LATE) || waits(&self.syncing, LONG_SYNC)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX).max(1)
    }

    /// The first of several counts.
    fn begin(&self, since: &Since) {
        if since.0.load(Ordering::Relaxed) == 0 {
            since.0.store(self.now(), Ordering::Relaxed);
        }
    }

    fn end(&self, since: &Since) {
        since.0.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether someone waits when a little more than this time has passed.
    fn waits_after(front: &Front, time: Duration) -> bool {
        let (begun, time) = (Instant::now(), time + Duration::from_micros(2));
        while begun.elapsed() <= time {
            std::hint::spin_loop();
        }
        front.is_waiting()
    }

    #[test]
    fn whoever_was_woken_and_does_not_run_is_let_past() {
        let front = Front::new();
        assert!(!waits_after(&front, LATE));
        type Step = fn(&Front);
        let steps: [(Step, Step, Duration); 3] = [
            (Front::wake_owner, Front::owner_runs, LATE),
            (Front::hand_group, Front::group_taken, LATE),
            (Front::begin_sync, Front::end_sync, LONG_SYNC),
        ];
        for (begin, end, long) in steps {
            begin(&front);
            assert!(waits_after(&front, long));
            begin(&front);
            assert!(front.is_waiting(), "the second of two does not begin anew");
            end(&front);
            assert!(!front.is_waiting());
        }
    }
}
