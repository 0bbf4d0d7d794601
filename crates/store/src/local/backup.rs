//! Backups: every row of the trees as of one instant, in one stream, and a data directory made from it.
//!
//! The stream begins with what the directory is, goes on space by space, and ends with a count and a
//! checksum over everything before. A directory that is being restored has no manifest until the whole
//! stream was read and found sound, so that a half restored one is never taken for a store.
//!
//! Not in it: the journal (the trees have taken everything in when the instant is taken) and artifacts.

use super::files::{DiskFiles, Files, make_directory};
use super::manifest::Manifest;
use super::open::{OpenError, at, is_unused, lock, shard_directory};
use super::tree::{self, Batch, Change, Space, Tree, TreeError, View};
use codeq_queue::Failure;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;
use xxhash_rust::xxh3::Xxh3;

const MAGIC: &[u8; 8] = b"codeqbk1";
const SPACE: u8 = 1;
const ROW: u8 = 2;
const END: u8 = 255;
/// Bytes of one piece of the stream, about.
const PIECE: usize = 256 << 10;
/// Bytes of rows that are restored at once.
const BATCH: usize = 8 << 20;
/// More shards than any configuration allows: each would be made before the checksum is reached.
const SHARDS: u32 = 64;
/// Longest key or value that is believed.
const LONGEST: u32 = 256 << 20;

/// The pieces of a backup. Reading one may block on the disk.
pub struct Pieces {
    /// One view a shard.
    views: Vec<Box<dyn View>>,
    /// Spaces yet to come, the next one last.
    spaces: Vec<(u32, Space)>,
    /// Where the current space goes on.
    from: Vec<u8>,
    head: Option<Vec<u8>>,
    rows: u64,
    hash: Xxh3,
    is_over: bool,
}

impl Pieces {
    pub fn new(manifest: Manifest, views: Vec<Box<dyn View>>) -> Pieces {
        let mut spaces = Vec::new();
        for (shard, view) in (0..).zip(&views) {
            let history = view.buckets().into_iter();
            let history = history.flat_map(|end| [Space::History(end), Space::HistoryKey(end)]);
            spaces.extend(Space::LIVE.into_iter().chain(history).map(|space| (shard, space)));
        }
        spaces.reverse();
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&manifest.shards.to_le_bytes());
        head.extend_from_slice(&manifest.id_key.to_le_bytes());
        Pieces {
            views,
            spaces,
            from: Vec::new(),
            head: Some(head),
            rows: 0,
            hash: Xxh3::new(),
            is_over: false,
        }
    }

    fn fill(&mut self) -> Result<Vec<u8>, TreeError> {
        let mut piece = self.head.take().unwrap_or_default();
        while piece.len() < PIECE {
            let Some((shard, space)) = self.spaces.last().copied() else { return Ok(piece) };
            let (mut rows, mut last) = (0, None);
            let is_new = self.from.is_empty();
            self.views[shard as usize].scan(space, &self.from, &mut |key, value| {
                if rows == 0 && is_new {
                    begin(&mut piece, shard, space);
                }
                row(&mut piece, key, value);
                rows += 1;
                last = Some(key.to_vec());
                piece.len() < PIECE
            })?;
            self.rows += rows;
            match last.filter(|_| piece.len() >= PIECE) {
                // The least key behind the last one.
                Some(mut key) => {
                    key.push(0);
                    self.from = key;
                }
                None => {
                    self.spaces.pop();
                    self.from.clear();
                }
            }
        }
        Ok(piece)
    }

    fn end(&mut self) -> Vec<u8> {
        let mut end = vec![END];
        end.extend_from_slice(&self.rows.to_le_bytes());
        self.hash.update(&end);
        end.extend_from_slice(&self.hash.digest().to_le_bytes());
        self.is_over = true;
        end
    }
}

impl Iterator for Pieces {
    type Item = Result<Vec<u8>, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        if self.spaces.is_empty() {
            return Some(Ok(self.end()));
        }
        match self.fill() {
            Ok(piece) => {
                self.hash.update(&piece);
                Some(Ok(piece))
            }
            Err(error) => {
                self.is_over = true;
                Some(Err(Failure::unavailable(format!("reading the tree failed: {error}"))))
            }
        }
    }
}

fn begin(piece: &mut Vec<u8>, shard: u32, space: Space) {
    let name = space.name();
    piece.push(SPACE);
    piece.extend_from_slice(&shard.to_le_bytes());
    piece.extend_from_slice(&(name.len() as u32).to_le_bytes());
    piece.extend_from_slice(name.as_bytes());
}

fn row(piece: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    piece.push(ROW);
    for part in [key, value] {
        let length = u32::try_from(part.len()).expect("rows are far below four gigabytes");
        piece.extend_from_slice(&length.to_le_bytes());
    }
    piece.extend_from_slice(key);
    piece.extend_from_slice(value);
}

