//! The rows of live tasks, in parts by their numbers.
//!
//! Tasks come at one end of the numbers and go at the other. In one space every table of deletions would
//! lie across all the rows in between, and to merge them the library would write a whole backlog anew, again
//! and again, while writers wait. So each range of numbers has a space of its own. It goes as a whole when
//! nearly all of its tasks have gone; the few that stay move to the common space.
//!
//! A row lies in the part of its number if there is one, otherwise in the common space. A part is made only
//! behind all others, and the last one stays. So a number whose rows may lie in the common space never gets
//! a part.
//!
//! New tasks of a batch, when they are many, come as finished tables before the rest of it. Up to which number
//! tasks belong to the position is written with the position; what a crash left behind that number is deleted
//! on opening.

use super::super::{Change, Space};
use super::database::{Db, deleted_rows, options};
use super::finish_soon;
use super::view::Bounds;
use ::fjall::{Error, Keyspace, PersistMode, Slice, Snapshot};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::{Bound, RangeInclusive};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Numbers of one part: the tables of one are merged in a fraction of a second, if ever. Belongs to the format:
/// with another number nothing would be where it is looked for.
const SPAN: u64 = if cfg!(test) { 1 << 12 } else { 1 << 18 };
/// Numbers that are given out one after the other are below; imported tasks have others.
const IN_ORDER: u64 = 1 << 44;
/// Rows that may stay behind when a part goes.
const FEW: u64 = SPAN / 16;
/// New rows that are worth a table of their own: fewer are written sooner with the rest of the batch, and do not
/// add to the tables that are to be merged.
const MANY: usize = SPAN as usize / 64;
/// Below this number are the tasks that belong to the position.
pub const FILLED: &str = "filled";

pub type Parts = BTreeMap<u64, Keyspace>;

/// The parts there are, and what is known of them.
#[derive(Default)]
pub struct Tasks {
    parts: RwLock<Arc<Parts>>,
    /// The first part that may be made.
    free: AtomicU64,
    /// What is written under [`FILLED`].
    filled: AtomicU64,
    /// The rows of parts that were counted: those made since the opening, and those that seemed to be nearly empty.
    counted: Mutex<BTreeMap<u64, Census>>,
    /// Held for writing while rows move to the common space, for reading while a view is made.
    gate: RwLock<()>,
    /// Views that are open.
    views: AtomicUsize,
}

/// Where a row lies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Home {
    pub space: Space,
    pub part: Option<u64>,
}

/// Where a change goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub home: Home,
    /// A task in a part, and the tree has never seen it.
    is_new: bool,
}

impl Place {
    /// Buckets have nothing but tables.
    pub fn is_worth_a_table(self, rows: usize) -> bool {
        self.home.space.bucket().is_some() || self.is_new && rows >= MANY
    }
}

impl From<Space> for Home {
    fn from(space: Space) -> Home {
        Home { space, part: None }
    }
}

/// The number of a task that may lie in a part.
fn number_of(key: &[u8]) -> Option<u64> {
    key.try_into().ok().map(u64::from_be_bytes).filter(|no| *no < IN_ORDER)
}

/// The part that a task's row would lie in.
pub fn part_of(key: &[u8]) -> Option<u64> {
    number_of(key).map(|no| no / SPAN)
}

/// The parts in which keys between these bounds may lie.
pub fn parts_between((from, to): &Bounds) -> RangeInclusive<u64> {
    let part = |bound: &Bound<Vec<u8>>, filler: u8| {
        let (Bound::Included(key) | Bound::Excluded(key)) = bound else { return None };
        let mut no = [filler; 8];
        no.iter_mut().zip(key).for_each(|(byte, of_key)| *byte = *of_key);
        Some(u64::from_be_bytes(no) / SPAN)
    };
    let first = part(from, 0).unwrap_or(0);
    first..=part(to, u8::MAX).unwrap_or(u64::MAX).max(first)
}

fn home_of(part: u64) -> Home {
    Home { space: Space::Task, part: Some(part) }
}

fn name(part: u64) -> String {
    format!("task.{part}")
}

pub fn parse(name: &str) -> Option<u64> {
    name.strip_prefix("task.")?.parse().ok()
}

fn mark(part: u64) -> String {
    format!("retired.{part}")
}

