//! Whole batches of every verb at the bounds of the rules: the bytes choose verbs, counts and sizes. The store works
//! on segments that a batch overflows; whatever it is asked for, it does or refuses it and serves the next caller.

use codeq_queue::Store;
use codeq_queue::store::Health;
use codeq_store::ManualClock;
use codeq_store::local::{self, LocalOptions, Parts};
use codeq_store::testing::batches::{Caller, VERBS};
use codeq_store::testing::exam::START;
use codeq_store::testing::forgetful::ForgetfulDisk;
use std::cell::RefCell;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};

/// Segments, and what a batch holds at most, so that an input takes milliseconds.
const SEGMENT_BYTES: u64 = 96 << 10;
const CONTENT_BYTES: usize = 8 << 10;
const BATCH: usize = 12;
/// Bytes of an input that are read.
const READ: usize = 48;
/// Inputs that one store is given.
const INPUTS: usize = 64;

pub struct Counter {
    runtime: Runtime,
    open: RefCell<Open>,
}

struct Open {
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
    inputs: usize,
}

impl Open {
    fn new() -> Open {
        let clock = Arc::new(ManualClock::at(START));
        let options = LocalOptions {
            segment_bytes: SEGMENT_BYTES,
            clock: clock.clone(),
            ..LocalOptions::new("/forgetful")
        };
        let parts = Parts::over(vec![Arc::new(ForgetfulDisk::new())], 1);
        let store = local::assemble(options, parts).expect("an empty disk opens");
        Open { store, clock, inputs: 0 }
    }
}

impl Counter {
    pub fn open() -> Counter {
        let runtime = Builder::new_current_thread().enable_time().build();
        Counter { runtime: runtime.expect("a runtime needs only memory"), open: RefCell::new(Open::new()) }
    }

    /// Every verb, with the largest of everything and with little.
    pub fn corpus(&self) -> Vec<Vec<u8>> {
        let verbs =
            (0..VERBS as u8).flat_map(|verb| [vec![verb; READ], [vec![verb], vec![255; READ - 1]].concat()]);
        let mixed = [0, 4, 6, 0, 4, 7, 11, 13, 10, 14, 15].map(|verb: u8| [verb, 255, 3, 200]).concat();
        verbs.chain([mixed]).collect()
    }

    pub fn read(&self, input: &[u8]) {
        let mut open = self.open.borrow_mut();
        if open.inputs == INPUTS {
            *open = Open::new();
        }
        open.inputs += 1;
        let choices = &input[..input.len().min(READ)];
        let mut caller = Caller::new(open.store.clone(), open.clock.clone(), choices);
        (caller.content_bytes, caller.batch) = (CONTENT_BYTES, BATCH);
        let served = self.runtime.block_on(caller.run());
        let health = open.store.health();
        if served.is_err() || health != Health::Ready {
            *open = Open::new();
            panic!("{served:?}, {health:?}");
        }
    }
}
