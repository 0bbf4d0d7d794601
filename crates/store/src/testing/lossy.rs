//! A tree in memory that can be stopped at any point of a commit, for tests of what survives a crash.
//!
//! It takes the liberties that a durable tree may take and no others: the rows of buckets become durable one
//! by one, in the order of their spaces, and only then the rest of the batch, all at once with `applied`. A
//! hook sees every step and may copy the tree there, wait, or refuse to go on.

use crate::local::tree::memory::MemoryTree;
use crate::local::tree::{Batch, Change, Pause, Space, Tree, TreeError, View, Visit};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where a commit is when the hook is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Begun,
    /// Another row of a bucket is durable.
    Row,
    Done,
}

/// Answers whether the commit goes on; if not, it fails with EIO and leaves behind what it has done.
pub type Hook = Arc<dyn Fn(Step) -> bool + Send + Sync>;

#[derive(Clone, Default)]
pub struct LossyTree(Arc<Inner>);

#[derive(Default)]
struct Inner {
    rows: MemoryTree,
    /// Held while rows change, so that a copy is of one instant.
    step: Mutex<()>,
    hook: Mutex<Option<Hook>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LossyTree {
    pub fn new() -> LossyTree {
        LossyTree::default()
    }

    /// Called at every step of every commit from now on, on the thread that commits.
    pub fn set_hook(&self, hook: Option<Hook>) {
        *lock(&self.0.hook) = hook;
    }

    /// A separate tree in the same state, and what `meanwhile` gives. No commit moves on in between, so
    /// nothing that waits for this tree has happened yet either.
    pub fn freeze<T>(&self, meanwhile: impl FnOnce() -> T) -> (LossyTree, T) {
        let _still = lock(&self.0.step);
        let copy = LossyTree::new();
        let mut changes = Vec::new();
        for (space, _) in self.0.rows.check().expect("memory can be read") {
            let mut add = |key: &[u8], value: &[u8]| {
                changes.push(Change { space, key: key.into(), value: Some(value.into()) });
                true
            };
            self.0.rows.scan(space, &[], None, &mut add).expect("memory can be read");
        }
        let batch = Batch { changes, applied: self.0.rows.applied() };
        copy.0.rows.commit(batch, &|| ()).expect("memory can be written");
        (copy, meanwhile())
    }

    fn step(&self, step: Step) -> Result<(), TreeError> {
        let hook = lock(&self.0.hook).clone();
        match hook.is_none_or(|hook| hook(step)) {
            true => Ok(()),
            false => Err(TreeError::Io(io::Error::other("the hook said no"))),
        }
    }

    fn write(&self, changes: Vec<Change>, applied: u64) -> Result<(), TreeError> {
        let _moving = lock(&self.0.step);
        self.0.rows.commit(Batch { changes, applied }, &|| ())
    }
}

impl Tree for LossyTree {
    fn view(&self) -> Result<Box<dyn View>, TreeError> {
        self.0.rows.view()
    }

    fn instant(&self) -> Result<Box<dyn View>, TreeError> {
        let _still = lock(&self.0.step);
        self.0.rows.view()
    }

    fn applied(&self) -> u64 {
        self.0.rows.applied()
    }

    fn commit(&self, batch: Batch, _: Pause) -> Result<(), TreeError> {
        self.step(Step::Begun)?;
        let (mut early, rest): (Vec<Change>, Vec<Change>) =
            batch.changes.into_iter().partition(|change| change.space.bucket().is_some());
        // Stable, so that of equal keys the later change still wins.
        early.sort_by(|a, b| (a.space, &a.key).cmp(&(b.space, &b.key)));
        for row in early {
            self.write(vec![row], self.applied())?;
            self.step(Step::Row)?;
        }
        self.write(rest, batch.applied)?;
        self.step(Step::Done)
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, TreeError> {
        self.0.rows.get(space, key)
    }

    fn scan(&self, space: Space, from: &[u8], to: Option<&[u8]>, visit: Visit) -> Result<(), TreeError> {
        self.0.rows.scan(space, from, to, visit)
    }

    fn scan_back(&self, space: Space, from: &[u8], to: Option<&[u8]>, visit: Visit) -> Result<(), TreeError> {
        self.0.rows.scan_back(space, from, to, visit)
    }

    fn buckets(&self) -> Vec<i64> {
        self.0.rows.buckets()
    }

    fn drop_buckets(&self, before_or_at: i64) -> Result<usize, TreeError> {
        let _moving = lock(&self.0.step);
        self.0.rows.drop_buckets(before_or_at)
    }

    fn upkeep(&self) -> Result<bool, TreeError> {
        Ok(false)
    }

    fn disk_bytes(&self) -> u64 {
        0
    }

    fn close(&self) {}

    fn check(&self) -> Result<Vec<(Space, u64)>, TreeError> {
        self.0.rows.check()
    }
}
