//! `codeq worker run`: a program for every task.

use super::child::{self, End};
use super::{Interrupts, Report, commands};
use crate::client::{Api, MissingFlag, Refused, Settings};
use crate::{say, tag};
use anyhow::bail;
use codeq_client::{Connection, Job, Outcome, Worker};
use codeq_server::telemetry::logs;
use serde_json::json;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Exit codes of a shell that found no program, or was not allowed to run it.
const NOT_STARTED: [i32; 2] = [126, 127];
/// What it takes to stop programs and to give their tasks back after the second signal.
const GIVE_BACK: Duration = Duration::from_secs(3);
/// Between two looks for a server that is away.
const LOOK_INTERVAL: Duration = Duration::from_secs(3);

/// Run a program for every task.
///
/// The program gets the payload on its standard input and CODEQ_TASK_ID, CODEQ_COMMAND and CODEQ_ATTEMPT in its
/// environment. Exit code 0 completes the task: what the program printed is the result if it is JSON, otherwise it
/// is kept as {"stdout": ...}. Any other exit code gives the task back to be tried again after a backoff, with the
/// last lines of standard error as the reason; when its attempts are used up it becomes a dead letter, which can be
/// replayed. Codes named by --fail-exit fail the task for good. A program that cannot be started (exit code 126 or
/// 127) stops the worker, so that a mistyped path does not use up the attempts of a whole queue.
///
/// The lease is renewed while the program runs; when it is lost, or the task is cancelled, the program is killed.
/// On SIGINT or SIGTERM no further task is claimed; what is not done when the grace period ends is given back
/// without counting the attempt. A second signal ends the grace period.
#[derive(clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:\n  codeq worker run --command demo --exec 'jq .n'\n  \
    codeq worker run --command mail,sms --exec ./send.sh --concurrency 4 --lease-seconds 120\n  \
    codeq worker run --command demo --exec ./handle.sh --fail-exit 65,78\n  \
    codeq worker run --command mail,report --exec ./handle.sh --weights mail=3"
)]
pub struct Run {
    /// Commands to claim, with commas between them; may be repeated.
    #[arg(long = "command", aliases = ["events", "event"], value_name = "LIST")]
    commands: Vec<String>,
    /// Program to run for each task, by sh -c.
    #[arg(long, value_name = "PROGRAM")]
    exec: Option<String>,
    /// Always take the first command with work, in the order given, instead of giving every command its share.
    #[arg(long, conflicts_with = "weights")]
    strict: bool,
    /// How often a command comes first compared with the others, from 1 to 100, with commas between them; 1 unless
    /// given.
    #[arg(long, value_delimiter = ',', value_name = "COMMAND=N")]
    weights: Vec<String>,
    /// Number of programs to run at a time.
    #[arg(long, default_value_t = 1, value_name = "N")]
    concurrency: usize,
    /// Seconds after which a task goes to another worker if this one vanishes.
    #[arg(long, default_value_t = 60, value_name = "N")]
    lease_seconds: u64,
    /// Seconds for which running programs may continue after the first signal.
    #[arg(long, default_value_t = 30, value_name = "N")]
    grace_seconds: u64,
    /// Exit codes that fail the task for good instead of retrying it, with commas between them.
    #[arg(long, value_delimiter = ',', value_name = "CODES")]
    fail_exit: Vec<i32>,
    /// Print one JSON object per line instead of text.
    #[arg(long)]
    json: bool,
}

/// What every run of the program needs.
struct Handler {
    exec: String,
    fail_exit: Vec<i32>,
    report: Report,
    /// Set by a program that cannot be started.
    broken: CancellationToken,
}

impl Run {
    pub async fn run(self, settings: &Settings) -> anyhow::Result<()> {
        let commands = commands(&self.commands)?;
        let exec = self.exec.filter(|exec| !exec.trim().is_empty());
        let exec = exec.ok_or(MissingFlag::new("exec is required", "--exec PROGRAM"))?;
        let access = settings.worker()?;
        let connection = Connection::new(access.token).http(settings.base_url());
        let mut worker = Worker::new(&connection)
            .concurrency(self.concurrency)
            .lease(Duration::from_secs(self.lease_seconds))
            .grace(Duration::from_secs(self.grace_seconds));
        worker = match self.strict {
            true => worker.strict(),
            false => weigh(worker, &self.weights)?,
        };
        let (report, broken) = (Report { json: self.json }, CancellationToken::new());
        let handler = Arc::new(Handler { exec, fail_exit: self.fail_exit, report, broken: broken.clone() });
        for command in &commands {
            let handler = handler.clone();
            worker = worker.handle(command, move |job| handle(handler.clone(), job));
        }
        let level = logs::Level::Warn;
        let format = logs::Format::Text;
        logs::init(logs::LogOptions { level, format, env: "cli".into(), to_stderr: true });
        let mut interrupts = Interrupts::new()?;
        report.connecting(access.api.base(), access.kind);
        tokio::select! {
            () = interrupts.next() => return Ok(()),
            connected = connect(&access.api, report) => connected?,
        }
        report.connected(access.kind);
        work(worker, interrupts, broken, report).await
    }
}

