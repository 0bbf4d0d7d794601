//! What is measured: latencies, processor time, bytes written, memory.

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Latencies from a microsecond to a minute.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000, 3).expect("the bounds are sound")
}

pub fn record(histogram: &mut Histogram<u64>, elapsed: Duration) {
    histogram.saturating_record(u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX).max(1));
}

/// What the process had used at one moment.
pub struct Reading {
    at: Instant,
    cpu: Duration,
    written: u64,
}

/// What it used since then.
pub struct Used {
    pub elapsed: Duration,
    pub cpu: Duration,
    pub written: u64,
}

impl Reading {
    pub fn take() -> Reading {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let cpu = Duration::new(cpu.tv_sec.unsigned_abs(), u32::try_from(cpu.tv_nsec).unwrap_or(0));
        Reading { at: Instant::now(), cpu, written: written_bytes() }
    }

    pub fn used(&self) -> Used {
        let now = Reading::take();
        Used {
            elapsed: now.at - self.at,
            cpu: now.cpu.saturating_sub(self.cpu),
            written: now.written.saturating_sub(self.written),
        }
    }
}

pub fn proc_number(file: &str, find: impl Fn(&str) -> Option<u64>) -> u64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().find_map(find).unwrap_or(0)
}

/// Bytes that this process has handed to write calls. (The counter of bytes sent to the disk counts whole
/// folios, a megabyte for every append here.)
fn written_bytes() -> u64 {
    proc_number("/proc/self/io", |line| line.strip_prefix("wchar: ")?.parse().ok())
}

pub fn rss_mb() -> f64 {
    let kilobytes = proc_number("/proc/self/status", |line| {
        line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok()
    });
    kilobytes as f64 / 1024.0
}
