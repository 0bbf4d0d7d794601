//! Policies and lanes at work: what a transition means for limits and turns, and the operator's verbs.

use super::flow::{Accepted, PLAIN, QueueFlow, Usage, WHOLE};
use super::produce::TaskLookup;
use super::sweeping::SWEPT_AT_ONCE;
use super::turn::{Reply, Turn};
use super::{Queue, Shard};
use crate::local::format::entry::Entry;
use crate::local::format::policies::{self, UsageKey};
use crate::local::rows::change::Change;
use crate::local::shard::slots::{Slot, SlotId};
use codeq_queue::lane::LaneId;
use codeq_queue::policy::{Hold, LaneStats, Obstacle};
use codeq_queue::store::TaskRef;
use codeq_queue::{QueueKey, QueuePolicy, Refusal, State, StoredPolicy, Time, limits};
use std::sync::Arc;

/// Lanes that open in one turn, so that commands get their share when very many do at once.
const OPENED_PER_TURN: usize = 4096;

/// In which order an ordered lane serves the task: as it was accepted, or accepted again.
fn accepted(slot: &Slot) -> Accepted {
    match slot.options().and_then(|options| options.accepted) {
        Some((number, seq)) => (number, seq, slot.no),
        None => (slot.no, u64::MAX, slot.no),
    }
}

impl Shard {
    /// The lane of a new task of the queue.
    pub(super) fn lane_of(&mut self, queue: u32, name: Option<&str>) -> LaneId {
        match name {
            None => PLAIN,
            Some(name) => self.flow_of(queue).intern(name),
        }
    }

    /// What restricts a queue. Its tasks without a lane, which may have waited before there was any, take part from now on.
    fn flow_of(&mut self, queue: u32) -> &mut QueueFlow {
        if self.queues.at(queue).flow.is_none() {
            self.touched.push((queue, PLAIN));
        }
        self.queues.flow_mut(queue)
    }

    /// Puts a ready task at the end of the list of its lane and priority.
    pub(super) fn link(&mut self, slot_id: SlotId) {
        let slot = self.slots.at(slot_id);
        let (queue, lane, priority) = (slot.queue, slot.lane, slot.priority);
        let mut list = self.queues.list(queue, lane, priority);
        self.slots.push_back(&mut list, slot_id);
        self.queues.set_list(queue, lane, priority, list);
    }

    pub(super) fn unlink(&mut self, slot_id: SlotId) {
        let slot = self.slots.at(slot_id);
        let (queue, lane, priority) = (slot.queue, slot.lane, slot.priority);
        let mut list = self.queues.list(queue, lane, priority);
        self.slots.unlink(&mut list, slot_id);
        self.queues.set_list(queue, lane, priority, list);
    }

    /// A live task came into the index of its state, or leaves it.
    pub(super) fn touch(&mut self, slot_id: SlotId, is_coming: bool) {
        let slot = self.slots.at(slot_id);
        let Some(flow) = self.queues.at_mut(slot.queue).flow.as_deref_mut() else { return };
        if slot.lane != PLAIN {
            let (order, is_running) = (accepted(slot), slot.state.lease().is_some());
            match is_coming {
                true => flow.join(slot.lane, order, slot_id, is_running),
                false => flow.part(slot.lane, order, is_running),
            }
        }
        self.touched.push((slot.queue, slot.lane));
    }

    /// Brings the order of lanes up to date with what was touched.
    pub fn arrange_touched(&mut self) {
        while let Some((queue, lane)) = self.touched.pop() {
            self.arrange(queue, lane, self.counters.last);
            self.fed.push(queue);
        }
    }

    /// What the policy of a task's queue says.
    pub(super) fn policy_of(&self, slot: &Slot) -> Option<&QueuePolicy> {
        Some(&*self.queues.at(slot.queue).policy()?.policy)
    }

    pub(super) fn arrange(&mut self, id: u32, lane: LaneId, now: Time) {
        let queue = self.queues.at_mut(id);
        let head = queue.plain_head();
        let ready: u64 = queue.plain_ready();
        let Some(flow) = queue.flow.as_deref_mut() else { return };
        match lane {
            PLAIN => {
                let seq = head.and_then(|head| match self.slots.at(head).state {
                    State::Ready { seq } => Some(seq),
                    _ => None,
                });
                flow.arrange_plain(seq, ready, now);
            }
            WHOLE => {}
            lane => flow.arrange(lane, &self.slots, now),
        }
        self.plan_opening(id, now);
        self.queues.head_changed(id, &self.slots, now);
    }

