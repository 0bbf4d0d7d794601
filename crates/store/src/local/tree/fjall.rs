//! The durable tree, on the fjall library. No other file knows that library.
//!
//! Buckets take their rows as finished, sorted tables, past the library's own journal and memory: a
//! third of the processor time of its write batch. So do parts of the task space where many rows are new.
//! Everything else, and the applied position, goes through one atomic, synced write batch, which comes after
//! the tables are synced.
//!
//! The library gives up for good after a failed write. This layer then lets go of it and opens it again
//! on the next call, so a full disk needs room but no restart.

mod database;
mod parts;
mod view;

use super::{Batch, Pause, Space, Tree, TreeError, View, Visit, disk_bytes};
use ::fjall::{Error, LsmError};
use database::{Db, MEMTABLES_BYTES};
use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};
use std::{io, thread};
use view::{FjallView, homes};

/// How long upkeep keeps others waiting for those who use the library.
const IN_USE: Duration = Duration::from_millis(20);

/// Whether they finish soon. The caller keeps others from beginning.
fn finish_soon(is_used: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while is_used() {
        if begun.elapsed() > IN_USE {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

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
        if !db.is_worn(is_idle) || db.is_viewed() {
            return Ok(());
        }
        drop(db);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        // Whoever comes now waits; single lookups that are under way end soon.
        let begun = Instant::now();
        if !finish_soon(|| matches!(&*state, State::Open(db) if Arc::strong_count(db) > 1)) {
            return Ok(());
        }
        if matches!(&*state, State::Open(_)) {
            *state = State::Closed(Weak::new());
            self.reopen(&mut state)?;
            let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            tracing::debug!(ms, "tree library opened anew");
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
        let view = FjallView::of(self.db()?);
        for row in view.rows(space, bounds, is_downward) {
            let (key, value) = row?;
            if !visit(&key, &value) {
                break;
            }
        }
        Ok(())
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

impl Tree for FjallTree {
    fn view(&self) -> Result<Box<dyn View>, TreeError> {
        Ok(Box::new(FjallView::of(self.db()?)))
    }

    fn instant(&self) -> Result<Box<dyn View>, TreeError> {
        let _writing = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.view()
    }

    fn applied(&self) -> u64 {
        self.applied.load(Ordering::Acquire)
    }

    fn commit(&self, batch: Batch, pause: Pause) -> Result<(), TreeError> {
        let _writing = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let applied = batch.applied;
        // An opening would forget the following.
        self.db()?;
        // Known before its rows are there: whoever misses a task among the live rows, which go in the same
        // batch, must find the bucket that it went to.
        let mut ends: Vec<i64> = batch.changes.iter().filter_map(|change| change.space.bucket()).collect();
        ends.dedup();
        self.buckets.write().unwrap_or_else(PoisonError::into_inner).extend(ends);
        self.change(|db| db.commit(batch, pause))?;
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
