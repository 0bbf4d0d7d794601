//! What clients asked for and what they were told: the least that a store must still say, and the most that
//! it may have done on the word of a call whose answer nobody heard.

use super::action::{Action, Reply};
use super::checks::{self, Checked};
use super::flows::{BatchAccount, LIMITED, RunningAccount};
use super::look::Look;
use codeq_queue::delivery::DeliveryReport;
use codeq_queue::store::{Created, TaskRef};
use codeq_queue::{Body, NewTask, Outcome, Owner, ResultRecord, State, Task, TaskId, Time};
use codeq_store::Rules;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// How far a task has come: attempts, then running, returned, ended.
pub type Progress = (u32, u8);

pub fn progress(state: &State, attempts: u32) -> Progress {
    let phase = match state {
        State::Running(_) => 1,
        State::Ready { .. } | State::Delayed { .. } | State::Held(_) => 2,
        State::Completed | State::Failed | State::Cancelled | State::Dead => 3,
    };
    (attempts, phase)
}

/// The text that a worker submits for an attempt, so that nobody else's can pass for it.
pub fn result_text(id: TaskId, attempt: u32) -> String {
    format!("{{\"task\":\"{id}\",\"attempt\":{attempt}}}")
}

/// A lease that a worker was told of.
#[derive(Clone, Debug)]
pub struct Lent {
    pub owner: Arc<Owner>,
    pub attempt: u32,
    /// It lasts at least until then ...
    pub until: Time,
    /// ... unless someone asked for its end.
    pub may_be_over: bool,
    /// The step that last asked to extend it, and how often.
    pub beats: (u64, u32),
}

/// What is known of one task.
#[derive(Clone, Debug)]
pub struct Account {
    pub named: TaskRef,
    pub body: Arc<Body>,
    pub progress: Progress,
    pub lent: Option<Lent>,
    /// Its end, if someone was told of it.
    pub ended: Option<(State, ResultRecord)>,
    /// When it was last known to live.
    pub alive_at: Time,
    /// Not to be lent before; forgotten once it was lent.
    pub not_before: Option<Time>,
    pub may_be_requeued: bool,
    pub may_be_removed: bool,
    /// The last steps that asked for its end and for its return.
    pub cancelled_in: u64,
    pub requeued_in: u64,
    /// Callbacks that were seen.
    pub callbacks: BTreeSet<u128>,
    /// The step that asked for it and the step that heard of it.
    pub asked: u64,
    pub heard: u64,
}

pub struct Ledger {
    pub rules: Rules,
    pub tenant: Arc<str>,
    pub accounts: BTreeMap<TaskId, Account>,
    /// In the order in which they were heard of.
    pub known: Vec<TaskRef>,
    /// How often each payload was sent, and first by which step.
    pub sent: BTreeMap<String, (u64, u64)>,
    pub keys: BTreeMap<(String, String), TaskId>,
    /// Tasks whose callback a receiver has confirmed, known or not.
    pub confirmed: BTreeSet<TaskId>,
    /// Those that someone was told of.
    pub batches: BTreeMap<TaskId, BatchAccount>,
    pub running: RunningAccount,
    pub now: Time,
    /// The furthest the clock has been.
    pub latest: Time,
    pub step: u64,
}

impl Ledger {
    pub fn new(rules: Rules, tenant: Arc<str>, now: Time) -> Ledger {
        Ledger {
            rules,
            tenant,
            accounts: BTreeMap::new(),
            known: Vec::new(),
            sent: BTreeMap::new(),
            keys: BTreeMap::new(),
            confirmed: BTreeSet::new(),
            batches: BTreeMap::new(),
            running: RunningAccount::default(),
            now,
            latest: now,
            step: 0,
        }
    }

    pub fn clock_moved(&mut self, now: Time) {
        if now < self.now {
            self.running.starts.clear();
        }
        self.now = now;
        self.latest = self.latest.max(now);
    }

    /// How long a task that ended in `state` stays; `None` is for ever.
    pub fn kept(&self, state: &State) -> Option<Duration> {
        match state {
            State::Dead => self.rules.dead_retention,
            _ => Some(self.rules.retention),
        }
    }

    /// Whether the report that is about to be sent speaks for an attempt that is known to be over.
    pub fn is_stale(&self, action: &Action) -> bool {
        action.report().is_some_and(|report| {
            let account = self.accounts.get(&report.id);
            account.is_some_and(|account| report.attempt.is_some_and(|given| given < account.progress.0))
        })
    }

