//! What a simulated store lives on: disks that forget, and a clock that is moved by hand. A trap decides at which
//! call to a disk the power goes.

use codeq_store::local::{self, Durability, LocalOptions, LocalStore, OpenError, Parts};
use codeq_store::testing::exam::START;
use codeq_store::testing::forgetful::ForgetfulDisk;
use codeq_store::testing::observed::{Call, Observed, When};
use codeq_store::{ManualClock, Rules};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A life fills several.
const SEGMENT_BYTES: u64 = 64 << 10;
/// In front of the frames of a segment.
const SEGMENT_HEADER: u64 = 4096;

#[derive(Clone)]
pub struct Shard {
    pub disk: ForgetfulDisk,
    pub files: Observed<ForgetfulDisk>,
}

/// A frame as a journal wrote it.
#[derive(Clone, Debug)]
pub struct Written {
    pub shard: usize,
    pub name: String,
    pub offset: u64,
    pub bytes: usize,
}

pub struct Ground {
    pub shards: Vec<Shard>,
    pub clock: Arc<ManualClock>,
    pub rules: Rules,
    pub durability: Durability,
    epoch: u32,
    trap: Arc<Trap>,
}

struct Trap {
    /// Calls until the power goes.
    left: AtomicI64,
    seed: Mutex<u64>,
    is_sprung: AtomicBool,
    /// What was on the disks when the power went.
    remains: Mutex<Option<Vec<Shard>>>,
    written: Mutex<Vec<Written>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn copy(shards: &[Shard]) -> Vec<Shard> {
    let copy = |shard: &Shard| {
        let disk = shard.disk.snapshot();
        Shard { files: Observed::new(disk.clone()), disk }
    };
    shards.iter().map(copy).collect()
}

impl Trap {
    fn new() -> Arc<Trap> {
        Arc::new(Trap {
            left: AtomicI64::new(i64::MAX),
            seed: Mutex::new(0),
            is_sprung: AtomicBool::new(false),
            remains: Mutex::new(None),
            written: Mutex::new(Vec::new()),
        })
    }

    fn pass(&self, shards: &[Shard]) {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.spring(shards);
        }
    }

    /// The mark comes before the copy: an answer that finds no mark was sent before, so the copy has it.
    fn spring(&self, shards: &[Shard]) {
        if self.is_sprung.swap(true, Ordering::SeqCst) {
            return;
        }
        let remains = copy(shards);
        let seed = *lock(&self.seed);
        for (index, shard) in (0..).zip(&remains) {
            shard.disk.crash(seed.wrapping_add(index));
        }
        *lock(&self.remains) = Some(remains);
    }
}

impl Ground {
    pub fn new(rules: Rules, shards: usize, durability: Durability) -> Ground {
        let shard = || {
            let disk = ForgetfulDisk::new();
            Shard { files: Observed::new(disk.clone()), disk }
        };
        let shards = (0..shards).map(|_| shard()).collect();
        let clock = Arc::new(ManualClock::at(START));
        Ground { shards, clock, rules, durability, epoch: 0, trap: Trap::new() }
    }

    pub fn open(&mut self) -> Result<Arc<LocalStore>, OpenError> {
        self.epoch += 1;
        let options = LocalOptions {
            rules: self.rules.clone(),
            clock: self.clock.clone(),
            shards: u32::try_from(self.shards.len()).expect("a handful of shards"),
            durability: self.durability,
            segment_bytes: SEGMENT_BYTES,
            ..LocalOptions::new("/forgetful")
        };
        let files = self.shards.iter().map(|shard| Arc::new(shard.files.clone()) as _).collect();
        let store = local::assemble(options, Parts::over(files, self.epoch));
        self.watch();
        store
    }

    /// Counts every call from now on.
    fn watch(&self) {
        for (index, shard) in self.shards.iter().enumerate() {
            let (shards, trap) = (self.shards.clone(), self.trap.clone());
            shard.files.set_watch(Some(Arc::new(move |call, when| {
                note(&trap, index, call, when);
                trap.pass(&shards);
            })));
        }
    }

    fn unwatch(&self) {
        for shard in &self.shards {
            shard.files.set_watch(None);
        }
    }

    /// The power goes at the `moments`-th call from now; `seed` decides what of it was written.
    pub fn arm(&self, moments: i64, seed: u64) {
        *lock(&self.trap.seed) = seed;
        self.trap.left.store(moments, Ordering::SeqCst);
    }

    /// The power goes now, unless it is gone.
    pub fn spring(&self) {
        self.trap.spring(&self.shards);
    }

    pub fn is_sprung(&self) -> bool {
        self.trap.is_sprung.load(Ordering::SeqCst)
    }

    /// Waits for the copy, whose making the mark announces, and goes on with it.
    pub fn live_on(&mut self) {
        let remains = loop {
            match lock(&self.trap.remains).take() {
                Some(remains) => break remains,
                None => std::thread::yield_now(),
            }
        };
        self.unwatch();
        self.shards = remains;
        self.trap = Trap::new();
    }

    /// After a store was closed: nothing may depend on what was not synced.
    pub fn forget_unsynced(&mut self) {
        self.unwatch();
        self.shards.iter().for_each(|shard| shard.disk.crash_keep_none());
        self.trap = Trap::new();
    }

    /// This instant, as if the process had stopped.
    pub fn copy(&self) -> Ground {
        Ground {
            shards: copy(&self.shards),
            clock: self.clock.clone(),
            rules: self.rules.clone(),
            durability: self.durability,
            epoch: self.epoch,
            trap: Trap::new(),
        }
    }

    /// Frames written since the store was opened, oldest first.
    pub fn written(&self) -> Vec<Written> {
        lock(&self.trap.written).clone()
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // The watchers know the shards that hold them.
        self.unwatch();
    }
}

fn note(trap: &Trap, shard: usize, call: &Call, when: When) {
    if let (Call::Write { name, offset, bytes }, When::After) = (call, when)
        && *offset >= SEGMENT_HEADER
        && name.starts_with("journal")
    {
        lock(&trap.written).push(Written { shard, name: name.clone(), offset: *offset, bytes: *bytes });
    }
}
