//! The rows of tables as they are, to be changed behind a store's back.

use crate::local::files::Files;
use crate::local::tables::{BlockCache, BulkTables, CATALOG_NAME, Group, Tables};
use std::sync::Arc;

/// The key of stores that are put together from parts.
pub const PARTS_KEY: u64 = 2;

#[derive(Clone)]
pub struct TableRows {
    pub rows: Vec<(Group, Vec<u8>, Vec<u8>)>,
    pub position: u64,
    counters: crate::local::tables::Counters,
}

impl TableRows {
    /// Everything that counts in the tables of a shard.
    pub fn read(files: Arc<dyn Files>, key: u64) -> TableRows {
        let tables = Tables::open(files, Arc::new(BlockCache::new(1 << 20)), key, true)
            .expect("tables that are sound");
        let version = tables.version();
        let mut rows = Vec::new();
        for group in version.groups() {
            let mut walk = version.walk(group, &[], &[]).expect("tables that are sound");
            while let Some((key, value)) = walk.row() {
                if let Some(value) = value {
                    rows.push((group, key.to_vec(), value.to_vec()));
                }
                walk.advance().expect("tables that are sound");
            }
        }
        TableRows { rows, position: version.position, counters: version.counters }
    }

    /// Replaces the tables of a shard by these rows.
    pub fn write(&self, files: &Arc<dyn Files>, key: u64) {
        for name in files.list().expect("a directory") {
            if name == CATALOG_NAME || name.ends_with(".tab") {
                files.remove(&name).expect("it is there");
            }
        }
        let mut bulk = BulkTables::new(files.clone(), key);
        bulk.counters = self.counters;
        let mut rows = self.rows.clone();
        rows.sort();
        for (group, key, value) in &rows {
            bulk.put(*group, key, value).expect("room");
        }
        bulk.finish(self.position).expect("room");
    }
}
