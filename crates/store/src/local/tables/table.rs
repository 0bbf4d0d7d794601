//! One table: an immutable sorted file of rows, and how it is read.

use super::block::{self, Block};
use super::cache::BlockCache;
use super::cursor::{Cursor, block_of};
use super::filter::{self, FilterShape};
use crate::local::directory::files::File;
use crate::local::format::codec::{Corrupt, Reader, Writer};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// What a table holds. Within a group the row of the newer table counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Group {
    /// States of live tasks that changed, queues, records: small, changing.
    Rows,
    /// Live tasks as they were created: heads and bodies, by number.
    Bodies,
    /// Hashes of idempotency keys, with the numbers of the tasks that ended with them.
    Keys,
    /// Dead letters, by number.
    Dead,
    /// Tasks that ended, by number, and when the last of them is over, in unix milliseconds.
    Ended(i64),
}

impl Group {
    pub fn write(self) -> (u8, i64) {
        match self {
            Group::Rows => (1, 0),
            Group::Bodies => (2, 0),
            Group::Keys => (3, 0),
            Group::Dead => (4, 0),
            Group::Ended(end) => (5, end),
        }
    }

    pub fn read(kind: u8, end: i64) -> Result<Group, Corrupt> {
        Ok(match kind {
            1 => Group::Rows,
            2 => Group::Bodies,
            3 => Group::Keys,
            4 => Group::Dead,
            5 => Group::Ended(end),
            _ => return Err(Corrupt("an unknown group")),
        })
    }

    /// The part of a key that is a task's number, in groups that are ordered by numbers.
    pub fn number_of(self, key: &[u8]) -> Option<u64> {
        let number = match self {
            Group::Bodies => key.get(1..)?,
            Group::Dead | Group::Ended(_) => key,
            Group::Rows | Group::Keys => return None,
        };
        number.try_into().ok().map(u64::from_be_bytes)
    }

    /// The part of a key that its filter knows.
    pub fn filtered(self, key: &[u8]) -> &[u8] {
        match self {
            Group::Bodies => key.get(1..).unwrap_or(key),
            Group::Keys => key.get(..8).unwrap_or(key),
            Group::Rows | Group::Dead | Group::Ended(_) => key,
        }
    }
}

#[derive(Debug, Error)]
pub enum TableError {
    #[error("the tables could not be read or written: {0}")]
    Io(#[from] io::Error),
    #[error("{} cannot be read at byte {offset}: {source}", .file.display())]
    Unreadable { file: PathBuf, offset: u64, source: io::Error },
    #[error("{} is damaged at byte {offset}: {reason}", .file.display())]
    Damaged { file: PathBuf, offset: u64, reason: &'static str },
}

impl TableError {
    /// Reading once more will not help: what lies there is not what was written.
    pub fn is_damage(&self) -> bool {
        matches!(self, TableError::Damaged { .. })
    }

    /// The file that cannot be read, or not as it was written.
    pub fn unreadable(&self) -> Option<&PathBuf> {
        match self {
            TableError::Unreadable { file, .. } | TableError::Damaged { file, .. } => Some(file),
            TableError::Io(_) => None,
        }
    }
}

/// What is known of a table without reading it. Lies at its end and in the catalog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableMeta {
    /// Told apart from every other table of the shard, ever.
    pub serial: u64,
    pub group: Group,
    pub length: u64,
    pub rows: u64,
    pub index_at: u64,
    pub index_bytes: u64,
    pub filter_at: u64,
    pub filter: FilterShape,
    /// The range of the numbers in it, in groups that are ordered by numbers.
    pub first: u64,
    pub last: u64,
    /// When the last row of a table of keys is over.
    pub until: i64,
}

pub const FOOTER_BYTES: usize = 128;
const MAGIC: u64 = u64::from_le_bytes(*b"codeqtab");

impl TableMeta {
    pub fn write(&self, seed: u64) -> [u8; FOOTER_BYTES] {
        let mut bytes = Vec::with_capacity(FOOTER_BYTES);
        let (kind, end) = self.group.write();
        let w = &mut Writer(&mut bytes);
        w.fixed(MAGIC);
        w.byte(kind);
        for value in [
            self.serial,
            end as u64,
            self.length,
            self.rows,
            self.index_at,
            self.index_bytes,
            self.filter_at,
            u64::from(self.filter.pages),
            u64::from(self.filter.page_bytes),
            self.first,
            self.last,
            self.until as u64,
        ] {
            w.fixed(value);
        }
        bytes.resize(FOOTER_BYTES - 8, 0);
        let hash = xxh3_64_with_seed(&bytes, seed);
        Writer(&mut bytes).fixed(hash);
        bytes.try_into().expect("a footer has one size")
    }

