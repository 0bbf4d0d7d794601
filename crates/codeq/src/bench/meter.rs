//! What is measured: latencies, processor time, bytes written, memory.

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// How often a sync is timed.
const SYNCS: u64 = 300;

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

/// The median of an fdatasync after a small write into a file that has its blocks.
pub fn sync_median(directory: &Path) -> anyhow::Result<u64> {
    let path = directory.join("sync");
    let mut file = File::create(&path)?;
    file.write_all(&vec![0; 1 << 20])?;
    file.sync_all()?;
    file.seek(SeekFrom::Start(0))?;
    let mut latencies = histogram();
    for _ in 0..SYNCS {
        let at = Instant::now();
        file.write_all(&[7; 1024])?;
        file.sync_data()?;
        record(&mut latencies, at.elapsed());
    }
    std::fs::remove_file(&path)?;
    Ok(latencies.value_at_quantile(0.5))
}

/// What a data directory takes on the disk.
#[derive(Clone, Copy, Default)]
pub struct Disk {
    pub all_mb: f64,
    /// Without the journals, ours and the tree's: bounded, and kept to be used again.
    pub kept_mb: f64,
}

impl Disk {
    /// Files that vanish meanwhile take nothing.
    pub fn of(directory: &Path) -> Disk {
        use std::os::unix::fs::MetadataExt;
        let mut disk = Disk::default();
        let mut left = vec![directory.to_owned()];
        while let Some(directory) = left.pop() {
            for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                let Ok(about) = entry.metadata() else { continue };
                if about.is_dir() {
                    left.push(entry.path());
                    continue;
                }
                let size = about.blocks() as f64 * 512.0 / 1_048_576.0;
                let name = entry.file_name();
                let ending = Path::new(&name).extension().and_then(|ending| ending.to_str());
                let is_journal = matches!(ending, Some("seg" | "jnl"));
                disk.all_mb += size;
                disk.kept_mb += if is_journal { 0.0 } else { size };
            }
        }
        disk
    }
}