    /// Plans when the queue is looked at again because only time holds something back.
    fn plan_opening(&mut self, id: u32, now: Time) {
        let queue = self.queues.at_mut(id);
        let has_ready = queue.ready > 0;
        let Some(flow) = queue.flow.as_deref_mut() else { return };
        let opens_at = flow.opens_at();
        let is_over = flow.usage.is_stored && flow.rate().is_none();
        let own = ((has_ready && opens_at > now) || is_over).then_some(opens_at);
        let wakes_at = own.into_iter().chain(flow.next_opening()).min();
        let before = std::mem::replace(&mut flow.wakes_at, wakes_at);
        if flow.is_idle() {
            self.queues.drop_flow(id);
        }
        if before != wakes_at {
            self.openings.extend(wakes_at.map(|at| (at, id)));
            if let Some(at) = before {
                self.openings.remove(&(at, id));
            }
        }
    }

    /// A task starts: its queue and its lane use up their rates, and its lane had its turn.
    pub(super) fn use_up(&mut self, slot_id: SlotId, at: Time) {
        let slot = self.slots.at(slot_id);
        let (id, lane) = (slot.queue, slot.lane);
        let Some(flow) = self.queues.at_mut(id).flow.as_deref_mut() else { return };
        flow.start(lane, at);
        let has_rate = (flow.rate().is_some(), lane != PLAIN && flow.lane_limits(lane).rate.is_some());
        if has_rate.0 {
            self.keep_usage(id, WHOLE);
        }
        if has_rate.1 {
            self.keep_usage(id, lane);
        }
    }

    /// Has the tables know how far a queue or a lane has used up its limits.
    fn keep_usage(&mut self, id: u32, lane: LaneId) {
        let queue = self.queues.at_mut(id);
        let Some(flow) = queue.flow.as_deref_mut() else { return };
        let name = flow.usage_name(lane);
        let usage = flow.usage_mut(lane);
        usage.is_stored = true;
        let value = Some(policies::write_usage(usage));
        let key = UsageKey { queue: queue.key.clone(), lane: name }.write();
        self.changes.push(Change::Record { key, value });
    }