impl Db {
    pub fn parts(&self) -> Arc<Parts> {
        self.tasks.parts.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change_parts(&self, change: impl FnOnce(&mut Parts)) {
        change(Arc::make_mut(&mut self.tasks.parts.write().unwrap_or_else(PoisonError::into_inner)));
    }

    /// The rows of this instant. No part goes until `end_view`.
    pub fn begin_view(&self) -> (Snapshot, Arc<Parts>) {
        let _gate = self.tasks.gate.read().unwrap_or_else(PoisonError::into_inner);
        self.tasks.views.fetch_add(1, Ordering::AcqRel);
        (self.library.snapshot(), self.parts())
    }

    pub fn end_view(&self) {
        self.tasks.views.fetch_sub(1, Ordering::AcqRel);
    }

    pub fn is_viewed(&self) -> bool {
        self.tasks.views.load(Ordering::Acquire) > 0
    }

    /// Opens the parts that are there. What a crash left of one whose rows had moved already goes.
    pub fn open_parts(&self, names: impl Iterator<Item = u64>) -> Result<(), Error> {
        for part in names {
            let rows = self.make_part(part)?;
            self.count([(home_of(part), deleted_rows(&rows))].into());
            if self.position.get(mark(part))?.is_some() {
                self.forget_part(part);
                self.discard(part, rows)?;
            }
        }
        let last = self.parts().keys().next_back().copied();
        let rows = self.make(Space::Task)?;
        let free = last.max(last_number(&rows)?.map(|no| no / SPAN)).map_or(0, |part| part + 1);
        self.tasks.free.store(free, Ordering::Relaxed);
        match self.number(FILLED)? {
            Some(filled) => {
                self.set_filled(filled);
                self.delete_beyond(filled)
            }
            // Written by a version that had no tables of tasks.
            None => {
                let mut filled = 0;
                for rows in self.parts().values().chain([&rows]) {
                    filled = filled.max(last_number(rows)?.map_or(0, |no| no + 1));
                }
                self.set_filled(filled);
                let mut write = self.library.batch().durability(Some(PersistMode::SyncAll));
                write.insert(&self.position, FILLED, filled.to_be_bytes());
                write.commit()
            }
        }
    }

    /// Deletes what a batch that did not come to its end left in tables.
    fn delete_beyond(&self, filled: u64) -> Result<(), Error> {
        let mut write = self.library.batch().durability(Some(PersistMode::SyncAll));
        let mut deletes = BTreeMap::new();
        for (part, rows) in self.parts().range(filled / SPAN..) {
            for row in rows.range(filled.to_be_bytes()..) {
                write.remove(rows, row.key()?);
                *deletes.entry(home_of(*part)).or_default() += 1;
            }
        }
        if deletes.is_empty() {
            return Ok(());
        }
        self.count(deletes);
        write.commit()
    }

    pub fn set_filled(&self, filled: u64) {
        self.tasks.filled.store(filled, Ordering::Relaxed);
    }

    /// What is below belongs to the position once these changes do.
    pub fn filled_after(&self, changes: &[Change]) -> u64 {
        let tasks = changes.iter().filter(|change| change.space == Space::Task);
        let last = tasks.filter_map(|change| number_of(&change.key)).max();
        self.tasks.filled.load(Ordering::Relaxed).max(last.map_or(0, |no| no + 1))
    }

    /// `parts`: those that are there.
    pub fn place(&self, change: &Change, parts: &Parts) -> Place {
        let common = Place { home: change.space.into(), is_new: false };
        let Some(no) = number_of(&change.key).filter(|_| change.space == Space::Task) else { return common };
        let part = no / SPAN;
        let is_new = no >= self.tasks.filled.load(Ordering::Relaxed);
        // What deletes a new row goes where the row itself goes.
        let may_be_made =
            || (is_new || change.value.is_some()) && part >= self.tasks.free.load(Ordering::Relaxed);
        if parts.contains_key(&part) || may_be_made() {
            Place { home: home_of(part), is_new }
        } else {
            common
        }
    }

    pub fn last_part(&self) -> Option<(Home, Keyspace)> {
        let parts = self.parts();
        let (part, rows) = parts.last_key_value()?;
        Some((home_of(*part), rows.clone()))
    }

    /// A part that is there, or is made.
    pub fn part(&self, part: u64) -> Result<Keyspace, Error> {
        if let Some(rows) = self.parts().get(&part) {
            return Ok(rows.clone());
        }
        let rows = self.make_part(part)?;
        self.tasks.free.fetch_max(part + 1, Ordering::Relaxed);
        self.counted().insert(part, Census::default());
        Ok(rows)
    }

    fn make_part(&self, part: u64) -> Result<Keyspace, Error> {
        let rows = self.make_keyspace(&name(part), || options(Space::Task))?;
        self.change_parts(|parts| drop(parts.insert(part, rows.clone())));
        Ok(rows)
    }

    fn forget_part(&self, part: u64) {
        self.change_parts(|parts| drop(parts.remove(&part)));
        self.counted().remove(&part);
        self.forget_deleted(home_of(part));
    }

    /// The files of a part that is forgotten, and then its mark.
    fn discard(&self, part: u64, rows: Keyspace) -> Result<(), Error> {
        self.remove_keyspace(rows)?;
        self.position.remove(mark(part))
    }

    /// Lets the first part go of which few rows are left, unless someone looks at the rows of an instant.
    /// The caller keeps others from writing. True if one went.
    pub fn retire_part(&self) -> Result<bool, Error> {
        let parts = self.parts();
        for (part, rows) in parts.iter().take(parts.len().saturating_sub(1)) {
            let Some(left) = self.few(*part, rows)? else { continue };
            let gate = self.tasks.gate.write().unwrap_or_else(PoisonError::into_inner);
            if !finish_soon(|| self.is_viewed()) {
                return Ok(false);
            }
            self.move_out(*part, left)?;
            self.forget_part(*part);
            drop(gate);
            self.drops.fetch_add(1, Ordering::Relaxed);
            self.discard(*part, rows.clone())?;
            return Ok(true);
        }
        Ok(false)
    }

    fn counted(&self) -> MutexGuard<'_, BTreeMap<u64, Census>> {
        self.tasks.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts rows that are put into a part or deleted from it.
    pub fn take_census(&self, home: Home, changes: &[Change]) {
        let Some(part) = home.part else { return };
        if let Some(census) = self.counted().get_mut(&part) {
            for change in changes {
                census.count(&change.key, change.value.is_some());
            }
        }
    }

    /// The rows of a part, if they are few. To count those of a part that was there before the opening takes a
    /// fraction of a second, so that is done when it pays.
    fn few(&self, part: u64, rows: &Keyspace) -> Result<Option<Vec<(Slice, Slice)>>, Error> {
        let mut counted = self.counted();
        let census = match counted.entry(part) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let deleted = self.deleted(home_of(part));
                if (rows.approximate_len() as u64).saturating_sub(2 * deleted) > FEW {
                    return Ok(None);
                }
                unknown.insert(Census::of(rows)?)
            }
        };
        if census.rows > FEW {
            return Ok(None);
        }
        let left = census.numbers(part).map(|no| {
            let key = no.to_be_bytes();
            let row = rows.get(key)?.ok_or(Error::Unrecoverable)?;
            Ok((Slice::new(&key), row))
        });
        left.collect::<Result<_, Error>>().map(Some)
    }

    /// Rows and the mark in one batch: whatever happens then, the part is not read again.
    fn move_out(&self, part: u64, left: Vec<(Slice, Slice)>) -> Result<(), Error> {
        let common = self.make(Space::Task)?;
        let mut write = self.library.batch().durability(Some(PersistMode::SyncAll));
        for (key, row) in left {
            write.insert(&common, key, row);
        }
        write.insert(&self.position, mark(part), []);
        write.commit()
    }
}