fn weigh(mut worker: Worker, weights: &[String]) -> anyhow::Result<Worker> {
    for given in weights {
        let (command, weight) = given.split_once('=').unwrap_or((given, ""));
        let Ok(weight) = weight.trim().parse::<u8>() else {
            bail!("{given:?} is not a weight: write COMMAND=N with a number from 1 to 100");
        };
        worker = worker.weight(command, weight);
    }
    Ok(worker)
}

/// Waits for a server that is away; one that refuses the token is an error.
async fn connect(api: &Api, report: Report) -> anyhow::Result<()> {
    loop {
        match api.check().await {
            Ok(()) => return Ok(()),
            Err(error) if error.downcast_ref::<Refused>().is_some_and(|refused| refused.status < 500) => {
                return Err(error);
            }
            Err(error) => report.warn(&format!("{error:#}")),
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// Works until the first signal, then until all is done, or until the second.
async fn work(
    worker: Worker,
    mut interrupts: Interrupts,
    broken: CancellationToken,
    report: Report,
) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    let mut running = Box::pin(worker.run_until(stop.clone().cancelled_owned()));
    tokio::select! {
        ended = &mut running => return Ok(ended?),
        () = interrupts.next() => {}
        () = broken.cancelled() => {}
    }
    if !report.json {
        say!("{} Stopping...", tag::warn());
    }
    stop.cancel();
    if !broken.is_cancelled() {
        tokio::select! {
            ended = &mut running => return Ok(ended?),
            () = interrupts.next() => {}
            () = broken.cancelled() => {}
        }
    }
    // Programs are stopped and tasks given back, without counting the attempt, in the background.
    drop(running);
    tokio::time::sleep(GIVE_BACK).await;
    match broken.is_cancelled() {
        true => bail!("the program cannot be started: correct --exec; its task was given back"),
        false => bail!("stopped before all programs had ended"),
    }
}

async fn handle(handler: Arc<Handler>, job: Job<Box<RawValue>>) -> Outcome {
    let Handler { exec, fail_exit, report, broken } = &*handler;
    if broken.is_cancelled() {
        return std::future::pending().await;
    }
    report.claimed(&job.id, &job.command);
    let end = child::run(exec, &job).await;
    let id = &job.id;
    match end {
        Ok(End::Exited { code: Some(0), stdout, .. }) => {
            report.completed(id);
            Outcome::complete(result(&stdout))
        }
        Ok(End::Exited { code, stderr, .. }) => {
            let ending = code.map_or("killed by a signal".to_owned(), |code| format!("exit code {code}"));
            let reason = if stderr.is_empty() { ending } else { stderr };
            if code.is_some_and(|code| fail_exit.contains(&code)) {
                report.ended("failed", id, "Task failed", &reason);
                return Outcome::fail(reason);
            }
            if code.is_some_and(|code| NOT_STARTED.contains(&code)) {
                report.ended("stopped", id, "Program cannot be started", &reason);
                broken.cancel();
                // The worker is about to end and gives the task back as if it had not been tried.
                return std::future::pending().await;
            }
            let text = format!("Task given back (attempt {})", job.attempt);
            report.ended("retry", id, &text, &reason);
            Outcome::nack(reason)
        }
        Ok(End::TooLong) => {
            let reason = format!("printed more than {} bytes", child::STDOUT);
            report.ended("retry", id, "Task given back", &reason);
            Outcome::nack(reason)
        }
        Ok(End::Cancelled) => {
            report.ended("stopped", id, "Task stopped", "the lease was lost or the task was cancelled");
            Outcome::abandon()
        }
        Err(error) => {
            let reason = format!("{error:#}");
            report.ended("retry", id, "Task given back", &reason);
            Outcome::nack(reason)
        }
    }
}

/// What a program printed, as JSON.
fn result(stdout: &[u8]) -> Box<RawValue> {
    let text = String::from_utf8_lossy(stdout);
    let text = text.trim_end_matches(['\n', '\r']);
    let json = serde_json::from_str::<&RawValue>(text.trim()).map(ToOwned::to_owned);
    json.unwrap_or_else(|_| {
        serde_json::value::to_raw_value(&json!({"stdout": text})).expect("a text is JSON")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_json_is_kept_as_text() {
        assert_eq!(result(b" {\"a\" : 1}\n").get(), r#"{"a" : 1}"#);
        assert_eq!(result(b"done\n").get(), r#"{"stdout":"done"}"#);
        assert_eq!(result(b"").get(), r#"{"stdout":""}"#);
    }
}
