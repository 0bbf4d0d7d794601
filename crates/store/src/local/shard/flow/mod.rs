//! What restricts a queue: its policy, its lanes, and how far their limits are used up.
//!
//! A queue without policy in which no task has a lane has none of this and is served as if it did not exist. Passes and
//! turns follow from what happened since the store was opened; limits follow from what is stored.

mod lane;
mod sweep;

pub use lane::Usage;

use lane::TaskLane;

use crate::local::shard::slots::{List, SlotId, Slots};
#[cfg(all(debug_assertions, feature = "testing"))]
use crate::testing::planted;
use codeq_queue::lane::{LaneId, LaneOrder, LanePass, Offer};
use codeq_queue::policy::{LaneLimits, LaneStats, Obstacle};
use codeq_queue::rate::Rate;
use codeq_queue::{QueuePolicy, State, StoredPolicy, Time};
use hashbrown::HashTable;
use std::collections::BTreeSet;
use xxhash_rust::xxh3::xxh3_64;

/// The lane of tasks without one.
pub const PLAIN: LaneId = LaneId::MAX;
/// Not a lane: the queue itself, where limits are told apart.
pub const WHOLE: LaneId = LaneId::MAX - 1;

/// In which order the tasks of an ordered lane were accepted.
pub type Accepted = (u64, u64, u64);

#[derive(Default)]
pub struct QueueFlow {
    pub policy: Option<StoredPolicy>,
    pub usage: Usage,
    order: LaneOrder,
    plain: LanePass,
    plain_usage: Usage,
    plain_limited: u64,
    lanes: Vec<TaskLane>,
    free: Vec<LaneId>,
    index: HashTable<LaneId>,
    /// Ready tasks in lanes, by priority.
    pub ready: [u64; 10],
    /// Ready tasks of lanes that are held back.
    limited: u64,
    /// Running tasks of lanes.
    running: u64,
    /// What nacks hold back.
    held: BTreeSet<LaneId>,
    /// Changes with the policy. Lanes take it over one by one.
    edition: u32,
    /// The lane that does so next, whether or not anything happens to it.
    next_swept: Option<LaneId>,
    /// When the shard looks at it again.
    pub wakes_at: Option<Time>,
}

fn hash(name: &str) -> u64 {
    xxh3_64(name.as_bytes())
}

impl QueueFlow {
    fn rule(&self) -> Option<&QueuePolicy> {
        self.policy.as_ref().map(|stored| &*stored.policy)
    }

    pub fn rate(&self) -> Option<Rate> {
        self.rule()?.rate
    }

    pub fn concurrency(&self) -> Option<u32> {
        #[cfg(all(debug_assertions, feature = "testing"))]
        if planted::is_planted(planted::Bug::LimitOffByOne) {
            return self.rule()?.concurrency.map(|limit| limit + 1);
        }
        self.rule()?.concurrency
    }

    fn limits(&self, name: &str) -> LaneLimits {
        self.rule().map_or(LaneLimits::NONE, |policy| policy.lane(name))
    }

    pub fn lane_limits(&self, lane: LaneId) -> LaneLimits {
        match lane {
            PLAIN => self.limits(""),
            lane => self.limits(&self.lanes[lane as usize].name),
        }
    }

    pub fn is_ordered(&self) -> bool {
        self.rule().is_some_and(|policy| policy.lanes.is_ordered)
    }

    /// Nothing is left that restricts anything.
    pub fn is_idle(&self) -> bool {
        let is_stored = self.usage.is_stored || self.plain_usage.is_stored;
        self.policy.is_none() && self.index.is_empty() && !is_stored
    }

    /// What a lane, or the queue itself, has used up.
    pub fn usage_of(&self, lane: LaneId) -> Usage {
        match lane {
            WHOLE => self.usage,
            PLAIN => self.plain_usage,
            lane => self.lanes[lane as usize].usage,
        }
    }

    pub fn usage_mut(&mut self, lane: LaneId) -> &mut Usage {
        match lane {
            WHOLE => &mut self.usage,
            PLAIN => &mut self.plain_usage,
            lane => &mut self.lanes[lane as usize].usage,
        }
    }

    /// What a lane is called where its usage is kept; `None` is the queue itself.
    pub fn usage_name(&self, lane: LaneId) -> Option<Box<str>> {
        match lane {
            WHOLE => None,
            PLAIN => Some(Box::default()),
            lane => Some(self.lanes[lane as usize].name.clone()),
        }
    }

    pub fn lanes(&self) -> usize {
        self.index.len()
    }

    pub fn find(&self, name: &str) -> Option<LaneId> {
        self.index.find(hash(name), |lane| *self.lanes[*lane as usize].name == *name).copied()
    }