/// The last task that may lie in a part.
fn last_number(rows: &Keyspace) -> Result<Option<u64>, Error> {
    match rows.range::<&[u8], _>(..&IN_ORDER.to_be_bytes()[..]).next_back() {
        Some(row) => Ok(number_of(&row.key()?)),
        None => Ok(None),
    }
}

/// Which rows a part has: a bit for each of its numbers.
#[derive(Default)]
struct Census {
    words: Vec<u64>,
    rows: u64,
}

impl Census {
    fn of(rows: &Keyspace) -> Result<Census, Error> {
        let mut census = Census::default();
        for row in rows.iter() {
            census.count(&row.key()?, true);
        }
        Ok(census)
    }

    fn count(&mut self, key: &[u8], is_there: bool) {
        let Some(no) = number_of(key) else { return };
        let at = usize::try_from(no % SPAN).expect("smaller than a part");
        self.words.resize((SPAN / 64) as usize, 0);
        let (word, bit) = (&mut self.words[at / 64], 1 << (at % 64));
        self.rows -= u64::from(*word & bit != 0);
        *word = if is_there { *word | bit } else { *word & !bit };
        self.rows += u64::from(is_there);
    }

    fn numbers(&self, part: u64) -> impl Iterator<Item = u64> {
        let bits = (0..).zip(&self.words).flat_map(|(at, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit)
        });
        bits.map(move |bit| part * SPAN + bit)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Batch;
    use super::*;
    use ::fjall::AbstractTree;