    pub fn read(bytes: &[u8], seed: u64) -> Result<TableMeta, Corrupt> {
        if bytes.len() != FOOTER_BYTES {
            return Err(Corrupt("a footer is cut short"));
        }
        let (content, hash) = bytes.split_at(FOOTER_BYTES - 8);
        if *hash != xxh3_64_with_seed(content, seed).to_le_bytes() {
            return Err(Corrupt("the checksum of a footer does not match"));
        }
        let r = &mut Reader(content);
        if r.fixed()? != MAGIC {
            return Err(Corrupt("not a table"));
        }
        let kind = r.byte()?;
        let serial = r.fixed()?;
        let group = Group::read(kind, r.fixed()? as i64)?;
        let small = |value: u64| u32::try_from(value).map_err(|_| Corrupt("a filter is too large"));
        Ok(TableMeta {
            serial,
            group,
            length: r.fixed()?,
            rows: r.fixed()?,
            index_at: r.fixed()?,
            index_bytes: r.fixed()?,
            filter_at: r.fixed()?,
            filter: FilterShape { pages: small(r.fixed()?)?, page_bytes: small(r.fixed()?)? },
            first: r.fixed()?,
            last: r.fixed()?,
            until: r.fixed()? as i64,
        })
    }
}

/// Seeds the checksums of a table.
pub fn seed_of(key: u64, serial: u64) -> u64 {
    key ^ serial.wrapping_mul(0xd6e8_feb8_6659_fd93)
}

pub struct Table {
    pub meta: TableMeta,
    /// Under which its file is named; 0 while it lies in memory.
    pub number: u64,
    /// Rows that nobody needs any more, about: counting proposes a merge, reading decides.
    pub dead: Arc<AtomicU64>,
    /// What that was when a merge was last thought of.
    pub dead_seen: AtomicU64,
    pub(super) file: Arc<dyn File>,
    pub(super) path: PathBuf,
    pub(super) cache: Arc<BlockCache>,
    /// Under which its pieces are cached.
    pub(super) cache_id: u64,
    pub(super) seed: u64,
}

/// Tables of all shards share a cache.
fn next_cache_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Table {
    pub(super) fn new(
        meta: TableMeta,
        seed: u64,
        (number, file, path): (u64, Arc<dyn File>, PathBuf),
        cache: &Arc<BlockCache>,
    ) -> Table {
        let (dead, dead_seen) = (Arc::default(), AtomicU64::new(u64::MAX));
        let (cache, cache_id) = (cache.clone(), next_cache_id());
        Table { meta, number, dead, dead_seen, file, path, cache, cache_id, seed }
    }

    pub fn serial(&self) -> u64 {
        self.meta.serial
    }

    pub fn group(&self) -> Group {
        self.meta.group
    }

    pub fn length(&self) -> u64 {
        self.meta.length
    }

    /// The same table in a file.
    pub fn in_file(&self, number: u64, file: Arc<dyn File>, path: PathBuf) -> Table {
        let (dead, cache) = (self.dead.clone(), self.cache.clone());
        let (dead_seen, cache_id, seed) = (AtomicU64::new(u64::MAX), self.cache_id, self.seed);
        Table { meta: self.meta, number, dead, dead_seen, file, path, cache, cache_id, seed }
    }

    fn damaged(&self, offset: u64) -> impl Fn(Corrupt) -> TableError + '_ {
        move |Corrupt(reason)| TableError::Damaged { file: self.path.clone(), offset, reason }
    }

    fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>, TableError> {
        let end = offset.checked_add(bytes).filter(|end| *end <= self.meta.length);
        if end.is_none() {
            return Err(self.damaged(offset)(Corrupt("it points behind its end")));
        }
        let mut read = vec![0; usize::try_from(bytes).expect("a table fits into memory pieces")];
        let mut done = 0;
        while done < read.len() {
            match self.file.read_at(&mut read[done..], offset + done as u64) {
                Ok(0) => return Err(self.damaged(offset)(Corrupt("it is cut short"))),
                Ok(count) => done += count,
                Err(source) => {
                    return Err(TableError::Unreadable { file: self.path.clone(), offset, source });
                }
            }
        }
        Ok(read)
    }

    fn block_at(&self, offset: u64, bytes: u64) -> Result<Arc<Block>, TableError> {
        self.cache.block((self.cache_id, offset), || {
            let stored = self.read(offset, bytes)?;
            block::unpack(&stored, self.seed, offset).and_then(Block::parse).map_err(self.damaged(offset))
        })
    }

    /// The first key of every block, and where it lies.
    pub(super) fn index(&self) -> Result<Arc<Block>, TableError> {
        self.block_at(self.meta.index_at, self.meta.index_bytes)
    }

    pub(super) fn block(&self, index: &Block, number: usize) -> Result<Arc<Block>, TableError> {
        let place = index.value(number).unwrap_or_default();
        let r = &mut Reader(place);
        let place = r.number().and_then(|offset| Ok((offset, r.number()?)));
        let (offset, bytes) = place.map_err(self.damaged(self.meta.index_at))?;
        self.block_at(offset, bytes)
    }

    /// Whether a row with this key may be here, by the range of its numbers and the filter.
    pub fn admits(&self, key: &[u8]) -> Result<bool, TableError> {
        let group = self.meta.group;
        if group.number_of(key).is_some_and(|no| no < self.meta.first || no > self.meta.last) {
            return Ok(false);
        }
        let hash = filter::hash_of(group.filtered(key));
        let number = self.meta.filter.page_of(hash);
        let page_bytes = u64::from(self.meta.filter.page_bytes);
        let offset = self.meta.filter_at + u64::from(number) * page_bytes;
        let page = self.cache.page((self.cache_id, offset), || {
            let page = self.read(offset, page_bytes)?;
            filter::check_page(&page, number, self.seed).map_err(self.damaged(offset))?;
            Ok::<_, TableError>(page)
        })?;
        Ok(filter::admits(&page, hash))
    }

    /// The row with this key: `Some(None)` says that it is gone, `None` that this table says nothing.
    pub fn get(&self, key: &[u8]) -> Result<Option<Option<Vec<u8>>>, TableError> {
        if !self.admits(key)? {
            return Ok(None);
        }
        let index = self.index()?;
        let Some(number) = block_of(&index, key) else { return Ok(None) };
        let block = self.block(&index, number)?;
        Ok(block.find(key).map(|value| value.map(<[u8]>::to_vec)))
    }

    /// Reads everything and compares it with what the table says of itself. Returns the number of rows.
    pub fn check(self: &Arc<Table>) -> Result<u64, TableError> {
        let footer = self.read(self.meta.length - FOOTER_BYTES as u64, FOOTER_BYTES as u64)?;
        let meta = TableMeta::read(&footer, self.seed).map_err(self.damaged(self.meta.length))?;
        if meta != self.meta {
            return Err(self.damaged(self.meta.length)(Corrupt("the catalog says something else of it")));
        }
        for number in 0..self.meta.filter.pages {
            let page_bytes = u64::from(self.meta.filter.page_bytes);
            let offset = self.meta.filter_at + u64::from(number) * page_bytes;
            let page = self.read(offset, page_bytes)?;
            filter::check_page(&page, number, self.seed).map_err(self.damaged(offset))?;
        }
        let mut rows = 0;
        let mut last: Option<Vec<u8>> = None;
        let mut cursor = Cursor::seek(self.clone(), &[], false)?;
        while let Some(key) = cursor.key() {
            if last.as_deref().is_some_and(|last| last >= key) || !self.admits(key)? {
                return Err(self.damaged(0)(Corrupt("its rows are out of order, or its filter misses one")));
            }
            last = Some(key.to_vec());
            rows += 1;
            cursor.advance()?;
        }
        if rows != self.meta.rows {
            return Err(self.damaged(self.meta.length)(Corrupt("it has another number of rows")));
        }
        Ok(rows)
    }
}