    /// The lane of that name, made if need be.
    pub fn intern(&mut self, name: &str) -> LaneId {
        if let Some(lane) = self.find(name) {
            return lane;
        }
        let pass = LanePass::of(self.limits(name).weight);
        let made = TaskLane {
            name: name.into(),
            lists: Vec::new(),
            ordered: self.is_ordered().then(Box::default),
            pass,
            usage: Usage::default(),
            ready: 0,
            running: 0,
            live: 0,
            limited: 0,
            edition: self.edition,
        };
        let lane = match self.free.pop() {
            Some(lane) => {
                self.lanes[lane as usize] = made;
                lane
            }
            None => {
                self.lanes.push(made);
                LaneId::try_from(self.lanes.len() - 1).expect("fewer than four billion lanes")
            }
        };
        let lanes = &self.lanes;
        self.index.insert_unique(hash(name), lane, |lane| hash(&lanes[*lane as usize].name));
        lane
    }

    fn forget(&mut self, lane: LaneId) {
        let gone = &mut self.lanes[lane as usize];
        self.order.take_out(lane, &mut gone.pass);
        let name = std::mem::take(&mut gone.name);
        (gone.lists, gone.ordered) = (Vec::new(), None);
        if let Ok(entry) = self.index.find_entry(hash(&name), |known| *known == lane) {
            entry.remove();
        }
        self.held.remove(&lane);
        self.free.push(lane);
    }

    /// A task of a lane became ready: the list that it joins.
    pub fn list(&self, lane: LaneId, priority: u8) -> List {
        self.lanes[lane as usize].list(priority)
    }

    pub fn set_list(&mut self, lane: LaneId, priority: u8, list: List) {
        let of = &mut self.lanes[lane as usize];
        let (before, after) = (of.list(priority).len, list.len);
        of.ready = of.ready + after - before;
        of.set_list(priority, list);
        let ready = &mut self.ready[usize::from(priority)];
        *ready = *ready + u64::from(after) - u64::from(before);
    }

    /// A live task is in the lane.
    pub fn join(&mut self, lane: LaneId, accepted: Accepted, slot_id: SlotId, is_running: bool) {
        let of = &mut self.lanes[lane as usize];
        of.live += 1;
        of.running += u32::from(is_running);
        self.running += u64::from(is_running);
        if let Some(live) = &mut of.ordered {
            live.insert(accepted, slot_id);
        }
    }

    pub fn part(&mut self, lane: LaneId, accepted: Accepted, is_running: bool) {
        let of = &mut self.lanes[lane as usize];
        of.live -= 1;
        of.running -= u32::from(is_running);
        self.running -= u64::from(is_running);
        if let Some(live) = &mut of.ordered {
            live.remove(&accepted);
        }
    }

    /// A task of the lane starts.
    pub fn start(&mut self, lane: LaneId, at: Time) {
        if let Some(rate) = self.rate() {
            self.usage.rate = rate.start(self.usage.rate, at);
        }
        let limits = self.lane_limits(lane);
        if lane == PLAIN {
            return self.order.serve(lane, &mut self.plain);
        }
        let of = &mut self.lanes[lane as usize];
        if let Some(rate) = limits.rate {
            of.usage.rate = rate.start(of.usage.rate, at);
        }
        self.order.serve(lane, &mut of.pass);
    }

    /// What the queue itself has against a start.
    pub fn obstacle(&self, running: u64, now: Time) -> Option<Obstacle> {
        if let Some(limit) = self.concurrency().filter(|limit| running >= u64::from(*limit)) {
            return Some(Obstacle::QueueAtConcurrency { limit, running });
        }
        self.usage.obstacle(self.rate(), now)
    }

    pub fn opens_at(&self) -> Time {
        self.usage.opens_at(self.rate())
    }

    /// What a lane has against a start of its tasks.
    pub fn lane_obstacle(&self, lane: LaneId, now: Time) -> Option<Obstacle> {
        let Some(of) = self.lanes.get(lane as usize) else { return self.plain_usage.obstacle(None, now) };
        let limits = self.limits(&of.name);
        if let Some(limit) = limits.concurrency.filter(|limit| of.running >= *limit) {
            let running = u64::from(of.running);
            return Some(Obstacle::LaneAtConcurrency { lane: of.name.clone(), limit, running });
        }
        of.usage.obstacle(limits.rate, now)
    }

    /// The next task by the order of lanes; `plain` is the head of the tasks without one.
    pub fn head(&self, plain: Option<SlotId>, slots: &Slots) -> Option<SlotId> {
        match self.order.first()? {
            PLAIN => plain,
            lane => self.lanes[lane as usize].head(slots),
        }
    }

