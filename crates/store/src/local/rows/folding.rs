//! Folding: what many transitions come to, as rows of tables.
//!
//! Between two batches the changes of each task are gathered in one draft. What was created and ended meanwhile
//! leaves only its final record; what happened to a task more than once leaves one row.

use crate::local::format::ids::OWN_NUMBERS_END;
use crate::local::format::records::{
    Counters, Detail, Final, IdemKey, QueueRow, TaskHead, queue_row_key, record_key,
};
use crate::local::rows::batch::BatchRows;
use crate::local::rows::change::{Change, Fed, Image, Reopened};
use crate::local::rows::library::{self, ReadError, TaskReader};
use crate::local::tables::{Batch, ROWS_PER_PAUSE, Version};
use codeq_queue::attempt::remember;
use codeq_queue::{Failure, QueueKey, Time};
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What has happened to one task since the last batch.
#[derive(Default)]
pub(super) struct TaskDelta {
    /// Created (or reopened) since the last batch.
    pub(super) seed: Option<TaskHead>,
    /// The tables have nothing of it.
    pub(super) is_born: bool,
    /// Boxed: most drafts of a growing queue have none.
    pub(super) image: Option<Box<Image>>,
    pub(super) last: Option<Arc<Final>>,
    /// Rows of an earlier end that are to go.
    pub(super) replaced: Vec<ReplacedRow>,
}

pub(super) struct ReplacedRow {
    pub(super) expires: Time,
    pub(super) is_dead: bool,
    pub(super) key: Option<IdemKey>,
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

    /// The tables that bring the shard to [`FlushBuilder::position`]. Does not forget anything yet. What is damaged in
    /// the tables is done without; with `is_patient`, what cannot be read fails the batch, which may be tried again.
    pub fn batch(
        &self,
        library: &TaskReader,
        now: Time,
        is_patient: bool,
        pause: &dyn Fn(),
    ) -> Result<Batch, Failure> {
        let mut drafts: Vec<(u64, &TaskDelta)> = self.drafts.iter().map(|(no, draft)| (*no, draft)).collect();
        drafts.sort_unstable_by_key(|(no, _)| *no);
        let version = library.version();
        let mut rows = BatchRows::new(library, &version, now, is_patient);
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

    pub(super) fn is_live(&self) -> bool {
        self.last.is_none() && (self.seed.is_some() || self.image.is_some())
    }

    /// Adds what the tables know of error and history, and of the body.
    pub(super) fn fill(&self, no: u64, detail: &mut Detail, version: &Version) -> Result<(), ReadError> {
        detail.is_whole |= self.is_born;
        if !detail.is_whole || detail.body.is_none() && self.seed.is_none() {
            detail.fill(library::detail(version, no)?.unwrap_or_default());
        }
        Ok(())
    }
}
