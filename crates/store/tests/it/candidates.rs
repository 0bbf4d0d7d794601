//! The stores of this crate as candidates. Each is new and empty, lives by a manual clock, and keeps its data
//! in a directory of its own that goes with it.

use crate::forgetful::Ground;
use codeq_queue::Store;
use codeq_store::local::{self, Durability, LocalOptions, LocalStore};
use codeq_store::memory::{self, MemoryOptions};
use codeq_store::testing::exam::{Candidate, Open, START};
use codeq_store::{ManualClock, Rules};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Small, so that segments are sealed and dropped within a test.
const SEGMENT_BYTES: u64 = 2 << 20;

pub fn memory(shards: u32) -> Open {
    Arc::new(move |rules: Rules| {
        let clock = Arc::new(ManualClock::at(START));
        let options = MemoryOptions { rules: rules.clone(), shards, clock: clock.clone(), observer: None };
        let store = memory::open(options).expect("the memory store opens");
        Arc::new(Forgetful { rules, clock, store })
    })
}

pub fn local(shards: u32, durability: Durability) -> Open {
    Arc::new(move |rules: Rules| {
        let directory = tempfile::tempdir().expect("a directory for the test");
        let clock = Arc::new(ManualClock::at(START));
        let store = open_local(directory.path(), &rules, shards, durability, &clock);
        Arc::new(Keeping { store: Mutex::new(store), directory, rules, clock, shards, durability })
    })
}

/// On a disk that forgets, so that it can be crashed.
pub fn forgetful() -> Open {
    Arc::new(move |rules: Rules| {
        let mut ground = Ground::new(rules, 1 << 20);
        let store = ground.open().expect("the store opens");
        Arc::new(OnForgetfulDisk { place: Mutex::new((ground, store)), crashes: AtomicU64::new(0) })
    })
}

fn open_local(
    path: &Path,
    rules: &Rules,
    shards: u32,
    durability: Durability,
    clock: &Arc<ManualClock>,
) -> Arc<dyn Store> {
    let options = LocalOptions {
        rules: rules.clone(),
        shards,
        durability,
        clock: clock.clone(),
        segment_bytes: SEGMENT_BYTES,
        ..LocalOptions::new(path)
    };
    local::open(options).expect("the store opens")
}

struct Forgetful {
    rules: Rules,
    clock: Arc<ManualClock>,
    store: Arc<dyn Store>,
}

impl Candidate for Forgetful {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn clock(&self) -> Arc<ManualClock> {
        self.clock.clone()
    }

    fn rules(&self) -> Rules {
        self.rules.clone()
    }

    fn keeps_on_reopen(&self) -> bool {
        false
    }

    fn reopen(&self) {
        panic!("the memory store keeps nothing");
    }
}

// Fields are dropped in this order: the store lets go of the directory before it is deleted.
struct Keeping {
    store: Mutex<Arc<dyn Store>>,
    directory: tempfile::TempDir,
    rules: Rules,
    clock: Arc<ManualClock>,
    shards: u32,
    durability: Durability,
}

impl Candidate for Keeping {
    fn store(&self) -> Arc<dyn Store> {
        self.store.lock().expect("no one panics holding the store").clone()
    }

    fn clock(&self) -> Arc<ManualClock> {
        self.clock.clone()
    }

    fn rules(&self) -> Rules {
        self.rules.clone()
    }

    fn keeps_on_reopen(&self) -> bool {
        true
    }

    fn reopen(&self) {
        close(&self.store());
        let path = self.directory.path();
        let store = open_local(path, &self.rules, self.shards, self.durability, &self.clock);
        *self.store.lock().expect("no one panics holding the store") = store;
    }
}

/// Waits on a thread of its own, because the caller is inside a runtime that must not block.
fn close(store: &Arc<dyn Store>) {
    let closing = store.clone().close();
    let waiting = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime to wait in").block_on(closing)
    });
    waiting.join().expect("closing does not panic").expect("the store closes");
}

struct OnForgetfulDisk {
    place: Mutex<(Ground, Arc<LocalStore>)>,
    crashes: AtomicU64,
}

impl Candidate for OnForgetfulDisk {
    fn store(&self) -> Arc<dyn Store> {
        self.place.lock().expect("no one panics holding the place").1.clone()
    }

    fn clock(&self) -> Arc<ManualClock> {
        self.place.lock().expect("no one panics holding the place").0.clock.clone()
    }

    fn rules(&self) -> Rules {
        self.place.lock().expect("no one panics holding the place").0.rules.clone()
    }

    fn keeps_on_reopen(&self) -> bool {
        true
    }

    fn reopen(&self) {
        close(&self.store());
        let mut place = self.place.lock().expect("no one panics holding the place");
        place.1 = place.0.open().expect("the store opens");
    }

    /// The old store goes on until it is dropped, on a disk that nobody looks at any more.
    fn crash(&self) -> bool {
        let mut place = self.place.lock().expect("no one panics holding the place");
        let mut ground = place.0.copy();
        ground.disk.crash(self.crashes.fetch_add(1, Ordering::Relaxed));
        let store = ground.open().expect("the store opens after a crash");
        *place = (ground, store);
        true
    }
}

/// A store that is never reopened in place: the test opens another on a copy.
pub struct Seat {
    pub store: Arc<LocalStore>,
    pub clock: Arc<ManualClock>,
    pub rules: Rules,
}

impl Candidate for Seat {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn clock(&self) -> Arc<ManualClock> {
        self.clock.clone()
    }

    fn rules(&self) -> Rules {
        self.rules.clone()
    }

    fn keeps_on_reopen(&self) -> bool {
        false
    }

    fn reopen(&self) {
        panic!("a seat keeps its store");
    }
}
