//! What the model knows, and how it is read.

use super::limits::{Level, ModelLimits};
use crate::Rules;
use codeq_queue::store::{ResultLookup, TaskRef};
use codeq_queue::{Attempt, Delivery, Place, QueueKey, QueueStats, ResultRecord, State, Task, TaskId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub struct Model {
    pub rules: Rules,
    pub now: Time,
    /// In the order of their creation.
    pub entries: Vec<Entry>,
    pub paused: BTreeSet<QueueKey>,
    /// How the newest create of each queue spelled it.
    pub spellings: BTreeMap<QueueKey, Arc<str>>,
    pub last_claims: BTreeMap<QueueKey, Time>,
    pub callbacks: Vec<Delivery>,
    /// What policies allow.
    pub limits: BTreeMap<QueueKey, ModelLimits>,
    /// What lanes have used up of their rates.
    pub(super) levels: BTreeMap<(QueueKey, String), Level>,
    pub(super) counter: u64,
}

pub struct Entry {
    pub task: Task,
    pub record: Option<ResultRecord>,
    pub history: Vec<Attempt>,
    /// When it is to be removed; dead letters without a retention of their own have none.
    pub ends: Option<Time>,
    /// Grows with every create and every other life: ordered lanes go by it.
    pub accepted: u64,
}

impl Entry {
    pub fn key(&self) -> QueueKey {
        QueueKey::new(&self.task.body.tenant, &self.task.body.command)
    }

    pub fn is(&self, named: &TaskRef) -> bool {
        self.task.id == named.id && self.task.body.tenant == named.tenant
    }

    /// The number that orders a ready task within its priority.
    pub fn seq(&self) -> Option<u64> {
        match self.task.state {
            State::Ready { seq } => Some(seq),
            _ => None,
        }
    }
}

impl Model {
    pub fn new(rules: Rules, now: Time) -> Model {
        Model {
            rules,
            now,
            entries: Vec::new(),
            paused: BTreeSet::new(),
            spellings: BTreeMap::new(),
            last_claims: BTreeMap::new(),
            callbacks: Vec::new(),
            limits: BTreeMap::new(),
            levels: BTreeMap::new(),
            counter: 0,
        }
    }

    pub fn find(&self, named: &TaskRef) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.is(named))
    }

    pub fn by_id(&self, id: TaskId) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.task.id == id)
    }

    pub(super) fn entry(&mut self, id: TaskId) -> &mut Entry {
        self.entries.iter_mut().find(|entry| entry.task.id == id).expect("the caller has found it")
    }

    pub fn get(&self, named: &TaskRef) -> Option<Task> {
        self.find(named).map(|entry| entry.task.clone())
    }

    pub fn result(&self, named: &TaskRef) -> ResultLookup {
        match self.find(named) {
            None => ResultLookup::NotFound,
            Some(Entry { record: None, .. }) => ResultLookup::Pending,
            Some(Entry { task, record: Some(record), .. }) => {
                ResultLookup::Done { task: task.clone(), record: record.clone() }
            }
        }
    }

    pub fn attempts(&self, named: &TaskRef) -> Option<Vec<Attempt>> {
        self.find(named).map(|entry| entry.history.clone())
    }

    pub fn keys(&self, tenant: Option<&str>) -> BTreeSet<QueueKey> {
        let of_tasks = self.entries.iter().map(Entry::key);
        let all = of_tasks.chain(self.paused.iter().cloned()).chain(self.spellings.keys().cloned());
        all.filter(|key| tenant.is_none_or(|tenant| *key.tenant == *tenant)).collect()
    }

    pub fn stats(&self, key: &QueueKey) -> QueueStats {
        let mut stats = QueueStats {
            command: self.spellings.get(key).unwrap_or(&key.command).clone(),
            is_paused: self.paused.contains(key),
            last_claim: self.last_claims.get(key).copied(),
            ..QueueStats::empty(key)
        };
        for entry in self.entries.iter().filter(|entry| entry.key() == *key) {
            count(&mut stats, &entry.task);
        }
        stats
    }
}

fn count(stats: &mut QueueStats, task: &Task) {
    match task.state.place() {
        Place::PendingList => {
            stats.ready[usize::from(task.priority)] += 1;
            let oldest = stats.oldest_ready.unwrap_or(Time::MAX);
            stats.oldest_ready = Some(oldest.min(task.created_at));
        }
        Place::DelayedSet => stats.delayed += 1,
        Place::InProgressSet => stats.in_progress += 1,
        Place::DeadLetterSet => stats.dead += 1,
        Place::HeldSet => stats.held += 1,
        Place::None => stats.failed += u64::from(task.state == State::Failed),
    }
}
