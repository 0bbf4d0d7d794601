//! What waits for the feeder: durable changes, and those who want to read them in the tables.

use crate::local::rows::change::Fed;
use crate::local::tables::Version;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::oneshot;

/// The feeder is woken once this many changes wait.
const WAKE_CHANGES: usize = 8192;

/// Someone who waits for the version that is exactly at a position.
pub type Seal = (u64, oneshot::Sender<Arc<Version>>);

#[derive(Default)]
pub(super) struct Backlog {
    pub(super) fed: Vec<Fed>,
    changes: usize,
    /// Who waits for everything that was pushed before to be readable.
    pub(super) flushes: Vec<oneshot::Sender<()>>,
    pub(super) seals: Vec<Seal>,
    pub(super) is_nudged: bool,
    pub(super) is_closed: bool,
}

/// What waits for the feeder.
#[derive(Default)]
pub struct FeedQueue {
    backlog: Mutex<Backlog>,
    signal: Condvar,
    /// Why the tables cannot be written at present.
    trouble: Mutex<Option<String>>,
}

impl FeedQueue {
    /// Wakes the feeder only once in a while: it has time, and waking it for every group would cost more than the
    /// feeding.
    pub fn push(&self, fed: Fed) {
        let mut backlog = self.lock();
        backlog.changes += fed.changes.len();
        backlog.fed.push(fed);
        let is_enough = backlog.changes >= WAKE_CHANGES;
        drop(backlog);
        if is_enough {
            self.signal.notify_one();
        }
    }

    /// Completes when everything pushed before is readable in the tables.
    pub fn flush(&self) -> oneshot::Receiver<()> {
        let (done, flushed) = oneshot::channel();
        self.lock().flushes.push(done);
        self.signal.notify_one();
        flushed
    }

    /// Gives the version that is exactly at this position. To be asked for before anything beyond it is pushed.
    pub fn seal(&self, position: u64) -> oneshot::Receiver<Arc<Version>> {
        let (done, sealed) = oneshot::channel();
        self.lock().seals.push((position, done));
        self.signal.notify_one();
        sealed
    }

    pub fn nudge(&self) {
        self.lock().is_nudged = true;
        self.signal.notify_one();
    }

    pub fn close(&self) {
        self.lock().is_closed = true;
        self.signal.notify_one();
    }

    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().expect("no one panics holding the trouble").clone()
    }

    pub(super) fn set_trouble(&self, trouble: Option<String>) -> bool {
        let mut current = self.trouble.lock().expect("no one panics holding the trouble");
        let is_new = *current != trouble;
        *current = trouble;
        is_new
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().expect("no one panics holding the backlog")
    }

    /// Takes what has been pushed, once it is worth the feeder's time, someone waits for it, or the time is over.
    pub(super) fn wait(&self, patience: Duration) -> Backlog {
        let mut backlog = self.lock();
        let is_called = |backlog: &Backlog| {
            backlog.changes >= WAKE_CHANGES
                || !backlog.flushes.is_empty()
                || !backlog.seals.is_empty()
                || backlog.is_closed
                || backlog.is_nudged
        };
        if !is_called(&backlog) && !patience.is_zero() {
            let woken = self.signal.wait_timeout(backlog, patience);
            backlog = woken.expect("no one panics holding the backlog").0;
        }
        let is_closed = backlog.is_closed;
        let taken = std::mem::take(&mut *backlog);
        backlog.is_closed = is_closed;
        taken
    }
}
