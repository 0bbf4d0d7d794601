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

mod census;
#[cfg(test)]
mod tests;

use super::super::{Change, Space};
use super::database::{Db, deleted_rows, options};
use super::finish_soon;
use super::view::Bounds;
use ::fjall::{Error, Keyspace, PersistMode, Slice, Snapshot};
use census::Census;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::{Bound, RangeInclusive};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard};

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
    /// Held for writing while rows move to the common space or a space is replaced, for reading while a view is made.
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
            let Some(gate) = self.shut_gate() else { return Ok(false) };
            self.move_out(*part, left)?;
            self.forget_part(*part);
            drop(gate);
            self.drops.fetch_add(1, Ordering::Relaxed);
            self.discard(*part, rows.clone())?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Keeps views from being made, unless some are open for longer.
    pub fn shut_gate(&self) -> Option<RwLockWriteGuard<'_, ()>> {
        let gate = self.tasks.gate.write().unwrap_or_else(PoisonError::into_inner);
        finish_soon(|| self.is_viewed()).then_some(gate)
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
