//! The write-ahead journal: what was promised to clients before it reaches the tables.
//!
//! One frame is one group commit. Frames are numbered from 1 without gaps over the life of the store and
//! written into segment files that are zero-filled once and then recycled, so that a commit is one write and
//! one sync and never waits for the file system to find space. As many files are kept as were in use at once
//! lately; those of a quiet store go, one after the other.
//!
//! What it promises, given that the owner keeps the rules below:
//! - a frame whose `Write::perform` returned success is replayed by every later `open`, whole and in
//!   order, until it is released; a frame is never replayed in part, nor one from a segment's earlier use;
//! - a journal that has lost such a frame is refused with the file and place, not silently shortened.
//!   The exception is rot in the last frames, for which no later frame vouches: that looks like a crash.
//!
//! The owner's rules:
//! - after a failed `perform` it writes nothing more and opens anew: the kernel may have dropped the
//!   failed pages, and frames behind a lost one are cut off;
//! - `durable` is the highest position *below which everything* is synced (0 if it never syncs);
//! - `release` follows only when the tables hold everything up to there durably;
//! - every opening has a higher epoch than any before, and one process opens a directory at a time.
//!
//! It does not lock the directory, run threads, or look into payloads.

mod appender;
mod frame;
mod lifecycle;
mod open;
mod recovery;
mod segment;
mod survey;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;

pub use appender::{Appender, NoRoom, Write};
pub use frame::FRAME_HEADER;
pub use lifecycle::Journal;
pub use open::{Opened, Report, inspect, open, read};
pub use segment::{SEGMENT_HEADER, load};

#[derive(Debug, Clone)]
pub struct Options {
    /// Size of a usual segment file; rounded up to whole blocks of 4096, two at least.
    pub segment_bytes: u64,
    /// Size of the segments that are made while there are groups which no usual one can hold.
    pub largest_bytes: u64,
    /// Segments to keep ready for writing; one at least. More are kept while many are in use.
    pub spares: usize,
    /// Whether segments are synced as they are made and recovered. Without it only a crash of the
    /// process is survived, not one of the machine.
    pub sync: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { segment_bytes: 8 << 20, largest_bytes: 64 << 20, spares: 2, sync: true }
    }
}

impl Options {
    fn rounded(self) -> Self {
        let block = SEGMENT_HEADER as u64;
        let segment_bytes = self.segment_bytes.next_multiple_of(block).max(2 * block);
        let largest_bytes = self.largest_bytes.next_multiple_of(block).max(segment_bytes);
        Self { segment_bytes, largest_bytes, spares: self.spares.max(1), ..self }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{}: {source}", file.display())]
    Io { file: PathBuf, source: io::Error },
    #[error("{} is damaged at byte {offset}: {reason}", file.display())]
    Damaged { file: PathBuf, offset: u64, reason: String },
    #[error("{} goes on with frame {found}, but the tables end at frame {applied}", file.display())]
    Gap { file: PathBuf, applied: u64, found: u64 },
    #[error("{} is of epoch {found}, so epoch {epoch} cannot open it", file.display())]
    Epoch { file: PathBuf, epoch: u32, found: u32 },
}
