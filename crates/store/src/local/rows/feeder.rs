//! Feeding the tables: durable changes are gathered, folded and written in large batches.
//!
//! A task that was created and finished between two batches writes only its final record. Every batch is exactly
//! the state at one journal position and carries it, so recovery replays what is younger. Nothing that answers a
//! caller waits for this thread; when it falls behind, creates wait for room in memory. This thread alone changes
//! the tables: batches, merges and expiry take turns.

use crate::clock::Clock;
use crate::local::engine::front::LatencyGuard;
use crate::local::format::records::{DEAD_EXPIRY, Final, dead_expiry_key, record_key};
use crate::local::journal::Journal;
use crate::local::rows::feed_queue::{Backlog, FeedQueue, Seal};
use crate::local::rows::folding::FlushBuilder;
use crate::local::rows::library;
use crate::local::shard::ShardContext;
use crate::local::tables::{Group, TableError, Version};
use crate::rules::Rules;
use codeq_queue::{Failure, Time};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// A batch is written when this much waits for it ...
const BATCH_BYTES: usize = 16 << 20;
/// ... or this long.
const BATCH_AGE: Duration = Duration::from_secs(2);
/// ... or this long while nothing new comes.
const IDLE_AGE: Duration = Duration::from_millis(500);
/// How often expired history is looked for.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(1);
/// How long to wait before a failed write is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// How long rows may be unreadable before a batch is made without them, as if they were damaged.
const UNREADABLE_MAX: Duration = Duration::from_secs(10);
/// Dead letters removed per round, and how long the removals of one round have to become readable.
const REMOVED_PER_ROUND: usize = 1000;
const CLEAN_PAUSE: Duration = Duration::from_millis(20);
/// Bytes that are merged after each batch, and at a time while there is nothing else to do.
const MERGE_BYTES: usize = 4 << 20;

/// Says that the feeder has ended, should it panic: writers are then turned away, and the process is not ready.
struct PanicGuard(Arc<FeedQueue>);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.set_trouble(Some("the thread that feeds the tables has failed".to_owned()));
        }
    }
}

pub struct Feeder {
    pub queue: Arc<FeedQueue>,
    pub links: Arc<ShardContext>,
    pub front: Arc<LatencyGuard>,
    pub clock: Arc<dyn Clock>,
    pub rules: Rules,
    /// `None`: nothing is journalled.
    pub journal: Option<Arc<Journal>>,
    pub fold: FlushBuilder,
    pub seals: Vec<Seal>,
    /// The edition of the tables that the shard holds.
    pub adopted: AtomicU64,
    /// Since when rows that a batch needs cannot be read.
    pub unreadable_since: Option<Instant>,
}

impl Feeder {
    /// Runs until the queue is closed and everything in it is in the tables, or cannot be.
    pub fn run(mut self) {
        // Nobody waits for this thread; on a busy machine it must not take the syncing thread's turn.
        let _ = rustix::process::nice(12);
        let _guard = PanicGuard(self.queue.clone());
        let mut waiting_since: Option<Instant> = None;
        let mut upkept = Instant::now();
        let mut cleaned = Time::ZERO;
        let (mut has_merges, mut has_expired) = (true, false);
        loop {
            let patience = match waiting_since {
                _ if has_merges => Duration::ZERO,
                _ if has_expired => CLEAN_PAUSE,
                Some(_) => IDLE_AGE,
                None => UPKEEP_INTERVAL,
            };
            let mut backlog = self.queue.wait(patience);
            let (is_closed, is_idle) = (backlog.is_closed, backlog.fed.is_empty());
            self.take_in(&mut backlog);
            let waits = !self.fold.is_empty() || self.links.library.tables.is_ahead();
            if waiting_since.is_none() && waits {
                waiting_since = Some(Instant::now());
            }
            if !backlog.flushes.is_empty() {
                self.show();
                answer(backlog.flushes);
            }
            let age = if is_idle { IDLE_AGE } else { BATCH_AGE };
            let is_old = waiting_since.is_some_and(|since| since.elapsed() >= age);
            if self.fold.bytes() >= BATCH_BYTES || is_old || is_closed {
                self.write();
                waiting_since = None;
                has_merges = true;
            }
            if is_closed {
                return;
            }
            if upkept.elapsed() >= UPKEEP_INTERVAL || backlog.is_nudged {
                upkept = Instant::now();
                has_merges |= self.drop_expired();
            }
            has_merges = has_merges && self.merge_some();
            let now = self.clock.now();
            if has_expired || now < cleaned || now.since(cleaned) >= self.rules.cleanup_interval {
                cleaned = now;
                has_expired = self.clean();
            }
        }
    }

