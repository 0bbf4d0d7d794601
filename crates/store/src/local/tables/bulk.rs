//! Making the tables of a new shard from rows in their order: restoring a backup, bringing an old format over.

use super::catalog::{self, Catalog, NamedTable};
use super::table::{Group, TableError};
use super::writer::TableWriter;
use crate::local::directory::files::{File, Files};
use crate::local::format::records::{Counters, read_until};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A table that has grown to this is ended, and another one begun.
const TABLE_BYTES: usize = 64 << 20;

struct OpenTable {
    writer: TableWriter<dyn File>,
    number: u64,
    bytes: usize,
}

pub struct BulkTables {
    files: Arc<dyn Files>,
    key: u64,
    pub counters: Counters,
    /// Rows of several kinds of one group may come side by side, each kind in its own order.
    open: BTreeMap<(Group, u8), OpenTable>,
    tables: Vec<NamedTable>,
    next_number: u64,
}

impl BulkTables {
    pub fn new(files: Arc<dyn Files>, key: u64) -> BulkTables {
        let (open, tables) = (BTreeMap::new(), Vec::new());
        BulkTables { files, key, counters: Counters::new(), open, tables, next_number: 1 }
    }

    /// Adds a row; the keys of a group come in ascending order.
    pub fn put(&mut self, group: Group, key: &[u8], value: &[u8]) -> Result<(), TableError> {
        self.put_beside(group, 0, key, value)
    }

    /// The same, for rows that come beside others of their group.
    pub fn put_beside(&mut self, group: Group, kind: u8, key: &[u8], value: &[u8]) -> Result<(), TableError> {
        let place = (group, kind);
        if self.open.get(&place).is_some_and(|open| open.bytes >= TABLE_BYTES) {
            self.end(place)?;
        }
        if !self.open.contains_key(&place) {
            let number = self.next_number;
            self.next_number += 1;
            let file = self.files.create(&catalog::name_of(number))?;
            let writer = TableWriter::new(file, group, number, self.key);
            self.open.insert(place, OpenTable { writer, number, bytes: 0 });
        }
        let open = self.open.get_mut(&place).expect("made above");
        if group == Group::Keys {
            open.writer.keep_until(read_until(value));
        }
        open.bytes += key.len() + value.len();
        Ok(open.writer.push(key, Some(value))?)
    }

    fn end(&mut self, place: (Group, u8)) -> Result<(), TableError> {
        if let Some(mut open) = self.open.remove(&place)
            && let Some(meta) = open.writer.finish()?
        {
            self.tables.push(NamedTable { number: open.number, dead: 0, meta });
        }
        Ok(())
    }

    /// Ends the tables and writes the catalog, at this journal position.
    pub fn finish(mut self, position: u64) -> Result<(), TableError> {
        for place in self.open.keys().copied().collect::<Vec<_>>() {
            self.end(place)?;
        }
        let catalog = Catalog {
            position,
            counters: self.counters,
            next_number: self.next_number,
            segments: Vec::new(),
            tables: self.tables,
        };
        self.files.sync_dir()?;
        Ok(catalog.write(&*self.files, self.key)?)
    }
}
