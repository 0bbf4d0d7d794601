//! The writing end of the journal: gives each group its number and its place, without touching the disk.
//! The disk work is in `Write::perform`, which may run on any thread, several at a time.

use std::io;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::Journal;
use super::frame::{self, FRAME_HEADER};
use super::lifecycle::{Ready, Shared, Used};
use super::segment::SEGMENT_HEADER;
use crate::local::directory::files::File;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    #[error("the next journal segment is still being prepared")]
    Preparing,
    #[error("the next journal segment could not be prepared: {0}")]
    Failed(String),
    #[error("a group of {bytes} bytes is larger than a journal segment can hold ({max})")]
    TooLarge { bytes: usize, max: usize },
}

/// Owned by the one thread that decides what is written in which order.
pub struct Appender {
    journal: Arc<Journal>,
    active: Ready,
    offset: usize,
    next: u64,
}

/// One framed group and where it goes.
pub struct Write {
    pub position: u64,
    file: Arc<dyn File>,
    offset: u64,
    buffer: Vec<u8>,
}

impl Appender {
    pub(super) fn new(journal: Arc<Journal>, active: Ready, next: u64) -> Self {
        Self { journal, active, offset: SEGMENT_HEADER, next }
    }

    /// The largest payload that fits into one frame of a usual segment.
    pub fn usual_payload(&self) -> usize {
        payload_of(self.journal.options.segment_bytes)
    }

    /// The largest payload that fits into one frame at all. Beyond the usual, `reserve` comes first.
    pub fn max_payload(&self) -> usize {
        payload_of(self.journal.options.largest_bytes)
    }

    /// Whether one frame of up to `bytes` payload will find room: in the active segment, or in a prepared
    /// spare. Until that frame is placed nothing else takes the room.
    pub fn has_room(&self, bytes: usize) -> Result<(), NoRoom> {
        let max = self.max_payload();
        if bytes > max {
            return Err(NoRoom::TooLarge { bytes, max });
        }
        if self.fits(bytes) {
            return Ok(());
        }
        let shared = self.journal.shared();
        match shared.has_ready(bytes) {
            true => Ok(()),
            false => Err(shared.failure.clone().map_or(NoRoom::Preparing, NoRoom::Failed)),
        }
    }

    /// Like `wait_room`, for a payload that no usual segment may hold: larger ones are made from now on, until
    /// the store has been quiet for a while.
    pub fn reserve(&self, bytes: usize, timeout: Duration) -> Result<(), NoRoom> {
        if !self.fits(bytes) && bytes > self.usual_payload() {
            self.journal.enlarge(bytes);
        }
        self.wait_room(bytes, timeout)
    }

    /// Makes sure that one frame of up to `bytes` payload fits, taking a prepared spare if the active
    /// segment lacks room. Never does disk work itself.
    pub fn ensure_room(&mut self, bytes: usize) -> Result<(), NoRoom> {
        self.has_room(bytes)?;
        if self.fits(bytes) {
            return Ok(());
        }
        let journal = Arc::clone(&self.journal);
        let mut shared = journal.shared();
        if !shared.has_ready(bytes) {
            return Err(shared.failure.clone().map_or(NoRoom::Preparing, NoRoom::Failed));
        }
        // Spares that are too small are passed over; without frames they are released with the one before.
        while !self.fits(bytes) {
            let spare = shared.ready.pop_front().expect("one of them is large enough");
            let full = std::mem::replace(&mut self.active, spare);
            self.offset = SEGMENT_HEADER;
            shared.used.push_back(Used { name: full.name, file: full.file, last: self.next - 1 });
        }
        shared.taken();
        journal.work.notify_all();
        Ok(())
    }

    /// Like `has_room`, but waits for a spare that is still being prepared.
    pub fn wait_room(&self, bytes: usize, timeout: Duration) -> Result<(), NoRoom> {
        let deadline = Instant::now() + timeout;
        loop {
            let outcome = self.has_room(bytes);
            let left = deadline.saturating_duration_since(Instant::now());
            if outcome != Err(NoRoom::Preparing) || left.is_zero() {
                return outcome;
            }
            let undecided = |shared: &mut Shared| !shared.has_ready(bytes) && shared.failure.is_none();
            let waited = self.journal.room.wait_timeout_while(self.journal.shared(), left, undecided);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// `buffer` begins with `FRAME_HEADER` reserved bytes, followed by the payload. Fills the header in,
    /// pads, and assigns the next position and the place. `durable` is the highest position up to which
    /// everything is known to be synced.
    pub fn frame(&mut self, mut buffer: Vec<u8>, durable: u64) -> Write {
        let payload = buffer.len().checked_sub(FRAME_HEADER);
        payload.filter(|bytes| self.fits(*bytes)).expect("ensure_room precedes frame");
        let position = self.next;
        debug_assert!(durable < position, "a frame cannot know itself to be durable");
        frame::seal(&mut buffer, self.journal.key, self.journal.epoch, position, durable);
        let write =
            Write { position, file: Arc::clone(&self.active.file), offset: self.offset as u64, buffer };
        self.offset += write.buffer.len();
        self.next += 1;
        write
    }

    fn fits(&self, payload: usize) -> bool {
        (self.offset + frame::size_of(payload)) as u64 <= self.active.bytes
    }
}

fn payload_of(segment_bytes: u64) -> usize {
    let bytes = usize::try_from(segment_bytes).unwrap_or(usize::MAX);
    (bytes - SEGMENT_HEADER - FRAME_HEADER).min(i32::MAX as usize)
}

impl Write {
    /// Writes the frame and, if asked, syncs its file: how long that sync took. On failure nothing may be
    /// written after it.
    pub fn perform(&self, sync: bool) -> io::Result<Option<Duration>> {
        self.file.write_at(&self.buffer, self.offset)?;
        if !sync {
            return Ok(None);
        }
        let started = Instant::now();
        self.file.sync_data()?;
        Ok(Some(started.elapsed()))
    }

    /// Bytes on disk.
    pub fn bytes(&self) -> usize {
        self.buffer.len()
    }

    /// The buffer for another group: emptied, with space for the header.
    pub fn into_buffer(mut self) -> Vec<u8> {
        self.buffer.clear();
        self.buffer.resize(FRAME_HEADER, 0);
        self.buffer
    }
}
