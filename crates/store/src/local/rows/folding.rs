//! Folding: what many transitions come to, as rows of tables.
//!
//! Between two batches the changes of each task are gathered in one draft. What was created and ended meanwhile
//! leaves only its final record; what happened to a task more than once leaves one row.

use crate::local::format::ids::OWN_NUMBERS_END;
use crate::local::format::records::{
    Counters, Detail, Final, IdemKey, QueueRow, StateRow, TaskHead, body_key, bucket_end, dead_expiry_key,
    head_key, hint_key, key_hash, queue_row_key, record_key, state_key, write_until,
};
use crate::local::rows::change::{Change, Fed, Image, Reopened};
use crate::local::rows::library::{self, TaskReader, failed};
use crate::local::tables::{self, Batch, Group, ROWS_PER_PAUSE, Tables, Version};
use codeq_queue::attempt::remember;
use codeq_queue::{Failure, QueueKey, State, Time};
use hashbrown::HashMap;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// A batch writes no more buckets of history than this: records of others are kept in a later one.
const BUCKETS_PER_BATCH_MAX: usize = 8;

/// What has happened to one task since the last batch.
#[derive(Default)]
struct TaskDelta {
    /// Created (or reopened) since the last batch.
    seed: Option<TaskHead>,
    /// The tables have nothing of it.
    is_born: bool,
    /// Boxed: most drafts of a growing queue have none.
    image: Option<Box<Image>>,
    last: Option<Arc<Final>>,
    /// Rows of an earlier end that are to go.
    replaced: Vec<ReplacedRow>,
}

struct ReplacedRow {
    expires: Time,
    is_dead: bool,
    key: Option<IdemKey>,
}

#[derive(Default)]
pub struct FlushBuilder {
    drafts: HashMap<u64, TaskDelta>,
    records: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    queues: BTreeMap<QueueKey, Option<QueueRow>>,
    counters: Counters,
    position: u64,
    bytes: usize,
}

impl FlushBuilder {
    pub fn is_empty(&self) -> bool {
        self.position == 0
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn position(&self) -> u64 {
        self.position
    }

    pub fn add(&mut self, committed: Fed) {
        self.position = committed.position;
        self.counters = committed.counters;
        for change in committed.changes {
            self.add_change(change);
        }
    }

    fn add_change(&mut self, change: Change) {
        self.bytes += 64;
        match change {
            Change::Created { no, seed } => {
                self.bytes += seed.body.bytes();
                // An imported number may have been another task's, even in this batch.
                let is_born = self.drafts.get(&no).is_none_or(|draft| draft.is_born);
                let draft = self.drafts.entry(no).or_default();
                (draft.seed, draft.is_born, draft.last) = (Some(seed), is_born, None);
            }
            Change::Replaced { no, seed } => {
                self.bytes += seed.body.bytes();
                self.drafts.entry(no).or_default().seed = Some(seed);
            }
            Change::State { no, image } => self.drafts.entry(no).or_default().add_image(image),
            Change::Final(last) => {
                self.bytes += 128 + last.record.result.as_ref().map_or(0, |text| text.len());
                let draft = self.drafts.entry(last.sketch.no).or_default();
                draft.image = None;
                draft.last = Some(last);
            }
            Change::Reopened(reopened) => {
                let Reopened { no, seed, image, expires, is_dead, key } = *reopened;
                self.bytes += seed.body.bytes();
                let draft = self.drafts.entry(no).or_default();
                draft.replaced.push(ReplacedRow { expires, is_dead, key });
                (draft.last, draft.seed, draft.image) = (None, Some(seed), Some(Box::new(image)));
            }
            Change::Removed { no, expires, is_dead, key } => {
                let draft = self.drafts.entry(no).or_default();
                draft.replaced.push(ReplacedRow { expires, is_dead, key });
                (draft.last, draft.seed, draft.image) = (None, None, None);
            }
            Change::Record { key, value } => {
                self.bytes += value.as_ref().map_or(0, Vec::len);
                self.records.insert(key, value);
            }
            Change::Queue { queue, row } => {
                self.queues.insert(queue, row);
            }
        }
    }

    /// The tables that bring the shard to [`FlushBuilder::position`]. Does not forget anything yet.
    pub fn batch(&self, library: &TaskReader, now: Time, pause: &dyn Fn()) -> Result<Batch, Failure> {
        let mut drafts: Vec<(u64, &TaskDelta)> = self.drafts.iter().map(|(no, draft)| (*no, draft)).collect();
        drafts.sort_unstable_by_key(|(no, _)| *no);
        let version = library.version();
        let mut rows = BatchRows::new(&library.tables, &version, now);
        rows.plan_buckets(drafts.iter().filter_map(|(_, draft)| draft.last.as_deref()));
        for (index, (no, draft)) in drafts.iter().enumerate() {
            if index % ROWS_PER_PAUSE == 0 {
                pause();
            }
            rows.add(*no, draft)?;
        }
        for (key, value) in &self.records {
            rows.changed.insert(record_key(key), value.clone());
        }
        for (queue, row) in &self.queues {
            rows.changed.insert(queue_row_key(queue), row.as_ref().map(QueueRow::write));
        }
        // Imported numbers lie far above the others; in one table, its range would say nothing.
        let (own, imported) = drafts.split_at(drafts.partition_point(|(no, _)| *no < OWN_NUMBERS_END));
        for drafts in [own, imported] {
            rows.put_bodies(drafts)?;
            pause();
        }
        rows.finish(self.position, self.counters)
    }

    /// Forgets what has been written.
    pub fn clear(&mut self) {
        self.drafts.clear();
        self.records.clear();
        self.queues.clear();
        (self.position, self.bytes) = (0, 0);
    }
}

impl TaskDelta {
    fn add_image(&mut self, mut image: Image) {
        if let Some(mut older) = self.image.take() {
            for attempt in std::mem::take(&mut image.attempts_ended) {
                remember(&mut older.attempts_ended, attempt);
            }
            image.attempts_ended = older.attempts_ended;
            image.error = image.error.or(older.error);
            image.checkpoint = image.checkpoint.or(older.checkpoint);
            image.is_whole |= older.is_whole;
        }
        self.image = Some(Box::new(image));
    }