    fn change(no: u64, value: Option<&str>) -> Change {
        let value = value.map(Into::into);
        Change { space: Space::Task, key: no.to_be_bytes().into(), value }
    }

    fn open(path: &std::path::Path) -> Db {
        Db::open(path, 1 << 20).unwrap().0
    }

    fn commit(db: &Db, batch: Batch) -> Result<(), Error> {
        db.commit(batch, &|| ())
    }

    fn row(rows: &Keyspace, no: u64) -> bool {
        rows.get(no.to_be_bytes()).unwrap().is_some()
    }

    /// The first part has just too many rows to go, the second has one.
    fn two_parts(path: &std::path::Path) -> Db {
        let db = open(path);
        let changes = (0..=FEW).chain([SPAN]).map(|no| change(no, Some("a"))).collect();
        commit(&db, Batch { changes, applied: 1 }).unwrap();
        db
    }

    #[test]
    fn a_part_whose_rows_have_moved_is_gone_after_a_crash_before_it_went() {
        let directory = tempfile::tempdir().unwrap();
        let db = two_parts(directory.path());
        assert_eq!(db.parts().keys().copied().collect::<Vec<_>>(), [0, 1]);
        let left = db.parts()[&0].iter().map(|row| row.into_inner().unwrap()).collect();
        db.move_out(0, left).unwrap();
        drop(db);
        for _ in 0..2 {
            let db = open(directory.path());
            assert_eq!(db.parts().keys().copied().collect::<Vec<_>>(), [1]);
            assert!(row(&db.space(Space::Task).unwrap(), 1));
            assert!(db.position.get(mark(0)).unwrap().is_none(), "the mark has done its work");
        }
        let db = open(directory.path());
        let changes = vec![change(1, None), change(2, Some("b")), change(SPAN * 2, Some("c"))];
        commit(&db, Batch { changes, applied: 2 }).unwrap();
        assert_eq!(db.parts().keys().copied().collect::<Vec<_>>(), [2], "an old part is not made again");
        let common = db.space(Space::Task).unwrap();
        assert!(!row(&common, 1) && row(&common, 2));
    }

    /// Data of before there were parts has everything in the common space.
    #[test]
    fn the_first_part_begins_behind_what_the_common_space_has() {
        let directory = tempfile::tempdir().unwrap();
        let db = open(directory.path());
        let common = db.make(Space::Task).unwrap();
        for no in [7, SPAN + 7, IN_ORDER + 7] {
            common.insert(no.to_be_bytes(), "old").unwrap();
        }
        drop((common, db));
        let db = open(directory.path());
        let changes = vec![change(SPAN + 8, Some("new")), change(2 * SPAN, Some("new")), change(7, None)];
        commit(&db, Batch { changes, applied: 1 }).unwrap();
        let common = db.space(Space::Task).unwrap();
        assert_eq!(db.parts().keys().copied().collect::<Vec<_>>(), [2]);
        assert!(row(&common, SPAN + 8) && !row(&common, 7));
    }

