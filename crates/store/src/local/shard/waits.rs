//! Who waits for whom: held tasks that live here, and who is to be told of ends here.
//!
//! Nothing of this is stored. A held task has what it waits for in its state; it asks for each of them when it comes
//! into memory, and again every minute until it is told that the other side has noted it. The other side answers at
//! once if what is asked about has ended, and else when it does.

use crate::local::shard::slots::SlotId;
#[cfg(all(debug_assertions, feature = "testing"))]
use crate::testing::planted;
use codeq_queue::{Standing, State, TaskId, Time, limits};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// A held task that wants to know how another task, or a batch, stands.
#[derive(Clone)]
pub struct Ask {
    pub tenant: Arc<str>,
    pub id: TaskId,
    pub from: Asker,
    /// Shards that have been asked, this one included.
    pub tries: u32,
}

/// A held task: its shard, and its number there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asker {
    pub shard: u32,
    pub no: u64,
}

/// The answer for a held task. That something is open says that its end will be told.
#[derive(Clone)]
pub struct EndNotice {
    pub no: u64,
    pub id: TaskId,
    pub standing: Standing,
}

/// How a task that has ended so stands.
pub fn standing(state: &State) -> Standing {
    match state {
        State::Completed => Standing::Succeeded,
        State::Failed | State::Cancelled | State::Dead => Standing::Failed,
        State::Ready { .. } | State::Delayed { .. } | State::Running(_) | State::Held(_) => Standing::Open,
    }
}

type Watched = (Arc<str>, TaskId);

/// What one held task has not been answered for, and when it asks next.
struct Unanswered {
    open: Vec<TaskId>,
    due: Time,
}

#[derive(Default)]
pub struct Waits {
    unanswered: HashMap<u64, Unanswered>,
    due: BTreeSet<(Time, u64)>,
    watchers: HashMap<Watched, BTreeSet<Asker>>,
    /// For held tasks here, to be acted on in steps.
    told: VecDeque<EndNotice>,
    /// For those of other shards, once what is told is durable.
    outgoing: Vec<(u32, EndNotice)>,
    /// Held tasks that have ended, and what they need not be told any more.
    partings: Vec<Ask>,
}

impl Waits {
    /// A held task came into memory.
    pub fn hold(&mut self, no: u64, open: &[TaskId]) {
        self.let_go(no);
        self.unanswered.insert(no, Unanswered { open: open.to_vec(), due: Time::ZERO });
        self.due.insert((Time::ZERO, no));
    }

    /// It is held no more.
    pub fn let_go(&mut self, no: u64) {
        if let Some(gone) = self.unanswered.remove(&no) {
            self.due.remove(&(gone.due, no));
        }
    }

    fn answered(&mut self, no: u64, id: &TaskId) {
        let Some(left) = self.unanswered.get_mut(&no) else { return };
        left.open.retain(|open| open != id);
        if left.open.is_empty() {
            self.let_go(no);
        }
    }

    pub fn next_due(&self) -> Option<Time> {
        match self.told.is_empty() {
            true => self.due.first().map(|(at, _)| *at),
            false => Some(Time::ZERO),
        }
    }

    /// A held task whose questions are to be asked, now and if need be again in a minute.
    pub fn take_due(&mut self, now: Time) -> Option<(u64, Vec<TaskId>)> {
        let (at, no) = *self.due.first().filter(|(at, _)| *at <= now)?;
        self.due.remove(&(at, no));
        let left = self.unanswered.get_mut(&no)?;
        left.due = now.plus(limits::ASK_AGAIN);
        self.due.insert((left.due, no));
        Some((no, left.open.clone()))
    }

    pub fn watch(&mut self, ask: &Ask) {
        self.watchers.entry((ask.tenant.clone(), ask.id)).or_default().insert(ask.from);
    }

    /// A held task has ended before it was told of this. Whether it was to be told here.
    pub fn unwatch(&mut self, ask: &Ask) -> bool {
        let watched = (ask.tenant.clone(), ask.id);
        let Some(watchers) = self.watchers.get_mut(&watched) else { return false };
        let was_there = watchers.remove(&ask.from);
        if watchers.is_empty() {
            self.watchers.remove(&watched);
        }
        was_there
    }

    /// A held task ends: it need not be told of these.
    pub fn part(&mut self, tenant: &Arc<str>, from: Asker, open: impl IntoIterator<Item = TaskId>) {
        let parting = |id| Ask { tenant: tenant.clone(), id, from, tries: 1 };
        self.partings.extend(open.into_iter().map(parting));
    }

    pub fn take_partings(&mut self) -> Vec<Ask> {
        std::mem::take(&mut self.partings)
    }

    /// How many held tasks are to be told of an end here.
    #[cfg(test)]
    pub fn watching(&self) -> usize {
        self.watchers.values().map(BTreeSet::len).sum()
    }

    pub fn has_watchers(&self) -> bool {
        !self.watchers.is_empty()
    }

    /// Something has ended: whoever waits for it is to be told.
    pub fn ended(&mut self, own: u32, tenant: &Arc<str>, id: TaskId, standing: Standing) {
        for asker in self.watchers.remove(&(tenant.clone(), id)).unwrap_or_default() {
            self.tell(own, asker, id, standing);
        }
    }

    pub fn tell(&mut self, own: u32, asker: Asker, id: TaskId, standing: Standing) {
        let told = EndNotice { no: asker.no, id, standing };
        match asker.shard == own {
            true => self.hear(told),
            false => self.outgoing.push((asker.shard, told)),
        }
    }

    /// For a held task here.
    pub fn hear(&mut self, told: EndNotice) {
        self.answered(told.no, &told.id);
        if told.standing != Standing::Open {
            self.told.push_back(told);
        }
    }

    pub fn take_told(&mut self) -> Option<EndNotice> {
        self.told.pop_front()
    }

    pub fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty() || !self.partings.is_empty()
    }

    pub fn take_outgoing(&mut self) -> Vec<(u32, EndNotice)> {
        std::mem::take(&mut self.outgoing)
    }
}

impl super::Shard {
    /// Whether other shards are to be told something.
    pub(super) fn has_messages(&self) -> bool {
        self.waits.has_outgoing() || self.batches.has_news()
    }

    /// Whoever waits for this live task, which ends now, is to be told.
    pub(super) fn tell_end(&mut self, slot_id: SlotId, state: &State) {
        #[cfg(all(debug_assertions, feature = "testing"))]
        if planted::is_planted(planted::Bug::EndNotTold) {
            return;
        }
        if !self.waits.has_watchers() {
            return;
        }
        let slot = self.slots.at(slot_id);
        let id = self.ids.encode(slot.no, slot.tail);
        let tenant = self.queues.at(slot.queue).key.tenant.clone();
        self.waits.ended(self.index, &tenant, id, standing(state));
    }
}

#[cfg(test)]
mod tests;
