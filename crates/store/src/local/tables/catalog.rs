//! The catalog: which tables there are, and the journal position that they bring the shard to.
//!
//! Replaced as a whole: written aside, synced, renamed. After a crash it is the old one or the new one.

use super::cache::BlockCache;
use super::table::{FOOTER_BYTES, Table, TableMeta, seed_of};
use super::version::Version;
use crate::local::directory::files::{Files, replace};
use crate::local::format::codec::{Corrupt, Reader, Writer};
use crate::local::format::records::Counters;
use crate::local::journal;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub const NAME: &str = "catalog";
const DRAFT: &str = "catalog.new";
const SUFFIX: &str = ".tab";
const MAGIC: u64 = u64::from_le_bytes(*b"codeqcat");

#[derive(Debug, Error)]
pub enum CatalogError {
    #[error("{}: {source}", .file.display())]
    Io { file: PathBuf, source: io::Error },
    #[error("{} is damaged: {reason}", .file.display())]
    Damaged { file: PathBuf, reason: &'static str },
    #[error("{} is missing, though the catalog names it", .file.display())]
    Missing { file: PathBuf },
    #[error("{} is {found} bytes long, the catalog says {expected}", .file.display())]
    Length { file: PathBuf, found: u64, expected: u64 },
}

impl CatalogError {
    pub fn io(files: &dyn Files, name: &str, source: io::Error) -> CatalogError {
        CatalogError::Io { file: files.path_of(name), source }
    }
}

pub fn name_of(number: u64) -> String {
    format!("{number:08}{SUFFIX}")
}

pub fn number_of(name: &str) -> Option<u64> {
    name.strip_suffix(SUFFIX)?.parse().ok()
}

/// The names of all files that are tables, named or not, and of a catalog that was not finished.
pub fn table_names(files: &dyn Files) -> Result<Vec<String>, CatalogError> {
    let names = files.list().map_err(|source| CatalogError::io(files, "", source))?;
    Ok(names.into_iter().filter(|name| number_of(name).is_some() || name == DRAFT).collect())
}

pub struct NamedTable {
    pub number: u64,
    pub dead: u64,
    pub meta: TableMeta,
}

impl NamedTable {
    pub fn name(&self) -> String {
        name_of(self.number)
    }

    pub fn open(&self, files: &dyn Files, cache: &Arc<BlockCache>, key: u64) -> Result<Table, CatalogError> {
        let (name, path) = (self.name(), files.path_of(&self.name()));
        let file = files.open(&name).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => CatalogError::Missing { file: path.clone() },
            _ => CatalogError::io(files, &name, source),
        })?;
        let found = file.len().map_err(|source| CatalogError::io(files, &name, source))?;
        if found != self.meta.length {
            return Err(CatalogError::Length { file: path, found, expected: self.meta.length });
        }
        let seed = seed_of(key, self.meta.serial);
        let table = Table::new(self.meta, seed, (self.number, file, path), cache);
        table.dead.store(self.dead, Ordering::Relaxed);
        Ok(table)
    }
}

#[derive(Default)]
pub struct Catalog {
    pub position: u64,
    pub counters: Counters,
    pub next_number: u64,
    /// Segments of the journal that must be there.
    pub segments: Vec<String>,
    /// By group, the older first.
    pub tables: Vec<NamedTable>,
}

impl Catalog {
    pub fn of(version: &Version, next_number: u64) -> Catalog {
        let tables = version.tables().map(|table| NamedTable {
            number: table.number,
            dead: table.dead.load(Ordering::Relaxed),
            meta: table.meta,
        });
        Catalog {
            position: version.position,
            counters: version.counters,
            next_number,
            segments: version.segments.clone(),
            tables: tables.collect(),
        }
    }

    fn encode(&self, key: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64 + self.tables.len() * (FOOTER_BYTES + 24));
        let w = &mut Writer(&mut bytes);
        w.fixed(MAGIC);
        w.number(self.position);
        w.bytes(&self.counters.write());
        w.number(self.next_number);
        w.number(self.segments.len() as u64);
        self.segments.iter().for_each(|name| w.text(name));
        w.number(self.tables.len() as u64);
        for table in &self.tables {
            w.number(table.number);
            w.number(table.dead);
            w.number(table.meta.serial);
            w.bytes(&table.meta.write(seed_of(key, table.meta.serial)));
        }
        let hash = xxh3_64_with_seed(&bytes, key);
        Writer(&mut bytes).fixed(hash);
        bytes
    }

    fn decode(bytes: &[u8], key: u64) -> Result<Catalog, Corrupt> {
        let (content, hash) = bytes.split_last_chunk::<8>().ok_or(Corrupt("it is cut short"))?;
        if *hash != xxh3_64_with_seed(content, key).to_le_bytes() {
            return Err(Corrupt("the checksum does not match"));
        }
        let r = &mut Reader(content);
        if r.fixed()? != MAGIC {
            return Err(Corrupt("not a catalog"));
        }
        let position = r.number()?;
        let counters = Counters::read(r.bytes()?)?;
        let next_number = r.number()?;
        let mut segments = Vec::new();
        for _ in 0..r.number()? {
            segments.push(r.text()?.to_owned());
        }
        let count = r.number()?;
        let mut tables = Vec::new();
        for _ in 0..count {
            let (number, dead, serial) = (r.number()?, r.number()?, r.number()?);
            let meta = TableMeta::read(r.bytes()?, seed_of(key, serial))?;
            tables.push(NamedTable { number, dead, meta });
        }
        Ok(Catalog { position, counters, next_number, segments, tables })
    }

    pub fn is_there(files: &dyn Files) -> Result<bool, CatalogError> {
        let names = files.list().map_err(|source| CatalogError::io(files, NAME, source))?;
        Ok(names.iter().any(|name| name == NAME))
    }

    /// An empty one if there is none.
    pub fn read(files: &dyn Files, key: u64) -> Result<Catalog, CatalogError> {
        let io = |source| CatalogError::io(files, NAME, source);
        if !Catalog::is_there(files)? {
            return Ok(Catalog { next_number: 1, counters: Counters::new(), ..Catalog::default() });
        }
        let file = files.open(NAME).map_err(io)?;
        let mut bytes = Vec::new();
        journal::load(&*file, &mut bytes).map_err(io)?;
        let damaged = |Corrupt(reason)| CatalogError::Damaged { file: files.path_of(NAME), reason };
        Catalog::decode(&bytes, key).map_err(damaged)
    }

    pub fn write(&self, files: &dyn Files, key: u64) -> io::Result<()> {
        replace(files, NAME, DRAFT, &self.encode(key))
    }
}
