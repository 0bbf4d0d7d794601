//! The worker's verbs: claim, heartbeat, nack, abandon, submit.

use super::Shard;
use super::produce::TaskLookup;
use super::turn::{Part, Reply, ShardContext, TooLarge, Turn};
use crate::local::format::entry::{Ended, Entry};
use crate::local::format::records::PartialTask;
use crate::local::shard::slots::{EndFields, SlotId};
use codeq_queue::lease::lease_end;
use codeq_queue::queue::is_better;
use codeq_queue::retry::{self, Ending, Next};
use codeq_queue::store::{Abandon, Beat, Claim, Heartbeat, Nack, Report, Returned, Submit};
use codeq_queue::task::{self, LEASE_EXPIRED, MAX_ATTEMPTS, guard, guard_heartbeat, reason_text, used};
use codeq_queue::{
    AttemptOutcome, Commands, Delivery, DeliveryState, Failure, FailureReason, Refusal, ResultRecord, State,
    Status, Task, Time, UniqueUntil,
};
use std::sync::Arc;
use std::time::Duration;

/// Tasks whose bodies are read, and come into memory, at once: more would keep callers waiting for the owner, and
/// for a processor.
const READ_AT_ONCE: usize = 128;
/// Lanes whose next tasks are read ahead.
const LANES_AHEAD: usize = 1024;
/// Between two readings. Only part of what was read before is used up by then.
const READ_PAUSE: Duration = Duration::from_micros(500);

/// The error of a task that could not be lent because of it.
const BODY_DAMAGED: &str = "the body of this task is damaged on the disk; it cannot be worked on";

/// The answer to one item: known, or a refusal whose wording depends on a task that is no longer live.
pub enum Item<T> {
    Known(Result<T, Refusal>),
    Ended { located: TaskLookup, report: Report },
}

/// What came of reports, and those that are to be made again.
type Reports<T, I> = Part<Result<T, Refusal>, I>;

