//! `codeq worker start`: claims tasks and does nothing with them, to see that they arrive.

use super::sightings::Sightings;
use super::{Interrupts, Report, commands};
use crate::client::{Api, Settings, path, words};
use crate::{say, tag};
use anyhow::bail;
use codeq_store::{Clock, SystemClock};
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Between two complaints.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(3);

/// Claim tasks and acknowledge them without doing anything.
///
/// Shows that tasks arrive. By default every task is given back without counting the attempt, and a task that comes
/// back again and again is given back ever more slowly.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq worker start --command demo --ack complete\n  \
    codeq worker start --command demo,report --concurrency 4 --ack nack --nack-delay 30")]
pub struct Start {
    /// Commands to claim, with commas between them; may be repeated.
    #[arg(long = "command", aliases = ["events", "event"], value_name = "LIST")]
    commands: Vec<String>,
    /// Number of tasks to hold at a time.
    #[arg(long, default_value_t = 1, value_name = "N")]
    concurrency: u16,
    /// Seconds for which a claimed task is leased.
    #[arg(long, default_value_t = 60, value_name = "N")]
    lease_seconds: i64,
    /// Seconds for which a claim waits for a task.
    #[arg(long, default_value_t = 10, value_name = "N")]
    wait_seconds: u64,
    /// What to do with a task: complete, abandon, nack or none.
    #[arg(long, default_value = "abandon")]
    ack: String,
    /// Delay of a nack.
    #[arg(long, default_value_t = 5, value_name = "SECONDS")]
    nack_delay: i64,
    /// Print one JSON object per line instead of text.
    #[arg(long)]
    json: bool,
}

/// One line of claims and what they share with the others.
struct Line {
    api: Api,
    claim: Value,
    wait: Duration,
    ack: Option<&'static str>,
    nack_delay: i64,
    complained: Mutex<Option<Instant>>,
    seen: Mutex<Sightings>,
    is_connected: AtomicBool,
    /// Whose token it is.
    kind: &'static str,
    report: Report,
}

impl Start {
    pub async fn run(self, settings: &Settings) -> anyhow::Result<()> {
        let commands = commands(&self.commands)?;
        let ack = match &*self.ack {
            "complete" => Some("result"),
            "abandon" => Some("abandon"),
            "nack" => Some("nack"),
            "none" => None,
            _ => bail!("ack must be one of: complete, abandon, nack, none"),
        };
        let access = settings.worker()?;
        let report = Report { json: self.json };
        report.connecting(access.api.base(), access.kind);
        let (lease, wait) = (self.lease_seconds, self.wait_seconds);
        let mut claim = json!({"commands": commands, "leaseSeconds": lease, "waitSeconds": wait});
        if commands.len() > 1 {
            claim["order"] = json!("fair");
        }
        let line = Arc::new(Line {
            api: access.api,
            claim,
            wait: Duration::from_secs(self.wait_seconds),
            ack,
            nack_delay: self.nack_delay,
            complained: Mutex::new(None),
            seen: Mutex::default(),
            is_connected: AtomicBool::new(false),
            kind: access.kind,
            report,
        });
        let mut interrupts = Interrupts::new()?;
        let mut lines = JoinSet::new();
        for _ in 0..self.concurrency.max(1) {
            lines.spawn(line.clone().run());
        }
        interrupts.next().await;
        if !self.json {
            say!("{} Stopping...", tag::warn());
        }
        // A claim that is cut off here goes back with a refund: the server sees us leave.
        lines.shutdown().await;
        Ok(())
    }
}

impl Line {
    async fn run(self: Arc<Line>) {
        loop {
            match self.claim().await {
                Ok(pause) => tokio::time::sleep(pause).await,
                Err(complaint) => {
                    self.complain(&complaint);
                    tokio::time::sleep(RETRY_AFTER).await;
                }
            }
        }
    }

    /// One claim, and what follows from it: how long to rest. The error is a line for the user.
    ///
    /// Until one has succeeded claims do not wait, so that being connected is not told before it is true, nor long
    /// after.
    async fn claim(&self) -> Result<Duration, String> {
        let is_connected = self.is_connected.load(Ordering::Relaxed);
        let (mut claim, mut wait) = (self.claim.clone(), self.wait);
        if !is_connected {
            claim["waitSeconds"] = json!(0);
            wait = Duration::ZERO;
        }
        let answer = self.api.wait("/tasks/claim", &claim, wait).await;
        match answer.map_err(|error| format!("claim error: {error:#}"))? {
            (200, body) => {
                self.connected();
                let task: Value =
                    serde_json::from_str(&body).map_err(|error| format!("claim error: {error}"))?;
                let text = |name: &str| task[name].as_str().unwrap_or_default().to_owned();
                self.report.claimed(&text("id"), &text("command"));
                self.acknowledge(&text("id"), &task["attempts"]).await
            }
            (204, _) => {
                self.connected();
                Ok(Duration::ZERO)
            }
            (status, body) => Err(format!("claim denied ({status}): {}", told(&body))),
        }
    }

    fn connected(&self) {
        if !self.is_connected.swap(true, Ordering::Relaxed) {
            self.report.connected(self.kind);
        }
    }

    async fn acknowledge(&self, id: &str, attempt: &Value) -> Result<Duration, String> {
        let Some(verb) = self.ack else { return Ok(Duration::ZERO) };
        let mut body = match verb {
            "result" => {
                let now = SystemClock.now().to_utc();
                json!({"status": "COMPLETED", "result": {"handledBy": "codeq", "ts": now}})
            }
            "nack" => json!({"delaySeconds": self.nack_delay, "reason": "codeq"}),
            _ => json!({"refund": true}),
        };
        body["attempt"] = attempt.clone();
        let answer = self.api.wait(&path(&["tasks", id, verb]), &body, Duration::ZERO).await;
        match answer.map_err(|error| format!("{verb} error: {error:#}"))? {
            (200..300, _) if verb == "abandon" => {
                let mut seen = self.seen.lock().expect("no one panics holding it");
                Ok(seen.pause_after(id))
            }
            (200..300, _) => Ok(Duration::ZERO),
            (status, body) => Err(format!("{verb} denied ({status}): {}", told(&body))),
        }
    }

    fn complain(&self, complaint: &str) {
        let mut complained = self.complained.lock().expect("no one panics while complaining");
        if complained.is_none_or(|at| at.elapsed() >= COMPLAINT_INTERVAL) {
            *complained = Some(Instant::now());
            self.report.warn(complaint);
        }
    }
}

/// Warnings go to stdout, among what was claimed.
fn told(body: &str) -> String {
    words(body, std::io::stdout().is_terminal())
}