    /// The lists of the lanes that come next.
    pub fn next_lists(&self, most: usize) -> impl Iterator<Item = List> + '_ {
        let lanes = self.order.iter().filter(|lane| *lane != PLAIN).take(most);
        lanes.filter_map(|lane| Some(self.lanes[lane as usize].lists.first()?.1))
    }

    /// Puts the tasks without a lane where they belong in the order.
    pub fn arrange_plain(&mut self, head: Option<u64>, ready: u64, now: Time) {
        let opens_at = self.plain_usage.hold;
        let is_over = self.plain_usage.is_stored && opens_at <= now;
        let offer = match head {
            _ if is_over || head.is_some() && opens_at > now => Offer::After(opens_at),
            Some(head) => Offer::Head(head),
            None => Offer::Nothing,
        };
        self.order.arrange(PLAIN, &mut self.plain, offer);
        self.plain_limited = if self.plain.is_claimable() { 0 } else { ready };
    }

    /// Puts a lane where it belongs in the order; forgets one that has nothing left.
    pub fn arrange(&mut self, lane: LaneId, slots: &Slots, now: Time) {
        let limits = self.lane_limits(lane);
        let of = &mut self.lanes[lane as usize];
        if of.name.is_empty() {
            return;
        }
        if of.edition != self.edition {
            self.refresh(lane, limits.weight);
        }
        let of = &mut self.lanes[lane as usize];
        let opens_at = of.usage.opens_at(limits.rate);
        let is_full = limits.concurrency.is_some_and(|limit| of.running >= limit);
        let offer = match of.head(slots) {
            // What is stored of an idle lane goes when it no longer restricts anything.
            None if of.live == 0 && of.usage.is_stored => Offer::After(of.usage.is_over_at(limits.rate)),
            None if of.live == 0 => {
                self.limited -= u64::from(of.limited);
                of.limited = 0;
                return self.forget(lane);
            }
            Some(_) if !is_full && opens_at > now => Offer::After(opens_at),
            Some(head) if !is_full => match slots.at(head).state {
                State::Ready { seq } => Offer::Head(seq),
                _ => Offer::Nothing,
            },
            _ => Offer::Nothing,
        };
        self.order.arrange(lane, &mut of.pass, offer);
        let limited = if of.pass.is_claimable() { 0 } else { of.ready };
        self.limited = self.limited - u64::from(of.limited) + u64::from(limited);
        of.limited = limited;
    }

    /// A lane whose time has come, and whether what is kept of its usage restricts nothing any more.
    pub fn opened(&self, now: Time) -> Option<(LaneId, bool)> {
        let lane = self.order.opened(now)?;
        let is_over = match self.lanes.get(lane as usize) {
            None => self.plain_usage.is_stored,
            Some(of) => of.live == 0,
        };
        Some((lane, is_over))
    }

    pub fn next_opening(&self) -> Option<Time> {
        self.order.next_opening()
    }

    /// Ready tasks that a limit holds back.
    pub fn limited(&self, ready: u64, running: u64, now: Time) -> u64 {
        match self.obstacle(running, now) {
            Some(_) => ready,
            None => self.limited + self.plain_limited,
        }
    }

    /// Lanes that are in use, up to a bound.
    pub fn some_lanes(&self, most: usize) -> impl Iterator<Item = (LaneId, &TaskLane)> {
        self.index.iter().take(most).map(|lane| (*lane, &self.lanes[*lane as usize]))
    }

    pub fn lane_stats(&self, lane: LaneId, now: Time) -> LaneStats {
        let of = &self.lanes[lane as usize];
        LaneStats {
            lane: of.name.clone(),
            ready: u64::from(of.ready),
            running: u64::from(of.running),
            weight: of.pass.weight,
            blocked_by: self.lane_obstacle(lane, now),
        }
    }

    /// Running tasks of lanes.
    pub fn laned_running(&self) -> u64 {
        self.running
    }

    pub fn plain_weight(&self) -> u8 {
        self.plain.weight
    }

    /// The oldest live task of an ordered lane.
    pub fn oldest(&self, lane: LaneId) -> Option<SlotId> {
        let of = self.lanes.get(lane as usize)?;
        of.ordered.as_ref()?.first_key_value().map(|(_, slot_id)| *slot_id)
    }

    /// Heads of the lists of lanes, up to a bound.
    pub fn heads(&self, most: usize) -> impl Iterator<Item = SlotId> + '_ {
        self.some_lanes(most).flat_map(|(_, lane)| lane.lists.iter().filter_map(|(_, list)| list.first()))
    }

    pub fn has_holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// What a lane, or the queue itself, has used up, as it is stored.
    pub fn set_usage(&mut self, lane: LaneId, usage: Usage) {
        *self.usage_mut(lane) = usage;
        match usage.hold > Time::ZERO {
            true => self.held.insert(lane),
            false => self.held.remove(&lane),
        };
    }

    /// Clears what nacks hold back; the lanes that were, and the queue itself.
    pub fn clear_holds(&mut self) -> BTreeSet<LaneId> {
        let held = std::mem::take(&mut self.held);
        for lane in &held {
            self.usage_mut(*lane).hold = Time::ZERO;
        }
        held
    }
}

#[cfg(test)]
mod tests;
