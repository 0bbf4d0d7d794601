//! What one file of the forgetful disk holds: the bytes as a process sees them, the bytes that are
//! certainly on disk, and which sectors differ.

use std::collections::BTreeSet;

const SECTOR: usize = 512;

#[derive(Clone, Default)]
pub struct Contents {
    now: Vec<u8>,
    synced: Vec<u8>,
    /// Sectors that a sync would save.
    dirty: BTreeSet<usize>,
    /// Sectors that a failed sync gave up on.
    dropped: BTreeSet<usize>,
}

impl Contents {
    pub fn bytes(&self) -> &[u8] {
        &self.now
    }

    /// Changes what is on disk and what is in the cache alike.
    pub fn change(&mut self, change: impl Fn(&mut Vec<u8>)) {
        change(&mut self.now);
        change(&mut self.synced);
    }

    pub fn write(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        if end > self.now.len() {
            self.now.resize(end, 0);
        }
        self.now[offset..end].copy_from_slice(bytes);
        for sector in offset / SECTOR..end.div_ceil(SECTOR) {
            self.dirty.insert(sector);
            self.dropped.remove(&sector);
        }
    }

    pub fn empty(&mut self) {
        self.dirty.extend(0..self.now.len().div_ceil(SECTOR));
        self.now.clear();
    }

    pub fn sync(&mut self) {
        self.synced.resize(self.now.len(), 0);
        for sector in std::mem::take(&mut self.dirty) {
            copy_sector(&self.now, &mut self.synced, sector);
        }
    }

    /// Linux takes the pages for clean after a failed sync, so no later sync saves them.
    pub fn fail_sync(&mut self) {
        self.dropped.append(&mut self.dirty);
    }

    pub fn settle(&mut self, keep: &mut dyn FnMut() -> bool) {
        let unsynced: Vec<usize> = self.dirty.union(&self.dropped).copied().collect();
        let (mut kept, lost): (Vec<usize>, Vec<usize>) = unsynced.into_iter().partition(|_| keep());
        let mut settled = self.synced.clone();
        // Nothing lost means that the new length holds, too; otherwise the file may be of either length,
        // or reach as far as the last sector that was kept.
        if lost.is_empty() || keep() {
            settled.resize(self.now.len(), 0);
        } else if let Some(last) = kept.last() {
            let reach = ((last + 1) * SECTOR).min(self.now.len());
            settled.resize(settled.len().max(reach), 0);
        }
        kept.retain(|sector| sector * SECTOR < self.now.len());
        for sector in kept {
            copy_sector(&self.now, &mut settled, sector);
        }
        *self = Self { now: settled.clone(), synced: settled, ..Self::default() };
    }
}

/// Copies one sector as far as the target reaches; what the source lacks is zero.
fn copy_sector(from: &[u8], to: &mut [u8], sector: usize) {
    let start = sector * SECTOR;
    for at in start..(start + SECTOR).min(to.len()) {
        to[at] = from.get(at).copied().unwrap_or(0);
    }
}
