//! Restoring: a data directory made from a backup, of this format or the one before.

use super::{END, GROUP, MAGIC, ROW, SHARD};
use crate::local::directory::files::{DiskFiles, Files, make_directory};
use crate::local::directory::lock;
use crate::local::directory::manifest::Manifest;
use crate::local::directory::open::{OpenError, at, is_unused, shard_directory};
use crate::local::directory::upgrade::{FormatOneRows, Space};
use crate::local::format::records::Counters;
use crate::local::tables::{BulkTables, Group, TableError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;
use xxhash_rust::xxh3::Xxh3;

const MAGIC_ONE: &[u8; 8] = b"codeqbk1";
/// In backups of the first format.
const SPACE: u8 = 1;
/// More shards than any configuration allows: each would be made before the checksum is reached.
const SHARDS_MAX: u32 = 64;
/// Longest key or value that is believed.
const ROW_BYTES_MAX: u32 = 256 << 20;
/// Bytes between two reports of progress.
const PROGRESS_BYTES: u64 = 8 << 20;

#[derive(Debug, Error)]
pub enum RestoreError {
    #[error("the backup cannot be read: {0}")]
    Read(io::Error),
    #[error("the backup is damaged at offset {offset}: {reason}")]
    Damaged { offset: u64, reason: &'static str },
    #[error("the directory is not empty: {}", .0.display())]
    NotEmpty(PathBuf),
    #[error(transparent)]
    Write(#[from] TableError),
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// What was restored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Restored {
    pub shards: u32,
    pub rows: u64,
    pub bytes: u64,
}

/// Makes a data directory from a backup. `told` hears how many bytes have been read. After a failure the directory is
/// as empty as it was.
pub fn restore(
    backup: &mut dyn Read,
    path: &Path,
    told: &mut dyn FnMut(u64),
) -> Result<Restored, RestoreError> {
    let was_there = path.is_dir();
    make_directory(path).map_err(at(path))?;
    let lock = lock::take(path)?;
    if !is_unused(path).map_err(at(path))? {
        return Err(RestoreError::NotEmpty(path.to_path_buf()));
    }
    let restored = restore_into(backup, path, told);
    drop(lock);
    if restored.is_err() {
        discard(path, was_there);
    }
    restored
}

/// Leaves nothing of a restore that failed.
fn discard(path: &Path, was_there: bool) {
    if !was_there {
        let _ = std::fs::remove_dir_all(path);
        return;
    }
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        let _ = match entry.path().is_dir() {
            true => std::fs::remove_dir_all(entry.path()),
            false => std::fs::remove_file(entry.path()),
        };
    }
}

fn restore_into(
    backup: &mut dyn Read,
    path: &Path,
    told: &mut dyn FnMut(u64),
) -> Result<Restored, RestoreError> {
    let mut source = Source { backup, hash: Xxh3::new(), offset: 0 };
    let magic = source.take::<8>()?;
    if magic != *MAGIC && magic != *MAGIC_ONE {
        return Err(source.damaged("not a backup of codeQ"));
    }
    let shards = u32::from_le_bytes(source.take()?);
    let id_key = u64::from_le_bytes(source.take()?);
    if shards == 0 || shards > SHARDS_MAX {
        return Err(source.damaged("an impossible number of shards"));
    }
    let journal_key = rand::random();
    let mut bulks = Vec::new();
    for index in 0..shards {
        let directory = shard_directory(path, index);
        std::fs::create_dir_all(&directory).map_err(at(&directory))?;
        bulks.push(FormatOneRows::new(BulkTables::new(Arc::new(DiskFiles::new(&directory)), journal_key)));
    }
    let rows = fill(&mut source, &mut bulks, told)?;
    for bulk in bulks {
        bulk.finish(0)?;
    }
    let files = DiskFiles::new(path);
    files.sync_dir().map_err(at(path))?;
    let manifest = Manifest { shards, epoch: 0, id_key, journal_key, is_complete: true };
    manifest.write(&files).map_err(OpenError::from)?;
    Ok(Restored { shards, rows, bytes: source.offset })
}

/// Where rows go.
enum Target {
    Group(usize, Group),
    Space(usize, Space),
}

fn fill(
    source: &mut Source<'_>,
    bulks: &mut [FormatOneRows],
    told: &mut dyn FnMut(u64),
) -> Result<u64, RestoreError> {
    let (mut rows, mut reported) = (0, 0);
    let mut target: Option<Target> = None;
    loop {
        match source.take::<1>()?[0] {
            SHARD => {
                let shard = source.shard(bulks.len())?;
                let counters = source.long()?;
                let counters = Counters::read(&counters).map_err(|_| source.damaged("not counters"))?;
                bulks[shard].bulk.counters = counters;
            }
            GROUP => {
                let shard = source.shard(bulks.len())?;
                let kind = source.take::<1>()?[0];
                let end = i64::from_le_bytes(source.take()?);
                let group = Group::read(kind, end).map_err(|_| source.damaged("an unknown group"))?;
                target = Some(Target::Group(shard, group));
            }
            SPACE => {
                let shard = source.shard(bulks.len())?;
                let name = source.long()?;
                let space = std::str::from_utf8(&name).ok().and_then(Space::parse);
                let space = space.ok_or_else(|| source.damaged("an unknown space"))?;
                target = Some(Target::Space(shard, space));
            }
            ROW => {
                let (key, value) = source.row(matches!(target, Some(Target::Space(..))))?;
                let put = match &target {
                    Some(Target::Group(shard, group)) => bulks[*shard].bulk.put(*group, &key, &value),
                    Some(Target::Space(shard, space)) => bulks[*shard].add(*space, &key, &value),
                    None => return Err(source.damaged("a row without a group")),
                };
                put?;
                rows += 1;
                if source.offset - reported >= PROGRESS_BYTES {
                    reported = source.offset;
                    told(reported);
                }
            }
            END => {
                let count = u64::from_le_bytes(source.take()?);
                let hash = source.hash.digest();
                if u64::from_le_bytes(source.take()?) != hash || count != rows {
                    return Err(source.damaged("the checksum does not match"));
                }
                told(source.offset);
                return Ok(rows);
            }
            _ => return Err(source.damaged("an unknown mark")),
        }
    }
}

struct Source<'a> {
    backup: &'a mut dyn Read,
    hash: Xxh3,
    offset: u64,
}

impl Source<'_> {
    fn damaged(&self, reason: &'static str) -> RestoreError {
        RestoreError::Damaged { offset: self.offset, reason }
    }

    fn read(&mut self, into: &mut [u8]) -> Result<(), RestoreError> {
        self.backup.read_exact(into).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.damaged("it ends too soon"),
            _ => RestoreError::Read(error),
        })?;
        self.hash.update(into);
        self.offset += into.len() as u64;
        Ok(())
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], RestoreError> {
        let mut bytes = [0; N];
        self.read(&mut bytes)?;
        Ok(bytes)
    }

    fn shard(&mut self, shards: usize) -> Result<usize, RestoreError> {
        let shard = u32::from_le_bytes(self.take()?) as usize;
        if shard < shards { Ok(shard) } else { Err(self.damaged("a shard that there is not")) }
    }

    fn bytes(&mut self, length: u32) -> Result<Vec<u8>, RestoreError> {
        if length > ROW_BYTES_MAX {
            return Err(self.damaged("an impossible length"));
        }
        let mut bytes = vec![0; length as usize];
        self.read(&mut bytes)?;
        Ok(bytes)
    }

    fn long(&mut self) -> Result<Vec<u8>, RestoreError> {
        let length = u32::from_le_bytes(self.take()?);
        self.bytes(length)
    }

    /// Key and value. In the first format both lengths came first.
    fn row(&mut self, is_format_one: bool) -> Result<(Vec<u8>, Vec<u8>), RestoreError> {
        if !is_format_one {
            return Ok((self.long()?, self.long()?));
        }
        let lengths = [u32::from_le_bytes(self.take()?), u32::from_le_bytes(self.take()?)];
        Ok((self.bytes(lengths[0])?, self.bytes(lengths[1])?))
    }
}
