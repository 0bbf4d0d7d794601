//! The segments' lifecycle: ready, active, used, free, and ready again.
//!
//! All disk work is done in `prepare`, outside the lock that the appender takes, so that taking a spare
//! never waits for the disk. A segment becomes ready only when its blocks, its name and its header are
//! durable.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Options;
use super::frame;
use super::segment::{self, Header, SEGMENT_HEADER};
use crate::local::directory::files::{File, Files};

/// No more files than this are kept because they were in use once.
pub(super) const BUSY_MAX: usize = 64;
/// With so many segments in use at once there is no load that would be worth keeping more of them.
const BUSY_QUIET: usize = 4;
/// Large segments go on being made until the store has rested this many times more than that.
const BUSY_LARGE: usize = 24;
/// More spares than this are not made ahead.
const SPARES_MAX: usize = 8;

/// The segment files and what each is good for. Shared between the owner of the
/// `Appender` and the thread that prepares segments in the background.
pub struct Journal {
    pub(super) files: Arc<dyn Files>,
    pub(super) options: Options,
    pub(super) epoch: u32,
    pub(super) key: u64,
    /// The last position of earlier epochs.
    pub(super) base: u64,
    /// Held through each step of preparation, so that spares become ready in the order of their numbers.
    pub(super) turn: Mutex<()>,
    pub(super) shared: Mutex<Shared>,
    pub(super) room: Condvar,
    pub(super) work: Condvar,
}

#[derive(Default)]
pub(super) struct Shared {
    pub(super) ready: VecDeque<Ready>,
    /// Full segments, oldest first.
    pub(super) used: VecDeque<Used>,
    pub(super) free: Vec<Free>,
    /// The file that is being made or deleted: its name may not outlive a loss of power.
    pub(super) preparing: Option<String>,
    /// Size of every segment file in the directory.
    pub(super) sizes: BTreeMap<String, u64>,
    pub(super) next_sequence: u64,
    pub(super) next_number: u64,
    pub(super) released: u64,
    /// Size of the segments that are made now.
    pub(super) bytes: u64,
    /// A group was promised a spare that holds so much payload; 0 if none was.
    pub(super) reserved: usize,
    /// The most segments that were in use at once lately.
    pub(super) busy: usize,
    /// Why no spare could be made, until one was.
    pub(super) failure: Option<String>,
    /// The last step failed; trying again at once would only spin.
    pub(super) stalled: bool,
    /// Something happened that the background thread should look at.
    pub(super) poked: bool,
}

/// Header written and synced, no frame in it yet.
pub(super) struct Ready {
    pub(super) name: String,
    pub(super) file: Arc<dyn File>,
    pub(super) bytes: u64,
}

/// Holds frames that are still needed.
pub(super) struct Used {
    pub(super) name: String,
    pub(super) file: Arc<dyn File>,
    pub(super) last: u64,
}

/// Holds nothing that is needed.
pub(super) struct Free {
    pub(super) name: String,
    /// Absent if the file has to be filled (again) before use.
    pub(super) file: Option<Arc<dyn File>>,
}

enum Step {
    Make(Free, Header),
    Discard(Free),
    Idle,
}

impl Journal {
    /// Everything up to `applied` is durable elsewhere: segments that hold nothing newer become free.
    pub fn release(&self, applied: u64) {
        let mut shared = self.shared();
        shared.released = shared.released.max(applied);
        let mut freed = false;
        while shared.used.front().is_some_and(|used| used.last <= applied) {
            let used = shared.used.pop_front().expect("there is a first one");
            shared.free.push(Free { name: used.name, file: Some(used.file) });
            freed = true;
        }
        if freed {
            shared.poked = true;
            self.work.notify_all();
        }
    }

