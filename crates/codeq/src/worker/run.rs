//! `codeq worker run`: a program for every task.

use super::child::{self, End};
use super::{Interrupts, commands};
use crate::client::Settings;
use crate::{say, tag};
use anyhow::bail;
use codeq_client::{Connection, Job, Outcome, Worker};
use codeq_server::telemetry::logs;
use serde_json::json;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The exit code that asks for another try: EX_TEMPFAIL of sysexits.h.
const TRY_AGAIN: i32 = 75;
/// What it takes to stop programs and to give their tasks back after the second signal.
const GIVE_BACK: Duration = Duration::from_secs(3);

/// Run a program for every task.
///
/// The program gets the payload on its standard input and CODEQ_TASK_ID, CODEQ_COMMAND and CODEQ_ATTEMPT in its
/// environment. Exit code 0 completes the task: what it printed is the result if it is JSON, else it is kept as
/// {"stdout": ...}. 75 gives the task back to be tried again, with the last line of its standard error as the
/// reason. Any other code fails the task for good, with the last lines as the error.
///
/// The lease is kept while the program runs; when it is lost, or the task is cancelled, the program is killed.
/// On SIGINT or SIGTERM no further task is claimed; what is not done when the grace is over is given back
/// without counting the attempt. A second signal ends the grace.
#[derive(clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:\n  codeq worker run --events demo --exec 'jq .n'\n  \
    codeq worker run --events mail,sms --exec ./send.sh --concurrency 4 --lease-seconds 120"
)]
pub struct Run {
    /// Commands to claim, with commas between them.
    #[arg(long, value_name = "LIST")]
    events: Option<String>,
    /// What to run, by sh -c.
    #[arg(long, value_name = "COMMAND")]
    exec: Option<String>,
    /// Programs at a time.
    #[arg(long, default_value_t = 1, value_name = "N")]
    concurrency: usize,
    /// How long a task stays ours if we vanish.
    #[arg(long, default_value_t = 60, value_name = "N")]
    lease_seconds: u64,
    /// How long running programs may go on after the first signal.
    #[arg(long, default_value_t = 30, value_name = "N")]
    grace_seconds: u64,
}

impl Run {
    pub async fn run(self, settings: &Settings) -> anyhow::Result<()> {
        let commands = commands(self.events.as_deref())?;
        let Some(exec) = self.exec.filter(|exec| !exec.trim().is_empty()) else { bail!("exec is required") };
        let (token, kind) = settings.worker()?;
        let connection = Connection::new(token).http(settings.base_url());
        let mut worker = Worker::new(&connection)
            .concurrency(self.concurrency)
            .lease(Duration::from_secs(self.lease_seconds))
            .grace(Duration::from_secs(self.grace_seconds));
        let exec: Arc<str> = exec.into();
        for command in &commands {
            let exec = exec.clone();
            worker = worker.handle(command, move |job| handle(exec.clone(), job));
        }
        let level = logs::Level::Warn;
        let format = logs::Format::Text;
        logs::init(logs::LogOptions { level, format, env: "cli".into(), to_stderr: true });
        let interrupts = Interrupts::new()?;
        say!("{} Worker connected. Listening... (token: {kind})", tag::info());
        work(worker, interrupts).await
    }
}

/// Works until the first signal, then until all is done, or until the second.
async fn work(worker: Worker, mut interrupts: Interrupts) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    let mut running = Box::pin(worker.run_until(stop.clone().cancelled_owned()));
    tokio::select! {
        ended = &mut running => return Ok(ended?),
        () = interrupts.next() => {}
    }
    say!("{} Stopping...", tag::warn());
    stop.cancel();
    tokio::select! {
        ended = &mut running => Ok(ended?),
        () = interrupts.next() => {
            // Programs are stopped and tasks given back in the background.
            drop(running);
            tokio::time::sleep(GIVE_BACK).await;
            bail!("stopped before all programs had ended")
        }
    }
}

async fn handle(exec: Arc<str>, job: Job<Box<RawValue>>) -> Outcome {
    say!("{} Task claimed: {} ({})", tag::ok(), job.id, job.command);
    let end = child::run(&exec, &job).await;
    let (id, attempt) = (&job.id, job.attempt);
    match end {
        Ok(End::Exited { code: Some(0), stdout, .. }) => {
            say!("{} Task completed: {id}", tag::ok());
            Outcome::complete(result(&stdout))
        }
        Ok(End::Exited { code: Some(TRY_AGAIN), stderr, .. }) => {
            let reason = stderr.lines().next_back().unwrap_or("exit code 75").to_owned();
            say!("{} Task given back: {id} (attempt {attempt}): {reason}", tag::warn());
            Outcome::nack(reason)
        }
        Ok(End::Exited { code, stderr, .. }) => {
            let ending = code.map_or("killed by a signal".to_owned(), |code| format!("exit code {code}"));
            say!("{} Task failed: {id}: {ending}", tag::warn());
            Outcome::fail(if stderr.is_empty() { ending } else { stderr })
        }
        Ok(End::TooLong) => Outcome::fail(format!("printed more than {} bytes", child::STDOUT)),
        Ok(End::Cancelled) => {
            say!("{} Task stopped: {id}: it is not ours any more", tag::warn());
            Outcome::abandon()
        }
        Err(error) => {
            say!("{} Task given back: {id}: {error:#}", tag::warn());
            Outcome::nack(format!("{error:#}"))
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