    fn is_live(&self) -> bool {
        self.last.is_none() && (self.seed.is_some() || self.image.is_some())
    }

    /// What is known of error and history, and of the body.
    fn detail(&self, no: u64, known: &Detail, version: &Version) -> Result<Detail, Failure> {
        let mut detail = known.clone();
        detail.is_whole |= self.is_born;
        if !detail.is_whole || detail.body.is_none() && self.seed.is_none() {
            detail.fill(library::detail(version, no)?.unwrap_or_default());
        }
        Ok(detail)
    }
}

fn written(error: io::Error) -> Failure {
    failed(error.into())
}

/// The rows of a batch on their way into tables.
struct BatchRows<'a> {
    tables: &'a Tables,
    version: &'a Version,
    now: Time,
    /// By the end of the bucket that a record would have by itself.
    buckets: BTreeMap<i64, i64>,
    /// Tables of tasks that ended.
    finals: BTreeMap<Group, tables::TableWriter>,
    images: Vec<tables::Image>,
    changed: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    hints: Vec<([u8; 16], Option<Time>)>,
    /// Live tasks that the tables have and that ended.
    ends: Vec<u64>,
    /// States of live tasks, in the order of their numbers.
    states: Vec<(u64, Option<Vec<u8>>)>,
    /// What the latest row was encoded in.
    row: Vec<u8>,
}

impl<'a> BatchRows<'a> {
    fn new(tables: &'a Tables, version: &'a Version, now: Time) -> BatchRows<'a> {
        BatchRows {
            tables,
            version,
            now,
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
    fn plan_buckets<'f>(&mut self, lasts: impl Iterator<Item = &'f Final>) {
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

    fn add(&mut self, no: u64, draft: &TaskDelta) -> Result<(), Failure> {
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
        if draft.last.is_some() || self.version.has_head(no).map_err(failed)? {
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
        let mut hidden = Vec::new();
        if self.version.get(Group::Dead, &no.to_be_bytes()).map_err(failed)?.is_some() {
            hidden.push(Group::Dead);
        }
        hidden.extend(self.version.ended(no).map_err(failed)?.map(|(end, _)| Group::Ended(end)));
        Ok(hidden)
    }

    fn put_state(&mut self, no: u64, draft: &TaskDelta) -> Result<(), Failure> {
        let Some(image) = &draft.image else {
            return Ok(());
        };
        let known = Detail {
            body: None,
            error: image.error.clone(),
            history: image.attempts_ended.clone(),
            checkpoint: image.checkpoint.clone(),
            is_whole: image.is_whole || draft.is_born,
        };
        let detail = match known.is_whole {
            true => known,
            false => draft.detail(no, &known, self.version)?,
        };
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
            detail = Cow::Owned(draft.detail(no, &detail, self.version)?);
        }
        let body = detail.body.as_deref().or(draft.seed.as_ref().map(|seed| &*seed.body));
        let body = body.ok_or_else(|| Failure::Internal(format!("the body of task {no} is missing")))?;
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

    /// Heads and bodies of live tasks. Bodies come first in the order of keys.
    fn put_bodies(&mut self, drafts: &[(u64, &TaskDelta)]) -> Result<(), Failure> {
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

    fn finish(mut self, position: u64, counters: Counters) -> Result<Batch, Failure> {
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
