//! The batches of a shard: those that live here, and what it has of members of any.

use crate::local::format::batches;
use crate::local::format::records::BATCH;
use crate::local::rows::change::Change;
use crate::local::shard::slots::SlotId;
#[cfg(all(debug_assertions, feature = "testing"))]
use crate::testing::planted;
use codeq_queue::batch::{Batch, Counts};
use codeq_queue::{Body, Refusal, State, TaskId, Time, limits};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// What this shard has of a batch.
pub struct Share {
    pub tenant: Arc<str>,
    pub counts: Counts,
    /// Until when an answer of the home is waited for.
    answer_due: Option<Time>,
}

#[derive(Default)]
pub struct Batches {
    all: HashMap<TaskId, Batch>,
    /// When something is to be done about them.
    due: BTreeSet<(Time, TaskId)>,
    planned: HashMap<TaskId, Time>,
    held: HashMap<Arc<str>, usize>,
    shares: HashMap<TaskId, Share>,
    /// Live members by number.
    members: HashMap<TaskId, BTreeSet<u64>>,
    /// Shares that are about to be registered, each under a number of its own.
    pending: HashMap<TaskId, u64>,
    /// Shares of which the home is to hear.
    news: BTreeSet<TaskId>,
    /// Shares of which the home was told, and did not answer yet.
    unanswered: BTreeSet<(Time, TaskId)>,
    /// Shares whose members are to be cancelled.
    cancelled: BTreeSet<TaskId>,
}

impl Batches {
    pub fn get(&self, tenant: &Arc<str>, id: &TaskId) -> Option<&Batch> {
        self.all.get(id).filter(|batch| batch.tenant == *tenant)
    }

    pub fn by_id(&self, id: &TaskId) -> Option<&Batch> {
        self.all.get(id)
    }

    pub fn check_room(&self, tenant: &Arc<str>) -> Result<(), Refusal> {
        match self.held.get(tenant).copied().unwrap_or(0) >= limits::BATCHES {
            true => Err(Refusal::TooManyBatches(limits::BATCHES)),
            false => Ok(()),
        }
    }

    pub fn next_due(&self) -> Option<Time> {
        let now = (self.has_news() || !self.cancelled.is_empty()).then_some(Time::ZERO);
        let due = self.due.first().map(|(at, _)| *at);
        let unanswered = self.unanswered.first().map(|(at, _)| *at);
        [now, due, unanswered].into_iter().flatten().min()
    }

    fn put(&mut self, batch: Batch) {
        let id = batch.id;
        let due = match (batch.end, batch.closed_at) {
            (Some(end), _) => Some(end.expires),
            (None, Some(at)) => batch.behind().next().map(|_| at),
            (None, None) => batch.closes_at(),
        };
        if !self.all.contains_key(&id) {
            *self.held.entry(batch.tenant.clone()).or_default() += 1;
        }
        self.all.insert(id, batch);
        self.plan(id, due);
    }

    fn remove(&mut self, id: &TaskId) {
        self.plan(*id, None);
        let Some(gone) = self.all.remove(id) else { return };
        if let Some(count) = self.held.get_mut(&gone.tenant) {
            *count -= 1;
            if *count == 0 {
                self.held.remove(&gone.tenant);
            }
        }
    }

    /// Looks after a batch then.
    pub fn plan(&mut self, id: TaskId, at: Option<Time>) {
        if let Some(before) = self.planned.remove(&id) {
            self.due.remove(&(before, id));
        }
        if let Some(at) = at {
            self.planned.insert(id, at);
            self.due.insert((at, id));
        }
    }

    /// One that is to be looked after.
    pub fn first_due(&self, now: Time) -> Option<&Batch> {
        let (_, id) = self.due.first().filter(|(at, _)| *at <= now)?;
        self.all.get(id)
    }

    pub fn share(&self, id: &TaskId) -> Option<&Share> {
        self.shares.get(id)
    }

    pub fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// Counts that the home is to hear of; an answer is waited for until `due`.
    pub fn take_news(&mut self, due: Time) -> Option<(TaskId, Counts)> {
        while let Some(id) = self.news.pop_first() {
            if let Some(share) = self.shares.get_mut(&id) {
                share.answer_due = Some(due);
                self.unanswered.insert((due, id));
                return Some((id, share.counts));
            }
        }
        None
    }

    /// The home has answered, or does not.
    pub fn answered(&mut self, id: &TaskId, version: u64) {
        let Some(share) = self.shares.get_mut(id) else { return };
        if let Some(due) = share.answer_due.take() {
            self.unanswered.remove(&(due, *id));
        }
        if share.counts.version > version {
            self.news.insert(*id);
        }
    }

    /// Tells again what was not answered in time.
    pub fn tell_again(&mut self, now: Time) {
        while let Some((due, id)) = self.unanswered.first().copied().filter(|(due, _)| *due <= now) {
            self.unanswered.remove(&(due, id));
            self.answered(&id, 0);
        }
    }

    fn changed(&mut self, id: TaskId) {
        let Some(share) = self.shares.get(&id) else { return };
        if share.answer_due.is_none() {
            self.news.insert(id);
        }
        self.mark_cancelled(id);
    }

