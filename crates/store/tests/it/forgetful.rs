//! The store on a disk that forgets: crashes at any moment, torn and damaged journals, failing calls, full
//! disks, failed syncs. The disk is a double; everything above it is the real store.

mod bounds;
mod corners;
mod crashes;
mod damage;
mod facts;
mod faults;
mod full;
mod keys;
mod poison;
mod rot;
mod ticks;
mod workload;

use crate::candidates::Seat;
use codeq_store::local::files::Files;
use codeq_store::local::{self, Durability, Limits, LocalOptions, LocalStore, OpenError, Parts};
use codeq_store::testing::exam::START;
use codeq_store::testing::exam::bench::{Bench, plain_rules};
use codeq_store::testing::forgetful::ForgetfulDisk;
use codeq_store::testing::observed::Observed;
use codeq_store::{Clock, ManualClock, Rules};
use std::sync::Arc;

/// Several are filled within a test; a group of a few clients at once fits into a quarter of it.
const SEGMENT_BYTES: u64 = 96 << 10;
/// For tests that write one thing at a time.
const SMALL_SEGMENT_BYTES: u64 = 16 << 10;

/// What a store lives on, and what outlives it.
#[derive(Clone)]
pub struct Ground {
    pub disk: ForgetfulDisk,
    pub files: Observed<ForgetfulDisk>,
    pub clock: Arc<ManualClock>,
    /// What the store reads the time from, if not straight from the clock.
    pub lens: Option<Arc<dyn Clock>>,
    pub rules: Rules,
    pub segment_bytes: u64,
    pub limits: Limits,
    pub durability: Durability,
    epoch: u32,
}

impl Ground {
    pub fn new(rules: Rules, segment_bytes: u64) -> Ground {
        let disk = ForgetfulDisk::new();
        Ground {
            files: Observed::new(disk.clone()),
            disk,
            clock: Arc::new(ManualClock::at(START)),
            lens: None,
            rules,
            segment_bytes,
            limits: Limits::default(),
            durability: Durability::Fsync,
            epoch: 0,
        }
    }

    pub fn busy() -> Ground {
        Ground::new(plain_rules(), SEGMENT_BYTES)
    }

    pub fn small() -> Ground {
        Ground::new(plain_rules(), SMALL_SEGMENT_BYTES)
    }

    fn with(&self, disk: ForgetfulDisk) -> Ground {
        Ground { files: Observed::new(disk.clone()), disk, ..self.clone() }
    }

    /// A copy of this instant, on which a store may be opened as if this one had stopped.
    pub fn copy(&self) -> Ground {
        self.with(self.disk.snapshot())
    }

    /// A copy without tables: the journal must have it all.
    pub fn without_tables(&self) -> Ground {
        let disk = self.disk.snapshot();
        for name in disk.list().expect("memory can be read") {
            if is_of_tables(&name) {
                disk.remove(&name).expect("it is there");
            }
        }
        self.with(disk)
    }

    pub fn open(&mut self) -> Result<Arc<LocalStore>, OpenError> {
        self.epoch += 1;
        let clock = self.lens.clone().unwrap_or_else(|| self.clock.clone());
        let options = LocalOptions {
            rules: self.rules.clone(),
            clock,
            segment_bytes: self.segment_bytes,
            limits: self.limits,
            durability: self.durability,
            ..LocalOptions::new("/forgetful")
        };
        local::assemble(options, Parts::over(vec![Arc::new(self.files.clone())], self.epoch))
    }

    /// A bench at a store opened here.
    pub fn bench(&mut self) -> Bench {
        self.open_bench().expect("the store opens")
    }

    pub fn open_bench(&mut self) -> Result<Bench, OpenError> {
        let store = self.open()?;
        Ok(self.at(store))
    }

    /// A bench at a store.
    pub fn at(&self, store: Arc<LocalStore>) -> Bench {
        let seat = Seat { store, clock: self.clock.clone(), rules: self.rules.clone() };
        let owner = Arc::new(codeq_queue::Owner::new("subject", "worker"));
        Bench { candidate: Arc::new(seat), tenant: "acme".into(), owner }
    }
}

/// Whether a file holds tables or their catalog.
pub fn is_of_tables(name: &str) -> bool {
    name.ends_with(".tab") || name.starts_with("catalog")
}

/// Has the tables show everything that was acknowledged.
pub async fn feed(bench: &Bench) {
    bench.tenant("nobody").cleanup(codeq_queue::Time::ZERO, 1).await;
}
