//! The operator's verbs, topics and subscriptions.

use super::produce::TaskLookup;
use super::turn::{Part, Reply, Turn};
use super::unique;
use super::{Recent, Shard};
use crate::local::engine::failures;
use crate::local::format::audit;
use crate::local::format::catalogue::{self, subscription_key, topic_key};
use crate::local::format::entry::Entry;
use crate::local::format::lost;
use crate::local::format::operations;
use crate::local::format::policies;
use crate::local::format::records::{self, Final};
use crate::local::rows::library::{PlaceBits, place_bit};
use crate::local::shard::slots::SlotId;
use codeq_queue::order::{ReadyCommands, ReadyQuestion};
use codeq_queue::store::{Cancel, Items, TaskRef};
use codeq_queue::subscription::{NewSubscription, Subscription, check_count, ttl};
use codeq_queue::task::cancelled_text;
use codeq_queue::topic::{self, Policy, Topic, TopicPut};
use codeq_queue::{
    AttemptOutcome, CancelRequest, Failure, FailureReason, QueueKey, QueueStats, Refusal, State, Task, Time,
};
use rand::Rng;
use std::sync::Arc;

/// Queues counted in one turn.
const QUEUES_PER_TURN: usize = 4096;
/// Lanes looked at to find the oldest ready task of a queue.
const LANES_OLDEST: usize = 10_000;

/// A task an operator names, with what the tables have of it.
pub struct NamedTask {
    pub task: TaskRef,
    pub last: Option<Arc<Final>>,
}

impl NamedTask {
    /// What the tables have of it, if it lies at one of these places.
    fn at(&self, places: PlaceBits) -> Result<Arc<Final>, Refusal> {
        let there = self.last.as_ref().filter(|last| place_bit(last.sketch.tail) & places != 0);
        there.cloned().ok_or(Refusal::NotFound)
    }
}