    /// How far limits are used up, as the entry or row says.
    pub(super) fn apply_usage(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), &'static str> {
        let key = UsageKey::read(key).ok_or("limits of no queue")?;
        let value = value.map(policies::read_usage).transpose();
        let value = value.map_err(|_| "limits that cannot be read")?;
        let id = self.queues.intern(&key.queue.tenant, &key.queue.command);
        let flow = self.flow_of(id);
        let lane = match key.lane.as_deref() {
            None => WHOLE,
            Some("") => PLAIN,
            Some(lane) => flow.intern(lane),
        };
        flow.set_usage(lane, value.map_or_else(Usage::default, |usage| Usage { is_stored: true, ..usage }));
        self.touched.push((id, lane));
        Ok(())
    }

    /// A policy as the entry or row says.
    pub(super) fn apply_policy(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), &'static str> {
        let queue = policies::read_policy_key(key).ok_or("a policy of no queue")?;
        let value = value.map(policies::read_policy).transpose();
        let value = value.map_err(|_| "a policy that cannot be read")?;
        let id = self.queues.intern(&queue.tenant, &queue.command);
        let flow = self.flow_of(id);
        let bytes = |policy: &Option<StoredPolicy>| policy.as_ref().map(|stored| stored.text.len());
        let (had, has) = (bytes(&flow.policy), bytes(&value));
        flow.set_policy(value);
        let some = flow.sweep(SWEPT_AT_ONCE);
        if flow.is_sweeping() {
            self.sweeps.insert(id);
        }
        self.touched.extend(some.chain([PLAIN]).map(|lane| (id, lane)));
        self.queues.count_policy(&queue.tenant, had, has);
        Ok(())
    }

    /// Nothing is held back by nacks any more.
    pub(super) fn clear_holds(&mut self, id: u32) {
        let queue = self.queues.at_mut(id);
        let Some(flow) = queue.flow.as_deref_mut() else { return };
        for lane in flow.clear_holds() {
            self.keep_usage(id, lane);
            self.touched.push((id, lane));
        }
    }

    /// Whether a nack holds something of the queue back.
    pub(super) fn is_held(&self, queue: &QueueKey) -> bool {
        let known = self.queues.find(&queue.tenant, &queue.command);
        let flow = known.and_then(|id| self.queues.at(id).flow.as_deref());
        flow.is_some_and(QueueFlow::has_holds)
    }

    /// A number for a task that is accepted again, behind all that were accepted before.
    pub(super) fn accepted_now(&self) -> (u64, u64) {
        (self.counters.next_no, self.counters.next_seq)
    }

    /// When the next limit lets something start.
    pub fn next_opening(&self) -> Option<Time> {
        self.openings.first().map(|(at, _)| *at)
    }

    fn obstacles(&self, slot_id: SlotId, now: Time) -> Vec<Obstacle> {
        let slot = self.slots.at(slot_id);
        let queue = self.queues.at(slot.queue);
        let Some(flow) = queue.flow.as_deref().filter(|_| slot.state.lease().is_none()) else {
            return Vec::new();
        };
        let is_ready = matches!(slot.state, State::Ready { .. });
        let own = flow.obstacle(queue.running, now).filter(|_| is_ready);
        let of_lane = flow.lane_obstacle(slot.lane, now).filter(|_| is_ready);
        let oldest = flow.oldest(slot.lane).filter(|oldest| *oldest != slot_id);
        let in_order = oldest.map(|oldest| {
            let oldest = self.slots.at(oldest);
            Obstacle::LaneInOrder { task: self.ids.encode(oldest.no, oldest.tail) }
        });
        [own, of_lane, in_order].into_iter().flatten().collect()
    }

    fn busiest(&self, queue: &Queue, limit: usize, now: Time) -> Vec<LaneStats> {
        let none = QueueFlow::default();
        let flow = queue.flow.as_deref().unwrap_or(&none);
        // Told of are few: of the others only the numbers are looked at.
        let some = flow.some_lanes(limits::LANES_EXAMINED).map(|(lane, of)| (of.busy(), lane));
        let mut some: Vec<(u64, LaneId)> = some.collect();
        if some.len() > limit.max(1) {
            some.select_nth_unstable_by_key(limit.max(1) - 1, |(busy, _)| std::cmp::Reverse(*busy));
            some.truncate(limit.max(1));
        }
        let mut lanes: Vec<LaneStats> = some.iter().map(|(_, lane)| flow.lane_stats(*lane, now)).collect();
        let plain = LaneStats {
            lane: Box::default(),
            ready: queue.plain_ready(),
            running: queue.running - flow.laned_running().min(queue.running),
            weight: flow.plain_weight(),
            blocked_by: flow.lane_obstacle(PLAIN, now),
        };
        if plain.ready + plain.running > 0 {
            lanes.push(plain);
        }
        lanes.sort_by(|a, b| {
            (b.ready + b.running).cmp(&(a.ready + a.running)).then_with(|| a.lane.cmp(&b.lane))
        });
        lanes.truncate(limit);
        lanes
    }
}