    /// One step of background work: makes one spare ready or deletes one surplus file. True if there is
    /// more to do. A failure to make a spare is remembered for `NoRoom::Failed` until one succeeds.
    pub fn prepare(&self) -> io::Result<bool> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let step = self.next_step();
        let outcome = match step {
            Step::Make(free, header) => self.make_ready(free, header),
            Step::Discard(free) => self.discard(free),
            Step::Idle => Ok(()),
        };
        let mut shared = self.shared();
        shared.preparing = None;
        shared.stalled = outcome.is_err();
        outcome.map(|()| shared.has_work(&self.options))
    }

    fn next_step(&self) -> Step {
        let mut shared = self.shared();
        let step = shared.next_step(self);
        shared.preparing = match &step {
            Step::Make(free, _) | Step::Discard(free) => Some(free.name.clone()),
            Step::Idle => None,
        };
        step
    }

    /// Where the background thread sleeps until a spare was taken, a segment was freed, `wake` was
    /// called, or the time is over. Returns at once if there is work, unless the last step failed. Each time
    /// that nothing happened, one file less is worth keeping.
    pub fn wait_for_work(&self, timeout: Duration) {
        let asleep =
            |shared: &mut Shared| !shared.poked && (shared.stalled || !shared.has_work(&self.options));
        let (mut shared, waited) = self
            .work
            .wait_timeout_while(self.shared(), timeout, asleep)
            .unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() && !shared.stalled {
            shared.rest(&self.options);
        }
        shared.poked = false;
    }

    /// Has segments made that hold a payload of so many bytes.
    pub(super) fn enlarge(&self, payload: usize) {
        let mut shared = self.shared();
        let needed = (SEGMENT_HEADER + frame::size_of(payload)) as u64;
        shared.bytes = shared.bytes.max(needed.next_power_of_two()).min(self.options.largest_bytes);
        shared.busy = shared.busy.max(BUSY_LARGE);
        shared.reserved = shared.reserved.max(payload);
        // What failed may be possible by now; whoever waits for it will know.
        shared.failure = None;
        shared.poked = true;
        self.work.notify_all();
    }

    /// Ends a `wait_for_work` now, or the next one at once.
    pub fn wake(&self) {
        self.shared().poked = true;
        self.work.notify_all();
    }

    /// What the segment files take up.
    pub fn disk_bytes(&self) -> u64 {
        self.shared().sizes.values().sum()
    }

    /// The segments that hold frames beyond `applied`, or will.
    pub fn segments_after(&self, applied: u64) -> Vec<String> {
        let shared = self.shared();
        let is_idle = |name: &String| {
            shared.preparing.as_ref() == Some(name)
                || shared.ready.iter().any(|ready| ready.name == *name)
                || shared.free.iter().any(|free| free.name == *name)
                || shared.used.iter().any(|used| used.name == *name && used.last <= applied)
        };
        shared.sizes.keys().filter(|name| !is_idle(name)).cloned().collect()
    }

    /// Segment files in the directory, in whatever state.
    pub fn segments(&self) -> usize {
        self.shared().sizes.len()
    }

    pub(super) fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make_ready(&self, free: Free, header: Header) -> io::Result<()> {
        let name = free.name.clone();
        let outcome = self.filled(free).and_then(|(file, bytes)| {
            let written = file.write_at(&header.encode(self.key), 0).and_then(|()| self.sync(&*file));
            written.inspect_err(|_| {
                self.shared().free.push(Free { name: name.clone(), file: Some(Arc::clone(&file)) });
            })?;
            Ok((file, bytes))
        });
        let mut shared = self.shared();
        let outcome = match outcome {
            Ok((file, bytes)) => {
                shared.preparing = None;
                shared.ready.push_back(Ready { name, file, bytes });
                shared.failure = None;
                Ok(())
            }
            Err(error) => {
                let path = self.files.path_of(&name);
                shared.failure = Some(format!("{}: {error}", path.display()));
                Err(error)
            }
        };
        self.room.notify_all();
        outcome
    }

    /// The file, with all its blocks allocated and its name durable, and its size. One of another size is made
    /// anew.
    fn filled(&self, free: Free) -> io::Result<(Arc<dyn File>, u64)> {
        let (bytes, present) = self.sizes_of(&free.name);
        if let Some(file) = free.file.as_ref().filter(|_| present == bytes) {
            return Ok((file.clone(), bytes));
        }
        self.fill(&free.name, bytes, present).map(|file| (file, bytes)).inspect_err(|_| {
            // A half-made file only holds on to space that others may need to free more.
            let gone = self.files.remove(&free.name).is_ok();
            let mut shared = self.shared();
            if gone {
                shared.sizes.remove(&free.name);
            } else if shared.sizes.contains_key(&free.name) {
                shared.free.push(free);
            }
        })
    }

    /// What a segment should have now, and what this file has.
    fn sizes_of(&self, name: &str) -> (u64, u64) {
        let shared = self.shared();
        (shared.bytes, shared.sizes.get(name).copied().unwrap_or(0))
    }

    fn fill(&self, name: &str, bytes: u64, present: u64) -> io::Result<Arc<dyn File>> {
        if self.files.free_bytes()?.saturating_add(present) < bytes {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "no space for another journal segment"));
        }
        let file = self.files.create(name)?;
        self.shared().sizes.insert(name.to_owned(), bytes);
        segment::fill(&*file, bytes)?;
        self.sync(&*file)?;
        if self.options.sync {
            self.files.sync_dir()?;
        }
        Ok(file)
    }

    /// The name has to be gone for good before its sequence number can be given out again.
    fn discard(&self, free: Free) -> io::Result<()> {
        if let Err(error) = self.files.remove(&free.name) {
            self.shared().free.push(free);
            return Err(error);
        }
        self.shared().sizes.remove(&free.name);
        if self.options.sync { self.files.sync_dir() } else { Ok(()) }
    }

    fn sync(&self, file: &dyn File) -> io::Result<()> {
        if self.options.sync { file.sync_data() } else { Ok(()) }
    }
}

