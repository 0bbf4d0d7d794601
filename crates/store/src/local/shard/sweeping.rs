//! Lanes that take over another policy of their queue: some in each turn, and each before anything of it starts.

use super::Shard;
use super::flow::QueueFlow;
use crate::local::shard::slots::SlotId;
use codeq_queue::Time;

/// Lanes that do so in one turn.
pub const SWEPT_AT_ONCE: usize = 1024;

impl Shard {
    /// Whether there are lanes that have not taken over the policy of their queue.
    pub fn has_sweeps(&self) -> bool {
        !self.sweeps.is_empty()
    }

    /// Has some more lanes of a queue take its policy over.
    pub(super) fn sweep_lanes(&mut self, now: Time) {
        let Some(id) = self.sweeps.first().copied() else { return };
        let flow = self.queues.at_mut(id).flow.as_deref_mut();
        let lanes = flow.map_or(0..0, |flow| flow.sweep(SWEPT_AT_ONCE));
        for lane in lanes {
            self.arrange(id, lane, now);
        }
        if !self.queues.at(id).flow.as_deref().is_some_and(QueueFlow::is_sweeping) {
            self.sweeps.remove(&id);
        }
        self.fed.push(id);
    }

    /// The task that a claim on the queue gets next. A lane that comes next takes over the policy first; of a queue with very
    /// many that did not, and that may not start anything now, the next one may not be found yet.
    pub(super) fn fresh_head(&mut self, id: u32, now: Time) -> Option<SlotId> {
        for _ in 0..SWEPT_AT_ONCE {
            let slot_id = self.queues.at(id).head(&self.slots, now)?;
            if !self.is_stale(slot_id) {
                return Some(slot_id);
            }
            self.arrange(id, self.slots.at(slot_id).lane, now);
        }
        None
    }

    /// The best head of the tenant's queues, of the same kind.
    pub(super) fn fresh_best_head(&mut self, tenant: &str, now: Time) -> Option<SlotId> {
        for _ in 0..SWEPT_AT_ONCE {
            let slot_id = self.queues.best_head(tenant, &self.slots, now)?;
            if !self.is_stale(slot_id) {
                return Some(slot_id);
            }
            let slot = self.slots.at(slot_id);
            self.arrange(slot.queue, slot.lane, now);
        }
        None
    }

    /// Whether the lane of the task has not taken over the policy of its queue.
    fn is_stale(&self, slot_id: SlotId) -> bool {
        let slot = self.slots.at(slot_id);
        self.queues.at(slot.queue).flow.as_deref().is_some_and(|flow| flow.is_stale(slot.lane))
    }
}
