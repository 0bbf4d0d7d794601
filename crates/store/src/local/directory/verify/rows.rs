//! Checks of the rows of tables against each other: records that ended, their keys, and bodies.

use super::{Check, Tail};
use crate::local::format::records::{
    DEAD_EXPIRY, Final, body_key, dead_expiry_key, hint_key, key_hash, record_key,
};
use crate::local::rows::library;
use crate::local::shard::Shard;
use crate::local::tables::{Group, TableError, Version};
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
    pub(super) fn rows(&mut self, version: &Version, tail: &Tail, shard: Option<&Shard>) -> DeadCounts {
        let mut counts = DeadCounts::default();
        let checked = self
            .bodies(version)
            .and_then(|()| self.dead_letters(version, tail, shard, &mut counts))
            .and_then(|()| self.dead_expiries(version))
            .and_then(|()| version.ends().try_for_each(|end| self.bucket(version, end, tail, shard)));
        if let Err(error) = checked {
            self.problem(error);
        }
        counts
    }

    /// Every live task has its body.
    fn bodies(&mut self, version: &Version) -> Result<(), TableError> {
        let mut live = version.walk_live(0, false)?;
        while let Some((no, ..)) = live.take_next()? {
            let is_there = version.get(Group::Bodies, &body_key(no))?.is_some();
            self.expect(is_there, || format!("the body of task {no} is missing"));
        }
        Ok(())
    }

    fn dead_letters(
        &mut self,
        version: &Version,
        tail: &Tail,
        shard: Option<&Shard>,
        counts: &mut DeadCounts,
    ) -> Result<(), TableError> {
        self.each(version, Group::Dead, shard, |check, last| {
            let no = last.sketch.no;
            check.hint(version, last)?;
            if last.expires < Time::MAX {
                let key = record_key(&dead_expiry_key(last.expires, no));
                let row = version.get(Group::Rows, &key)?;
                check.expect(row.is_some(), || format!("dead letter {no} would never expire"));
            }
            if !tail.contains_key(&no) {
                last.sketch.detail.body.iter().for_each(|body| counts.add(body));
                let is_live = shard.is_some_and(|shard| shard.slots.find(no).is_some());
                check.expect(!is_live, || format!("task {no} is live and a dead letter"));
            }
            Ok(())
        })
    }

    /// Visits the records of a group that can be read and belong there.
    fn each(
        &mut self,
        version: &Version,
        group: Group,
        shard: Option<&Shard>,
        mut see: impl FnMut(&mut Self, &Final) -> Result<(), TableError>,
    ) -> Result<(), TableError> {
        let mut walk = version.walk(group, &[], &[])?;
        while let Some((key, row)) = walk.row() {
            if let Some(row) = row
                && let Some(last) = self.last(group, key, row, shard)
            {
                see(self, &last)?;
            }
            walk.advance()?;
        }
        Ok(())
    }

    /// The record in a row, if it can be read and belongs there.
    fn last(&mut self, group: Group, key: &[u8], row: &[u8], shard: Option<&Shard>) -> Option<Final> {
        let Some(no) = number(key) else {
            self.problem(format!("row {} of {group:?} has no number", hex(key)));
            return None;
        };
        let last = match Final::read(no, row) {
            Ok(last) => last,
            Err(error) => {
                self.problem(format!("row {no} of {group:?}: {error}"));
                return None;
            }
        };
        let is_dead = group == Group::Dead;
        let fits = !last.sketch.state.is_live() && (last.sketch.state == State::Dead) == is_dead;
        self.expect(fits, || format!("row {no} of {group:?} is {:?}", last.sketch.state));
        let next =
            shard.filter(|shard| !shard.imports.are_there()).map_or(u64::MAX, |shard| shard.counters.next_no);
        self.expect(no < next, || format!("row {no} of {group:?}, but the next number is {next}"));
        Some(last)
    }

    /// The key of a record leads to it.
    fn hint(&mut self, version: &Version, last: &Final) -> Result<(), TableError> {
        let no = last.sketch.no;
        if let Some(key) = &last.key {
            let hint = version.get(Group::Keys, &hint_key(key_hash(key), no))?;
            self.expect(hint.is_some(), || format!("the key of task {no} does not lead to it"));
        }
        Ok(())
    }

    /// Every row of an expiry names a dead letter that expires then.
    fn dead_expiries(&mut self, version: &Version) -> Result<(), TableError> {
        let (from, to) = (record_key(&[DEAD_EXPIRY]), record_key(&[DEAD_EXPIRY + 1]));
        let mut walk = version.walk(Group::Rows, &from, &to)?;
        while let Some((key, row)) = walk.row() {
            if row.is_some() {
                let no = key.get(10..).and_then(number);
                let last = no.and_then(|no| library::last(version, no).ok().flatten());
                let fits = last
                    .is_some_and(|last| record_key(&dead_expiry_key(last.expires, last.sketch.no)) == key);
                self.expect(fits, || {
                    format!("an expiry names {no:?}, which is no dead letter that expires then")
                });
            }
            walk.advance()?;
        }
        Ok(())
    }

    /// One bucket of history.
    fn bucket(
        &mut self,
        version: &Version,
        end: i64,
        tail: &Tail,
        shard: Option<&Shard>,
    ) -> Result<(), TableError> {
        self.each(version, Group::Ended(end), shard, |check, last| {
            let no = last.sketch.no;
            if tail.contains_key(&no) {
                return Ok(());
            }
            check.verified.finished += 1;
            let expires = last.expires.millis();
            check.expect(expires < end, || {
                format!("task {no} is kept until {expires}, its bucket until {end}")
            });
            let is_live = shard.is_some_and(|shard| shard.slots.find(no).is_some());
            check.expect(!is_live, || format!("task {no} is live and has ended"));
            check.hint(version, last)
        })
    }
}
