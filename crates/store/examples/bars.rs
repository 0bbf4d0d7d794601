//! Measures what `codeq_store::testing::bars` describes, at the sizes that are asked for, and fails where it does not hold.
//!
//! `cargo run --release -p codeq-store --example bars -- all`, or some of `flood`, `lanes`, `limits`, `rate`, `lane-rates`,
//! `chain`, `diamond`, `batch`, `debounce`, `heartbeats`, each with a size behind an equals sign if it is not to be the large one:
//! `batch=100000`. The store is the embedded one in a temporary directory, with four shards for what is linked.

use codeq_queue::Store;
use codeq_store::local::{self, Durability, LocalOptions};
use codeq_store::testing::bars;
use codeq_store::testing::exam::bench::{Bench, eager_rules};
use codeq_store::testing::exam::{Candidate, START};
use codeq_store::{ManualClock, Rules};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

struct Embedded {
    store: Mutex<Option<Arc<dyn Store>>>,
    directory: TempDir,
    rules: Rules,
    clock: Arc<ManualClock>,
    shards: u32,
}

impl Embedded {
    fn open(&self) {
        let mut store = self.store.lock().expect("no one panics holding the store");
        // The directory is free again when the store before is gone.
        store.take();
        let options = LocalOptions {
            rules: self.rules.clone(),
            shards: self.shards,
            durability: Durability::Fsync,
            clock: self.clock.clone(),
            ..LocalOptions::new(self.directory.path())
        };
        let opened: Arc<dyn Store> = local::open(options).expect("the store opens");
        *store = Some(opened);
    }
}

impl Candidate for Embedded {
    fn store(&self) -> Arc<dyn Store> {
        self.store.lock().expect("no one panics holding the store").clone().expect("the store is open")
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
        self.open();
    }
}

fn bench(shards: u32) -> Bench {
    let open = move |rules: Rules| -> Arc<dyn Candidate> {
        let embedded = Embedded {
            store: Mutex::new(None),
            directory: tempfile::tempdir().expect("a temporary directory"),
            rules,
            clock: Arc::new(ManualClock::at(START)),
            shards,
        };
        embedded.open();
        Arc::new(embedded)
    };
    let open: codeq_store::testing::exam::Open = Arc::new(open);
    Bench::with(&open, eager_rules())
}

const LARGE: [(&str, usize); 10] = [
    ("flood", 1_000_000),
    ("lanes", 1_000_000),
    ("limits", 200_000),
    ("rate", 30),
    ("lane-rates", 30),
    ("chain", 10_000),
    ("diamond", 100),
    ("batch", 1_000_000),
    ("debounce", 100_000),
    ("heartbeats", 10_000),
];

/// From this size on the bars about memory and tails are asserted; less than that is noise.
const MANY: usize = 100_000;
/// What 100,000 creates of one key may occupy in the end: buffers, and none of the creates.
const DEBOUNCED_BYTES_MAX: i64 = 32 << 20;
/// The part of the speed that is left with limits that are not reached.
const SPEED_WITH_LIMITS: f64 = 0.9;
const LIMITED_LANES: usize = 10_000;
const PAIRS: usize = 10;

/// Pairs of runs with and without limits, in turns; the median of their relations counts.
async fn unreached_limits(tasks: usize) -> String {
    let mut speeds = Vec::new();
    for pair in 0..PAIRS {
        let mut took = [Duration::ZERO; 2];
        for is_limited in [pair % 2 == 0, pair % 2 == 1] {
            took[usize::from(is_limited)] =
                bars::unreached_limits(&bench(1), LIMITED_LANES, tasks, is_limited).await;
        }
        speeds.push(took[0].as_secs_f64() / took[1].as_secs_f64());
    }
    speeds.sort_by(f64::total_cmp);
    let speed = (speeds[PAIRS / 2 - 1] + speeds[PAIRS / 2]) / 2.0;
    assert!(tasks < MANY || speed >= SPEED_WITH_LIMITS, "{speed:.3} of the speed without limits");
    format!("{speed:.3} of the speed without limits")
}

async fn measure(name: &str, size: usize) -> String {
    match name {
        "flood" => format!("{} claims for 999 lanes", bars::flood(&bench(1), size, 999).await),
        "lanes" => {
            let found = bars::many_lanes(&bench(1), size, 20_000.min(size)).await;
            if size >= MANY {
                found.check();
            }
            let (many, one) = (found.claim_p99, found.claim_p99_of_one);
            format!("claim p99 {many:?}, {one:?} with one lane; {} bytes for each lane", found.bytes)
        }
        "limits" => unreached_limits(size).await,
        "lane-rates" => format!("{} starts of each lane", bars::lane_rates(&bench(1), 100, 10, size).await),
        "rate" => format!("{} starts", bars::steady_rate(&bench(1), 100, 10, size).await),
        "chain" => {
            bars::chain(&bench(4), size, size / 2).await;
            "in order, and failed from the middle on".into()
        }
        "diamond" => {
            bars::diamond(&bench(4), size, 100.min(size)).await;
            "layer by layer".into()
        }
        "batch" => {
            bars::batch(&bench(4), size, 10).await;
            "ended once, counts are those of the members".into()
        }
        "debounce" => {
            let bytes = bars::debounce(&bench(1), size).await;
            assert!(size < MANY || bytes < DEBOUNCED_BYTES_MAX, "memory grew by {bytes} bytes");
            format!("one task, {bytes} bytes of memory")
        }
        "heartbeats" => {
            let took = bars::heartbeats(&bench(1), size, 20).await;
            let most = Duration::from_millis(500);
            assert!(size > 10_000 || took <= most, "{took:?} of a processor a second, at most {most:?}");
            format!("{took:?} of a processor a second")
        }
        other => panic!("no bar is called {other}"),
    }
}

#[tokio::main]
async fn main() {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    for (name, large) in LARGE {
        let is_it = |word: &&String| *word == "all" || word.split('=').next() == Some(name);
        let Some(word) = asked.iter().find(is_it) else { continue };
        let given = word.split_once('=').map(|(_, size)| size.parse().expect("the size is a number"));
        let (size, begun) = (given.unwrap_or(large), Instant::now());
        let found = measure(name, size).await;
        println!("{name} {size}: {found} ({:.1?})", begun.elapsed());
    }
}
