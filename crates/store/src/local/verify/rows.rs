//! Checks of the tree's rows against each other: records that ended, their keys, and payloads.

use super::{Check, Tail};
use crate::local::records::{DEAD_EXPIRY, Final, Seed, dead_expiry_key, no_key};
use crate::local::shard::Shard;
use crate::local::tree::{Space, Tree};
use codeq_queue::{Body, QueueKey, State, Time};
use std::collections::BTreeMap;

/// Dead letters by queue.
#[derive(Default)]
pub struct DeadCounts(BTreeMap<QueueKey, u64>);

impl DeadCounts {
    pub fn add(&mut self, body: &Body) {
        *self.0.entry(QueueKey::new(&body.tenant, &body.command)).or_default() += 1;
    }

    pub fn take(&mut self, queue: &QueueKey) -> u64 {
        self.0.remove(queue).unwrap_or(0)
    }

    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    pub fn left(self) -> impl Iterator<Item = (QueueKey, u64)> {
        self.0.into_iter()
    }
}

pub fn name_of(queue: &QueueKey) -> String {
    format!("{}/{}", queue.tenant, queue.command)
}

fn number(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.try_into().ok()?))
}

fn hex(key: &[u8]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Check<'_> {
    /// Counts the dead letters that the tail leaves standing. Without a shard only rows are compared.
    pub(super) fn rows(&mut self, tree: &dyn Tree, tail: &Tail, shard: Option<&Shard>) -> DeadCounts {
        let mut counts = DeadCounts::default();
        self.payloads(tree);
        self.each(tree, Space::Dead, |check, key, row| {
            let Some(last) = check.last(Space::Dead, key, row, shard) else { return };
            check.dead_letter(tree, &last);
            let no = last.sketch.no;
            if !tail.contains_key(&no) {
                last.sketch.detail.body.iter().for_each(|body| counts.add(body));
                let is_live = shard.is_some_and(|shard| shard.slots.find(no).is_some());
                check.expect(!is_live, || format!("task {no} is live and a dead letter"));
            }
        });
        self.each(tree, Space::DeadKey, |check, key, row| check.key(tree, Space::Dead, key, row));
        self.dead_expiries(tree);
        for bucket in tree.buckets() {
            self.bucket(tree, bucket, tail, shard);
        }
        counts
    }

    fn each(&mut self, tree: &dyn Tree, space: Space, mut see: impl FnMut(&mut Self, &[u8], &[u8])) {
        let scanned = tree.scan(space, &[], None, &mut |key, row| {
            see(self, key, row);
            true
        });
        if let Err(error) = scanned {
            self.problem(format!("{space:?}: {error}"));
        }
    }

    fn get(&mut self, tree: &dyn Tree, space: Space, key: &[u8]) -> Option<Vec<u8>> {
        let found = tree.get(space, key);
        found.unwrap_or_else(|error| {
            self.problem(format!("{space:?}: {error}"));
            None
        })
    }

    /// The record in a row, if it can be read and belongs there.
    fn last(&mut self, space: Space, key: &[u8], row: &[u8], shard: Option<&Shard>) -> Option<Final> {
        let Some(no) = number(key) else {
            self.problem(format!("row {} of {space:?} has no number", hex(key)));
            return None;
        };
        let last = match Final::read(no, row) {
            Ok(last) => last,
            Err(error) => {
                self.problem(format!("row {no} of {space:?}: {error}"));
                return None;
            }
        };
        let is_dead = space == Space::Dead;
        let fits = !last.sketch.state.is_live() && (last.sketch.state == State::Dead) == is_dead;
        self.expect(fits, || format!("row {no} of {space:?} is {:?}", last.sketch.state));
        let next = shard.map_or(u64::MAX, |shard| shard.counters.next_no);
        self.expect(no < next, || format!("row {no} of {space:?}, but the next number is {next}"));
        Some(last)
    }

    fn dead_letter(&mut self, tree: &dyn Tree, last: &Final) {
        let no = last.sketch.no;
        if let Some(key) = &last.key {
            let named = self.get(tree, Space::DeadKey, key).as_deref().and_then(number);
            self.expect(named == Some(no), || format!("the key of dead letter {no} names {named:?}"));
        }
        if last.expires < Time::MAX {
            let row = self.get(tree, Space::Record, &dead_expiry_key(last.expires, no));
            self.expect(row.is_some(), || format!("dead letter {no} would never expire"));
        }
    }

    /// Every row of an expiry names a dead letter that expires then.
    fn dead_expiries(&mut self, tree: &dyn Tree) {
        self.each(tree, Space::Record, |check, key, _| {
            if key.first() != Some(&DEAD_EXPIRY) {
                return;
            }
            let Some(no) = key.get(9..).and_then(number) else {
                return check.problem(format!("row {} of Record has no number", hex(key)));
            };
            let row = check.get(tree, Space::Dead, &no_key(no));
            let last = row.and_then(|row| Final::read(no, &row).ok());
            let fits = last.is_some_and(|last| dead_expiry_key(last.expires, no) == key);
            check.expect(fits, || format!("an expiry names {no}, which is no dead letter that expires then"));
        });
    }

    /// A row of keys names a record that has that key.
    fn key(&mut self, tree: &dyn Tree, records: Space, key: &[u8], row: &[u8]) {
        let text = String::from_utf8_lossy(key).replace('\0', "/");
        let Some(no) = number(row) else {
            return self.problem(format!("the key {text} of {records:?} names no number"));
        };
        let found = self.get(tree, records, &no_key(no)).and_then(|row| Final::read(no, &row).ok());
        let fits = found.is_some_and(|last| last.key.as_deref() == Some(key));
        self.expect(fits, || format!("the key {text} names {no} of {records:?}, which has no such key"));
    }

    /// One bucket. Rows that the tail is about to write again may be there in part.
    fn bucket(&mut self, tree: &dyn Tree, bucket: i64, tail: &Tail, shard: Option<&Shard>) {
        let (records, keys) = (Space::History(bucket), Space::HistoryKey(bucket));
        self.each(tree, records, |check, key, row| {
            let Some(last) = check.last(records, key, row, shard) else { return };
            let no = last.sketch.no;
            if tail.contains_key(&no) {
                return;
            }
            check.verified.finished += 1;
            let ends = last.expires.millis();
            check.expect(ends < bucket, || format!("row {no} of {records:?} is to be kept until {ends}"));
            let is_live = shard.is_some_and(|shard| shard.slots.find(no).is_some());
            check.expect(!is_live, || format!("task {no} is live and in {records:?}"));
            if let Some(key) = &last.key {
                let is_keyed = check.get(tree, keys, key).is_some();
                check.expect(is_keyed, || format!("the key of row {no} of {records:?} is missing"));
            }
        });
        self.each(tree, keys, |check, key, row| {
            if number(row).is_none_or(|no| !tail.contains_key(&no)) {
                check.key(tree, records, key, row);
            }
        });
    }

    /// Large payloads lie in rows of their own, one for each task that says so.
    fn payloads(&mut self, tree: &dyn Tree) {
        let is_apart = |row: &[u8]| Seed::read(row).is_ok_and(|(_, is_apart)| is_apart);
        self.each(tree, Space::Task, |check, key, row| {
            let is_missing = is_apart(row) && check.get(tree, Space::Payload, key).is_none();
            check.expect(!is_missing, || format!("the payload of task {} is missing", hex(key)));
        });
        self.each(tree, Space::Payload, |check, key, _| {
            let is_wanted = check.get(tree, Space::Task, key).is_some_and(|row| is_apart(&row));
            check.expect(is_wanted, || format!("the payload {} belongs to no task", hex(key)));
        });
    }
}
