//! Unique keys: which task has which, and until when.
//!
//! A key that is taken until its task starts or ends follows from the live tasks. One that is taken for some time
//! may outlive its task and has a row of its own.

use super::Shard;
use crate::local::format::codec::{Corrupt, Reader, Writer};
use crate::local::format::records::{IdemKey, PartialTask, TaskHead, UNIQUE, idem_key};
use crate::local::rows::change::Change;
use crate::local::shard::slots::SlotId;
use codeq_queue::{QueueKey, Time, UniqueUntil};
use std::collections::{BTreeSet, HashMap};

/// The task that has a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holder {
    pub no: u64,
    pub tail: u64,
    /// When the key is free again, whatever becomes of the task.
    pub until: Option<Time>,
}

#[derive(Default)]
pub struct UniqueKeys {
    holders: HashMap<IdemKey, Holder>,
    ends: BTreeSet<(Time, IdemKey)>,
}

impl UniqueKeys {
    pub fn get(&self, key: &[u8]) -> Option<Holder> {
        self.holders.get(key).copied()
    }

    fn insert(&mut self, key: IdemKey, holder: Holder) {
        self.remove(&key);
        if let Some(until) = holder.until {
            self.ends.insert((until, key.clone()));
        }
        self.holders.insert(key, holder);
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some(Holder { until: Some(until), .. }) = self.holders.remove(key) {
            self.ends.remove(&(until, key.into()));
        }
    }

    /// When a key is free again that is taken for some time.
    pub fn next_end(&self) -> Option<Time> {
        self.ends.first().map(|(until, _)| *until)
    }

    /// A key whose time is over.
    pub fn over(&self, now: Time) -> Option<&IdemKey> {
        self.ends.first().filter(|(until, _)| *until <= now).map(|(_, key)| key)
    }
}

pub fn row_key(key: &[u8]) -> Vec<u8> {
    [&[UNIQUE], key].concat()
}

fn write_holder(holder: Holder) -> Vec<u8> {
    let mut bytes = Vec::new();
    let w = &mut Writer(&mut bytes);
    w.number(holder.no);
    w.fixed(holder.tail);
    w.option(holder.until.as_ref(), |w, until| w.time(*until));
    bytes
}

fn read_holder(bytes: &[u8]) -> Result<Holder, Corrupt> {
    let r = &mut Reader(bytes);
    Ok(Holder { no: r.number()?, tail: r.fixed()?, until: r.option(Reader::time)? })
}

impl Shard {
    /// The key of a task, and until when it has it, if that is known from the beginning.
    fn unique_of(&self, seed: &TaskHead) -> Option<(IdemKey, Option<Time>)> {
        let rule = seed.body.unique()?;
        let key = idem_key(&QueueKey::new(&seed.body.tenant, &seed.body.command), &rule.key);
        let until = match rule.until {
            UniqueUntil::For(life) => Some(seed.created_at.plus(life)),
            UniqueUntil::Started | UniqueUntil::Ended => None,
        };
        Some((key, until))
    }

    /// A live task takes its key, whoever has it. The tables know of keys that may outlive their task, and of no other.
    pub(super) fn take_unique(&mut self, no: u64, seed: &TaskHead) {
        let Some((key, until)) = self.unique_of(seed) else { return };
        let is_stored = self.unique.get(&key).is_some_and(|before| before.until.is_some());
        let holder = Holder { no, tail: seed.tail, until };
        self.unique.insert(key.clone(), holder);
        let value = until.map(|_| write_holder(holder));
        if value.is_some() || is_stored {
            self.changes.push(Change::Record { key: row_key(&key), value });
        }
    }

    /// A live task that was loaded has its key, unless the time of it is over or one that was there before has it.
    pub fn load_unique(&mut self, no: u64, seed: &TaskHead) {
        let Some((key, until)) = self.unique_of(seed) else { return };
        let is_over = until.is_some_and(|until| until <= self.counters.last);
        if !is_over && self.unique.get(&key).is_none() {
            self.unique.insert(key, Holder { no, tail: seed.tail, until });
        }
    }

    /// The key that a task which has ended still has, because it was taken for some time.
    pub(super) fn unique_kept(&self, last: &PartialTask) -> Option<IdemKey> {
        let body = last.detail.body.as_ref()?;
        let rule = body.unique().filter(|rule| matches!(rule.until, UniqueUntil::For(_)))?;
        let key = idem_key(&QueueKey::new(&body.tenant, &body.command), &rule.key);
        self.unique.get(&key).is_some_and(|holder| holder.no == last.no).then_some(key)
    }

    /// The key that a task takes again after a requeue, and after an import.
    pub(super) fn unique_again(&self, last: &PartialTask, now: Time) -> Option<IdemKey> {
        let body = last.detail.body.as_ref()?;
        let rule = body.unique().filter(|rule| rule.is_taken_again(last.created_at, last.attempts, now))?;
        Some(idem_key(&QueueKey::new(&body.tenant, &body.command), &rule.key))
    }

    /// Whether another task has the key that this one would take again.
    pub(super) fn is_unique_taken(&self, last: &PartialTask, now: Time) -> bool {
        let holder = self.unique_again(last, now).and_then(|key| self.unique.get(&key));
        holder.is_some_and(|holder| holder.no != last.no && holder.until.is_none_or(|until| until > now))
    }

    /// Frees the key of a live task that has come to this point: started, or ended.
    pub(super) fn release_unique(&mut self, slot_id: SlotId, point: UniqueUntil) {
        let slot = self.slots.at(slot_id);
        let Some(rule) = slot.options().and_then(|options| options.unique.as_ref()) else { return };
        let is_over =
            rule.until == point || point == UniqueUntil::Ended && rule.until == UniqueUntil::Started;
        let key = idem_key(&self.queues.at(slot.queue).key, &rule.key);
        if is_over && self.unique.get(&key).is_some_and(|holder| holder.no == slot.no) {
            self.unique.remove(&key);
        }
    }

    /// A task that was loaded has been claimed before.
    pub fn started(&mut self, slot_id: SlotId) {
        self.release_unique(slot_id, UniqueUntil::Started);
    }

    /// A stored key as the entry or row says.
    pub(super) fn apply_unique(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), &'static str> {
        let key: IdemKey = key.get(1..).unwrap_or_default().into();
        match value {
            Some(value) => {
                let holder = read_holder(value).map_err(|_| "a unique key that cannot be read")?;
                self.unique.insert(key, holder);
            }
            None => self.unique.remove(&key),
        }
        Ok(())
    }
}
