//! Folding changes of many transitions into one batch of rows.

use super::change::{Change, Fed, Image, Reopened};
use super::library::Library;
use super::records::{
    self, Counters, Detail, Final, INLINE_PAYLOAD, IdemKey, QueueRow, Seed, StateRow, dead_expiry_key, no_key,
};
use super::tree::{self, AT_ONCE, Batch, Bytes, Pause, Space};
use codeq_queue::attempt::remember;
use codeq_queue::{Failure, QueueKey, State, Time};
use hashbrown::{HashMap, HashSet};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What has happened to one task since the last batch.
#[derive(Default)]
struct Draft {
    /// Created (or reopened) since the last batch.
    seed: Option<Seed>,
    /// The tree has nothing of it.
    is_born: bool,
    /// Boxed: most drafts of a growing queue have none.
    image: Option<Box<Image>>,
    last: Option<Arc<Final>>,
    /// Removed since the last batch, and not reopened.
    is_gone: bool,
    /// Rows of an earlier end that are to go.
    stale: Vec<Stale>,
}

struct Stale {
    expires: Time,
    is_dead: bool,
    key: Option<IdemKey>,
}

pub struct Fold {
    drafts: HashMap<u64, Draft>,
    records: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    queues: BTreeMap<QueueKey, Option<QueueRow>>,
    counters: Counters,
    position: u64,
    bytes: usize,
    /// Live tasks that have a row in [`Space::State`].
    stated: HashSet<u64>,
    buckets: Buckets,
}

/// Which bucket takes the records that expire in one stretch of time.
///
/// A stretch has one bucket at first. Every batch adds a table to it, and the tree merges all tables of a
/// bucket at once when there are too many, so a full bucket is followed by another for the same stretch,
/// one millisecond later in name.
struct Buckets {
    width: i64,
    /// The bucket in use and how many batches went into it, by the end of the stretch.
    filling: BTreeMap<i64, (i64, u32)>,
}

/// Batches that one bucket takes.
const BUCKET_BATCHES: u32 = 150;

impl Buckets {
    fn new(retention: Duration, existing: &[i64]) -> Buckets {
        let width = (retention / 16).clamp(Duration::from_secs(10), Duration::from_secs(3600));
        let width = i64::try_from(width.as_millis()).expect("at most an hour");
        let mut buckets = Buckets { width, filling: BTreeMap::new() };
        for end in existing {
            let stretch = end.div_euclid(width) * width;
            buckets.filling.insert(stretch, (*end, 0));
        }
        buckets
    }

    /// The end of the stretch that this instant falls into.
    fn stretch(&self, expires: Time) -> i64 {
        expires.millis().div_euclid(self.width).saturating_add(1).saturating_mul(self.width)
    }

    fn of(&self, expires: Time) -> i64 {
        let stretch = self.stretch(expires);
        self.filling.get(&stretch).map_or(stretch, |(end, _)| *end)
    }

    fn count(&mut self, stretches: HashSet<i64>, now: Time) {
        for stretch in stretches {
            let (end, batches) = self.filling.entry(stretch).or_insert((stretch, 0));
            *batches += 1;
            if *batches >= BUCKET_BATCHES {
                (*end, *batches) = (*end + 1, 0);
            }
        }
        self.filling.retain(|stretch, _| *stretch > now.millis());
    }
}

