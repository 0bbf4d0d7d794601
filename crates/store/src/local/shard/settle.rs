//! What leaves memory once the tree has it, and how much may wait for that.

use super::{Recent, Shard};
use crate::local::records::Detail;
use crate::local::slots::Kept;
use std::sync::atomic::Ordering;

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Memory for records that the tree does not have yet. Creates wait when it is used up.
    pub unsettled_bytes: usize,
    /// Memory for bodies of live tasks that the tree has too.
    pub cached_bytes: usize,
    /// How many tasks ahead of a claim are read from the tree at once.
    pub read_ahead: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { unsettled_bytes: 72 << 20, cached_bytes: 24 << 20, read_ahead: 8192 }
    }
}

/// Something in memory that the tree will have at or after `position`.
pub struct Unsettled {
    position: u64,
    no: u64,
    bytes: usize,
}

impl Shard {
    pub fn unsettled(&mut self, no: u64, bytes: usize) {
        self.unsettled_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.settling.push_back(Unsettled { position: self.position, no, bytes });
    }

    pub fn cache(&mut self, bytes: usize) {
        self.cached_bytes += bytes;
    }

    pub fn uncache(&mut self, bytes: usize) {
        self.cached_bytes -= bytes;
    }

    /// The tree has everything up to `position`. Nothing leaves memory yet; see [`Shard::settle`].
    pub fn retire(&mut self, position: u64) {
        self.retired = self.retired.max(position);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Lets go of up to `limit` records that the tree has. True if there are more.
    pub fn settle(&mut self, limit: usize) -> bool {
        for _ in 0..limit {
            match self.settling.front() {
                Some(next) if next.position <= self.retired => {}
                _ => return false,
            }
            let next = self.settling.pop_front().expect("looked at just now");
            self.unsettled_bytes.fetch_sub(next.bytes, Ordering::Relaxed);
            self.settle_recent(next.no);
            self.settle_live(next.no);
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

    /// Takes in details read from the tree for tasks that have none in memory. Unless nothing has left
    /// memory since they were read, only those of tasks that were never claimed: they cannot have changed.
    pub fn load(&mut self, details: Vec<(u64, Detail)>, is_current: bool) {
        for (no, detail) in details {
            let Some(slot_id) = self.slots.find(no) else { continue };
            let slot = self.slots.at_mut(slot_id);
            if slot.detail.is_none() && (is_current || slot.attempts == 0) {
                let bytes = detail.body.as_ref().map_or(0, |body| body.bytes());
                slot.detail = Some(Box::new(Kept { detail, changed: 0, bytes }));
                self.cached_bytes += bytes;
            }
        }
    }

    /// Bodies of new tasks that the tree does not have yet do not count: their room is bounded by itself.
    pub fn has_cache_room(&self) -> bool {
        let unsettled = self.unsettled_bytes.load(Ordering::Relaxed);
        self.cached_bytes < self.limits.cached_bytes * 2 + unsettled
    }
}