impl Turn<'_> {
    /// Lends up to `claim.count` tasks, best first, without waiting, until another shard's head is better or
    /// the turn is full.
    pub fn take(&mut self, claim: &Claim, rival: Option<(u8, Time)>) -> Vec<PartialTask> {
        // What has expired is not lent, though its timer comes later.
        self.expire_tasks();
        let mut taken = Vec::new();
        while taken.len() < claim.count {
            let Some(slot_id) = self.pick(&claim.tenant, &claim.commands) else { break };
            let slot = self.shard.slots.at(slot_id);
            if rival.is_some_and(|rival| is_better(rival, (slot.priority, slot.created_at))) {
                break;
            }
            taken.push(self.lend(slot_id, claim));
            if self.is_full() {
                break;
            }
        }
        taken
    }

    fn lend(&mut self, slot_id: SlotId, claim: &Claim) -> PartialTask {
        let slot = self.shard.slots.at(slot_id);
        let (no, attempts, queue) = (slot.no, slot.attempts + 1, slot.queue);
        let is_missing = slot.detail.is_none();
        let policy = self.shard.policy_of(slot);
        let longest = slot.options().and_then(|options| options.max_run);
        let longest = longest.or(policy.and_then(|policy| policy.max_run));
        let own_lease = policy.and_then(|policy| policy.lease).filter(|_| claim.is_default_lease);
        let length = own_lease.unwrap_or(claim.lease);
        let ahead = &mut self.shard.queues.at_mut(queue).loaded_ahead;
        *ahead = ahead.map(|count| count.saturating_sub(1));
        let is_low = ahead.is_some_and(|count| count < self.shard.limits.read_ahead / 4 * 3);
        if is_missing || is_low {
            self.read_ahead(queue);
        }
        let until = lease_end(self.now, self.now, length, longest);
        self.log(Entry::Claimed { no, at: self.now, attempts, owner: claim.owner.clone(), until });
        self.shard.slots.at(slot_id).sketch()
    }

    /// The next task for these commands: the first command with work, or with any command the highest
    /// priority and then the earliest created head.
    pub fn pick(&mut self, tenant: &Arc<str>, commands: &Commands) -> Option<SlotId> {
        let (shard, now) = (&mut *self.shard, self.now);
        match commands {
            Commands::These(commands) => commands.iter().find_map(|command| {
                let queue = shard.queues.find(tenant, command)?;
                shard.fresh_head(queue, now)
            }),
            Commands::Any => shard.fresh_best_head(tenant, now),
        }
    }

    /// What a wildcard claim would get here: for choosing between shards.
    pub fn peek(&mut self, tenant: &Arc<str>, reply: Reply<Option<(u8, Time)>>) {
        let head = self.pick(tenant, &Commands::Any).map(|slot_id| self.shard.slots.at(slot_id));
        let head = head.map(|slot| (slot.priority, slot.created_at));
        self.answer(reply, head);
    }

    /// Has the bodies of the next tasks of a queue read from the tables, before they are claimed: first when
    /// one is missing, then whenever a quarter of what was read is used up.
    fn read_ahead(&mut self, queue: u32) {
        if !self.shard.has_cache_room() || !self.shard.loading.insert(queue) {
            return;
        }
        let mut numbers = Vec::new();
        let mut seen = 0;
        let most = self.shard.limits.read_ahead;
        let of = self.shard.queues.at(queue);
        let laned = of.flow.iter().flat_map(|flow| flow.next_lists(LANES_AHEAD));
        let firsts: Vec<SlotId> = laned.filter_map(|list| list.first()).chain(of.plain_head()).collect();
        let each = most / firsts.len().max(1);
        for first in firsts {
            let (mut at, until) = (Some(first), seen + each.max(1));
            while let Some(slot_id) = at.filter(|_| seen < until) {
                let slot = self.shard.slots.at(slot_id);
                if slot.detail.is_none() {
                    numbers.push(slot.no);
                }
                seen += 1;
                at = self.shard.slots.next(slot_id);
            }
        }
        if numbers.is_empty() {
            // Everything that comes next is in memory: no need to look before something is missing.
            self.shard.queues.at_mut(queue).loaded_ahead = None;
            self.shard.loading.remove(&queue);
            return;
        }
        let links = self.links.clone();
        self.shard.queues.at_mut(queue).loaded_ahead = Some(seen);
        self.links.pools.ahead.submit(move || {
            for some in numbers.chunks(READ_AT_ONCE) {
                let (details, as_of) = links.library.details(some).unwrap_or_default();
                let load = move |turn: &mut Turn<'_>| turn.shard.load(details, turn.is_current(as_of));
                if !links.inbox.post(load) {
                    return;
                }
                std::thread::sleep(READ_PAUSE);
            }
            links.inbox.post(move |turn| {
                turn.shard.loading.remove(&queue);
            });
        });
    }

    pub fn claim(&mut self, claim: &Claim, rival: Option<(u8, Time)>, reply: Reply<Vec<Task>>) {
        let Some(reply) = self.may_write(reply) else { return };
        let taken = self.take(claim, rival);
        self.hand_over(taken, reply);
    }

    /// Sends lent tasks to their claimer. If nobody is there any more they come back with a refund.
    pub fn hand_over(&mut self, taken: Vec<PartialTask>, reply: Reply<Vec<Task>>) {
        let needs_tables = taken.iter().any(|sketch| !sketch.detail.is_complete());
        self.group.releases.push(Box::new(move |links| {
            let send = move |links: &Arc<ShardContext>| {
                let (mut tasks, mut unread) = (Vec::with_capacity(taken.len()), None);
                for sketch in taken {
                    let (no, attempts) = (sketch.no, sketch.attempts);
                    match links.library.whole(sketch) {
                        Ok(task) => tasks.push(task),
                        Err(error) if error.is_damage() => {
                            links.library.tell("claim", no, &error);
                            links.inbox.post(move |turn| turn.end_damaged(no, attempts));
                        }
                        // It stays lent; its lease runs out.
                        Err(error) => unread = Some(Failure::from(error)),
                    }
                }
                let answer = unread.filter(|_| tasks.is_empty()).map_or(Ok(tasks), Err);
                if let Err(Ok(unwanted)) = reply.send(answer)
                    && !unwanted.is_empty()
                {
                    links.inbox.post(move |turn| turn.take_back(unwanted));
                }
            };
            links.send(needs_tables, send);
        }));
    }

    /// Ends a task that was lent and whose body is damaged on the disk: nobody can work on it, and those that were lent
    /// with it are not to wait for its lease.
    fn end_damaged(&mut self, no: u64, attempts: u32) {
        let slot_id = self.shard.slots.find(no).filter(|_| self.unwritable.is_none());
        let Some(slot_id) = slot_id else { return };
        let slot = self.shard.slots.at(slot_id);
        if slot.attempts == attempts && slot.state.lease().is_some() {
            let error: Arc<str> = BODY_DAMAGED.into();
            let record = self.failure(&error, FailureReason::MaxAttempts);
            self.end(slot_id, State::Dead, Some(AttemptOutcome::Abandoned), Some(error), record);
        }
    }

    /// Returns tasks that were lent to someone who vanished before the hand-over.
    pub fn take_back(&mut self, mut unwanted: Vec<Task>) {
        if self.unwritable.is_some() {
            return;
        }
        while let Some(task) = unwanted.pop() {
            if self.is_full() {
                unwanted.push(task);
                self.links.inbox.post(move |turn| turn.take_back(unwanted));
                return;
            }
            let TaskLookup::Live(slot_id) = self.locate(&task.body.tenant, &task.id) else { continue };
            let slot = self.shard.slots.at(slot_id);
            if slot.attempts == task.attempts && slot.state.lease().is_some() {
                self.give_up(slot_id, Ending::Refund, None);
            }
        }
    }

    pub fn heartbeat(&mut self, beats: Vec<Heartbeat>, reply: Reply<Reports<Beat, Heartbeat>>) {
        let Some(reply) = self.may_write(reply) else { return };
        let (items, rest) = self.each(beats, |turn, beat| {
            turn.item(beat.report, |turn, slot_id, report| {
                let slot = turn.shard.slots.at(slot_id);
                guard_heartbeat(&slot.state, slot.attempts, &report.owner, report.attempt, turn.now)?;
                let claimed_at = slot.state.lease().map_or(turn.now, |lease| lease.claimed_at);
                let longest = slot.options().and_then(|options| options.max_run);
                let longest = longest.or(turn.shard.policy_of(slot).and_then(|policy| policy.max_run));
                let (no, until) = (slot.no, lease_end(claimed_at, turn.now, beat.extend, longest));
                let cancel = slot.state.lease().and_then(|lease| lease.cancel.clone());
                turn.log(Entry::Extended { no, at: turn.now, until });
                turn.checkpoint(no, beat.checkpoint);
                if let Some(progress) = beat.progress {
                    if turn.links.observer.is_some() {
                        let event = turn.shard.progress_event(slot_id, turn.now, progress.clone());
                        turn.group.events.push(event);
                    }
                    turn.shard.tell_progress(slot_id, progress);
                }
                Ok(Beat { lease_until: until, cancel })
            })
        });
        self.answer_items(reply, items, rest);
    }

    pub fn nack(&mut self, nacks: Vec<Nack>, reply: Reply<Reports<Returned, Nack>>) {
        let Some(reply) = self.may_write(reply) else { return };
        let (items, rest) = self.each(nacks, |turn, nack| {
            let ending = nack.ending();
            let reason = reason_text(nack.reason.as_deref());
            let (checkpoint, hold) = (nack.checkpoint, nack.hold);
            turn.item(nack.report, |turn, slot_id, report| {
                let returned = turn.give_back(slot_id, report, ending, reason, checkpoint)?;
                if let (Some(hold), Returned::Requeued { delay_seconds }) = (hold, returned) {
                    turn.hold_back(slot_id, hold, turn.now.plus_seconds(delay_seconds));
                }
                Ok(returned)
            })
        });
        self.answer_items(reply, items, rest);
    }

    pub fn abandon(&mut self, abandons: Vec<Abandon>, reply: Reply<Reports<Returned, Abandon>>) {
        let Some(reply) = self.may_write(reply) else { return };
        let (items, rest) = self.each(abandons, |turn, abandon| {
            let ending = if abandon.refund { Ending::Refund } else { Ending::Abandon };
            let checkpoint = abandon.checkpoint;
            turn.item(abandon.report, |turn, slot_id, report| {
                turn.give_back(slot_id, report, ending, None, checkpoint)
            })
        });
        self.answer_items(reply, items, rest);
    }

    pub fn submit(&mut self, submits: Vec<Submit>, reply: Reply<Reports<ResultRecord, Submit>>) {
        let Some(reply) = self.may_write(reply) else { return };
        let (items, rest) = self.each(submits, |turn, submit| {
            turn.item(submit.report, |turn, slot_id, report| {
                let slot = turn.shard.slots.at(slot_id);
                guard(&slot.state, slot.attempts, &report.owner, report.attempt)?;
                let record = submit.outcome.record(turn.now)?;
                let (state, outcome) = match record.status {
                    Status::Completed => (State::Completed, AttemptOutcome::Completed),
                    Status::Failed => (State::Failed, AttemptOutcome::Failed),
                };
                let error = record.error.clone();
                turn.finish(slot_id, state, Some(outcome), error, record.clone())?;
                Ok(record)
            })
        });
        self.answer_items(reply, items, rest);
    }

    /// Runs `act` on a live task of the report's tenant.
    fn item<T>(
        &mut self,
        report: Report,
        act: impl FnOnce(&mut Self, SlotId, &Report) -> Result<T, Refusal>,
    ) -> Item<T> {
        match self.locate(&report.tenant, &report.id) {
            TaskLookup::Live(slot_id) => Item::Known(act(self, slot_id, &report)),
            TaskLookup::Nowhere => Item::Known(Err(Refusal::NotFound)),
            located => Item::Ended { located, report },
        }
    }

    fn answer_items<T: Send + 'static, I: Send + 'static>(
        &mut self,
        reply: Reply<Reports<T, I>>,
        items: Vec<Item<T>>,
        rest: Vec<I>,
    ) {
        let now = self.aged;
        let needs_tables =
            items.iter().any(|item| matches!(item, Item::Ended { located, .. } if located.needs_tables()));
        self.answer_from(reply, needs_tables, move |library| {
            let answers = items.into_iter().map(|item| match item {
                Item::Known(answer) => Ok(answer),
                Item::Ended { located, report } => Ok(Err(match located.last(library, now)? {
                    None => Refusal::NotFound,
                    Some(last) => {
                        let sketch = &last.sketch;
                        let refused = guard(&sketch.state, sketch.attempts, &report.owner, report.attempt);
                        refused.expect_err("a task that ended does not run")
                    }
                })),
            });
            Ok(Part { done: answers.collect::<Result<_, Failure>>()?, rest })
        });
    }

    fn give_back(
        &mut self,
        slot_id: SlotId,
        report: &Report,
        ending: Ending,
        reason: Option<Arc<str>>,
        checkpoint: Option<Arc<str>>,
    ) -> Result<Returned, Refusal> {
        let slot = self.shard.slots.at(slot_id);
        guard(&slot.state, slot.attempts, &report.owner, report.attempt)?;
        let no = slot.no;
        self.checkpoint(no, checkpoint);
        Ok(self.give_up(slot_id, ending, reason))
    }

    fn checkpoint(&mut self, no: u64, checkpoint: Option<Arc<str>>) {
        if let Some(checkpoint) = checkpoint {
            self.log(Entry::Checkpointed { no, at: self.now, checkpoint });
        }
    }

    /// Ends the running attempt without a result: another try, or the dead letters. A task that is to stop does.
    pub fn give_up(&mut self, slot_id: SlotId, ending: Ending, reason: Option<Arc<str>>) -> Returned {
        let lease = self.shard.slots.at(slot_id).state.lease();
        if let Some(cancel) = lease.and_then(|lease| lease.cancel.clone()) {
            self.end_cancelled(slot_id, cancel.reason.as_deref());
            return Returned::Cancelled;
        }
        let random = self.draw();
        let slot = self.shard.slots.at(slot_id);
        let used = used(slot.attempts, slot.refunds);
        let own = self.shard.policy_of(slot).and_then(|policy| policy.backoff);
        let backoff = own.map_or(self.shard.rules.backoff, |own| own.over(self.shard.rules.backoff));
        let next = retry::after(ending, used, slot.max_attempts, &backoff, self.now, random);
        let outcome = match ending {
            Ending::Refund | Ending::Nack { refund: true, .. } => AttemptOutcome::Refunded,
            Ending::Nack { .. } => AttemptOutcome::Nack,
            Ending::Abandon => AttemptOutcome::Abandoned,
            Ending::LeaseExpired => AttemptOutcome::LeaseExpired,
        };
        let error = match ending {
            Ending::LeaseExpired => Some(LEASE_EXPIRED.into()),
            _ => reason,
        };
        let (state, delay_seconds) = match next {
            Next::Dead => {
                let error: Arc<str> = error.unwrap_or_else(|| MAX_ATTEMPTS.into());
                let record = self.failure(&error, FailureReason::MaxAttempts);
                self.end(slot_id, State::Dead, Some(outcome), Some(error), record);
                return Returned::Dead;
            }
            Next::Ready => (State::Ready { seq: self.next_seq() }, 0),
            Next::Delayed { until, delay_seconds } => (State::Delayed { until }, delay_seconds),
        };
        let slot = self.shard.slots.at(slot_id);
        let refunds = slot.refunds + u32::from(ending.is_refund());
        let entry = Entry::Returned { no: slot.no, at: self.now, outcome, refunds, state, error };
        self.log(entry);
        Returned::Requeued { delay_seconds }
    }

    pub fn failure(&self, error: &Arc<str>, reason: FailureReason) -> ResultRecord {
        ResultRecord {
            status: Status::Failed,
            result: None,
            error: Some(error.clone()),
            failure_reason: Some(reason),
            artifacts: Vec::new(),
            completed_at: self.now,
        }
    }

    /// Ends a task with a record of the rules' own making.
    pub fn end(
        &mut self,
        slot_id: SlotId,
        state: State,
        outcome: Option<AttemptOutcome>,
        error: Option<Arc<str>>,
        record: ResultRecord,
    ) {
        let ended = self.finish(slot_id, state, outcome, error, record);
        ended.expect("a record without a result is small");
    }

    /// Ends a task: state, result, retention and callback in one entry.
    fn finish(
        &mut self,
        slot_id: SlotId,
        state: State,
        outcome: Option<AttemptOutcome>,
        error: Option<Arc<str>>,
        record: ResultRecord,
    ) -> Result<(), TooLarge> {
        let rules = &self.shard.rules;
        let slot = self.shard.slots.at(slot_id);
        let kept = rules.kept_by(&state, self.shard.policy_of(slot));
        let expires = kept.map_or(Time::MAX, |kept| self.now.plus(kept));
        // A key that is taken for some time names a record.
        let unique = slot.options().and_then(|options| options.unique.as_ref());
        let expires = match unique.map(|unique| unique.until) {
            Some(UniqueUntil::For(life)) => expires.max(slot.created_at.plus(life)),
            _ => expires,
        };
        let delivery = self.callback(slot_id, &record);
        let no = self.shard.slots.at(slot_id).no;
        let record = Arc::new(record);
        let ended = Ended { no, at: self.now, state, outcome, error, record, expires, delivery };
        self.try_log(Entry::Ended(Box::new(ended)))
    }

    fn callback(&mut self, slot_id: SlotId, record: &ResultRecord) -> Option<Arc<Delivery>> {
        let slot = self.shard.slots.at(slot_id);
        let extra = slot.extra.as_ref().filter(|_| self.shard.rules.callbacks)?;
        let url: Arc<str> = extra.webhook.as_deref()?.into();
        let task_id = self.shard.ids.encode(slot.no, slot.tail);
        let stamp = (self.shard.rules.stamp)(record.completed_at);
        let body = task::callback_body(task_id, &extra.command, record, &stamp).into();
        let tenant = self.shard.queues.at(slot.queue).key.tenant.clone();
        // The id names its shard.
        let bits = (u128::from(self.draw()) << 64) | u128::from(self.draw());
        let shards = u128::from(self.shard.shards);
        let id = (bits >> 1) / shards * shards + u128::from(self.shard.index);
        let state = DeliveryState::Pending { due: self.now };
        let created_at = self.now;
        let delivery =
            Delivery { id, task_id, tenant, url, body, state, attempts: 0, last_error: None, created_at };
        Some(Arc::new(delivery))
    }
}

impl Shard {
    /// What the running attempt tells those who watch. It is not in the journal: the next one replaces it.
    fn tell_progress(&mut self, slot_id: SlotId, progress: Arc<str>) {
        let slot = self.slots.at_mut(slot_id);
        let command = &self.queues.at(slot.queue).spelling;
        let extra = slot.extra.get_or_insert_with(|| {
            let (key, webhook, options) = (None, None, None);
            Box::new(EndFields { key, webhook, command: (**command).into(), options, progress: None })
        });
        extra.progress = Some(progress);
    }
}
