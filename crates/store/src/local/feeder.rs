//! Feeding the tree: durable changes are gathered, folded and written in large batches.
//!
//! A task that was created and finished between two batches writes only its final record. Every batch is
//! exactly the state at one journal position and carries it, so recovery replays what is younger. Nothing
//! that answers a caller waits for this thread; when it falls behind, creates wait for room in memory.

use super::change::Fed;
use super::folding::Fold;
use super::front::Front;
use super::library::Library;
use super::records::{DEAD_EXPIRY, dead_expiry_key};
use super::shard::Links;
use super::tree::{Pause, Space};
use crate::clock::Clock;
use crate::rules::Rules;
use codeq_queue::{Failure, Time};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// A batch is written when this much waits for it ...
const BATCH_BYTES: usize = 16 << 20;
/// ... or this long.
const BATCH_AGE: Duration = Duration::from_secs(2);
/// ... or this long while nothing new comes.
const IDLE_AGE: Duration = Duration::from_millis(500);
/// Changes that are worth waking up for.
const MOUTHFUL: usize = 8192;
/// How often the tree is cared for.
const CARE: Duration = Duration::from_secs(1);
/// How long to wait before a failed batch is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// Dead letters removed per round.
const REMOVED_AT_ONCE: usize = 1000;

#[derive(Default)]
struct Line {
    fed: Vec<Fed>,
    changes: usize,
    flushes: Vec<oneshot::Sender<()>>,
    is_nudged: bool,
    is_closed: bool,
}

/// The line in front of the feeder.
#[derive(Default)]
pub struct Trough {
    line: Mutex<Line>,
    signal: Condvar,
    /// Why the tree cannot be written at present.
    trouble: Mutex<Option<String>>,
}

impl Trough {
    /// Wakes the feeder only for a mouthful: it has time, and waking it for every group would cost more
    /// than the feeding.
    pub fn push(&self, fed: Fed) {
        let mut line = self.lock();
        line.changes += fed.changes.len();
        line.fed.push(fed);
        let is_mouthful = line.changes >= MOUTHFUL;
        drop(line);
        if is_mouthful {
            self.signal.notify_one();
        }
    }

    /// Completes when everything pushed before is in the tree.
    pub fn flush(&self) -> oneshot::Receiver<()> {
        let (done, flushed) = oneshot::channel();
        self.lock().flushes.push(done);
        self.signal.notify_one();
        flushed
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

    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().expect("no one panics holding the trough")
    }
}

pub struct Feeder {
    pub trough: Arc<Trough>,
    pub links: Arc<Links>,
    pub front: Arc<Front>,
    pub clock: Arc<dyn Clock>,
    pub rules: Rules,
    /// Told which journal position the tree has.
    pub released: Box<dyn Fn(u64) + Send>,
    pub fold: Fold,
}

impl Feeder {
    /// Runs until the trough is closed and everything in it is in the tree, or cannot be.
    pub fn run(mut self) {
        // Nobody waits for this thread; on a busy machine it must not take the syncing thread's turn.
        let _ = rustix::process::nice(12);
        let mut waiting_since: Option<Instant> = None;
        let mut cared = Instant::now();
        let mut cleaned = Time::ZERO;
        loop {
            let patience = if waiting_since.is_some() { IDLE_AGE } else { CARE };
            let line = self.wait(patience);
            let (is_closed, is_idle) = (line.is_closed, line.fed.is_empty());
            for fed in line.fed {
                self.front.give_way();
                self.fold.add(fed);
            }
            if waiting_since.is_none() && !self.fold.is_empty() {
                waiting_since = Some(Instant::now());
            }
            let age = if is_idle { IDLE_AGE } else { BATCH_AGE };
            let is_old = waiting_since.is_some_and(|since| since.elapsed() >= age);
            if self.fold.bytes() >= BATCH_BYTES || is_old || is_closed || !line.flushes.is_empty() {
                if !self.flush(is_closed) {
                    return;
                }
                waiting_since = None;
                for done in line.flushes {
                    let _ = done.send(());
                }
            }
            if is_closed {
                return;
            }
            if cared.elapsed() >= CARE || line.is_nudged {
                cared = Instant::now();
                self.care(is_idle);
            }
            let now = self.clock.now();
            if now < cleaned || now.since(cleaned) >= self.rules.cleanup_interval {
                cleaned = now;
                if self.clean() {
                    waiting_since = None;
                }
            }
        }
    }

