//! One batch: what has happened to many tasks as rows of tables, in the order of their keys.
//!
//! Rows of the tables that are needed for it and cannot be read concern one task each, and are done without: what is
//! damaged of one is not to keep all others out of the tables.

use crate::local::format::records::{
    Counters, Detail, Final, StateRow, body_key, bucket_end, dead_expiry_key, head_key, hint_key, key_hash,
    record_key, state_key, write_until,
};
use crate::local::rows::folding::TaskDelta;
use crate::local::rows::library::{self, ReadError, TaskReader, failed};
use crate::local::tables::{self, Batch, Group, Tables, Version};
use codeq_queue::{Failure, State, Time};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// A batch writes no more buckets of history than this: records of others are kept in a later one.
const BUCKETS_PER_BATCH_MAX: usize = 8;

fn written(error: io::Error) -> Failure {
    failed(error.into())
}

/// The rows of a batch on their way into tables.
pub(super) struct BatchRows<'a> {
    library: &'a TaskReader,
    tables: &'a Tables,
    version: &'a Version,
    now: Time,
    is_patient: bool,
    /// By the end of the bucket that a record would have by itself.
    buckets: BTreeMap<i64, i64>,
    /// Tables of tasks that ended.
    finals: BTreeMap<Group, tables::TableWriter>,
    images: Vec<tables::Image>,
    pub(super) changed: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    hints: Vec<([u8; 16], Option<Time>)>,
    /// Live tasks that the tables have and that ended.
    ends: Vec<u64>,
    /// States of live tasks, in the order of their numbers.
    states: Vec<(u64, Option<Vec<u8>>)>,
    /// What the latest row was encoded in.
    row: Vec<u8>,
}

