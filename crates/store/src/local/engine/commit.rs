//! Group commit: many commands, one sync.
//!
//! The owner gathers a group and hands it over; this thread writes it, syncs once and sends every answer
//! that sync covered. While it syncs the owner gathers the next group; a small group may linger
//! for a moment (docs/decisions/linger.md).
//!
//! Promise: an answer is sent only after everything it tells of is durable. After a failed write or sync
//! nothing is ever sent again: the store is poisoned until it is reopened, because a sync that failed
//! once proves nothing when it succeeds later.

use crate::local::engine::front::LatencyGuard;
use crate::local::engine::inbox::Inbox;
use crate::local::engine::meters::Meters;
use crate::local::format::records::Counters;
use crate::local::journal::Write;
use crate::local::rows::change::{Change, Fed};
use crate::local::rows::feed_queue::FeedQueue;
use crate::local::shard::{Group, ShardContext};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};

/// A group on its way to the disk. Without a write it only waits for the groups before it.
pub struct PendingCommit {
    pub write: Option<Write>,
    pub group: Group,
    pub changes: Vec<Change>,
    pub counters: Counters,
}

#[derive(Default)]
struct Slot {
    next: Option<PendingCommit>,
    is_busy: bool,
    is_closed: bool,
    /// Nobody takes groups any more: the thread has failed.
    is_abandoned: bool,
    /// A buffer to gather the next group in.
    spare: Option<Vec<u8>>,
}

pub struct Committer {
    slot: Mutex<Slot>,
    handed: Condvar,
    finished: Condvar,
    durable: AtomicU64,
    poison: OnceLock<String>,
    meters: Arc<Meters>,
    front: Arc<LatencyGuard>,
    /// The owner sleeps with a gathered group and wants to know when it can hand it over.
    pub owner_waits: AtomicBool,
}

impl Committer {
    pub fn new(durable: u64, meters: Arc<Meters>, front: Arc<LatencyGuard>) -> Committer {
        Committer {
            slot: Mutex::new(Slot::default()),
            handed: Condvar::new(),
            finished: Condvar::new(),
            durable: AtomicU64::new(durable),
            poison: OnceLock::new(),
            meters,
            front,
            owner_waits: AtomicBool::new(false),
        }
    }

    /// The highest position known to be durable.
    pub fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    pub fn poison(&self) -> Option<&str> {
        self.poison.get().map(String::as_str)
    }

    /// Nothing is acknowledged any more.
    pub fn give_up(&self, reason: String) {
        tracing::error!(op = "journal", err = %reason, "storage error");
        let _ = self.poison.set(reason);
    }

    pub fn is_idle(&self) -> bool {
        !self.lock().is_busy
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Slot> {
        self.slot.lock().expect("no one panics holding the slot")
    }

    /// Hands a group over, waiting for the one before. Gives a used buffer back.
    pub fn hand(&self, commit: PendingCommit) -> Option<Vec<u8>> {
        let mut slot = self.lock();
        while slot.is_busy {
            slot = self.finished.wait(slot).expect("no one panics holding the slot");
        }
        if slot.is_abandoned {
            return None;
        }
        slot.next = Some(commit);
        slot.is_busy = true;
        let spare = slot.spare.take();
        // Before it can be taken.
        self.front.group_handed.begin();
        drop(slot);
        self.handed.notify_one();
        spare
    }

    /// The thread has failed: nothing is acknowledged any more, and whoever waits for it goes on.
    pub fn abandon(&self, reason: &str) {
        self.give_up(reason.to_owned());
        let mut slot = self.lock();
        (slot.is_abandoned, slot.is_busy) = (true, false);
        let unwritten = slot.next.take();
        drop(slot);
        drop(unwritten);
        self.finished.notify_all();
    }

    pub fn wait_idle(&self) {
        let mut slot = self.lock();
        while slot.is_busy {
            slot = self.finished.wait(slot).expect("no one panics holding the slot");
        }
    }

    pub fn close(&self) {
        let mut slot = self.lock();
        slot.is_closed = true;
        drop(slot);
        self.handed.notify_one();
    }

    fn next(&self) -> Option<PendingCommit> {
        let mut slot = self.lock();
        loop {
            if let Some(commit) = slot.next.take() {
                self.front.group_handed.end();
                return Some(commit);
            }
            if slot.is_closed {
                return None;
            }
            slot = self.handed.wait(slot).expect("no one panics holding the slot");
        }
    }

    fn finish(&self, spare: Option<Vec<u8>>, inbox: &Inbox) {
        let mut slot = self.lock();
        slot.is_busy = false;
        slot.spare = spare.or(slot.spare.take());
        drop(slot);
        self.finished.notify_one();
        if self.owner_waits.swap(false, Ordering::SeqCst) {
            inbox.nudge();
        }
    }

    /// The thread: until closed and empty.
    pub fn run(&self, sync: bool, links: &Arc<ShardContext>, feed_queue: &FeedQueue) {
        // Needs a privilege; without it a busy machine makes commits a little slower.
        let _ = rustix::process::nice(-5);
        let inbox = &*links.inbox;
        while let Some(PendingCommit { write, group, changes, counters }) = self.next() {
            if self.poison.get().is_some() {
                drop(group);
                self.finish(None, inbox);
                continue;
            }
            self.front.syncing.begin();
            let written = write.as_ref().map_or(Ok(None), |write| write.perform(sync));
            self.front.syncing.end();
            let synced = match written {
                Ok(synced) => synced,
                Err(error) => {
                    self.give_up(format!("writing the journal failed: {error}"));
                    drop(group);
                    self.finish(None, inbox);
                    continue;
                }
            };
            let position = write.as_ref().map(|write| write.position);
            if let Some(position) = position {
                // First, so that whoever learns of it can wait for the tables to have it.
                feed_queue.push(Fed { position, changes, counters });
                self.durable.store(position, Ordering::Release);
            }
            // The next group can be on its way while these answers are sent.
            self.finish(write.map(Write::into_buffer), inbox);
            if group.entries > 0 {
                self.meters.committed(group.entries, synced);
            }
            group.release(links);
        }
    }
}