    /// The next crash point: the part has gone, its mark has not.
    #[test]
    fn a_mark_that_outlives_its_part_does_no_harm() {
        let directory = tempfile::tempdir().unwrap();
        let db = two_parts(directory.path());
        let rows = db.parts()[&0].clone();
        db.move_out(0, rows.iter().map(|row| row.into_inner().unwrap()).collect()).unwrap();
        db.remove_keyspace(rows).unwrap();
        drop(db);
        let db = open(directory.path());
        assert_eq!(db.parts().keys().copied().collect::<Vec<_>>(), [1]);
        let changes = vec![change(0, None), change(SPAN + 1, Some("b")), change(9 * SPAN, Some("c"))];
        commit(&db, Batch { changes, applied: 2 }).unwrap();
        let common = db.space(Space::Task).unwrap();
        assert!(!row(&common, 0) && row(&common, 1) && row(&common, FEW));
    }

    fn many(from: u64, to: u64) -> Vec<Change> {
        (from..to).map(|no| change(no, Some("a"))).collect()
    }

    fn numbers(db: &Db) -> Vec<u64> {
        let parts = db.parts();
        let rows =
            parts.values().flat_map(|rows| rows.iter().map(|row| number_of(&row.key().unwrap()).unwrap()));
        rows.collect()
    }

    /// A process that died there found tasks in its tree that the journal then created again, and some of them
    /// had ended by then.
    #[test]
    fn new_tasks_of_a_batch_that_was_cut_off_are_gone() {
        let directory = tempfile::tempdir().unwrap();
        let end = SPAN + MANY as u64;
        let db = open(directory.path());
        commit(&db, Batch { changes: many(0, SPAN - 1), applied: 1 }).unwrap();
        assert!(db.parts()[&0].tree.active_memtable().is_empty(), "they came as a table");
        db.ingest(home_of(0), many(SPAN - 1, SPAN), &|| ()).unwrap();
        db.ingest(home_of(1), many(SPAN, end), &|| ()).unwrap();
        assert_eq!(numbers(&db), (0..end).collect::<Vec<_>>());
        drop(db);
        for _ in 0..2 {
            let db = open(directory.path());
            assert_eq!(numbers(&db), (0..SPAN - 1).collect::<Vec<_>>());
        }
        let db = open(directory.path());
        // The journal tells of them again; by now every other one has ended.
        let changes = many(SPAN - 1, end).into_iter().step_by(2).collect();
        commit(&db, Batch { changes, applied: 2 }).unwrap();
        let left: Vec<u64> = (0..SPAN - 1).chain((SPAN - 1..end).step_by(2)).collect();
        assert_eq!(numbers(&db), left);
        drop(db);
        assert_eq!(numbers(&open(directory.path())), left);
    }

    /// Claims waited for a third of a second whenever a part went, because all of its rows were looked at first.
    #[test]
    fn a_part_is_counted_as_its_rows_come_and_go() {
        let directory = tempfile::tempdir().unwrap();
        let mut db = open(directory.path());
        let counted = |db: &Db| {
            let census = &db.counted()[&0];
            (census.rows, census.numbers(0).collect::<Vec<u64>>())
        };
        let expected = |numbers: Vec<u64>| (numbers.len() as u64, numbers);
        // As a table, one by one, and twice.
        let mut changes = many(0, SPAN - 9);
        changes.push(change(7, None));
        commit(&db, Batch { changes, applied: 1 }).unwrap();
        commit(&db, Batch { changes: many(SPAN - 9, SPAN + 1), applied: 2 }).unwrap();
        commit(&db, Batch { changes: many(SPAN - 20, SPAN), applied: 3 }).unwrap();
        assert_eq!(counted(&db), expected((0..SPAN).filter(|no| *no != 7).collect()));
        let odd: Vec<u64> = (0..SPAN).filter(|no| no % 2 == 1).collect();
        let changes = odd.iter().chain(&odd).map(|no| change(*no, None)).collect();
        commit(&db, Batch { changes, applied: 4 }).unwrap();
        assert_eq!(counted(&db), expected((0..SPAN).step_by(2).collect()));
        drop(db);
        // After an opening nothing is known until it seems to pay.
        db = open(directory.path());
        assert!(!db.retire_part().unwrap() && db.counted().is_empty());
        let changes = (0..SPAN - 2).step_by(2).map(|no| change(no, None)).collect();
        commit(&db, Batch { changes, applied: 5 }).unwrap();
        assert!(db.retire_part().unwrap());
        assert_eq!(db.parts().keys().copied().collect::<Vec<_>>(), [1]);
        assert!(row(&db.space(Space::Task).unwrap(), SPAN - 2));
    }

