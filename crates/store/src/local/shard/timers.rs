//! What happens by itself: delays that are over, leases that ran out, waits that end.

use super::turn::Turn;
use crate::local::entry::Entry;
#[cfg(all(debug_assertions, feature = "testing"))]
use crate::testing::planted;
use codeq_queue::Time;
use codeq_queue::retry::Ending;

/// Transitions of one kind per turn, so that commands get their share when very much is due at once.
const PER_TURN: usize = 4096;
/// Bytes that timers may add to one group.
const BYTES_PER_TURN: usize = 128 << 10;

impl Turn<'_> {
    pub fn run_timers(&mut self) {
        if self.unwritable.is_none() {
            self.promote_due();
            self.expire_leases();
        }
        self.end_waits();
        self.settle();
    }

    /// In order of `visible_at`, then of creation.
    fn promote_due(&mut self) {
        for _ in 0..PER_TURN {
            if self.group.buffer.len() > BYTES_PER_TURN {
                return;
            }
            match self.shard.delayed.first() {
                Some((until, no)) if *until <= self.due() => {
                    let (no, seq) = (*no, self.next_seq());
                    self.log(Entry::Promoted { no, at: self.now, seq });
                }
                _ => return,
            }
        }
    }

    /// The last instant that has come.
    fn due(&self) -> Time {
        #[cfg(all(debug_assertions, feature = "testing"))]
        if planted::is_planted(planted::Bug::TimerOffByOne) {
            return Time::from_millis(self.now.millis() + 1);
        }
        self.now
    }

    fn expire_leases(&mut self) {
        for _ in 0..PER_TURN {
            if self.group.buffer.len() > BYTES_PER_TURN {
                return;
            }
            match self.shard.leases.first() {
                Some((until, no)) if *until <= self.due() => {
                    let slot_id = self.shard.slots.find(*no).expect("a leased task is live");
                    self.give_up(slot_id, Ending::LeaseExpired, None);
                }
                _ => return,
            }
        }
    }
}
