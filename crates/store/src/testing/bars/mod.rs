//! What has to hold at any size. Small sizes are tests of this crate; `cargo run --release -p codeq-store --example bars`
//! measures large ones.
//!
//! Each bar panics if it does not hold, and gives what it measured.

mod lanes;
mod linked;
mod many;

pub use lanes::{flood, lane_rates, many_lanes, steady_rate, unreached_limits};
pub use linked::{batch, chain, diamond};
pub use many::{debounce, heartbeats};

use super::exam::bench::Bench;
use super::exam::request::New;
use codeq_queue::store::Submit;
use codeq_queue::{Outcome, Task};
use std::time::Duration;

/// Tasks that are created, or reported, together.
const TOGETHER: usize = 500;

async fn create(bench: &Bench, new: impl Iterator<Item = New>) -> Vec<Task> {
    let (mut made, mut new) = (Vec::new(), new.peekable());
    while new.peek().is_some() {
        let tasks = new.by_ref().take(TOGETHER).map(|new| new.build(&bench.tenant)).collect();
        let created = bench.ask("create", bench.store().create(tasks)).await;
        made.extend(created.into_iter().map(|created| created.expect("the task is taken").task));
    }
    made
}

async fn complete(bench: &Bench, tasks: &[Task]) {
    for tasks in tasks.chunks(TOGETHER) {
        let submit = |task| Submit { report: bench.report(task), outcome: Outcome::completed("{}") };
        let done = bench.ask("submit", bench.store().submit(tasks.iter().map(submit).collect())).await;
        assert!(done.iter().all(Result::is_ok), "{done:?}");
    }
}

/// Memory of this process, where the system tells.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

/// Processor time of this process, where the system tells.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in brackets may hold spaces; 13 and 14 of the rest are ticks of ten milliseconds.
    let rest = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks = rest.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>();
    Duration::from_millis(ticks * 10)
}
