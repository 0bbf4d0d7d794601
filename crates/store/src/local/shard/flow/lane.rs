//! One lane of a queue: its tasks, and how far its limits are used up.

use super::{Accepted, QueueFlow};
use crate::local::shard::slots::{List, SlotId, Slots};
use codeq_queue::lane::LanePass;
use codeq_queue::policy::Obstacle;
use codeq_queue::rate::{Rate, RateState};
use codeq_queue::{State, Time};
use std::collections::BTreeMap;

/// How far a queue or a lane has used up its rate, and until when a nack holds it back.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Usage {
    pub rate: RateState,
    pub hold: Time,
    /// The tables know of it.
    pub is_stored: bool,
}

impl Usage {
    /// When it lets something start.
    pub(super) fn opens_at(&self, rate: Option<Rate>) -> Time {
        let allowed = rate.map_or(Time::ZERO, |rate| rate.opens_at(self.rate));
        allowed.max(self.hold)
    }

    /// When nothing of it restricts a start any more, so that it can be forgotten. Later than the next start where some
    /// may come at once: those that came are still counted.
    pub(super) fn is_over_at(&self, rate: Option<Rate>) -> Time {
        let used_up = rate.map_or(Time::ZERO, |_| self.rate.is_over_at());
        used_up.max(self.hold)
    }

    pub(super) fn obstacle(&self, rate: Option<Rate>, now: Time) -> Option<Obstacle> {
        let until = self.opens_at(rate);
        match until > now {
            false => None,
            true if until == self.hold => Some(Obstacle::HeldUntil { until }),
            true => Some(Obstacle::RateLimited { until }),
        }
    }
}

pub struct TaskLane {
    pub(super) name: Box<str>,
    /// Ready tasks by priority, highest first.
    pub(super) lists: Vec<(u8, List)>,
    /// Live tasks of an ordered lane.
    #[expect(clippy::box_collection, reason = "few lanes are ordered: a pointer in the others")]
    pub(super) ordered: Option<Box<BTreeMap<Accepted, SlotId>>>,
    pub(super) pass: LanePass,
    pub(super) usage: Usage,
    pub(super) ready: u32,
    pub(super) running: u32,
    pub(super) live: u32,
    /// Ready tasks that count as held back.
    pub(super) limited: u32,
    /// Of the policy that it follows.
    pub(super) edition: u32,
}

impl TaskLane {
    /// Tasks that wait or run.
    pub fn busy(&self) -> u64 {
        u64::from(self.ready) + u64::from(self.running)
    }

    pub(super) fn list(&self, priority: u8) -> List {
        let known = self.lists.iter().find(|(known, _)| *known == priority);
        known.map_or_else(List::default, |(_, list)| *list)
    }

    pub(super) fn set_list(&mut self, priority: u8, list: List) {
        let at = self.lists.iter().position(|(known, _)| *known <= priority).unwrap_or(self.lists.len());
        let is_known = self.lists.get(at).is_some_and(|(known, _)| *known == priority);
        match (is_known, list.len) {
            (true, 0) => drop(self.lists.remove(at)),
            (true, _) => self.lists[at].1 = list,
            (false, 0) => {}
            (false, _) => {
                self.lists.reserve_exact(1);
                self.lists.insert(at, (priority, list));
            }
        }
    }

    /// The task that comes next, whatever limits say.
    pub(super) fn head(&self, slots: &Slots) -> Option<SlotId> {
        match &self.ordered {
            None => self.lists.first()?.1.first(),
            Some(live) => {
                let oldest = *live.first_key_value()?.1;
                matches!(slots.at(oldest).state, State::Ready { .. }).then_some(oldest)
            }
        }
    }
}

impl QueueFlow {
    /// Every list of every lane, with its priority.
    pub fn lists(&self) -> impl Iterator<Item = (u8, List)> + '_ {
        self.lanes.iter().flat_map(|lane| lane.lists.iter().copied())
    }
}
