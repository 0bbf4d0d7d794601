//! The durable tree, on the fjall library. No other file knows that library.
//!
//! Buckets take their rows as finished, sorted tables, past the library's own journal and memory: a
//! third of the processor time of its write batch. Everything else, and the applied position, goes
//! through one atomic, synced write batch, which comes after the tables are synced.
//!
//! The library gives up for good after a failed write. This layer then lets go of it and opens it again
//! on the next call, so a full disk needs room but no restart.

mod database;
mod parts;

use super::{Batch, Numbered, See, Space, Tree, TreeError, View, Visit, disk_bytes, merge, number};
use ::fjall::{Error, Guard, Keyspace, LsmError, Readable, Slice, Snapshot};
use database::{Db, MEMTABLES_BYTES};
use parts::{Parts, part_of};
use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};
use std::{io, thread};

/// How long the renewal of the library waits for those who use it.
const IN_USE: Duration = Duration::from_millis(20);

#[derive(Clone, Debug)]
pub struct TreeOptions {
    /// Memory for blocks read from disk.
    pub cache_bytes: u64,
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self { cache_bytes: 32 << 20 }
    }
}

/// Opens the tree in this directory, or makes a new one.
pub fn open(path: &Path, options: TreeOptions) -> Result<Arc<dyn Tree>, TreeError> {
    let tree = FjallTree {
        path: path.to_path_buf(),
        options,
        writer: Mutex::new(()),
        state: RwLock::new(State::Closed(Weak::new())),
        applied: AtomicU64::new(0),
        buckets: RwLock::default(),
    };
    tree.db()?;
    Ok(Arc::new(tree))
}

struct FjallTree {
    path: PathBuf,
    options: TreeOptions,
    /// Held by whoever changes rows or the set of spaces.
    writer: Mutex<()>,
    state: RwLock<State>,
    applied: AtomicU64,
    buckets: RwLock<BTreeSet<i64>>,
}

enum State {
    Open(Arc<Db>),
    /// Let go of after a failure. Readers may still be finishing with it.
    Closed(Weak<Db>),
    /// Closed for good.
    Shut,
}

impl FjallTree {
    fn db(&self) -> Result<Arc<Db>, TreeError> {
        if let State::Open(db) = &*self.state.read().unwrap_or_else(PoisonError::into_inner) {
            return Ok(db.clone());
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Open(db) => return Ok(db.clone()),
            State::Closed(old) if old.strong_count() > 0 => return Err(TreeError::Closed),
            State::Closed(_) => {}
            State::Shut => return Err(TreeError::Shut),
        }
        self.reopen(&mut state)
    }

    /// Closes and opens the library if that is due, unless someone is at it for longer. Nobody sees it closed.
    fn renew_if_worn(&self, is_idle: bool) -> Result<(), TreeError> {
        let db = self.db()?;
        if !db.is_worn(is_idle) || db.views.load(Ordering::Acquire) > 0 {
            return Ok(());
        }
        drop(db);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        // Whoever comes now waits; single lookups that are under way end soon.
        let begun = Instant::now();
        while matches!(&*state, State::Open(db) if Arc::strong_count(db) > 1) {
            if begun.elapsed() > IN_USE {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(1));
        }
        if matches!(&*state, State::Open(_)) {
            *state = State::Closed(Weak::new());
            self.reopen(&mut state)?;
        }
        Ok(())
    }

    fn reopen(&self, state: &mut State) -> Result<Arc<Db>, TreeError> {
        let (db, applied) = self.load()?;
        let db = Arc::new(db);
        self.applied.store(applied, Ordering::Release);
        self.note_buckets(&db);
        *state = State::Open(db.clone());
        Ok(db)
    }

