//! One run of a program: its input, its output within bounds, and its end.

use anyhow::Context;
use codeq_client::Job;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::value::RawValue;
use std::io::Write;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// Bytes of a result at most.
pub const STDOUT: usize = 4 * 1024 * 1024;
/// Bytes of the end of standard error that are kept; the server keeps 8192 bytes of an error.
const STDERR: usize = 4096;
/// What a program has to clean up after it was told to stop.
const TERM_GRACE: Duration = Duration::from_millis(500);
/// What is still in the pipes when a program has ended is read for so long: something that it left behind in
/// the background may hold them open.
const LAST_BYTES: Duration = Duration::from_secs(1);

pub enum End {
    Exited {
        /// `None`: by a signal.
        code: Option<i32>,
        stdout: Vec<u8>,
        /// The last lines, without the last line break.
        stderr: String,
    },
    TooLong,
    /// The task is not ours any more, and the program was killed.
    Cancelled,
}

/// Kills the program and all it started, unless it has ended.
struct Group(Option<Pid>);

impl Group {
    fn send(&self, signal: Signal) {
        if let Some(pid) = self.0 {
            let _ = kill_process_group(pid, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.send(Signal::KILL);
    }
}

/// What a program has printed.
#[derive(Default)]
struct Printed {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

pub async fn run(exec: &str, job: &Job<Box<RawValue>>) -> anyhow::Result<End> {
    let mut child = spawn(exec, job)?;
    let mut group = Group(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
    let mut printed = Printed::default();
    let status = tokio::select! {
        status = attend(&mut child, job.payload.get(), &mut printed) => status?,
        () = job.cancelled() => {
            stop(&mut child, &group).await;
            return Ok(End::Cancelled);
        }
    };
    let Some(status) = status else { return Ok(End::TooLong) };
    group.0 = None;
    let stderr = String::from_utf8_lossy(&printed.stderr).trim().to_owned();
    Ok(End::Exited { code: status.code(), stdout: printed.stdout, stderr })
}

/// Feeds and reads a program until it ends; `None` if it printed too much.
async fn attend(
    child: &mut Child,
    payload: &str,
    printed: &mut Printed,
) -> anyhow::Result<Option<ExitStatus>> {
    let mut stdin = child.stdin.take().context("stdin is piped")?;
    let stdout = child.stdout.take().context("stdout is piped")?;
    let stderr = child.stderr.take().context("stderr is piped")?;
    // A program that does not read its input breaks the pipe, which is its right.
    let feed = async {
        let _ = stdin.write_all(payload.as_bytes()).await;
        drop(stdin);
    };
    let Printed { stdout: out, stderr: err } = printed;
    let pipes = async { tokio::join!(feed, keep_all(stdout, out), keep_end(stderr, err)).1 };
    tokio::pin!(pipes);
    let fits = tokio::select! {
        fits = &mut pipes => fits,
        status = child.wait() => {
            let fits = tokio::time::timeout(LAST_BYTES, &mut pipes).await.unwrap_or(true);
            return Ok(fits.then_some(status?));
        }
    };
    Ok(if fits { Some(child.wait().await?) } else { None })
}

/// In a process group of its own, so that a Ctrl-C is for us and a kill reaches all it started.
fn spawn(exec: &str, job: &Job<Box<RawValue>>) -> anyhow::Result<Child> {
    let mut command = Command::new("sh");
    command.arg("-c").arg(exec).process_group(0);
    command.env("CODEQ_TASK_ID", &job.id).env("CODEQ_COMMAND", &job.command);
    command.env("CODEQ_ATTEMPT", job.attempt.to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().context("cannot run sh")
}

async fn stop(child: &mut Child, group: &Group) {
    group.send(Signal::TERM);
    if tokio::time::timeout(TERM_GRACE, child.wait()).await.is_err() {
        group.send(Signal::KILL);
        let _ = child.wait().await;
    }
}

/// Reads to the end; false as soon as it is too long.
async fn keep_all(mut pipe: impl AsyncRead + Unpin, kept: &mut Vec<u8>) -> bool {
    let mut part = vec![0; 16 * 1024];
    loop {
        match pipe.read(&mut part).await {
            Ok(0) | Err(_) => return true,
            Ok(count) if kept.len() + count > STDOUT => return false,
            Ok(count) => kept.extend_from_slice(&part[..count]),
        }
    }
}

/// Shows what comes and keeps its end.
async fn keep_end(mut pipe: impl AsyncRead + Unpin, kept: &mut Vec<u8>) {
    let mut part = vec![0; STDERR];
    while let Ok(count @ 1..) = pipe.read(&mut part).await {
        let _ = std::io::stderr().write_all(&part[..count]);
        kept.extend_from_slice(&part[..count]);
        kept.drain(..kept.len().saturating_sub(STDERR));
    }
}