    /// Folds what has been pushed. Whoever wants the version at a position gets it before anything beyond is folded.
    fn take_in(&mut self, backlog: &mut Backlog) {
        self.seals.append(&mut backlog.seals);
        self.seals.retain(|(_, sealed)| !sealed.is_closed());
        for fed in std::mem::take(&mut backlog.fed) {
            self.front.give_way();
            self.seal_before(fed.position);
            self.fold.add(fed);
        }
        let position = self.fold.position().max(self.links.library.version().position);
        self.seal_before(position + 1);
    }

    fn seal_before(&mut self, position: u64) {
        if self.seals.iter().any(|(wanted, _)| *wanted < position) && self.show() {
            let version = self.links.library.version();
            for (_, sealed) in self.seals.extract_if(.., |(wanted, _)| *wanted < position) {
                let _ = sealed.send(version.clone());
            }
        }
    }

    /// Makes everything gathered readable. False if that needs rows that cannot be read now.
    fn show(&mut self) -> bool {
        if self.fold.is_empty() {
            return true;
        }
        let front = self.front.clone();
        let is_patient = self.unreadable_since.is_none_or(|since| since.elapsed() < UNREADABLE_MAX);
        let now = self.clock.aged();
        match self.fold.batch(&self.links.library, now, is_patient, &|| front.give_way()) {
            Ok(batch) => {
                self.links.library.tables.show(batch);
                self.fold.clear();
                self.unreadable_since = None;
                true
            }
            Err(error) => {
                self.unreadable_since.get_or_insert_with(Instant::now);
                self.is_troubled(&error.to_string());
                false
            }
        }
    }

    /// Brings everything gathered onto the disk. Tries until it succeeds; the store may be closing meanwhile: then the
    /// journal has it all, and the next opening replays it.
    fn write(&mut self) {
        loop {
            if self.show() {
                let tables = &self.links.library.tables;
                let position = tables.version().position;
                let segments = self.journal.as_ref().map(|journal| journal.segments_after(position));
                match tables.persist(segments.unwrap_or_default()) {
                    Ok(()) => return self.written(),
                    Err(error) => self.is_troubled(&error.to_string()),
                }
            }
            if self.queue.lock().is_closed {
                return;
            }
            self.answer_readers();
        }
    }

