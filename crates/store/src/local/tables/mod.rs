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
//! writes new files under new numbers.
//!
//! One thread, the feeder, changes anything here. Readers take a [`Version`] and see one instant for as long as
//! they hold it; files that were unlinked meanwhile stay readable.

mod block;
mod bulk;
mod cache;
mod catalog;
mod filter;
mod merging;
mod table;
#[cfg(test)]
mod tests;
mod version;
mod writer;

pub use bulk::BulkTables;
pub use cache::BlockCache;
pub use catalog::{CatalogError, NAME as CATALOG_NAME};
pub use filter::PROBES as FILTER_PROBES;
pub use merging::ROWS_PER_PAUSE;
pub use table::{Group, Table, TableError};
pub use version::{Live, LiveHead, LiveRow, Version, Walk};
pub use writer::TableWriter;

use crate::local::directory::files::{Files, MemoryFile};
pub use crate::local::format::records::Counters;
use catalog::{Catalog, NamedTable};
use codeq_queue::Time;
use merging::{Merge, Plan};
use std::collections::HashSet;
use std::io;
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
        };
        Ok(Tables { files, cache, key, current: Mutex::new(Arc::new(version)), edits: Mutex::new(edits) })
    }

    /// What is readable now.
    pub fn version(&self) -> Arc<Version> {
        self.current.lock().expect("no one panics holding the version").clone()
    }

    fn publish(&self, mut version: Version) {
        version.edition += 1;
        *self.current.lock().expect("no one panics holding the version") = Arc::new(version);
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

    /// Whether something is shown that is not on the disk.
    pub fn has_images(&self) -> bool {
        !self.edits().images.is_empty()
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

    /// Brings everything that is shown onto the disk, and notes the segments of the journal that are needed besides.
    /// After an error nothing is known to have been written; the
    /// next call tries again under new names.
    pub fn persist(&self, segments: Vec<String>) -> Result<(), TableError> {
        let mut edits = self.edits();
        let mut version = Version { segments, ..(*self.version()).clone() };
        self.join_images(&mut edits, &mut version)?;
        self.publish(version.clone());
        let attempt = edits.names.len();
        if let Err(error) = self.write_images(&mut edits, &mut version) {
            // No catalog can name these.
            for name in edits.names.split_off(attempt) {
                let _ = self.files.remove(&name);
            }
            return Err(error.into());
        }
        self.replace_catalog(&mut edits, version)?;
        edits.images.clear();
        Ok(())
    }

    fn write_images(&self, edits: &mut Edits, version: &mut Version) -> io::Result<()> {
        for index in 0..edits.images.len() {
            let number = edits.take_number();
            let name = catalog::name_of(number);
            edits.names.push(name.clone());
            let (serial, image) = &edits.images[index];
            let file = self.files.create(&name)?;
            file.write_at(&image.read(), 0)?;
            file.sync_data()?;
            version.replace_file(*serial, number, &file, self.files.path_of(&name));
        }
        Ok(())
    }

    /// Makes the catalog of this version durable, shows it, and removes what it does not name. After an error the
    /// disk may have either catalog, so the files of both stay until a later one is durable.
    fn replace_catalog(&self, edits: &mut Edits, version: Version) -> Result<(), TableError> {
        let catalog = Catalog::of(&version, edits.next_number);
        self.files.sync_dir()?;
        catalog.write(&*self.files, self.key)?;
        self.publish(version);
        let kept: HashSet<String> = catalog.tables.iter().map(NamedTable::name).collect();
        let merged = edits.merge.as_ref().map(|merge| catalog::name_of(merge.number()));
        let is_kept = |name: &String| kept.contains(name) || merged.as_ref() == Some(name);
        let (names, gone) = std::mem::take(&mut edits.names).into_iter().partition::<Vec<_>, _>(is_kept);
        edits.names = names;
        for name in gone {
            // A name that stays is removed by the next opening.
            let _ = self.files.remove(&name);
        }
        Ok(())
    }

    /// Drops the history that is over by now. Returns how many tables that were.
    pub fn drop_expired(&self, now: Time) -> Result<usize, TableError> {
        let mut edits = self.edits();
        let mut version = (*self.version()).clone();
        let count = version.drop_expired(now);
        if count == 0 || !edits.images.is_empty() {
            return Ok(0);
        }
        if edits.merge.as_ref().is_some_and(|merge| !merge.still_fits(&version)) {
            self.give_up_merge(&mut edits);
        }
        self.replace_catalog(&mut edits, version)?;
        Ok(count)
    }

    /// A bounded piece of merging: small tables become larger ones, rows that nobody needs go. True if there is
    /// more to do.
    pub fn merge_some(&self, now: Time, bytes: usize, pause: &dyn Fn()) -> Result<bool, TableError> {
        let mut edits = self.edits();
        if edits.merge.is_none() {
            let Some(plan) = merging::choose(&self.version()) else { return Ok(false) };
            edits.merge = Some(self.begin_merge(&mut edits, plan, now)?);
        }
        let merge = edits.merge.as_mut().expect("begun above");
        let is_done = match merge.step(bytes, pause) {
            Ok(is_done) => is_done,
            Err(error) => {
                self.give_up_merge(&mut edits);
                return Err(error);
            }
        };
        // Beside images, the catalog would name tables that have no file.
        if is_done && edits.images.is_empty() {
            let merge = edits.merge.take().expect("it has just ended");
            let mut version = (*self.version()).clone();
            merge.finish(&mut version, &self.cache)?;
            self.replace_catalog(&mut edits, version)?;
        }
        Ok(edits.images.is_empty())
    }

    fn begin_merge(&self, edits: &mut Edits, plan: Plan, now: Time) -> Result<Merge, TableError> {
        let (serial, number) = (edits.take_number(), edits.take_number());
        let name = catalog::name_of(number);
        edits.names.push(name.clone());
        let writer = TableWriter::new(self.files.create(&name)?, plan.group, serial, self.key);
        Merge::begin(plan, self.version(), writer, (number, self.files.path_of(&name)), now)
    }

    fn give_up_merge(&self, edits: &mut Edits) {
        if let Some(merge) = edits.merge.take() {
            let name = catalog::name_of(merge.number());
            edits.names.retain(|other| *other != name);
            let _ = self.files.remove(&name);
        }
    }

    /// Room taken on disk.
    pub fn disk_bytes(&self) -> u64 {
        self.version().tables().map(|table| table.length()).sum()
    }
}

impl Edits {
    fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }
}
