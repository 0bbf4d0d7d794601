//! The programs that a bench measures, each in a process of its own.

use super::meter::proc_number;
use anyhow::{Context, bail};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Set for a child to the number of the process that it must not outlive.
const PARENT: &str = "BENCH_PARENT";

/// Makes a child of a bench end with it, however that ends. To be called first.
pub fn end_with_parent() {
    let Some(parent) = std::env::var(PARENT).ok().and_then(|text| text.parse::<i32>().ok()) else { return };
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    // It may have ended before it could be told to tell us.
    if getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(parent) {
        std::process::exit(1);
    }
}

/// A child process that ends with us.
pub struct Process {
    child: Child,
    pub address: SocketAddr,
    /// Where its streams are, if it has any.
    pub producer_streams: Option<SocketAddr>,
    pub worker_streams: Option<SocketAddr>,
}

impl Process {
    /// Starts this program with other arguments and waits for the line that tells its address.
    pub fn start(arguments: &[&str]) -> anyhow::Result<Process> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(program);
        command.env(PARENT, std::process::id().to_string()).args(arguments);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().context("no output")?;
        let mut lines = BufReader::new(output).lines();
        let (mut producer_streams, mut worker_streams) = (None, None);
        let address = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let event: serde_json::Value = serde_json::from_str(&line).ok()?;
            let address = event["addr"].as_str().and_then(|address| address.parse().ok());
            match event["msg"].as_str()? {
                "producer streaming gRPC enabled" => producer_streams = address,
                "worker streaming gRPC enabled" => worker_streams = address,
                "listening" => return address,
                _ => {}
            }
            None
        });
        // Whatever comes later must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        match address {
            Some(address) => Ok(Process { child, address, producer_streams, worker_streams }),
            None => {
                let _ = child.kill();
                bail!("the server did not start; see above")
            }
        }
    }

    /// Processor time so far.
    pub fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        // Fields 14 and 15 of the line, in hundredths of a second.
        Duration::from_millis((ticks(11) + ticks(12)) * 10)
    }

    pub fn rss_mb(&self) -> f64 {
        let kilobytes = proc_number(&format!("/proc/{}/status", self.child.id()), |line| {
            line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok()
        });
        kilobytes as f64 / 1024.0
    }

    /// Open files and sockets.
    pub fn handles(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).map_or(0, Iterator::count)
    }

    /// Bytes handed to write calls so far.
    pub fn written(&self) -> u64 {
        proc_number(&format!("/proc/{}/io", self.child.id()), |line| {
            line.strip_prefix("wchar: ")?.parse().ok()
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