impl Shared {
    /// Whether a spare holds a frame with so much payload.
    pub(super) fn has_ready(&self, payload: usize) -> bool {
        let needed = (SEGMENT_HEADER + frame::size_of(payload)) as u64;
        self.ready.iter().any(|ready| ready.bytes >= needed)
    }

    /// A spare was taken.
    pub(super) fn taken(&mut self) {
        self.busy = self.busy.max(self.used.len() + 1).min(BUSY_MAX);
        self.reserved = 0;
        self.poked = true;
    }

    /// Nothing happened for a while.
    fn rest(&mut self, options: &Options) {
        let least = self.used.len() + 1;
        self.busy = self.busy.saturating_sub(1).max(least.min(BUSY_MAX));
        if self.busy > BUSY_QUIET || self.reserved > 0 {
            return;
        }
        self.bytes = options.segment_bytes;
        // The newest ones, so that those before them keep their order.
        let most = self.spares(options);
        let is_surplus = |ready: &VecDeque<Ready>| {
            ready.len() > most || ready.back().is_some_and(|last| last.bytes != options.segment_bytes)
        };
        while is_surplus(&self.ready) {
            let last = self.ready.pop_back().map(|last| Free { name: last.name, file: Some(last.file) });
            self.free.extend(last);
        }
    }

    /// How many spares are to be ready: the more are in use at once, the faster they are used up.
    fn spares(&self, options: &Options) -> usize {
        options.spares.max((self.busy / 3).min(SPARES_MAX))
    }

    fn wants_spare(&self, options: &Options) -> bool {
        self.ready.len() < self.spares(options) || self.reserved > 0 && !self.has_ready(self.reserved)
    }

    fn has_surplus(&self, options: &Options) -> bool {
        !self.free.is_empty() && self.sizes.len() > self.busy + self.spares(options)
    }

    fn has_work(&self, options: &Options) -> bool {
        self.wants_spare(options) || self.has_surplus(options)
    }

    fn next_step(&mut self, journal: &Journal) -> Step {
        if !self.wants_spare(&journal.options) {
            let surplus = self.has_surplus(&journal.options);
            return if surplus { self.free.pop().map_or(Step::Idle, Step::Discard) } else { Step::Idle };
        }
        let fits = |free: &Free| free.file.is_some() && self.sizes.get(&free.name) == Some(&self.bytes);
        let filled = self.free.iter().position(fits);
        let free = match filled.or(self.free.len().checked_sub(1)) {
            Some(index) => self.free.swap_remove(index),
            None => self.new_file(),
        };
        let (sequence, floor) = (self.next_sequence, self.released);
        self.next_sequence += 1;
        Step::Make(free, Header { sequence, floor, epoch: journal.epoch, base: journal.base })
    }

    fn new_file(&mut self) -> Free {
        let name = segment::name_of(self.next_number);
        self.next_number += 1;
        Free { name, file: None }
    }
}
