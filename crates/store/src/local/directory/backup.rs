//! Backups: every row that counts as of one instant, in one stream, and a data directory made from it.
//!
//! The stream begins with what the directory is, goes on shard by shard and group by group, and ends with a count and
//! a checksum over everything before. A directory that is being restored has no manifest until the whole stream was
//! read and found sound, so that a half restored one is never taken for a store.
//!
//! Not in it: the journal (the tables have taken everything in when the instant is taken) and artifacts.

mod instant;
mod restore;

pub use instant::one_instant;
pub use restore::{RestoreError, Restored, restore};

use crate::local::directory::manifest::Manifest;
use crate::local::tables::{Group, TableError, Version, Walk};
use codeq_queue::Failure;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

const MAGIC: &[u8; 8] = b"codeqbk2";
const SHARD: u8 = 3;
const GROUP: u8 = 4;
const ROW: u8 = 2;
const END: u8 = 255;
/// Bytes of one piece of the stream, about.
const PIECE_BYTES: usize = 256 << 10;

/// What comes next in a backup.
enum Step {
    /// The counters of a shard.
    Shard(u32),
    Group(u32, Group),
}

/// The pieces of a backup. Reading one may block on the disk.
pub struct Pieces {
    /// One a shard.
    versions: Vec<Arc<Version>>,
    /// Yet to come, the next one last.
    steps: Vec<Step>,
    /// Of the group that is being written.
    walk: Option<(u32, Group, Walk)>,
    head: Option<Vec<u8>>,
    rows: u64,
    hash: Xxh3,
    is_over: bool,
}

impl Pieces {
    pub fn new(manifest: Manifest, versions: Vec<Arc<Version>>) -> Pieces {
        let mut steps = Vec::new();
        for (shard, version) in (0..).zip(&versions) {
            steps.push(Step::Shard(shard));
            steps.extend(version.groups().map(|group| Step::Group(shard, group)));
        }
        steps.reverse();
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&manifest.shards.to_le_bytes());
        head.extend_from_slice(&manifest.id_key.to_le_bytes());
        Pieces { versions, steps, walk: None, head: Some(head), rows: 0, hash: Xxh3::new(), is_over: false }
    }

    fn fill(&mut self) -> Result<Vec<u8>, TableError> {
        let mut piece = self.head.take().unwrap_or_default();
        while piece.len() < PIECE_BYTES {
            if self.walk.is_some() {
                self.write_rows(&mut piece)?;
                continue;
            }
            match self.steps.pop() {
                Some(Step::Shard(shard)) => {
                    piece.push(SHARD);
                    piece.extend_from_slice(&shard.to_le_bytes());
                    put_bytes(&mut piece, &self.versions[shard as usize].counters.write());
                }
                Some(Step::Group(shard, group)) => {
                    let (kind, end) = group.write();
                    piece.push(GROUP);
                    piece.extend_from_slice(&shard.to_le_bytes());
                    piece.push(kind);
                    piece.extend_from_slice(&end.to_le_bytes());
                    let walk = self.versions[shard as usize].walk(group, &[], &[])?;
                    self.walk = Some((shard, group, walk));
                }
                None => break,
            }
        }
        Ok(piece)
    }

    /// Rows of the current group until the piece is full. Those that hide others are left out, and so are those that
    /// are hidden: a restored store begins with what counts.
    fn write_rows(&mut self, piece: &mut Vec<u8>) -> Result<(), TableError> {
        let Some((shard, group, walk)) = &mut self.walk else { return Ok(()) };
        let version = &self.versions[*shard as usize];
        while let Some((key, value)) = walk.row() {
            if piece.len() >= PIECE_BYTES {
                return Ok(());
            }
            let is_hidden =
                *group == Group::Bodies && version.is_ended(group.number_of(key).unwrap_or_default())?;
            if let Some(value) = value.filter(|_| !is_hidden) {
                piece.push(ROW);
                put_bytes(piece, key);
                put_bytes(piece, value);
                self.rows += 1;
            }
            walk.advance()?;
        }
        self.walk = None;
        Ok(())
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
        if self.steps.is_empty() && self.walk.is_none() && self.head.is_none() {
            return Some(Ok(self.end()));
        }
        match self.fill() {
            Ok(piece) => {
                self.hash.update(&piece);
                Some(Ok(piece))
            }
            Err(error) => {
                self.is_over = true;
                Some(Err(Failure::unavailable(format!("reading the tables failed: {error}"))))
            }
        }
    }
}

fn put_bytes(piece: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("rows are far below four gigabytes");
    piece.extend_from_slice(&length.to_le_bytes());
    piece.extend_from_slice(bytes);
}
