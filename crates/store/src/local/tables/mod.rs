//! Tables: where tasks rest once they have left the journal's hands.
//!
//! A table is an immutable sorted file, written once, synced, and dropped by unlinking it. Which tables count is
//! said by the catalog, which is replaced whole and also holds the journal position that they bring the shard to.
//! So a batch is there as a whole or not at all, after a crash as for a reader.
//!
//! ```text
//! batch -> images in memory -> published, readable -> files, synced -> catalog, renamed -> journal released
//! ```
//!
//! What holds at any instant: a catalog names only files that were synced, names included, before it was written;
//! a named file is never written again, nor removed before a catalog without it is durable; a catalog is exactly
//! the state at its position. After a failed write or sync nothing is synced again and believed: the next attempt
//! writes new files under new numbers. Files that were synced are not written again because the catalog that was to
//! name them failed: only the catalog is.
//!
//! One thread, the feeder, changes anything here. Readers take a [`Version`] and see one instant for as long as
//! they hold it; files that were unlinked meanwhile stay readable.

mod block;
mod bulk;
mod cache;
mod catalog;
mod cursor;
mod filter;
mod merging;
mod reserve;
mod table;
#[cfg(test)]
mod tests;
mod version;
mod writer;
mod writing;

pub use bulk::BulkTables;
pub use cache::BlockCache;
pub use catalog::{CatalogError, NAME as CATALOG_NAME};
pub use filter::PROBES as FILTER_PROBES;
pub use merging::ROWS_PER_PAUSE;
pub use reserve::{is_full, with_reserve};
pub use table::{Group, Table, TableError};
pub use version::{Live, LiveHead, LiveRow, Version, Walk};
pub use writer::TableWriter;

use crate::local::directory::files::{Files, MemoryFile};
pub use crate::local::format::records::Counters;
use catalog::{Catalog, NamedTable};
use merging::Merge;
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// More images than this are joined: a reader has to look into each.
const IMAGES_MAX: usize = 64;

/// The tables of one shard.
pub struct Tables {
    files: Arc<dyn Files>,
    cache: Arc<BlockCache>,
    /// Seeds all checksums, so that the blocks of another store are not taken for ours.
    key: u64,
    current: Mutex<Arc<Version>>,
    /// What only the feeder touches.
    edits: Mutex<Edits>,
}

struct Edits {
    next_number: u64,
    /// Tables that lie in memory until their files are synced.
    images: Vec<(u64, Arc<MemoryFile>)>,
    /// The names of all files that a durable catalog may name, or an attempt has left behind.
    names: Vec<String>,
    merge: Option<Merge>,
    /// What the catalog on the disk says, as far as is known.
    durable: Version,
    /// Files are shown that this catalog does not name.
    is_ahead: bool,
    /// Tables that could not be read when they were to be merged: they are left alone until the next opening.
    set_aside: HashSet<u64>,
}

/// A table that lies in memory.
pub type Image = (Arc<Table>, Arc<MemoryFile>);

/// The tables that one batch adds, still in memory, and where it brings the shard.
pub struct Batch {
    pub tables: Vec<Image>,
    /// The numbers of live tasks that ended, ascending.
    pub ended: Vec<u64>,
    pub position: u64,
    pub counters: Counters,
}

impl Tables {
    /// Makes the catalog of a shard in which nothing has happened, unless there is one.
    pub fn create(files: &dyn Files, key: u64) -> Result<(), CatalogError> {
        if Catalog::is_there(files)? {
            return Ok(());
        }
        let catalog = Catalog::of(&Version { counters: Counters::new(), ..Version::default() }, 1);
        catalog.write(files, key).map_err(|source| CatalogError::io(files, CATALOG_NAME, source))
    }

