//! What leaves memory once the tables have it, and how much may wait for that.

use super::{Recent, Shard};
use crate::local::engine::failures;
use crate::local::engine::inbox::Lane;
use crate::local::format::records::{Detail, Final};
use crate::local::rows::change::Change;
use crate::local::shard::slots::Kept;
use crate::local::tables::Version;
use codeq_queue::Time;
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Memory for what the tables do not have yet. Creates wait when it is used up; a quarter more is for
    /// claims, and another quarter for what workers report: creates cannot make leases run out.
    pub unsettled_bytes: usize,
    /// Memory for bodies of live tasks that the tables have too.
    pub cached_bytes: usize,
    /// How many tasks ahead of a claim are read from the tables at once.
    pub read_ahead: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { unsettled_bytes: 72 << 20, cached_bytes: 24 << 20, read_ahead: 8192 }
    }
}

impl Limits {
    /// So much may wait for the tables before commands of this lane wait.
    pub fn unsettled_of(&self, lane: Lane) -> usize {
        let quarters = match lane {
            Lane::Create => 4,
            Lane::Other => 5,
            Lane::Report => 6,
            Lane::Read => return usize::MAX,
        };
        self.unsettled_bytes / 4 * quarters
    }
}

/// The number of no task.
pub const NO_TASK: u64 = 0;

/// Something in memory that the tables will have at or after `position`.
pub struct EvictionMark {
    position: u64,
    no: u64,
    bytes: usize,
}

impl Shard {
    /// Counts a task that has failed, or that lives again.
    pub(super) fn count_failed(&mut self, queue: u32, last: &Final, is_more: bool, at: Time) {
        let Some(bucket) = failures::bucket(last) else { return };
        let queue = self.queues.at(queue).key.clone();
        for queue in self.failures.count(&queue, bucket, is_more, at) {
            let value = self.failures.row(&queue);
            self.changes.push(Change::Record { key: failures::key(&queue), value });
        }
    }

    pub fn unsettled(&mut self, no: u64, bytes: usize) {
        self.unsettled_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.settling.push_back(EvictionMark { position: self.position, no, bytes });
    }

    /// So many changes of the open group wait for the tables, whatever they change.
    pub fn unsettled_changes(&mut self, count: usize) {
        self.unsettled(NO_TASK, count * size_of::<Change>());
    }

    /// Whether so much waits for the tables that commands of this lane must wait, too.
    pub fn is_crowded(&self, lane: Lane) -> bool {
        self.unsettled_bytes.load(Ordering::Relaxed) >= self.limits.unsettled_of(lane)
    }

    pub fn cache(&mut self, bytes: usize) {
        self.cached_bytes += bytes;
    }

    pub fn uncache(&mut self, bytes: usize) {
        self.cached_bytes -= bytes;
    }

    /// The tables have everything up to `position`. Nothing leaves memory yet; see [`Shard::settle`].
    pub fn retire(&mut self, position: u64, version: Arc<Version>) {
        self.retired = self.retired.max(position);
        self.adopt(version);
    }

    /// Holds these tables from now on. What has left memory is in them.
    pub fn adopt(&mut self, version: Arc<Version>) {
        if version.position >= self.retired {
            self.version = version;
        }
    }

    /// Whether what was read from the tables at a position, and what memory has, is all that is to be known.
    pub fn is_current(&self, as_of: u64) -> bool {
        as_of >= self.retired
    }

    /// Lets go of up to `limit` records that the tables have, and bodies of callbacks. True if there are more.
    pub fn settle(&mut self, limit: usize) -> bool {
        let has_bodies = self.outbox.settle(self.retired, limit);
        self.settle_records(limit) || has_bodies
    }

    fn settle_records(&mut self, limit: usize) -> bool {
        for _ in 0..limit {
            match self.settling.front() {
                Some(next) if next.position <= self.retired => {}
                _ => return false,
            }
            let next = self.settling.pop_front().expect("looked at just now");
            self.unsettled_bytes.fetch_sub(next.bytes, Ordering::Relaxed);
            if next.no != NO_TASK {
                self.settle_recent(next.no);
                self.settle_live(next.no);
            }
        }
        self.settling.front().is_some_and(|next| next.position <= self.retired)
    }

    fn settle_recent(&mut self, no: u64) {
        let changed = match self.recent.get(&no) {
            Some(Recent::Final { changed, .. } | Recent::Gone { changed }) => *changed,
            None => return,
        };
        if changed > self.retired {
            return;
        }
        // The key may name a newer task by now, or this one may live again.
        if let Some(Recent::Final { ended, .. }) = self.recent.remove(&no)
            && let Some(key) = &ended.key
            && self.keys.get(key) == Some(&no)
        {
            self.keys.remove(key);
        }
    }

    fn settle_live(&mut self, no: u64) {
        if self.cached_bytes <= self.limits.cached_bytes {
            return;
        }
        let Some(slot_id) = self.slots.find(no) else { return };
        let slot = self.slots.at_mut(slot_id);
        if slot.detail.as_ref().is_some_and(|kept| kept.changed <= self.retired) {
            let kept = slot.detail.take().expect("looked at just now");
            self.cached_bytes -= kept.bytes;
        }
    }

    /// Takes in details read from the tables for tasks that have none in memory. Unless nothing has left
    /// memory since they were read, only those of tasks to which nothing has happened: they cannot have changed.
    pub fn load(&mut self, details: Vec<(u64, Detail)>, is_current: bool) {
        for (no, detail) in details {
            let Some(slot_id) = self.slots.find(no) else { continue };
            let slot = self.slots.at_mut(slot_id);
            let is_untouched = slot.attempts == 0 && slot.updated_at == slot.created_at;
            if slot.detail.is_none() && (is_current || is_untouched) {
                let bytes = detail.body.as_ref().map_or(0, |body| body.bytes());
                slot.detail = Some(Box::new(Kept { detail, changed: 0, bytes }));
                self.cached_bytes += bytes;
            }
        }
    }

    /// Bodies of new tasks that the tables do not have yet do not count: their room is bounded by itself.
    pub fn has_cache_room(&self) -> bool {
        let unsettled = self.unsettled_bytes.load(Ordering::Relaxed);
        self.cached_bytes < self.limits.cached_bytes * 2 + unsettled
    }
}