    #[test]
    fn a_scan_looks_at_all_parts_that_its_bounds_touch() {
        let key = |no: u64| no.to_be_bytes().to_vec();
        let cases: [(Bounds, RangeInclusive<u64>); 6] = [
            ((Bound::Unbounded, Bound::Unbounded), 0..=u64::MAX),
            ((Bound::Included(key(SPAN)), Bound::Excluded(key(2 * SPAN - 1))), 1..=1),
            ((Bound::Included(key(SPAN - 1)), Bound::Excluded(key(SPAN + 1))), 0..=1),
            ((Bound::Included(vec![]), Bound::Included(vec![])), 0..=u64::MAX / SPAN),
            ((Bound::Excluded([key(SPAN), vec![7]].concat()), Bound::Unbounded), 1..=u64::MAX),
            ((Bound::Included(key(2 * SPAN)), Bound::Excluded(key(0))), 2..=2),
        ];
        for (bounds, parts) in cases {
            assert_eq!(parts_between(&bounds), parts, "{bounds:?}");
        }
    }

    #[test]
    fn tasks_of_before_there_were_tables_stay() {
        let directory = tempfile::tempdir().unwrap();
        let db = open(directory.path());
        commit(&db, Batch { changes: many(0, 3 * SPAN), applied: 1 }).unwrap();
        // The last part is there and empty.
        let changes = (2 * SPAN..3 * SPAN).map(|no| change(no, None)).collect();
        commit(&db, Batch { changes, applied: 2 }).unwrap();
        db.position.remove(FILLED).unwrap();
        drop(db);
        for _ in 0..2 {
            let db = open(directory.path());
            assert_eq!(db.number(FILLED).unwrap(), Some(2 * SPAN));
            assert_eq!(numbers(&db).len() as u64, 2 * SPAN);
        }
    }

    /// The table comes first, and its part is made before the one of lower numbers, which then goes at once.
    #[test]
    fn a_few_new_tasks_before_a_part_full_of_them() {
        let directory = tempfile::tempdir().unwrap();
        let db = open(directory.path());
        let changes = [3, 9].map(|no| change(no, Some("a"))).into_iter().chain(many(SPAN, 2 * SPAN));
        commit(&db, Batch { changes: changes.collect(), applied: 1 }).unwrap();
        assert_eq!(db.tasks.free.load(Ordering::Relaxed), 2);
        drop(db);
        let db = open(directory.path());
        assert_eq!(numbers(&db), (SPAN..2 * SPAN).collect::<Vec<_>>());
        let common = db.space(Space::Task).unwrap();
        assert!(row(&common, 3) && row(&common, 9));
    }

    #[test]
    fn the_last_change_of_a_new_task_wins_in_a_table_too() {
        let directory = tempfile::tempdir().unwrap();
        let db = open(directory.path());
        let mut changes = many(0, SPAN);
        changes.extend([change(3, None), change(4, None), change(4, Some("b"))]);
        commit(&db, Batch { changes, applied: 1 }).unwrap();
        assert_eq!(numbers(&db).len() as u64, SPAN - 1);
        assert_eq!(db.parts()[&0].get(4u64.to_be_bytes()).unwrap().unwrap().as_ref(), b"b");
    }

    /// Room on the disk ends between the tables and the rest, again and again; then the batch comes to its end.
    #[test]
    fn a_batch_that_is_repeated_after_its_tables_were_written_is_there_once() {
        let directory = tempfile::tempdir().unwrap();
        for _ in 0..3 {
            let db = open(directory.path());
            db.ingest(home_of(0), many(0, SPAN), &|| ()).unwrap();
        }
        let db = open(directory.path());
        assert_eq!(numbers(&db), Vec::<u64>::new());
        db.ingest(home_of(0), many(0, SPAN), &|| ()).unwrap();
        commit(&db, Batch { changes: many(0, SPAN + 3), applied: 1 }).unwrap();
        drop(db);
        let db = open(directory.path());
        assert_eq!(numbers(&db), (0..SPAN + 3).collect::<Vec<_>>());
        assert_eq!(db.number(FILLED).unwrap(), Some(SPAN + 3));
    }
}