    /// While the disk cannot be written, what is pushed becomes readable all the same, and history that is over goes:
    /// it may be what fills the disk.
    fn answer_readers(&mut self) {
        self.drop_expired();
        let until = Instant::now() + RETRY_INTERVAL;
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            let mut backlog = self.queue.wait(left);
            self.take_in(&mut backlog);
            if !backlog.flushes.is_empty() && self.show() {
                answer(backlog.flushes);
            }
            if backlog.is_closed {
                return;
            }
        }
    }

    fn written(&self) {
        let version = self.links.library.version();
        let position = version.position;
        if self.queue.set_trouble(None) {
            self.links.inbox.nudge();
        }
        if let Some(journal) = &self.journal {
            journal.release(position);
        }
        self.links.inbox.post(move |turn| turn.shard.retire(position, version));
    }

    fn is_troubled(&self, error: &str) {
        tracing::error!(op = "tables", err = %error, "storage error");
        if self.queue.set_trouble(Some(error.to_owned())) {
            self.links.inbox.nudge();
        }
    }

    /// True if something was dropped.
    fn drop_expired(&self) -> bool {
        match self.links.library.tables.drop_expired(self.clock.aged()) {
            Ok(0) => false,
            Ok(count) => {
                tracing::debug!(count, what = "tables of history", "retention removed");
                self.adopt();
                true
            }
            Err(error) => self.failed("retention", &error),
        }
    }

    fn merge_some(&self) -> bool {
        let tables = &self.links.library.tables;
        match tables.merge_some(self.clock.aged(), MERGE_BYTES, &|| self.front.give_way()) {
            Ok(is_more) => {
                self.adopt();
                is_more
            }
            Err(error) => {
                self.failed("merge", &error);
                // Whatever cannot be read has been set aside, and others are to be merged.
                error.unreadable().is_some()
            }
        }
    }

    fn failed(&self, op: &'static str, error: &TableError) -> bool {
        tracing::error!(op, err = %error, "storage error");
        false
    }

    /// Lets the shard hold the newest tables, so that the old files can go.
    fn adopt(&self) {
        let version = self.links.library.version();
        if self.adopted.swap(version.edition, Ordering::Relaxed) != version.edition {
            self.links.inbox.post(move |turn| turn.shard.adopt(version));
        }
    }

    /// Removes dead letters and failed callbacks whose time is over. True if there may be more.
    fn clean(&mut self) -> bool {
        self.links.inbox.post(|turn| turn.forget_failed_deliveries());
        if self.rules.dead_retention.is_none() {
            return false;
        }
        // Whatever died before this instant is looked at.
        let mut backlog = self.queue.wait(Duration::ZERO);
        self.take_in(&mut backlog);
        self.queue.lock().is_nudged |= backlog.is_nudged;
        if !self.show() {
            self.queue.lock().flushes.extend(backlog.flushes);
            return false;
        }
        answer(backlog.flushes);
        let version = self.links.library.version();
        let due = match self.expired(&version) {
            Ok(due) => due,
            Err(error) => {
                tracing::error!(op = "retention", err = %error, "storage error");
                return false;
            }
        };
        let (count, as_of) = (due.len(), version.position);
        let (reply, answer) = oneshot::channel();
        if due.is_empty() || !self.links.inbox.post(move |turn| turn.remove_all(due, as_of, reply)) {
            return false;
        }
        let Ok(Ok(part)) = answer.blocking_recv() else { return false };
        let removed = part.done.iter().filter(|is_removed| **is_removed).count();
        tracing::debug!(count = removed, what = "dead letters", "retention removed");
        count == REMOVED_PER_ROUND || !part.rest.is_empty()
    }

    /// Dead letters whose time is over, some of them.
    fn expired(&self, version: &Version) -> Result<Vec<Arc<Final>>, Failure> {
        let later = self.clock.aged().plus(Duration::from_millis(1));
        let (from, to) = (record_key(&[DEAD_EXPIRY]), record_key(&dead_expiry_key(later, 0)));
        let mut walk = version.walk(Group::Rows, &from, &to).map_err(library::failed)?;
        let mut due = Vec::new();
        while let Some((key, row)) = walk.row().filter(|_| due.len() < REMOVED_PER_ROUND) {
            let no = key.get(10..18).and_then(|no| no.try_into().ok()).map(u64::from_be_bytes);
            if let Some(no) = no.filter(|_| row.is_some()) {
                match library::last(version, no) {
                    Ok(last) => due.extend(last.map(Arc::new)),
                    // It stays; the others go.
                    Err(error) => self.links.library.tell("retention", no, &error),
                }
            }
            walk.advance().map_err(library::failed)?;
        }
        Ok(due)
    }
}

fn answer(flushes: Vec<oneshot::Sender<()>>) {
    for done in flushes {
        let _ = done.send(());
    }
}