impl Turn<'_> {
    pub fn cancel(&mut self, cancels: Vec<Cancel>, reply: Reply<Part<Result<Task, Refusal>, Cancel>>) {
        let Some(reply) = self.may_write(reply) else { return };
        let now = self.aged;
        let (items, rest) = self.each(cancels, |turn, cancel| turn.cancel_one(cancel));
        let needs_tables = items.iter().any(|item| match item {
            Ok(sketch) => !sketch.detail.is_complete(),
            Err(located) => located.needs_tables(),
        });
        self.answer_from(reply, needs_tables, move |library| {
            let answers = items.into_iter().map(|item| match item {
                Ok(sketch) => Ok(Ok(library.task(sketch)?)),
                Err(located) => match located.last(library, now)? {
                    Some(last) if last.sketch.state == State::Cancelled => {
                        Ok(Ok(library.task(last.sketch.clone())?))
                    }
                    Some(_) => Ok(Err(Refusal::AlreadyTerminal)),
                    None => Ok(Err(Refusal::NotFound)),
                },
            });
            Ok(Part { done: answers.collect::<Result<_, Failure>>()?, rest })
        });
    }

    fn cancel_one(&mut self, cancel: Cancel) -> Result<records::PartialTask, TaskLookup> {
        let slot_id = match self.locate(&cancel.task.tenant, &cancel.task.id) {
            TaskLookup::Live(slot_id) => slot_id,
            located => return Err(located),
        };
        let slot = self.shard.slots.at(slot_id);
        if let Some(lease) = slot.state.lease().filter(|_| !cancel.grace.is_zero()) {
            let asked = CancelRequest { deadline: self.now.plus(cancel.grace), reason: cancel.reason };
            let asked = Arc::new(asked.after(lease.cancel.as_deref()));
            if lease.cancel.as_deref() != Some(&*asked) {
                self.log(Entry::CancelAsked { no: slot.no, at: self.now, cancel: asked });
            }
            return Ok(self.shard.slots.at(slot_id).sketch());
        }
        Ok(self.end_cancelled(slot_id, cancel.reason.as_deref()).sketch.clone())
    }

    /// Ends a live task as cancelled.
    pub fn end_cancelled(&mut self, slot_id: SlotId, reason: Option<&str>) -> Arc<Final> {
        let slot = self.shard.slots.at(slot_id);
        let (no, outcome) = (slot.no, slot.state.lease().map(|_| AttemptOutcome::Cancelled));
        self.part(slot_id, None);
        let error = cancelled_text(reason);
        let record = self.failure(&error, FailureReason::Cancelled);
        self.end(slot_id, State::Cancelled, outcome, Some(error), record);
        match self.shard.recent.get(&no) {
            Some(Recent::Final { ended, .. }) => ended.clone(),
            _ => unreachable!("a task that ended just now is recent"),
        }
    }

    /// The record of a named task as it is now: from memory if it has one, else what the tables had.
    fn current(&self, named: &NamedTask) -> Result<Arc<Final>, Refusal> {
        match self.locate(&named.task.tenant, &named.task.id) {
            TaskLookup::Live(_) => Err(Refusal::NotDead),
            TaskLookup::Nowhere => Err(Refusal::NotFound),
            TaskLookup::Recent { ended, .. } if ended.sketch.detail.is_complete() => Ok(ended),
            // The caller has completed it from the tables.
            TaskLookup::Recent { ended, .. } => named.at(place_bit(ended.sketch.tail)),
            TaskLookup::Tables { places, .. } => named.at(places),
        }
    }

    /// Whether what was read from the tables at `as_of` is all that is to be known of these tasks.
    fn is_all(&self, named: &[NamedTask], as_of: u64) -> bool {
        let is_known = |named: &NamedTask| match self.locate(&named.task.tenant, &named.task.id) {
            // What is over may never have reached the tables.
            TaskLookup::Recent { ended, .. } if !ended.is_visible(self.now) => true,
            // It ended after the tables were read, and memory has only a part of it.
            TaskLookup::Recent { ended, .. } if !ended.sketch.detail.is_complete() => {
                let read = named.last.as_ref().map(|last| last.sketch.updated_at);
                read == Some(ended.sketch.updated_at)
            }
            _ => true,
        };
        self.is_current(as_of) && named.iter().all(is_known)
    }

    /// Gives tasks that have failed another life: the first ones, as many as fit a turn. `None` if the tables must be read
    /// again.
    pub fn requeue(
        &mut self,
        named: Vec<NamedTask>,
        as_of: u64,
        max_attempts: Option<u32>,
        reply: Reply<Option<Items<Task>>>,
    ) {
        let Some(reply) = self.may_write(reply) else { return };
        if !self.is_all(&named, as_of) {
            return self.answer(reply, None);
        }
        let (items, _) = self.each(named, |turn, named| turn.requeue_one(&named, max_attempts));
        self.answer_from(reply, false, move |library| {
            let tasks = items.into_iter().map(|item| match item {
                Ok(sketch) => library.task(sketch).map(Ok),
                Err(refusal) => Ok(Err(refusal)),
            });
            tasks.collect::<Result<_, _>>().map(Some)
        });
    }

    fn requeue_one(
        &mut self,
        named: &NamedTask,
        max_attempts: Option<u32>,
    ) -> Result<records::PartialTask, Refusal> {
        let letter = self.current(named)?;
        if !letter.is_visible(self.aged) {
            return Err(Refusal::NotFound);
        }
        if !letter.sketch.state.has_failed() {
            return Err(Refusal::NotDead);
        }
        if self.shard.is_unique_taken(&letter.sketch, self.now) {
            return Err(Refusal::UniqueConflict);
        }
        if letter.sketch.detail.body.as_deref().is_some_and(lost::is_lost) {
            // There is nothing that a worker could be given.
            return Err(Refusal::InvalidBody);
        }
        let no = letter.sketch.no;
        let entry = Entry::Reopened {
            no,
            at: self.now,
            seq: self.next_seq(),
            refunds: letter.sketch.attempts,
            max_attempts: max_attempts.unwrap_or(letter.sketch.max_attempts),
            letter: Some(letter),
        };
        self.try_log(entry)?;
        let slot_id = self.shard.slots.find(no).expect("a reopened task is live");
        Ok(self.shard.slots.at(slot_id).sketch())
    }

    /// Removes dead letters: the first ones, as many as fit a turn. `None` if the tables must be read again.
    pub fn remove(&mut self, named: Vec<NamedTask>, as_of: u64, reply: Reply<Option<Items<()>>>) {
        let Some(reply) = self.may_write(reply) else { return };
        if !self.is_all(&named, as_of) {
            return self.answer(reply, None);
        }
        let (items, _) = self.each(named, |turn, named| {
            let letter = turn.current(&named)?;
            if letter.sketch.state != State::Dead {
                return Err(Refusal::NotDead);
            }
            turn.remove_final(&letter);
            Ok(())
        });
        self.answer(reply, Some(items));
    }

    fn remove_final(&mut self, last: &Final) {
        let body = last.sketch.detail.body.as_ref();
        let is_dead = last.sketch.state == State::Dead;
        let dead_in = body.filter(|_| is_dead).map(|body| QueueKey::new(&body.tenant, &body.command));
        let (no, expires, key) = (last.sketch.no, last.expires, last.key.clone());
        let counted = failures::bucket(last).zip(body);
        if let Some(key) = self.shard.unique_kept(&last.sketch) {
            // It would name a task that is not there.
            self.log(Entry::Record { key: unique::row_key(&key), value: None });
        }
        self.log(Entry::Removed { no, at: self.now, expires, dead_in, key });
        if let Some((bucket, body)) = counted {
            let queue = QueueKey::new(&body.tenant, &body.command);
            let value = self.shard.failures.row_without(&queue, bucket);
            self.log(Entry::Record { key: failures::key(&queue), value });
        }
    }

    /// Whether what was read from the tables at `as_of` still counts, beside what memory has.
    pub fn is_current(&self, as_of: u64) -> bool {
        self.shard.is_current(as_of)
    }

    /// Removes records read from the tables that still stand; tells which of the first ones did. The others
    /// are to be asked for again, all of them if the tables must be read again.
    pub fn remove_all(&mut self, lasts: Vec<Arc<Final>>, as_of: u64, reply: Reply<Part<bool, Arc<Final>>>) {
        let Some(reply) = self.may_write(reply) else { return };
        if !self.is_current(as_of) {
            return self.answer(reply, Part { done: Vec::new(), rest: lasts });
        }
        let (done, rest) = self.each(lasts, |turn, last| {
            let is_still = turn.is_still(&last);
            if is_still {
                turn.remove_final(&last);
            }
            is_still
        });
        self.answer(reply, Part { done, rest });
    }

    pub fn pause(&mut self, queue: &QueueKey, is_paused: bool, reply: Reply<QueueStats>) {
        let Some(reply) = self.may_write(reply) else { return };
        let is_already = self
            .shard
            .queues
            .find(&queue.tenant, &queue.command)
            .map(|id| self.shard.queues.at(id).is_paused);
        // A resume clears what nacks hold back, too.
        let is_held = !is_paused && self.shard.is_held(queue);
        if is_already.unwrap_or(false) != is_paused || is_held {
            self.log(Entry::Paused { queue: queue.clone(), is_paused });
        }
        let stats = self.shard.stats_of(queue, self.now);
        self.answer(reply, stats);
    }

    pub fn queue(&mut self, queue: &QueueKey, reply: Reply<QueueStats>) {
        let stats = self.shard.stats_of(queue, self.now);
        self.answer(reply, stats);
    }

    /// Not before everything that was due by now has happened, unless it was too much for one turn.
    pub fn next_due(&mut self, reply: Reply<Option<Time>>) {
        let due = self.shard.next_due();
        self.answer(reply, due);
    }

    pub fn ready_commands(&mut self, asked: &ReadyQuestion, reply: Reply<ReadyCommands>) {
        let Shard { queues, slots, random, .. } = &mut *self.shard;
        let ReadyQuestion { tenant, named, most } = asked;
        let ready = queues.ready_commands(tenant, named, *most, (slots, self.now), || random.random());
        self.answer(reply, ready);
    }

    /// Of some queues in a row, and where to go on: very many are not to hold up everybody else.
    pub fn queues(
        &mut self,
        tenant: Option<&Arc<str>>,
        from: usize,
        reply: Reply<(Vec<QueueStats>, Option<usize>)>,
    ) {
        let (some, next) = self.shard.queues.page(from, QUEUES_PER_TURN);
        let wanted = some.filter(|queue| tenant.is_none_or(|t| queue.key.tenant == *t));
        let stats = wanted.map(|queue| self.shard.stats(queue, self.now)).collect();
        self.answer(reply, (stats, next));
    }

    pub fn put_topic(
        &mut self,
        tenant: &Arc<str>,
        name: &str,
        policy: Policy,
        reply: Reply<(Topic, TopicPut)>,
    ) {
        let Some(reply) = self.may_write(reply) else { return };
        let current = self.shard.topics.get(&(tenant.clone(), name.into()));
        let (topic, did) = topic::put(current, tenant, name, policy, self.now);
        if did != TopicPut::Same {
            let value = Some(catalogue::write_topic(&topic));
            self.log(Entry::Record { key: topic_key(tenant, name), value });
        }
        self.answer(reply, (topic, did));
    }

    pub fn delete_topic(&mut self, tenant: &Arc<str>, name: &str, reply: Reply<bool>) {
        let Some(reply) = self.may_write(reply) else { return };
        let is_there = self.shard.topics.contains_key(&(tenant.clone(), name.into()));
        if is_there {
            self.log(Entry::Record { key: topic_key(tenant, name), value: None });
        }
        self.answer(reply, is_there);
    }

    pub fn topic(&mut self, tenant: &Arc<str>, name: &str, reply: Reply<Option<Topic>>) {
        let topic = self.shard.topics.get(&(tenant.clone(), name.into())).cloned();
        self.answer(reply, topic);
    }

    pub fn subscribe(&mut self, new: NewSubscription, reply: Reply<Result<Subscription, Refusal>>) {
        let Some(reply) = self.may_write(reply) else { return };
        let bits = (u128::from(self.draw()) << 64) | u128::from(self.draw());
        let id = u128::from_be_bytes(*codeq_queue::TaskId::from_bits(bits).as_bytes());
        let tenant = new.tenant.clone();
        let accepted = new.accept(id, self.now).and_then(|accepted| {
            check_count(self.shard.subscriptions.living(&tenant, self.now))?;
            Ok(accepted)
        });
        if let Ok(subscription) = &accepted {
            self.put_subscription(self.next_seq(), subscription);
        }
        self.answer(reply, accepted);
    }

    fn put_subscription(&mut self, order: u64, subscription: &Subscription) {
        let value = Some(catalogue::write_subscription(order, subscription));
        self.log(Entry::Record { key: subscription_key(subscription.id), value });
    }

    pub fn renew(
        &mut self,
        tenant: &Arc<str>,
        id: u128,
        ttl_seconds: i64,
        reply: Reply<Result<Subscription, Refusal>>,
    ) {
        let Some(reply) = self.may_write(reply) else { return };
        let known = self.shard.subscriptions.get(id);
        let living = known.filter(|(_, s)| s.tenant == *tenant && s.expires_at > self.now);
        let Some((order, current)) = living else {
            return self.answer(reply, Err(Refusal::SubscriptionNotFound));
        };
        let expires_at = self.now.plus(ttl(ttl_seconds));
        let (order, renewed) = (*order, Subscription { expires_at, ..current.clone() });
        self.put_subscription(order, &renewed);
        self.answer(reply, Ok(renewed));
    }

    pub fn subscriptions(&mut self, reply: Reply<Vec<Subscription>>) {
        let living = self.shard.subscriptions.iter().filter(|(_, s)| s.expires_at > self.now);
        let mut living: Vec<&(u64, Subscription)> = living.collect();
        living.sort_by_key(|(order, _)| *order);
        let living = living.into_iter().map(|(_, subscription)| subscription.clone()).collect();
        self.answer(reply, living);
    }

    pub fn expire_subscriptions(&mut self, reply: Reply<u64>) {
        let Some(reply) = self.may_write(reply) else { return };
        let over = self.shard.subscriptions.iter().filter(|(_, s)| s.expires_at <= self.now);
        let over: Vec<u128> = over.map(|(_, s)| s.id).collect();
        // The others go the next time.
        let (gone, _) = self.each(over, |turn, id| {
            turn.log(Entry::Record { key: subscription_key(id), value: None });
        });
        self.answer(reply, gone.len() as u64);
    }
}