impl Fold {
    /// `stated`: the tasks that have a state row in the tree now.
    pub fn new(stated: HashSet<u64>, retention: Duration, existing_buckets: &[i64]) -> Fold {
        Fold {
            drafts: HashMap::new(),
            records: BTreeMap::new(),
            queues: BTreeMap::new(),
            counters: Counters::default(),
            position: 0,
            bytes: 0,
            stated,
            buckets: Buckets::new(retention, existing_buckets),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.position == 0
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn position(&self) -> u64 {
        self.position
    }

    pub fn add(&mut self, fed: Fed) {
        self.position = fed.position;
        self.counters = fed.counters;
        for change in fed.changes {
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
            Change::State { no, image } => self.drafts.entry(no).or_default().add_image(image),
            Change::Final(last) => {
                self.bytes += 128 + last.record.result.as_ref().map_or(0, |text| text.len());
                let draft = self.drafts.entry(last.sketch.no).or_default();
                draft.image = None;
                draft.last = Some(last);
            }
            Change::Reopened(reopened) => {
                let Reopened { no, seed, image, expires, key } = *reopened;
                self.bytes += seed.body.bytes();
                let draft = self.drafts.entry(no).or_default();
                draft.stale.push(Stale { expires, is_dead: true, key });
                (draft.last, draft.seed, draft.image) = (None, Some(seed), Some(Box::new(image)));
            }
            Change::Removed { no, expires, is_dead, key } => {
                let draft = self.drafts.entry(no).or_default();
                draft.stale.push(Stale { expires, is_dead, key });
                (draft.last, draft.seed, draft.image, draft.is_gone) = (None, None, None, true);
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

    /// The rows that bring the tree to [`Fold::position`]. Does not forget anything yet.
    pub fn batch(&self, library: &Library, now: Time, pause: Pause) -> Result<Batch, Failure> {
        let mut rows = Rows::new(&self.buckets);
        let mut drafts: Vec<(u64, &Draft)> = self.drafts.iter().map(|(no, draft)| (*no, draft)).collect();
        drafts.sort_unstable_by_key(|(no, _)| *no);
        // First, because a key may have a new task, and of two changes the later counts.
        for (no, draft) in &drafts {
            for stale in &draft.stale {
                rows.remove_final(*no, stale, library)?;
            }
        }
        for (index, (no, draft)) in drafts.into_iter().enumerate() {
            if index % AT_ONCE == 0 {
                pause();
            }
            let is_stated = self.stated.contains(&no);
            draft.write(no, is_stated, library, now, &mut rows)?;
        }
        for (key, value) in &self.records {
            rows.change(Space::Record, key, value.as_deref());
        }
        for (queue, row) in &self.queues {
            let row = row.as_ref().map(QueueRow::write);
            rows.change(Space::Meta, &records::queue_row_key(queue), row.as_deref());
        }
        rows.put(Space::Meta, records::COUNTERS_KEY, &self.counters.write());
        Ok(Batch { changes: rows.changes.into_iter().flatten().collect(), applied: self.position })
    }

    /// Forgets what has been written.
    pub fn clear(&mut self, now: Time, pause: Pause) {
        let mut stretches = HashSet::new();
        for (index, (no, draft)) in self.drafts.drain().enumerate() {
            if index % AT_ONCE == 0 {
                pause();
            }
            if let Some(last) = draft.last.as_ref().filter(|last| last.sketch.state != State::Dead) {
                stretches.insert(self.buckets.stretch(last.expires));
            }
            if draft.is_live() && draft.image.is_some() {
                self.stated.insert(no);
            } else if !draft.is_live() {
                self.stated.remove(&no);
            }
        }
        self.buckets.count(stretches, now);
        self.records.clear();
        self.queues.clear();
        (self.position, self.bytes) = (0, 0);
    }
}

impl Draft {
    fn add_image(&mut self, mut image: Image) {
        if let Some(mut older) = self.image.take() {
            for attempt in std::mem::take(&mut image.attempts_ended) {
                remember(&mut older.attempts_ended, attempt);
            }
            image.attempts_ended = older.attempts_ended;
            image.error = image.error.or(older.error);
            image.is_whole |= older.is_whole;
        }
        self.image = Some(Box::new(image));
    }

    fn is_live(&self) -> bool {
        self.last.is_none() && (self.seed.is_some() || self.image.is_some())
    }

    fn write(
        &self,
        no: u64,
        is_stated: bool,
        library: &Library,
        now: Time,
        rows: &mut Rows<'_>,
    ) -> Result<(), Failure> {
        match &self.last {
            Some(last) => self.write_final(no, is_stated, last, library, now, rows),
            None if self.is_live() => self.write_live(no, is_stated, library, rows),
            None => {
                // It may have ended only since the last batch: then its live rows are still there.
                if self.is_gone && !self.is_born {
                    rows.delete(Space::Task, &no_key(no));
                    rows.delete(Space::Payload, &no_key(no));
                }
                if is_stated {
                    rows.delete(Space::State, &no_key(no));
                }
                Ok(())
            }
        }
    }

    fn write_live(
        &self,
        no: u64,
        is_stated: bool,
        library: &Library,
        rows: &mut Rows<'_>,
    ) -> Result<(), Failure> {
        if let Some(seed) = &self.seed {
            let row = rows.encode(|bytes| seed.write(bytes));
            rows.push(Space::Task, &no_key(no), Some(row));
            if let Some(payload) = seed.payload_apart() {
                rows.put(Space::Payload, &no_key(no), payload.as_bytes());
            } else if !self.is_born {
                rows.delete(Space::Payload, &no_key(no));
            }
        }
        let Some(image) = &self.image else { return Ok(()) };
        let mut detail = Detail {
            body: None,
            error: image.error.clone(),
            history: image.attempts_ended.clone(),
            is_whole: image.is_whole || self.is_born,
        };
        if !detail.is_whole && is_stated {
            detail.fill(library.detail(no)?.unwrap_or_default());
        }
        let row = StateRow {
            updated_at: image.updated_at,
            attempts: image.attempts,
            refunds: image.refunds,
            max_attempts: image.max_attempts,
            state: image.state.clone(),
            error: detail.error,
            history: detail.history,
        };
        rows.put(Space::State, &no_key(no), &row.write());
        Ok(())
    }

    fn write_final(
        &self,
        no: u64,
        is_stated: bool,
        last: &Final,
        library: &Library,
        now: Time,
        rows: &mut Rows<'_>,
    ) -> Result<(), Failure> {
        let is_dead = last.sketch.state == State::Dead;
        let is_over = !is_dead && last.expires <= now;
        let is_kept = !is_over;
        let mut detail = Cow::Borrowed(&last.sketch.detail);
        if detail.body.is_none() {
            detail.to_mut().body = self.seed.as_ref().map(|seed| seed.body.clone());
        }
        if !detail.is_complete() && (is_kept || !self.is_born) {
            detail.to_mut().fill(library.detail(no)?.unwrap_or_default());
        }
        let body = detail.body.as_deref();
        if is_kept {
            let body = body.ok_or_else(|| Failure::Internal(format!("the body of task {no} is missing")))?;
            let row = rows.encode(|bytes| last.write(body, &detail, bytes));
            rows.put_final(no, last, is_dead, row);
        }
        if !self.is_born {
            rows.delete(Space::Task, &no_key(no));
            if self.is_gone || body.is_some_and(|body| body.payload.len() > INLINE_PAYLOAD) {
                rows.delete(Space::Payload, &no_key(no));
            }
        }
        if is_stated {
            rows.delete(Space::State, &no_key(no));
        }
        Ok(())
    }
}

struct Rows<'a> {
    /// History, its keys, and the rest: so that many that follow each other go to the same place.
    changes: [Vec<tree::Change>; 3],
    /// What the latest row was encoded in.
    row: Vec<u8>,
    buckets: &'a Buckets,
}

impl Rows<'_> {
    fn new(buckets: &Buckets) -> Rows<'_> {
        Rows { changes: Default::default(), row: Vec::new(), buckets }
    }

    fn push(&mut self, space: Space, key: &[u8], value: Option<Bytes>) {
        let list = match space {
            Space::History(_) => 0,
            Space::HistoryKey(_) => 1,
            _ => 2,
        };
        self.changes[list].push(tree::Change { space, key: key.into(), value });
    }

    fn encode(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
        self.row.clear();
        write(&mut self.row);
        Bytes::from(&*self.row)
    }

    fn change(&mut self, space: Space, key: &[u8], value: Option<&[u8]>) {
        self.push(space, key, value.map(Into::into));
    }

    fn put(&mut self, space: Space, key: &[u8], value: &[u8]) {
        self.change(space, key, Some(value));
    }

    fn delete(&mut self, space: Space, key: &[u8]) {
        self.change(space, key, None);
    }

    fn put_final(&mut self, no: u64, last: &Final, is_dead: bool, row: Bytes) {
        let bucket = self.buckets.of(last.expires);
        let (rows, keys) = match is_dead {
            true => (Space::Dead, Space::DeadKey),
            false => (Space::History(bucket), Space::HistoryKey(bucket)),
        };
        self.push(rows, &no_key(no), Some(row));
        if let Some(key) = &last.key {
            self.put(keys, key, &no_key(no));
        }
        if is_dead && last.expires < Time::MAX {
            self.put(Space::Record, &dead_expiry_key(last.expires, no), &[]);
        }
    }

    fn remove_final(&mut self, no: u64, stale: &Stale, library: &Library) -> Result<(), Failure> {
        let spaces = match stale.is_dead {
            true => Some((Space::Dead, Space::DeadKey)),
            false => library
                .bucket_of(no, stale.expires)?
                .map(|bucket| (Space::History(bucket), Space::HistoryKey(bucket))),
        };
        if let Some((rows, keys)) = spaces {
            self.delete(rows, &no_key(no));
            if let Some(key) = &stale.key {
                self.delete(keys, key);
            }
        }
        if stale.is_dead && stale.expires < Time::MAX {
            self.delete(Space::Record, &dead_expiry_key(stale.expires, no));
        }
        Ok(())
    }
}