    fn wait(&self, patience: Duration) -> Line {
        let mut line = self.trough.lock();
        if line.changes < MOUTHFUL && line.flushes.is_empty() && !line.is_closed && !line.is_nudged {
            let woken = self.trough.signal.wait_timeout(line, patience);
            line = woken.expect("no one panics holding the trough").0;
        }
        let is_closed = line.is_closed;
        let taken = std::mem::take(&mut *line);
        line.is_closed = is_closed;
        taken
    }

    /// Writes everything gathered. Tries until it succeeds; false if the store closes meanwhile.
    fn flush(&mut self, is_closing: bool) -> bool {
        while !self.fold.is_empty() {
            let front = self.front.clone();
            let pause = || front.give_way();
            let position = self.fold.position();
            match self.write(&pause) {
                Ok(()) => {
                    self.fold.clear(self.clock.now(), &pause);
                    self.set_trouble(None);
                    (self.released)(position);
                    self.links.inbox.post(move |turn| turn.shard.retire(position));
                }
                Err(error) => {
                    tracing::error!(op = "tree", err = %error, "storage error");
                    self.set_trouble(Some(error.to_string()));
                    // The journal has it all; the next open replays it.
                    if is_closing || self.trough.lock().is_closed {
                        return false;
                    }
                    std::thread::sleep(RETRY);
                }
            }
        }
        true
    }

    fn write(&self, pause: Pause) -> Result<(), Failure> {
        let tree = &self.links.library.tree;
        // A batch that failed may have been applied. Then what it needed of the old rows is gone.
        if tree.applied() >= self.fold.position() {
            return Ok(());
        }
        let batch = self.fold.batch(&self.links.library, self.clock.now(), pause)?;
        tree.commit(batch, pause).map_err(|error| Failure::unavailable(error.to_string()))
    }

    fn set_trouble(&self, trouble: Option<String>) {
        let mut current = self.trough.trouble.lock().expect("no one panics holding the trouble");
        if *current != trouble {
            *current = trouble;
            drop(current);
            self.links.inbox.nudge();
        }
    }

    fn care(&self, is_idle: bool) {
        let tree = &self.links.library.tree;
        let now = self.clock.now().millis();
        if tree.buckets().first().is_some_and(|end| *end <= now) {
            match tree.drop_buckets(now) {
                Ok(0) => {}
                Ok(count) => tracing::debug!(count, what = "buckets of history", "retention removed"),
                Err(error) => tracing::error!(op = "retention", err = %error, "storage error"),
            }
        }
        if is_idle && let Err(error) = tree.upkeep() {
            tracing::error!(op = "upkeep", err = %error, "storage error");
        }
    }

    /// Removes dead letters and failed callbacks whose time is over. True if everything was flushed.
    fn clean(&mut self) -> bool {
        self.links.inbox.post(|turn| turn.forget_failed_deliveries());
        if self.rules.dead_retention.is_none() {
            return false;
        }
        self.take_in();
        if !self.flush(false) {
            return false;
        }
        loop {
            let generation = self.links.generation.load(Ordering::Acquire);
            let due = expired(&self.links.library, self.clock.now());
            let count = due.len();
            let (reply, answer) = oneshot::channel();
            if due.is_empty() || !self.links.inbox.post(move |turn| turn.remove_all(due, generation, reply)) {
                return true;
            }
            match answer.blocking_recv() {
                // The owner has only now heard of the flush: look again, without another one.
                Ok(Ok(None)) => {}
                Ok(Ok(Some(_))) => {
                    tracing::debug!(count, what = "dead letters", "retention removed");
                    self.take_in();
                    if count < REMOVED_AT_ONCE || !self.flush(false) {
                        return true;
                    }
                }
                _ => return true,
            }
        }
    }

    /// Folds what has been pushed, without waiting.
    fn take_in(&mut self) {
        let fed = std::mem::take(&mut self.trough.lock().fed);
        fed.into_iter().for_each(|fed| self.fold.add(fed));
    }
}

fn expired(library: &Library, now: Time) -> Vec<Arc<super::records::Final>> {
    let mut numbers = Vec::new();
    let end = dead_expiry_key(now.plus(Duration::from_millis(1)), 0);
    let mut visit = |key: &[u8], _: &[u8]| {
        numbers.extend(key.get(9..17).and_then(|no| no.try_into().ok()).map(u64::from_be_bytes));
        numbers.len() < REMOVED_AT_ONCE
    };
    if let Err(error) = library.tree.scan(Space::Record, &[DEAD_EXPIRY], Some(&end), &mut visit) {
        tracing::error!(op = "retention", err = %error, "storage error");
    }
    numbers.into_iter().filter_map(|no| library.last(no, now).ok().flatten().map(Arc::new)).collect()
}