    fn mark_cancelled(&mut self, id: TaskId) {
        let is_cancelled = self.shares.get(&id).is_some_and(|share| share.counts.is_cancelled);
        match is_cancelled && self.members.contains_key(&id) {
            true => self.cancelled.insert(id),
            false => self.cancelled.remove(&id),
        };
    }

    fn put_share(&mut self, id: TaskId, tenant: Arc<str>, counts: Counts) {
        match self.shares.get_mut(&id) {
            Some(share) => share.counts = counts,
            None => drop(self.shares.insert(id, Share { tenant, counts, answer_due: None })),
        }
        self.pending.remove(&id);
        self.changed(id);
    }

    fn drop_share(&mut self, id: &TaskId) {
        self.pending.remove(id);
        self.news.remove(id);
        self.cancelled.remove(id);
        if let Some(Share { answer_due: Some(due), .. }) = self.shares.remove(id) {
            self.unanswered.remove(&(due, *id));
        }
    }

    /// The number under which a share is to be registered.
    pub fn prepare(&mut self, id: TaskId, fresh: u64) -> u64 {
        *self.pending.entry(id).or_insert(fresh)
    }

    pub fn is_pending(&self, id: &TaskId, number: u64) -> bool {
        self.pending.get(id) == Some(&number)
    }

    pub fn forget_pending(&mut self, id: &TaskId) {
        self.pending.remove(id);
    }

    /// A member that is to be cancelled.
    pub fn first_cancelled(&self) -> Option<u64> {
        let id = self.cancelled.first()?;
        self.members.get(id)?.first().copied()
    }

    /// A live member of a batch.
    pub fn first_member(&self, id: &TaskId) -> Option<u64> {
        self.members.get(id)?.first().copied()
    }

    /// A live member came into memory.
    pub fn enlist(&mut self, id: TaskId, no: u64) {
        self.members.entry(id).or_default().insert(no);
        self.mark_cancelled(id);
    }

    fn strike(&mut self, id: TaskId, no: u64) {
        if let Some(members) = self.members.get_mut(&id) {
            members.remove(&no);
            if members.is_empty() {
                self.members.remove(&id);
            }
        }
        self.mark_cancelled(id);
    }

    /// For checks: live members of every share.
    pub fn shares(&self) -> BTreeMap<TaskId, (u64, u64)> {
        let of = |id: &TaskId| self.members.get(id).map_or(0, |members| members.len() as u64);
        self.shares.iter().map(|(id, share)| (*id, (share.counts.live, of(id)))).collect()
    }
}

impl super::Shard {
    /// A new task has joined its batch.
    pub(super) fn count_joined(&mut self, body: &Body, at: Time) {
        if let Some(batch) = body.batch() {
            self.count(batch, |counts| counts.join(at));
        }
    }

    /// A member ends.
    pub(super) fn count_ended(&mut self, slot_id: SlotId, state: &State) {
        let slot = self.slots.at(slot_id);
        let Some(batch) = slot.options().and_then(|options| options.batch) else { return };
        let no = slot.no;
        self.batches.strike(batch, no);
        self.count(batch, |counts| counts.end(*state == State::Completed));
        #[cfg(all(debug_assertions, feature = "testing"))]
        if planted::is_planted(planted::Bug::CountedTwice) {
            self.count(batch, |counts| counts.end(*state == State::Completed));
        }
    }

    /// A member that had failed lives again, in a batch that has not ended.
    pub(super) fn count_reopened(&mut self, body: &Body) {
        if let Some(batch) = body.batch() {
            self.count(batch, Counts::reopen);
        }
    }

    /// A live task gets a body that names no batch any more.
    pub(super) fn leave_batch(&mut self, slot_id: SlotId, body: &Body) {
        let slot = self.slots.at(slot_id);
        let (no, batch) = (slot.no, slot.options().and_then(|options| options.batch));
        if let Some(batch) = batch.filter(|batch| body.batch() != Some(*batch)) {
            self.batches.strike(batch, no);
            self.count(batch, Counts::leave);
        }
    }

    fn count(&mut self, batch: TaskId, change: impl FnOnce(&mut Counts)) {
        let Some(share) = self.batches.shares.get_mut(&batch) else { return };
        change(&mut share.counts);
        let value = Some(batches::write_share(&share.tenant, &share.counts));
        self.changes.push(Change::Record { key: batches::share_key(&batch), value });
        self.batches.changed(batch);
    }

    /// A row of a batch, or of a share of one, as the entry or the tables say.
    pub fn apply_batch(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), &'static str> {
        let id = batches::read_key(key).ok_or("a batch without id")?;
        match (key[0], value) {
            (BATCH, Some(value)) => {
                let batch = batches::read_batch(id, value).map_err(|_| "a batch that cannot be read")?;
                if batch.end.is_some() {
                    self.waits.ended(self.index, &batch.tenant, id, batch.standing());
                }
                self.batches.put(batch);
            }
            (BATCH, None) => self.batches.remove(&id),
            (_, Some(value)) => {
                let share = batches::read_share(value).map_err(|_| "a share that cannot be read")?;
                self.batches.put_share(id, share.0, share.1);
            }
            (_, None) => self.batches.drop_share(&id),
        }
        Ok(())
    }
}