impl Shard {
    fn oldest_ready(&self, queue: &super::Queue) -> Option<Time> {
        let heads = queue.lists.iter().filter_map(|list| list.first());
        let laned = queue.flow.iter().flat_map(|flow| flow.heads(LANES_OLDEST));
        heads.chain(laned).map(|slot_id| self.slots.at(slot_id).created_at).min()
    }

    fn stats_of(&self, key: &QueueKey, now: Time) -> QueueStats {
        match self.queues.find(&key.tenant, &key.command) {
            Some(id) => self.stats(self.queues.at(id), now),
            None => QueueStats::empty(key),
        }
    }

    fn stats(&self, queue: &super::Queue, now: Time) -> QueueStats {
        QueueStats {
            failed: self.failures.total(&queue.key, now),
            ..queue.stats(self.oldest_ready(queue), now)
        }
    }

    /// A stored record (topic, subscription, policy, schedule and the like) as the entry or row says.
    pub fn apply_record(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), &'static str> {
        match (key.first().copied(), value) {
            (Some(records::TOPIC), Some(value)) => {
                let topic = catalogue::read_topic(value).map_err(|_| "a topic that cannot be read")?;
                self.topics.insert((topic.tenant.clone(), topic.name.clone()), topic);
            }
            (Some(records::TOPIC), None) => {
                let (tenant, name) = catalogue::read_topic_key(key).ok_or("a topic without name")?;
                self.topics.remove(&(tenant, name));
            }
            (Some(records::SUBSCRIPTION), Some(value)) => {
                let (order, subscription) =
                    catalogue::read_subscription(value).map_err(|_| "a subscription that cannot be read")?;
                self.counters.next_seq = self.counters.next_seq.max(order + 1);
                self.subscriptions.insert(order, subscription);
            }
            (Some(records::SUBSCRIPTION), None) => {
                let id =
                    key.get(1..17).and_then(|id| id.try_into().ok()).ok_or("a subscription without id")?;
                self.subscriptions.remove(u128::from_be_bytes(id));
            }
            (Some(records::OPERATION), Some(value)) => {
                let operation = operations::read(value).map_err(|_| "an operation that cannot be read")?;
                self.operations.insert(operation.id, operation);
            }
            (Some(records::OPERATION), None) => {
                let id = key.get(1..17).and_then(|id| id.try_into().ok()).ok_or("an operation without id")?;
                self.operations.remove(&u128::from_be_bytes(id));
            }
            (Some(records::SCHEDULE | records::SCHEDULE_PROGRESS | records::SCHEDULE_PLACE), _) => {
                self.apply_schedule(key, value)?;
            }
            (Some(records::FAILED), value) => {
                let queue = policies::read_policy_key(key).ok_or("failures of no queue")?;
                let read = self.failures.put_row(&queue, value);
                read.map_err(|_| "failures that cannot be read")?;
                self.queues.intern(&queue.tenant, &queue.command);
            }
            (Some(records::POLICY), value) => self.apply_policy(key, value)?,
            (Some(records::USAGE), value) => self.apply_usage(key, value)?,
            (Some(records::BATCH | records::BATCH_SHARE), value) => self.apply_batch(key, value)?,
            (Some(records::UNIQUE), value) => self.apply_unique(key, value)?,
            (Some(records::AUDIT), Some(value)) => {
                let entry = audit::read(value).map_err(|_| "an audit record that cannot be read")?;
                self.audit.insert(entry.place(), entry);
            }
            (Some(records::AUDIT), None) => {
                self.audit.remove(&audit::read_key(key).ok_or("an audit record without time")?);
            }
            (Some(records::IMPORTED), value) => self.imports.apply(value.unwrap_or_default()),
            _ => return Err("a record of an unknown kind"),
        }
        Ok(())
    }
}