    /// Notes what may happen from now on, whoever hears of it.
    pub fn intend(&mut self, action: &Action) {
        let now = self.now;
        match action {
            Action::Create(new) => {
                let sent = self.sent.entry(new.body.payload.to_string()).or_insert((0, self.step));
                sent.0 += 1;
            }
            Action::Heartbeat(beat) => {
                let step = self.step;
                if let Some(lent) = self.lent(beat.report.id, beat.report.attempt) {
                    lent.until = lent.until.min(now.plus(beat.extend));
                    lent.beats = (step, if lent.beats.0 == step { lent.beats.1 + 1 } else { 1 });
                }
            }
            Action::Cancel(named) => {
                if let Some(lent) = self.lent(named.id, None) {
                    lent.may_be_over = true;
                }
                if let Some(account) = self.accounts.get_mut(&named.id) {
                    account.cancelled_in = self.step;
                }
            }
            Action::Requeue(named) => self.intend_requeue(named.id),
            Action::Remove(named) => {
                if let Some(account) = self.accounts.get_mut(&named.id) {
                    account.may_be_removed = true;
                }
            }
            Action::ReportDelivery(delivery, DeliveryReport::Delivered) => {
                self.confirmed.insert(delivery.task_id);
            }
            other => {
                self.intend_flow(other);
                let report = other.report().map(|report| (report.id, report.attempt));
                if let Some(lent) = report.and_then(|(id, attempt)| self.lent(id, attempt)) {
                    lent.may_be_over = true;
                }
            }
        }
    }

    fn intend_requeue(&mut self, id: TaskId) {
        let step = self.step;
        let Some(account) = self.accounts.get_mut(&id) else { return };
        if account.ended.as_ref().is_none_or(|(state, _)| *state != State::Completed) {
            account.may_be_requeued = true;
            account.not_before = None;
            account.requeued_in = step;
            account.ended = None;
            account.progress.1 = account.progress.1.min(2);
        }
    }

    /// The lease of this attempt, or any.
    fn lent(&mut self, id: TaskId, attempt: Option<u32>) -> Option<&mut Lent> {
        let lent = self.accounts.get_mut(&id)?.lent.as_mut()?;
        attempt.is_none_or(|attempt| attempt == lent.attempt).then_some(lent)
    }

