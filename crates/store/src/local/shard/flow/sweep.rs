//! How lanes take over another policy: not all at once, because there may be very many.

use super::{PLAIN, QueueFlow};
use codeq_queue::StoredPolicy;
use codeq_queue::lane::LaneId;
use std::ops::Range;

impl QueueFlow {
    /// Another policy counts from now on. What it means for a lane is found out when the lane is looked at, before anything
    /// of it starts; all of them are looked at in the end, see [`QueueFlow::sweep`].
    pub fn set_policy(&mut self, policy: Option<StoredPolicy>) {
        self.policy = policy;
        self.edition = self.edition.wrapping_add(1);
        self.next_swept = (!self.lanes.is_empty()).then_some(0);
        self.order.take_out(PLAIN, &mut self.plain);
        self.plain.weight = self.limits("").weight;
    }

    /// Whether a lane has not taken over the policy.
    pub fn is_stale(&self, lane: LaneId) -> bool {
        self.lanes.get(lane as usize).is_some_and(|of| of.edition != self.edition)
    }

    pub fn is_sweeping(&self) -> bool {
        self.next_swept.is_some()
    }

    /// The lanes that are to take the policy over next, up to so many.
    pub fn sweep(&mut self, most: usize) -> Range<LaneId> {
        let end = self.lanes.len() as LaneId;
        let from = self.next_swept.unwrap_or(end);
        let to = from.saturating_add(most as LaneId).min(end);
        self.next_swept = (to < end).then_some(to);
        from..to
    }

    /// Takes weight and order of the policy over.
    pub(super) fn refresh(&mut self, lane: LaneId, weight: u8) {
        let (is_ordered, edition) = (self.is_ordered(), self.edition);
        let of = &mut self.lanes[lane as usize];
        self.order.take_out(lane, &mut of.pass);
        (of.pass.weight, of.edition) = (weight, edition);
        // Only an empty queue changes its order.
        if of.live == 0 {
            of.ordered = is_ordered.then(Box::default);
        }
    }
}