    /// On a thread of its own: the library's threads inherit its low priority, and a library that
    /// panics over damaged files takes only this thread along.
    fn load(&self) -> Result<(Db, u64), TreeError> {
        let opened = thread::scope(|scope| {
            let opener = scope.spawn(|| {
                let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 10);
                Db::open(&self.path, self.options.cache_bytes)
            });
            opener.join()
        });
        match opened {
            Ok(result) => result.map_err(|error| self.explain(error)),
            Err(_) => Err(TreeError::Damaged("the files could not be understood".into())),
        }
    }

    /// Runs one changing operation, and lets go of the library if it fails.
    fn change<T>(&self, work: impl FnOnce(&Db) -> Result<T, Error>) -> Result<T, TreeError> {
        let db = self.db()?;
        let done = work(&db);
        self.note_buckets(&db);
        if done.is_err() {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            if matches!(&*state, State::Shut) {
                return Err(TreeError::Shut);
            }
            *state = State::Closed(Arc::downgrade(&db));
        }
        drop(db);
        done.map_err(|error| self.explain(error))
    }

    fn note_buckets(&self, db: &Db) {
        *self.buckets.write().unwrap_or_else(PoisonError::into_inner) = db.buckets();
    }

    fn explain(&self, error: Error) -> TreeError {
        match error {
            Error::Poisoned => TreeError::Io(self.guess()),
            other => explain(other),
        }
    }

    /// A library thread died and its error with it. Nearly always the disk is full, so look.
    fn guess(&self) -> io::Error {
        match rustix::fs::statvfs(&self.path) {
            Ok(disk) if disk.f_bavail * disk.f_frsize < 2 * MEMTABLES_BYTES => {
                io::ErrorKind::StorageFull.into()
            }
            _ => io::Error::other("an earlier write in the background failed"),
        }
    }

    fn each(
        &self,
        (space, from, to): (Space, &[u8], Option<&[u8]>),
        is_downward: bool,
        visit: Visit,
    ) -> Result<(), TreeError> {
        if to.is_some_and(|to| to <= from) {
            return Ok(());
        }
        let bounds =
            (Bound::Included(from.to_vec()), to.map_or(Bound::Unbounded, |to| Bound::Excluded(to.to_vec())));
        // Held to the end: a reopening meanwhile would clear away files that this scan still reads.
        let view = self.view_rows()?;
        for row in view.rows(space, bounds, is_downward) {
            let (key, value) = row?;
            if !visit(&key, &value) {
                break;
            }
        }
        Ok(())
    }

    fn view_rows(&self) -> Result<FjallView, TreeError> {
        let db = self.db()?;
        let gate = db.gate.read().unwrap_or_else(PoisonError::into_inner);
        db.views.fetch_add(1, Ordering::AcqRel);
        let (rows, parts) = (db.snapshot(), db.parts());
        drop(gate);
        Ok(FjallView { db, rows, parts })
    }
}

fn explain(error: Error) -> TreeError {
    match error {
        Error::Io(cause) | Error::Storage(LsmError::Io(cause)) => TreeError::Io(cause),
        Error::Locked => TreeError::Io(io::ErrorKind::WouldBlock.into()),
        Error::KeyspaceDeleted => TreeError::Closed,
        other => TreeError::Damaged(other.to_string()),
    }
}

/// Holds the database, so that a reopening meanwhile does not clear away files that are still read.
struct FjallView {
    db: Arc<Db>,
    rows: Snapshot,
    /// No part goes while a view is open.
    parts: Arc<Parts>,
}

impl Drop for FjallView {
    fn drop(&mut self) {
        self.db.views.fetch_sub(1, Ordering::AcqRel);
    }
}

type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);
type Row = Result<(Slice, Slice), TreeError>;
type Rows<'a> = Box<dyn Iterator<Item = Row> + 'a>;

impl FjallView {
    /// The rows of a space between two keys, in their order or in reverse.
    fn rows(&self, space: Space, bounds: Bounds, is_downward: bool) -> Rows<'_> {
        let common = self.rows_of(self.db.space(space).into_iter().collect(), &bounds, is_downward);
        if space != Space::Task || self.parts.is_empty() {
            return common;
        }
        let mut parts: Vec<Keyspace> = self.parts.values().cloned().collect();
        if is_downward {
            parts.reverse();
        }
        let parts = self.rows_of(parts, &bounds, is_downward);
        Box::new(interleave(parts, common, is_downward))
    }

    /// The rows of keyspaces that follow each other. Each is held until its rows have been read: the files of
    /// one that is dropped meanwhile go with the last who holds it.
    fn rows_of(&self, keyspaces: Vec<Keyspace>, bounds: &Bounds, is_downward: bool) -> Rows<'_> {
        let bounds = bounds.clone();
        Box::new(keyspaces.into_iter().flat_map(move |held| {
            let rows = self.rows.range(&held, bounds.clone());
            let read = move |row: Guard| {
                let _ = &held;
                row.into_inner().map_err(explain)
            };
            let rows: Rows<'_> = match is_downward {
                false => Box::new(rows.map(read)),
                true => Box::new(rows.rev().map(read)),
            };
            rows
        }))
    }
}

/// Two lines in order as one.
fn interleave<'a>(one: Rows<'a>, other: Rows<'a>, is_downward: bool) -> impl Iterator<Item = Row> + 'a {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    std::iter::from_fn(move || {
        let is_one = match (one.peek(), other.peek()) {
            (Some(Ok((a, _))), Some(Ok((b, _)))) => (a < b) != is_downward,
            (Some(Ok(_)), Some(Err(_))) | (None, _) => false,
            (Some(_), _) => true,
        };
        if is_one { one.next() } else { other.next() }
    })
}