    /// Takes in an answer that a client heard.
    pub fn hear(&mut self, action: &Action, is_stale: bool, reply: &Reply) -> Checked {
        match (action, reply) {
            (Action::Create(new), Reply::Created(Ok(made))) => {
                checks::idempotency::created(self, new, made)?;
                self.created(new, made);
            }
            (_, Reply::Lent(tasks)) => {
                for task in tasks {
                    checks::owner::lent(self, task)?;
                    checks::attempts::lent(self, task)?;
                    checks::timers::lent(self, task)?;
                    self.learn(task);
                    self.lend(task);
                    self.start(task)?;
                }
            }
            (_, Reply::Grouped(Ok(batch))) => {
                let account = self.batches.entry(batch.id).or_default();
                account.end = account.end.or(batch.end);
                account.is_closed |= batch.closed_at.is_some();
            }
            (Action::Heartbeat(beat), Reply::Extended(Ok(()))) => {
                checks::owner::reported(action, is_stale)?;
                let until = self.now.plus(beat.extend);
                // Of several at once the last one counts, which may be one that was not heard.
                if let Some(lent) = self.lent(beat.report.id, beat.report.attempt)
                    && lent.beats.1 == 1
                {
                    lent.until = until;
                }
            }
            (Action::Submit(submit), Reply::Ended(Ok(record))) => {
                checks::owner::reported(action, is_stale)?;
                self.end(submit.report.id, &submit.outcome, record);
            }
            (_, Reply::Returned(Ok(_))) => {
                checks::owner::reported(action, is_stale)?;
                let report = action.report().expect("only workers return tasks");
                self.give_back(report.id, report.attempt.unwrap_or(0));
            }
            (Action::Cancel(_) | Action::Requeue(_), Reply::Operated(Ok(task))) => self.learn(task),
            (_, Reply::Deliveries(deliveries)) => {
                for delivery in deliveries {
                    if let Some(account) = self.accounts.get_mut(&delivery.task_id) {
                        account.callbacks.insert(delivery.id);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn created(&mut self, new: &NewTask, made: &Created) {
        if let Some(key) = &new.body.idempotency_key {
            self.keys.insert((new.body.command.to_ascii_lowercase(), key.to_string()), made.task.id);
        }
        self.learn(&made.task);
    }

    pub fn learn(&mut self, task: &Task) {
        let (now, step) = (self.now, self.step);
        let asked = self.sent.get(&*task.body.payload).map_or(0, |sent| sent.1);
        let account = self.accounts.entry(task.id).or_insert_with(|| {
            let named = TaskRef { tenant: task.body.tenant.clone(), id: task.id };
            self.known.push(named.clone());
            let not_before = match task.state {
                State::Delayed { until } => Some(until),
                _ => None,
            };
            Account {
                named,
                body: task.body.clone(),
                progress: (0, 0),
                lent: None,
                ended: None,
                alive_at: now,
                not_before,
                may_be_requeued: false,
                may_be_removed: false,
                cancelled_in: 0,
                requeued_in: 0,
                callbacks: BTreeSet::new(),
                asked,
                heard: step,
            }
        });
        let mut seen = progress(&task.state, task.attempts);
        if account.requeued_in == step {
            // It may have been read before it was revived.
            seen.1 = seen.1.min(2);
        }
        account.progress = account.progress.max(seen);
        if task.state.is_live() {
            account.alive_at = account.alive_at.max(now);
        }
        if account.lent.as_ref().is_some_and(|lent| (lent.attempt, 1) < account.progress) {
            account.lent = None;
        }
    }

    fn start(&mut self, task: &Task) -> Checked {
        if &*task.body.command == LIMITED {
            self.running.starts.push(self.now);
        }
        self.running.rate.map_or(Ok(()), |rate| checks::limits::started(&self.running.starts, rate))
    }

    fn lend(&mut self, task: &Task) {
        let Some(lease) = task.state.lease() else { return };
        let may_be_over = self.may_be_cancelled(task);
        let account = self.accounts.get_mut(&task.id).expect("it was just learned of");
        account.not_before = None;
        account.lent = Some(Lent {
            owner: lease.owner.clone(),
            attempt: task.attempts,
            until: lease.until,
            may_be_over: may_be_over || account.cancelled_in == self.step,
            beats: (0, 0),
        });
    }

    fn end(&mut self, id: TaskId, outcome: &Outcome, record: &ResultRecord) {
        let Some(account) = self.accounts.get_mut(&id) else { return };
        let state = if &*outcome.status == "COMPLETED" { State::Completed } else { State::Failed };
        account.lent = None;
        if state == State::Failed && account.requeued_in == self.step {
            // It may have been revived before this was heard.
            return;
        }
        account.progress.1 = 3;
        account.ended = Some((state, record.clone()));
    }

    fn give_back(&mut self, id: TaskId, attempt: u32) {
        let Some(account) = self.accounts.get_mut(&id) else { return };
        account.progress = account.progress.max((attempt, 2));
        if account.lent.as_ref().is_some_and(|lent| lent.attempt == attempt) {
            account.lent = None;
        }
    }

    /// From here on what the store was seen to hold is the least it must hold.
    pub fn take_in(&mut self, look: &Look) {
        for task in look.tasks.values() {
            self.learn(task);
            let account = self.accounts.get_mut(&task.id).expect("it was just learned of");
            if let Some(record) = look.records.get(&task.id) {
                account.ended = Some((task.state.clone(), record.clone()));
            }
        }
        self.running.take_in(look);
        for (id, account) in &mut self.batches {
            let batch = look.batches.get(id);
            account.end = batch.and_then(|batch| batch.end);
            account.is_closed = batch.is_none_or(|batch| batch.closed_at.is_some());
        }
        self.batches.retain(|id, _| look.batches.contains_key(id));
        for delivery in &look.deliveries {
            if let Some(account) = self.accounts.get_mut(&delivery.task_id) {
                account.callbacks.insert(delivery.id);
            }
        }
        let gone: Vec<TaskId> =
            self.accounts.keys().filter(|id| !look.tasks.contains_key(id)).copied().collect();
        for id in gone {
            self.accounts.remove(&id);
            self.known.retain(|named| named.id != id);
            self.keys.retain(|_, known| *known != id);
        }
    }
}