impl<'a> BatchRows<'a> {
    pub(super) fn new(
        library: &'a TaskReader,
        version: &'a Version,
        now: Time,
        is_patient: bool,
    ) -> BatchRows<'a> {
        BatchRows {
            library,
            tables: &library.tables,
            version,
            now,
            is_patient,
            buckets: BTreeMap::new(),
            finals: BTreeMap::new(),
            images: Vec::new(),
            changed: BTreeMap::new(),
            hints: Vec::new(),
            ends: Vec::new(),
            states: Vec::new(),
            row: Vec::new(),
        }
    }

    /// Decides which buckets there are. Where there would be too many, the records of the smallest go to the next
    /// later one: kept too long on the disk, but not visible for longer.
    pub(super) fn plan_buckets<'f>(&mut self, lasts: impl Iterator<Item = &'f Final>) {
        let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
        for last in lasts.filter(|last| last.sketch.state != State::Dead) {
            *counts.entry(bucket_end(last.sketch.updated_at, last.expires)).or_default() += 1;
        }
        self.buckets = counts.keys().map(|end| (*end, *end)).collect();
        while counts.len() > BUCKETS_PER_BATCH_MAX {
            let latest = counts.keys().next_back().copied();
            let smallest =
                counts.iter().filter(|(end, _)| Some(**end) != latest).min_by_key(|(_, count)| **count);
            let Some((end, count)) = smallest.map(|(end, count)| (*end, *count)) else { break };
            counts.remove(&end);
            let (next, rows) = counts.range_mut(end..).next().expect("the latest is kept");
            *rows += count;
            self.buckets.values_mut().filter(|to| **to == end).for_each(|to| *to = *next);
        }
    }

    pub(super) fn add(&mut self, no: u64, draft: &TaskDelta) -> Result<(), Failure> {
        let mut hidden = self.hide_replaced(no, draft)?;
        match &draft.last {
            Some(last) => self.put_final(no, draft, last, &mut hidden)?,
            None if draft.is_live() => self.put_state(no, draft)?,
            None => {}
        }
        for group in hidden {
            self.writer(group).push(&no.to_be_bytes(), None).map_err(written)?;
        }
        if draft.is_live() || draft.is_born {
            return Ok(());
        }
        if draft.last.is_some() || self.version.has_head(no) {
            self.states.push((no, None));
            self.ends.push(no);
        }
        Ok(())
    }

    fn writer(&mut self, group: Group) -> &mut tables::TableWriter {
        let tables = self.tables;
        self.finals.entry(group).or_insert_with(|| tables.image(group))
    }

    /// Takes back what was said of earlier ends. Gives the groups that have a row of this number to be hidden.
    fn hide_replaced(&mut self, no: u64, draft: &TaskDelta) -> Result<Vec<Group>, Failure> {
        for replaced in &draft.replaced {
            if let Some(key) = &replaced.key {
                self.hints.push((hint_key(key_hash(key), no), None));
            }
            if replaced.is_dead && replaced.expires < Time::MAX {
                self.changed.insert(record_key(&dead_expiry_key(replaced.expires, no)), None);
            }
        }
        if draft.replaced.is_empty() {
            return Ok(Vec::new());
        }
        match self.version.finals(no) {
            Ok(groups) => Ok(groups),
            // Hiding a row where there is none does no harm.
            Err(error) => {
                self.do_without(no, &error.into())?;
                Ok(self.version.finals_admitted(no))
            }
        }
    }

    /// Goes on without what cannot be read of one task, so that the others need not wait for it.
    fn do_without(&self, no: u64, error: &ReadError) -> Result<(), Failure> {
        if self.is_patient && !error.is_damage() {
            return Err(Failure::unknown(error.to_string()));
        }
        self.library.tell("tables", no, error);
        Ok(())
    }

    fn put_state(&mut self, no: u64, draft: &TaskDelta) -> Result<(), Failure> {
        let Some(image) = &draft.image else {
            return Ok(());
        };
        let mut detail = Detail {
            body: None,
            error: image.error.clone(),
            history: image.attempts_ended.clone(),
            checkpoint: image.checkpoint.clone(),
            is_whole: image.is_whole || draft.is_born,
        };
        if !detail.is_whole {
            match library::past(self.version, no) {
                Ok(past) => detail.fill(past),
                Err(error) => self.do_without(no, &error)?,
            }
        }
        let row = StateRow {
            updated_at: image.updated_at,
            attempts: image.attempts,
            refunds: image.refunds,
            max_attempts: image.max_attempts,
            state: image.state.clone(),
            error: detail.error,
            history: detail.history,
            checkpoint: detail.checkpoint,
        };
        self.states.push((no, Some(row.write())));
        Ok(())
    }

    fn put_final(
        &mut self,
        no: u64,
        draft: &TaskDelta,
        last: &Final,
        hidden: &mut Vec<Group>,
    ) -> Result<(), Failure> {
        let is_dead = last.sketch.state == State::Dead;
        if !is_dead && last.expires <= self.now {
            return Ok(());
        }
        let mut detail = Cow::Borrowed(&last.sketch.detail);
        if !detail.is_complete() {
            let filled = draft.fill(no, detail.to_mut(), self.version);
            let has_body = detail.body.is_some() || draft.seed.is_some();
            let is_missing = || library::damaged(no, "body")(library::MISSING);
            if let Err(error) = filled.and_then(|()| if has_body { Ok(()) } else { Err(is_missing()) }) {
                self.do_without(no, &error)?;
                self.fill_with_remains(draft, last, detail.to_mut());
            }
        }
        let body = detail.body.as_deref().or(draft.seed.as_ref().map(|seed| &*seed.body));
        let body = body.expect("it was there or has been made up for");
        let mut row = std::mem::take(&mut self.row);
        row.clear();
        last.write(body, &detail, &mut row);
        let group = match is_dead {
            true => Group::Dead,
            false => Group::Ended(self.buckets[&bucket_end(last.sketch.updated_at, last.expires)]),
        };
        // The new row hides the old one by itself.
        hidden.retain(|other| *other != group);
        self.writer(group).push(&no.to_be_bytes(), Some(&row)).map_err(written)?;
        self.row = row;
        if let Some(key) = &last.key {
            self.hints.push((hint_key(key_hash(key), no), Some(last.expires)));
        }
        if is_dead && last.expires < Time::MAX {
            self.changed.insert(record_key(&dead_expiry_key(last.expires, no)), Some(Vec::new()));
        }
        Ok(())
    }

    /// What is left of a task whose body cannot be read.
    fn fill_with_remains(&self, draft: &TaskDelta, last: &Final, detail: &mut Detail) {
        detail.fill(library::past(self.version, last.sketch.no).unwrap_or_default());
        if detail.body.is_none() && draft.seed.is_none() {
            detail.body = Some(Arc::new(library::remains(self.version, last)));
        }
    }

    /// Heads and bodies of live tasks. Bodies come first in the order of keys.
    pub(super) fn put_bodies(&mut self, drafts: &[(u64, &TaskDelta)]) -> Result<(), Failure> {
        let seeds = || {
            let live = drafts.iter().filter(|(_, draft)| draft.is_live());
            live.filter_map(|(no, draft)| Some((*no, draft.seed.as_ref()?)))
        };
        let mut writer = self.tables.image(Group::Bodies);
        for (no, seed) in seeds() {
            self.row.clear();
            seed.write_body(&mut self.row);
            writer.push(&body_key(no), Some(&self.row)).map_err(written)?;
        }
        for (no, seed) in seeds() {
            self.row.clear();
            seed.write_head(&mut self.row);
            writer.push(&head_key(no), Some(&self.row)).map_err(written)?;
        }
        self.images.extend(self.tables.seal(writer).map_err(failed)?);
        Ok(())
    }

    pub(super) fn finish(mut self, position: u64, counters: Counters) -> Result<Batch, Failure> {
        let mut rows = self.tables.image(Group::Rows);
        for (key, value) in &self.changed {
            rows.push(key, value.as_deref()).map_err(written)?;
        }
        // Behind all others in the order of keys.
        for (no, row) in &self.states {
            rows.push(&state_key(*no), row.as_deref()).map_err(written)?;
        }
        self.images.extend(self.tables.seal(rows).map_err(failed)?);
        let hints = self.hints()?;
        self.images.extend(self.tables.seal(hints).map_err(failed)?);
        for writer in self.finals.into_values() {
            self.images.extend(self.tables.seal(writer).map_err(failed)?);
        }
        Ok(Batch { tables: self.images, ended: self.ends, position, counters })
    }

    fn hints(&mut self) -> Result<tables::TableWriter, Failure> {
        // Stable, so that of equal ones the later stays last.
        self.hints.sort_by_key(|(key, _)| *key);
        let mut writer = self.tables.image(Group::Keys);
        let mut hints = self.hints.iter().peekable();
        while let Some((key, until)) = hints.next() {
            if hints.peek().is_some_and(|(next, _)| next == key) {
                continue;
            }
            let row = until.map(write_until);
            writer.keep_until(until.map_or(i64::MAX, Time::millis));
            writer.push(key, row.as_ref().map(<[u8; 8]>::as_slice)).map_err(written)?;
        }
        Ok(writer)
    }
}
