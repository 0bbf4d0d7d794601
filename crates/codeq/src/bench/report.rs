//! Rows for people and for programs. Every bench uses the same form.

use super::meter::{Used, rss_mb};
use super::trend::Trend;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::io::IsTerminal;
use std::path::PathBuf;
use tempfile::TempDir;

#[derive(Serialize, Clone, Default)]
pub struct Row {
    pub name: String,
    pub in_flight: usize,
    pub per_second: f64,
    pub cpu_us: f64,
    pub p50_us: u64,
    pub p99_us: u64,
    pub p999_us: u64,
    pub max_us: u64,
    /// Written to the disk per unit of work.
    pub bytes: u64,
    pub rss_mb: f64,
    /// Against the ceiling of the same run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backlog: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim_p99_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_mb: Option<f64>,
    /// From sending a create to its ack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_p50_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_p99_us: Option<u64>,
    /// From sending a create to a worker having the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assignment_p50_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assignment_p99_us: Option<u64>,
    /// Against the memory store of the same run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_ratio: Option<f64>,
    /// The median fdatasync of the same minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_p50_us: Option<u64>,
    /// Answers 429 and 503.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<u64>,
    /// Open files and sockets of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handles: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_trend: Option<Trend>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handles_trend: Option<Trend>,
    /// Processes of codeQ, and servers that they share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<usize>,
    /// Processor time of those servers per unit of work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_cpu_us: Option<f64>,
    /// What each process and each server takes of a core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_percent: Option<f64>,
    /// In words, what the row shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
}

impl Row {
    pub fn new(name: &str, in_flight: usize, count: u64, used: &Used, latencies: &Histogram<u64>) -> Row {
        let each = |total: f64| if count == 0 { 0.0 } else { total / count as f64 };
        Row {
            name: name.to_owned(),
            in_flight,
            per_second: (count as f64 / used.elapsed.as_secs_f64()).round(),
            cpu_us: (each(used.cpu.as_secs_f64() * 1e6) * 100.0).round() / 100.0,
            p50_us: latencies.value_at_quantile(0.5),
            p99_us: latencies.value_at_quantile(0.99),
            p999_us: latencies.value_at_quantile(0.999),
            max_us: latencies.max(),
            bytes: each(used.written as f64) as u64,
            rss_mb: rss_mb().round(),
            ..Row::default()
        }
    }
}

#[derive(Serialize)]
struct Machine {
    cores: usize,
    model: String,
    kernel: String,
    memory_mb: u64,
    directory: String,
}

#[derive(Serialize)]
struct Report<'a> {
    machine: Machine,
    rows: &'a [Row],
}

fn machine(directory: &str) -> Machine {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).map(str::to_owned);
        line.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned())).unwrap_or_default()
    };
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    Machine {
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        model: field(&read("/proc/cpuinfo"), "model name"),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        memory_mb: memory.trim_end_matches(" kB").parse::<u64>().unwrap_or(0) / 1024,
        directory: directory.to_owned(),
    }
}

/// Tells on a terminal what is going on; says nothing to a file.
pub fn progress(text: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[2K{text}");
    }
}

/// Where a bench works and how it tells what it has seen.
#[derive(clap::Args)]
pub struct Output {
    /// Where to put the data; a temporary directory by default.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// One JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

impl Output {
    /// A directory that goes with the bench.
    pub fn root(&self) -> anyhow::Result<TempDir> {
        Ok(match &self.directory {
            Some(directory) => tempfile::tempdir_in(directory)?,
            None => tempfile::tempdir()?,
        })
    }

    pub fn print(&self, rows: &[Row], root: &TempDir) -> anyhow::Result<()> {
        print(rows, &root.path().display().to_string(), self.json)
    }
}

fn print(rows: &[Row], directory: &str, json: bool) -> anyhow::Result<()> {
    progress("");
    let machine = machine(directory);
    if json {
        println!("{}", serde_json::to_string(&Report { machine, rows })?);
        return Ok(());
    }
    println!("{} x {}, {} MB, Linux {}", machine.cores, machine.model, machine.memory_mb, machine.kernel);
    println!(
        "{:<18} {:>9} {:>8} {:>10} {:>8} {:>8} {:>8} {:>8} {:>9} {:>8} {:>7} {:>6}",
        "name",
        "backlog",
        "flight",
        "per sec",
        "cpu us",
        "p50 us",
        "p99 us",
        "p999 us",
        "max us",
        "bytes",
        "rss MB",
        "ratio"
    );
    for row in rows {
        let ratio = row.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        let backlog = row.backlog.map_or_else(|| "-".to_owned(), |backlog| backlog.to_string());
        print!(
            "{:<18} {:>9} {:>8} {:>10} {:>8} {:>8} {:>8} {:>8} {:>9} {:>8} {:>7} {:>6}",
            row.name,
            backlog,
            row.in_flight,
            row.per_second,
            row.cpu_us,
            row.p50_us,
            row.p99_us,
            row.p999_us,
            row.max_us,
            row.bytes,
            row.rss_mb,
            ratio
        );
        let extra = [
            row.open_ms.map(|ms| format!("open {ms} ms")),
            row.drain_ms.map(|ms| format!("drained in {ms} ms")),
            row.claim_p99_us.map(|us| format!("claim p99 {us} us")),
            row.disk_mb.map(|mb| format!("disk {mb} MB")),
            row.create_p99_us
                .map(|us| format!("create ack p50 {} p99 {us} us", row.create_p50_us.unwrap_or(0))),
            row.assignment_p99_us
                .map(|us| format!("to assignment p50 {} p99 {us} us", row.assignment_p50_us.unwrap_or(0))),
            row.memory_ratio.map(|ratio| format!("{ratio:.2} of memory")),
            row.sync_p50_us.map(|us| format!("fdatasync p50 {us} us")),
            row.refused.map(|count| format!("{count} refused")),
            row.handles.map(|count| format!("{count} handles")),
            row.rss_trend.as_ref().map(|trend| format!("RSS {}", trend.words("MB"))),
            row.handles_trend.as_ref().map(|trend| format!("handles {}", trend.words(""))),
            row.server_cpu_us.map(|us| format!("server cpu {us} us")),
            row.process_percent.map(|percent| format!("each process {percent} % of a core")),
            row.server_percent.map(|percent| format!("each server {percent} %")),
            row.verdict.clone(),
        ];
        println!("  {}", extra.into_iter().flatten().collect::<Vec<_>>().join(", "));
    }
    Ok(())
}