#[derive(Debug, Error)]
pub enum RestoreError {
    #[error("the backup cannot be read: {0}")]
    Read(io::Error),
    #[error("the backup is damaged at offset {offset}: {reason}")]
    Damaged { offset: u64, reason: &'static str },
    #[error("the directory is not empty: {}", .0.display())]
    NotEmpty(PathBuf),
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl From<TreeError> for RestoreError {
    fn from(error: TreeError) -> RestoreError {
        RestoreError::Open(error.into())
    }
}

/// What was restored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Restored {
    pub shards: u32,
    pub rows: u64,
    pub bytes: u64,
}

/// Makes a data directory from a backup. `told` hears how many bytes have been read.
pub fn restore(
    backup: &mut dyn Read,
    path: &Path,
    told: &mut dyn FnMut(u64),
) -> Result<Restored, RestoreError> {
    make_directory(path).map_err(at(path))?;
    let _lock = lock(path)?;
    if !is_unused(path).map_err(at(path))? {
        return Err(RestoreError::NotEmpty(path.to_path_buf()));
    }
    let mut source = Source { backup, hash: Xxh3::new(), offset: 0 };
    if source.take::<8>()? != *MAGIC {
        return Err(source.damaged("not a backup of codeQ"));
    }
    let shards = u32::from_le_bytes(source.take()?);
    let id_key = u64::from_le_bytes(source.take()?);
    if shards == 0 || shards > SHARDS {
        return Err(source.damaged("an impossible number of shards"));
    }
    let mut trees = Vec::new();
    for index in 0..shards {
        let directory = shard_directory(path, index);
        std::fs::create_dir_all(&directory).map_err(at(&directory))?;
        trees.push(tree::fjall::open(&directory.join("tree"), tree::fjall::TreeOptions::default())?);
        // No journal will be made here that syncs the names.
        DiskFiles::new(&directory).sync_dir().map_err(at(&directory))?;
    }
    let rows = fill(&mut source, &trees, told)?;
    trees.iter().for_each(|tree| tree.close());
    drop(trees);
    let files = DiskFiles::new(path);
    let manifest = Manifest { shards, epoch: 0, id_key, journal_key: rand::random() };
    manifest.write(&files).map_err(OpenError::from)?;
    Ok(Restored { shards, rows, bytes: source.offset })
}

fn fill(
    source: &mut Source<'_>,
    trees: &[Arc<dyn Tree>],
    told: &mut dyn FnMut(u64),
) -> Result<u64, RestoreError> {
    let (mut rows, mut bytes) = (0, 0);
    let mut place: Option<(usize, Space)> = None;
    let mut changes: Vec<Vec<Change>> = trees.iter().map(|_| Vec::new()).collect();
    loop {
        match source.take::<1>()?[0] {
            SPACE => {
                let shard = u32::from_le_bytes(source.take()?) as usize;
                let name = source.long()?;
                let space = std::str::from_utf8(&name).ok().and_then(Space::parse);
                place = space.filter(|_| shard < trees.len()).map(|space| (shard, space));
                if place.is_none() {
                    return Err(source.damaged("an unknown space"));
                }
            }
            ROW => {
                let Some((shard, space)) = place else { return Err(source.damaged("a row without space")) };
                let lengths = [u32::from_le_bytes(source.take()?), u32::from_le_bytes(source.take()?)];
                let (key, value) = (source.bytes(lengths[0])?, source.bytes(lengths[1])?);
                (rows, bytes) = (rows + 1, bytes + key.len() + value.len());
                changes[shard].push(Change { space, key: key.into(), value: Some(value.into()) });
                if bytes >= BATCH {
                    commit(trees, &mut changes)?;
                    bytes = 0;
                    told(source.offset);
                }
            }
            END => {
                let count = u64::from_le_bytes(source.take()?);
                let hash = source.hash.digest();
                if u64::from_le_bytes(source.take()?) != hash || count != rows {
                    return Err(source.damaged("the checksum does not match"));
                }
                commit(trees, &mut changes)?;
                told(source.offset);
                return Ok(rows);
            }
            _ => return Err(source.damaged("an unknown mark")),
        }
    }
}

/// The journal of the new directory begins anew, so the trees have applied nothing of it.
fn commit(trees: &[Arc<dyn Tree>], changes: &mut [Vec<Change>]) -> Result<(), TreeError> {
    for (tree, changes) in trees.iter().zip(changes) {
        tree.commit(Batch { changes: std::mem::take(changes), applied: 0 }, &|| ())?;
    }
    Ok(())
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

    fn bytes(&mut self, length: u32) -> Result<Vec<u8>, RestoreError> {
        if length > LONGEST {
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
}
