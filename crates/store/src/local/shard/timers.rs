//! What happens by itself: delays that are over, leases that ran out, waits that end.

use super::turn::Turn;
use super::unique;
use crate::local::engine::inbox::Lane;
use crate::local::format::entry::Entry;
#[cfg(all(debug_assertions, feature = "testing"))]
use crate::testing::planted;
use codeq_queue::retry::Ending;
use codeq_queue::task::EXPIRED;
use codeq_queue::{FailureReason, State, Time};
use std::sync::Arc;

/// Transitions of one kind per turn, so that commands get their share when very much is due at once.
const TIMERS_PER_TURN_MAX: usize = 4096;

impl Turn<'_> {
    pub fn run_timers(&mut self) {
        if self.unwritable.is_none() && !self.shard.is_crowded(Lane::Report) {
            self.promote_due();
            self.tick_due();
            self.expire_leases();
            self.expire_tasks();
            self.free_unique();
            self.open_limits();
            self.run_held();
            self.run_batches();
        }
        // It writes nothing.
        self.shard.sweep_lanes(self.now);
        self.end_waits();
        self.settle();
    }

    /// In order of `visible_at`, then of creation.
    fn promote_due(&mut self) {
        for _ in 0..TIMERS_PER_TURN_MAX {
            if self.is_full() {
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
        for _ in 0..TIMERS_PER_TURN_MAX {
            if self.is_full() {
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

    /// Fails what nobody has claimed in time.
    pub fn expire_tasks(&mut self) {
        for _ in 0..TIMERS_PER_TURN_MAX {
            if self.is_full() {
                return;
            }
            match self.shard.expiries.first() {
                Some((at, no)) if *at <= self.due() => {
                    let due = (*at, *no);
                    let slot_id = self.shard.slots.find(due.1).expect("a task that may expire is live");
                    if self.shard.slots.at(slot_id).expires_at().is_none() {
                        self.shard.expiries.remove(&due);
                        continue;
                    }
                    self.part(slot_id, None);
                    let error: Arc<str> = EXPIRED.into();
                    let record = self.failure(&error, FailureReason::Expired);
                    self.end(slot_id, State::Failed, None, Some(error), record);
                }
                _ => return,
            }
        }
    }

    /// Frees unique keys whose time is over.
    fn free_unique(&mut self) {
        for _ in 0..TIMERS_PER_TURN_MAX {
            if self.is_full() {
                return;
            }
            let Some(key) = self.shard.unique.over(self.now) else { return };
            let key = unique::row_key(key);
            self.log(Entry::Record { key, value: None });
        }
    }
}