impl Turn<'_> {
    /// Lets lanes and queues go on for which only the time had to come.
    pub fn open_limits(&mut self) {
        for _ in 0..OPENED_PER_TURN {
            let Some((at, id)) = self.shard.openings.first().copied() else { return };
            if at > self.now || self.is_full() {
                return;
            }
            self.open_next(at, id);
        }
    }

    fn open_next(&mut self, at: Time, id: u32) {
        let queue = self.shard.queues.at(id);
        let Some(flow) = queue.flow.as_deref() else {
            self.shard.openings.remove(&(at, id));
            return;
        };
        let key = queue.key.clone();
        match flow.opened(self.now) {
            Some((lane, true)) => {
                let lane = flow.usage_name(lane);
                self.log(Entry::Record { key: UsageKey { queue: key, lane }.write(), value: None });
            }
            Some((lane, false)) => self.shard.arrange(id, lane, self.now),
            None if flow.usage.is_stored && flow.rate().is_none() => {
                self.log(Entry::Record { key: UsageKey { queue: key, lane: None }.write(), value: None });
            }
            None => {
                self.shard.plan_opening(id, self.now);
                self.shard.queues.head_changed(id, &self.shard.slots, self.now);
            }
        }
        self.shard.fed.push(id);
    }

    /// Holds back the lane or the queue of a task that was given back.
    pub fn hold_back(&mut self, slot_id: SlotId, hold: Hold, until: Time) {
        let slot = self.shard.slots.at(slot_id);
        let queue = self.shard.queues.at(slot.queue);
        let flow = queue.flow.as_deref();
        let key = queue.key.clone();
        let lane = match hold {
            Hold::Queue => WHOLE,
            Hold::Lane => slot.lane,
        };
        let usage = flow.map(|flow| flow.usage_of(lane)).unwrap_or_default();
        let lane = match (flow, lane) {
            (Some(flow), lane) => flow.usage_name(lane),
            (None, WHOLE) => None,
            (None, _) => Some(Box::default()),
        };
        let usage = Usage { hold: usage.hold.max(until), ..usage };
        let value = Some(policies::write_usage(&usage));
        self.log(Entry::Record { key: UsageKey { queue: key, lane }.write(), value });
    }

    pub fn put_policy(
        &mut self,
        queue: &QueueKey,
        text: &Arc<str>,
        reply: Reply<Result<StoredPolicy, Refusal>>,
    ) {
        let Some(reply) = self.may_write(reply) else { return };
        let answer = self.try_put_policy(queue, text);
        self.answer(reply, answer);
    }

    fn try_put_policy(&mut self, queue: &QueueKey, text: &Arc<str>) -> Result<StoredPolicy, Refusal> {
        let known = self.shard.queues.find(&queue.tenant, &queue.command);
        let known = known.map(|id| self.shard.queues.at(id));
        let current = known.and_then(Queue::policy);
        let put = StoredPolicy::put(current, text, self.now)?;
        if current == Some(&put) {
            return Ok(put);
        }
        let before = current.map(|stored| &*stored.policy);
        QueuePolicy::check_change(before, &put.policy, known.map_or(0, Queue::live))?;
        let all = self.shard.queues.policies(&queue.tenant);
        if current.is_none() && all.count >= limits::POLICIES {
            return Err(Refusal::TooManyPolicies(limits::POLICIES));
        }
        let others = all.bytes - current.map_or(0, |stored| stored.text.len());
        if others + put.text.len() > limits::POLICIES_BYTES {
            return Err(Refusal::PoliciesTooLarge(limits::POLICIES_BYTES));
        }
        let value = Some(policies::write_policy(&put));
        self.log(Entry::Record { key: policies::policy_key(queue), value });
        Ok(put)
    }

    pub fn delete_policy(&mut self, queue: &QueueKey, reply: Reply<Result<bool, Refusal>>) {
        let Some(reply) = self.may_write(reply) else { return };
        let known = self.shard.queues.find(&queue.tenant, &queue.command);
        let known = known.map(|id| self.shard.queues.at(id));
        let answer = match known.and_then(|known| Some((known.policy()?, known.live()))) {
            None => Ok(false),
            Some((stored, live)) => {
                let none = QueuePolicy::default();
                QueuePolicy::check_change(Some(&stored.policy), &none, live).map(|()| true)
            }
        };
        if answer == Ok(true) {
            self.log(Entry::Record { key: policies::policy_key(queue), value: None });
        }
        self.answer(reply, answer);
    }

    pub fn policy(&mut self, queue: &QueueKey, reply: Reply<Option<StoredPolicy>>) {
        let known = self.shard.queues.find(&queue.tenant, &queue.command);
        let stored = known.and_then(|id| self.shard.queues.at(id).policy().cloned());
        self.answer(reply, stored);
    }

    pub fn policies(&mut self, reply: Reply<Vec<(QueueKey, StoredPolicy)>>) {
        let all = self.shard.queues.iter();
        let stored = all.filter_map(|queue| Some((queue.key.clone(), queue.policy()?.clone()))).collect();
        self.answer(reply, stored);
    }

    pub fn lanes(&mut self, queue: &QueueKey, limit: usize, reply: Reply<Vec<LaneStats>>) {
        let known = self.shard.queues.find(&queue.tenant, &queue.command);
        let found = known.map(|id| self.shard.busiest(self.shard.queues.at(id), limit, self.now));
        self.answer(reply, found.unwrap_or_default());
    }

    pub fn obstacles(&mut self, task: &TaskRef, reply: Reply<Option<Vec<Obstacle>>>) {
        let found = match self.locate(&task.tenant, &task.id) {
            TaskLookup::Live(slot_id) => Some(self.shard.obstacles(slot_id, self.now)),
            _ => None,
        };
        self.answer(reply, found);
    }
}
