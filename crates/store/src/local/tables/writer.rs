//! Writing a table: rows in ascending order become blocks, then index, filter and footer.

use super::block::BlockBuilder;
use super::cache::BlockCache;
use super::filter::{self, FilterShape};
use super::table::{Group, Table, TableError, TableMeta, seed_of};
use crate::local::directory::files::{File, MemoryFile};
use crate::local::format::codec::Writer;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes of rows in a block, about. Small rows that are looked up one by one lie in smaller ones.
const BLOCK_BYTES: usize = 16 << 10;
const SMALL_BLOCK_BYTES: usize = 4 << 10;
/// Bytes that are written at once.
const WRITE_BYTES: usize = 1 << 20;

pub struct TableWriter<F: ?Sized = MemoryFile> {
    buffer: Vec<u8>,
    block: BlockBuilder,
    /// First key of the block that is being filled.
    block_key: Vec<u8>,
    index: BlockBuilder,
    /// Of what the filter is to know.
    hashes: Vec<u64>,
    meta: TableMeta,
    seed: u64,
    block_bytes: usize,
    /// Where the buffer begins in the file.
    written: u64,
    file: Arc<F>,
}

impl<F: File + ?Sized> TableWriter<F> {
    pub fn new(file: Arc<F>, group: Group, serial: u64, key: u64) -> TableWriter<F> {
        let meta = TableMeta {
            serial,
            group,
            length: 0,
            rows: 0,
            index_at: 0,
            index_bytes: 0,
            filter_at: 0,
            filter: FilterShape::default(),
            first: u64::MAX,
            last: 0,
            until: 0,
        };
        let is_small = matches!(group, Group::Rows | Group::Keys);
        TableWriter {
            buffer: Vec::new(),
            block: BlockBuilder::default(),
            block_key: Vec::new(),
            index: BlockBuilder::default(),
            hashes: Vec::new(),
            meta,
            seed: seed_of(key, serial),
            block_bytes: if is_small { SMALL_BLOCK_BYTES } else { BLOCK_BYTES },
            written: 0,
            file,
        }
    }

    pub fn rows(&self) -> u64 {
        self.meta.rows
    }

    /// Adds a row; keys come in strictly ascending order.
    pub fn push(&mut self, key: &[u8], value: Option<&[u8]>) -> io::Result<()> {
        let size = key.len() + value.map_or(0, <[u8]>::len);
        if !self.block.is_empty() && self.block.bytes() + size > self.block_bytes {
            self.end_block()?;
        }
        if self.block.is_empty() {
            self.block_key.clear();
            self.block_key.extend_from_slice(key);
        }
        self.block.push(key, value);
        self.meta.rows += 1;
        let group = self.meta.group;
        if let Some(no) = group.number_of(key) {
            self.meta.first = self.meta.first.min(no);
            self.meta.last = self.meta.last.max(no);
        }
        let hash = filter::hash_of(group.filtered(key));
        if self.hashes.last() != Some(&hash) {
            self.hashes.push(hash);
        }
        Ok(())
    }

    /// Notes until when a row of keys is needed.
    pub fn keep_until(&mut self, until: i64) {
        self.meta.until = self.meta.until.max(until);
    }

    fn end_block(&mut self) -> io::Result<()> {
        let offset = self.written + self.buffer.len() as u64;
        let begin = self.buffer.len();
        self.block.seal(self.seed, offset, &mut self.buffer);
        let mut place = Vec::with_capacity(12);
        Writer(&mut place).number(offset);
        Writer(&mut place).number((self.buffer.len() - begin) as u64);
        self.index.push(&self.block_key, Some(&place));
        if self.buffer.len() >= WRITE_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_at(&self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Writes what is left. Not synced.
    fn end(&mut self) -> io::Result<()> {
        if !self.block.is_empty() {
            self.end_block()?;
        }
        self.meta.index_at = self.written + self.buffer.len() as u64;
        let begin = self.buffer.len();
        self.index.seal(self.seed, self.meta.index_at, &mut self.buffer);
        self.meta.index_bytes = (self.buffer.len() - begin) as u64;
        self.meta.filter_at = self.written + self.buffer.len() as u64;
        let (shape, pages) = filter::build(&self.hashes, self.seed);
        self.meta.filter = shape;
        self.buffer.extend_from_slice(&pages);
        self.meta.length = self.written + self.buffer.len() as u64 + super::table::FOOTER_BYTES as u64;
        self.buffer.extend_from_slice(&self.meta.write(self.seed));
        self.flush()
    }

    fn table(self, file: Arc<dyn File>, number: u64, path: PathBuf, cache: &Arc<BlockCache>) -> Arc<Table> {
        Arc::new(Table::new(self.meta, self.seed, (number, file, path), cache))
    }
}

impl TableWriter<MemoryFile> {
    /// The table, in memory; `None` if there is nothing in it.
    pub fn finish_image(mut self, cache: &Arc<BlockCache>) -> Result<Option<super::Image>, TableError> {
        if self.meta.rows == 0 {
            return Ok(None);
        }
        self.end()?;
        let image = self.file.clone();
        Ok(Some((self.table(image.clone(), 0, PathBuf::from("memory"), cache), image)))
    }
}

impl TableWriter<dyn File> {
    /// Ends the file and syncs it. Gives what is known of it; `None` if there is nothing in it.
    pub fn finish(&mut self) -> Result<Option<TableMeta>, TableError> {
        if self.meta.rows == 0 {
            return Ok(None);
        }
        self.end()?;
        self.file.sync_data()?;
        Ok(Some(self.meta))
    }

    /// The same, as a table that can be read.
    pub fn finish_table(
        mut self,
        number: u64,
        path: PathBuf,
        cache: &Arc<BlockCache>,
    ) -> Result<Option<Arc<Table>>, TableError> {
        let meta = self.finish()?;
        let file = self.file.clone();
        Ok(meta.map(|_| self.table(file, number, path, cache)))
    }
}