impl View for FjallView {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, TreeError> {
        for rows in homes(&self.db, &self.parts, space, key) {
            if let Some(value) = self.rows.get(&rows, key).map_err(explain)? {
                return Ok(Some(value.to_vec()));
            }
        }
        Ok(None)
    }

    fn walk(&self, spaces: &[Space], from: u64, is_downward: bool, see: See) -> Result<(), TreeError> {
        let from = Bound::Included(from.to_be_bytes().to_vec());
        let bounds = if is_downward { (Bound::Unbounded, from) } else { (from, Bound::Unbounded) };
        let rows = spaces.iter().map(|space| {
            let rows = self.rows(*space, bounds.clone(), is_downward);
            let rows: Numbered<'_, Slice> = Box::new(rows.map(|row| {
                let (key, value) = row?;
                Ok((number(&key)?, value))
            }));
            (*space, rows)
        });
        merge(rows.collect(), is_downward, see)
    }

    fn scan(&self, space: Space, from: &[u8], visit: Visit) -> Result<(), TreeError> {
        for row in self.rows(space, (Bound::Included(from.to_vec()), Bound::Unbounded), false) {
            let (key, value) = row?;
            if !visit(&key, &value) {
                break;
            }
        }
        Ok(())
    }

    fn buckets(&self) -> Vec<i64> {
        self.db.buckets().into_iter().collect()
    }
}

/// Where a row may be: in the part of its number, or, when that goes at this moment, in the common space.
fn homes(db: &Db, parts: &Parts, space: Space, key: &[u8]) -> impl Iterator<Item = Keyspace> {
    let part = part_of(key).filter(|_| space == Space::Task).and_then(|part| parts.get(&part).cloned());
    part.into_iter().chain(db.space(space))
}

impl Tree for FjallTree {
    fn view(&self) -> Result<Box<dyn View>, TreeError> {
        Ok(Box::new(self.view_rows()?))
    }

    fn instant(&self) -> Result<Box<dyn View>, TreeError> {
        let _writing = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.view()
    }

    fn applied(&self) -> u64 {
        self.applied.load(Ordering::Acquire)
    }

    fn commit(&self, batch: Batch) -> Result<(), TreeError> {
        let _writing = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let applied = batch.applied;
        // Known before its rows are there: whoever misses a task among the live rows, which go in the same
        // batch, must find the bucket that it went to.
        let ends = batch.changes.iter().filter_map(|change| change.space.bucket());
        self.buckets.write().unwrap_or_else(PoisonError::into_inner).extend(ends);
        self.change(|db| db.commit(batch))?;
        self.applied.store(applied, Ordering::Release);
        Ok(())
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, TreeError> {
        let db = self.db()?;
        let parts = db.parts();
        for rows in homes(&db, &parts, space, key) {
            if let Some(value) = rows.get(key).map_err(|error| self.explain(error))? {
                return Ok(Some(value.to_vec()));
            }
        }
        Ok(None)
    }

    fn scan(&self, space: Space, from: &[u8], to: Option<&[u8]>, visit: Visit) -> Result<(), TreeError> {
        self.each((space, from, to), false, visit)
    }

    fn scan_back(&self, space: Space, from: &[u8], to: Option<&[u8]>, visit: Visit) -> Result<(), TreeError> {
        self.each((space, from, to), true, visit)
    }

    fn buckets(&self) -> Vec<i64> {
        self.buckets.read().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    fn drop_buckets(&self, before_or_at: i64) -> Result<usize, TreeError> {
        let _writing = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let dropped = self.change(|db| db.drop_buckets(before_or_at))?;
        self.renew_if_worn(false)?;
        Ok(dropped)
    }

    fn upkeep(&self) -> Result<bool, TreeError> {
        self.renew_if_worn(true)?;
        self.change(|db| db.upkeep(&self.writer))
    }

    fn disk_bytes(&self) -> u64 {
        disk_bytes(&self.path)
    }

    fn close(&self) {
        let _writing = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = State::Shut;
    }

    fn check(&self) -> Result<Vec<(Space, u64)>, TreeError> {
        let db = self.db()?;
        let spaces: Vec<Space> = db.spaces().keys().copied().collect();
        let mut counts = Vec::with_capacity(spaces.len());
        for space in spaces {
            let mut rows = 0;
            self.scan(space, &[], None, &mut |_, _| {
                rows += 1;
                true
            })?;
            counts.push((space, rows));
        }
        Ok(counts)
    }
}