    /// Opens the tables that the catalog names; a missing catalog is an empty one. Files that it does not name are
    /// removed, unless this is only to look.
    pub fn open(
        files: Arc<dyn Files>,
        cache: Arc<BlockCache>,
        key: u64,
        is_read_only: bool,
    ) -> Result<Tables, CatalogError> {
        let catalog = Catalog::read(&*files, key)?;
        let mut version = Version {
            position: catalog.position,
            counters: catalog.counters,
            segments: catalog.segments,
            ..Version::default()
        };
        for named in &catalog.tables {
            version.add(Arc::new(named.open(&*files, &cache, key)?));
        }
        let found = catalog::table_names(&*files)?;
        let kept: Vec<String> = catalog.tables.iter().map(NamedTable::name).collect();
        let highest = found.iter().filter_map(|name| catalog::number_of(name)).max().unwrap_or(0);
        if !is_read_only {
            for name in found.iter().filter(|name| !kept.contains(name)) {
                // Left by a write that was interrupted.
                files.remove(name).map_err(|source| CatalogError::io(&*files, name, source))?;
            }
        }
        let edits = Edits {
            next_number: catalog.next_number.max(highest + 1),
            images: Vec::new(),
            names: kept,
            merge: None,
            durable: version.clone(),
            is_ahead: false,
            set_aside: HashSet::new(),
        };
        if !is_read_only {
            reserve::keep(&*files);
        }
        Ok(Tables { files, cache, key, current: Mutex::new(Arc::new(version)), edits: Mutex::new(edits) })
    }

    /// What is readable now.
    pub fn version(&self) -> Arc<Version> {
        self.current.lock().expect("no one panics holding the version").clone()
    }

    fn publish(&self, version: Version) {
        let mut current = self.current.lock().expect("no one panics holding the version");
        *current = Arc::new(Version { edition: current.edition + 1, ..version });
    }

    fn edits(&self) -> std::sync::MutexGuard<'_, Edits> {
        self.edits.lock().expect("no one panics holding the edits")
    }

    /// A table to be written in memory.
    pub fn image(&self, group: Group) -> TableWriter {
        let serial = self.edits().take_number();
        TableWriter::new(Arc::new(MemoryFile::default()), group, serial, self.key)
    }

    /// Ends an image; `None` if there is nothing in it.
    pub fn seal(&self, writer: TableWriter) -> Result<Option<Image>, TableError> {
        writer.finish_image(&self.cache)
    }

    /// Shows a batch to readers, before it is on the disk: the journal has its content.
    pub fn show(&self, batch: Batch) {
        let mut edits = self.edits();
        let mut version = (*self.version()).clone();
        version.count_ended(&batch.ended);
        (version.position, version.counters) = (batch.position, batch.counters);
        for (table, image) in batch.tables {
            edits.images.push((table.serial(), image));
            version.add(table);
        }
        if edits.images.len() > IMAGES_MAX {
            // If it fails they are only slower to read.
            let _ = self.join_images(&mut edits, &mut version);
        }
        self.publish(version);
    }

    /// Whether something is shown that the catalog on the disk does not have.
    pub fn is_ahead(&self) -> bool {
        self.edits().is_ahead()
    }

    /// Makes one image of those of each group: they may have been shown one by one.
    fn join_images(&self, edits: &mut Edits, version: &mut Version) -> Result<(), TableError> {
        for group in version.groups().collect::<Vec<_>>() {
            let images: Vec<_> =
                version.group(group).iter().filter(|table| table.number == 0).cloned().collect();
            if images.len() < 2 {
                continue;
            }
            let mut writer = TableWriter::new(Arc::default(), group, edits.take_number(), self.key);
            merging::copy(&images, &mut writer)?;
            let Some((table, image)) = writer.finish_image(&self.cache)? else { continue };
            table.dead.store(merging::dead_of(&images), Ordering::Relaxed);
            let serials: Vec<u64> = images.iter().map(|table| table.serial()).collect();
            edits.images.retain(|(serial, _)| !serials.contains(serial));
            edits.images.push((table.serial(), image));
            version.replace(group, &serials, Some(table));
        }
        Ok(())
    }

    /// Room taken on disk.
    pub fn disk_bytes(&self) -> u64 {
        self.version().tables().map(|table| table.length()).sum()
    }
}

impl Edits {
    fn is_ahead(&self) -> bool {
        self.is_ahead || !self.images.is_empty()
    }

    fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }
}
