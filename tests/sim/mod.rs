//! The simulation: one seed, one life of an embedded store among clients and faults.
//!
//! The seed decides what clients do and in which order, which messages are lost, late or doubled, how the
//! clock moves, which faults come when, and what a crash keeps of what was not synced. The store between
//! them is the real one with its threads, so how calls fall into groups, and with it the exact call to the
//! disk at which an armed crash or fault strikes, may differ between two runs of one seed.

pub mod action;
pub mod checks;
mod clients;
mod faults;
mod finale;
mod flows;
mod ground;
pub mod ledger;
mod look;
pub mod plants;
mod probes;
mod world;

use checks::Violation;
use plants::Plant;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Seeds between two lines of progress.
const TOLD_EVERY: u64 = 1000;

/// What happened in a life, or in many.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    pub seeds: u64,
    /// Calls to the store, without those of the checks.
    pub operations: u64,
    /// Of disks, processes and clocks.
    pub faults: u64,
    /// Messages lost, doubled or late.
    pub messages: u64,
    pub crashes: u64,
    pub looks: u64,
}

impl Counts {
    pub fn add(&mut self, other: Counts) {
        self.seeds += other.seeds;
        self.operations += other.operations;
        self.faults += other.faults;
        self.messages += other.messages;
        self.crashes += other.crashes;
        self.looks += other.looks;
    }
}

/// A seed that broke a promise.
#[derive(Debug)]
pub struct Failing {
    pub seed: u64,
    pub violation: Violation,
}

impl Failing {
    pub fn report(&self) -> String {
        let Failing { seed, violation } = self;
        format!(
            "seed {seed}: {violation}\nrepeat with: cargo run -p codeq-tests --bin sim -- --from {seed} --seeds 1"
        )
    }
}

/// Lives one life.
pub fn live(seed: u64, plant: Option<Plant>) -> Result<Counts, Failing> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime needs nothing but memory");
    let lived = runtime.block_on(world::live(seed, plant));
    lived.map_err(|violation| Failing { seed, violation })
}

/// Lives `seeds` from `from` on, `threads` at once, until one fails.
pub fn campaign(from: u64, seeds: u64, threads: usize, plant: Option<Plant>) -> (Counts, Option<Failing>) {
    let (next, begun) = (AtomicU64::new(from), Instant::now());
    let done: Mutex<(Counts, Option<Failing>)> = Mutex::default();
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::SeqCst);
            if seed >= from + seeds {
                return;
            }
            let lived = live(seed, plant);
            let mut done = done.lock().expect("no one panics holding the counts");
            match lived {
                Ok(counts) => {
                    done.0.add(counts);
                    if done.0.seeds.is_multiple_of(TOLD_EVERY) {
                        eprintln!("{} of {seeds} seeds, {} s", done.0.seeds, begun.elapsed().as_secs());
                    }
                }
                Err(failing) => {
                    done.1.get_or_insert(failing);
                    next.store(from + seeds, Ordering::SeqCst);
                }
            }
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    done.into_inner().expect("no one panics holding the counts")
}
