//! `codeq worker start`: claims tasks and does nothing with them, to see that they arrive.

use super::{Interrupts, commands};
use crate::client::{Api, Settings, path};
use crate::{say, tag};
use anyhow::bail;
use codeq_store::{Clock, SystemClock};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Between two complaints.
const QUIET: Duration = Duration::from_secs(3);

/// Claim tasks and acknowledge them without doing anything.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq worker start --events demo --ack complete\n  \
    codeq worker start --events demo,report --concurrency 4 --ack nack --nack-delay 30")]
pub struct Start {
    /// Commands to claim, with commas between them.
    #[arg(long, value_name = "LIST")]
    events: Option<String>,
    /// Tasks at a time.
    #[arg(long, default_value_t = 1, value_name = "N")]
    concurrency: u16,
    /// How long a task is ours.
    #[arg(long, default_value_t = 60, value_name = "N")]
    lease_seconds: i64,
    /// How long a claim waits for a task.
    #[arg(long, default_value_t = 10, value_name = "N")]
    wait_seconds: u64,
    /// What to do with a task: complete, abandon, nack or none.
    #[arg(long, default_value = "abandon")]
    ack: String,
    /// Delay of a nack.
    #[arg(long, default_value_t = 5, value_name = "SECONDS")]
    nack_delay: i64,
}

/// One line of claims and what they share with the others.
struct Line {
    api: Api,
    claim: Value,
    wait: Duration,
    ack: Option<&'static str>,
    nack_delay: i64,
    complained: Mutex<Option<Instant>>,
}

impl Start {
    pub async fn run(self, settings: &Settings) -> anyhow::Result<()> {
        let commands = commands(self.events.as_deref())?;
        let ack = match &*self.ack {
            "complete" => Some("result"),
            "abandon" => Some("abandon"),
            "nack" => Some("nack"),
            "none" => None,
            _ => bail!("ack must be one of: complete, abandon, nack, none"),
        };
        let (token, kind) = settings.worker()?;
        let line = Arc::new(Line {
            api: Api::new(&settings.base_url(), &token)?,
            claim: json!({
                "commands": commands, "leaseSeconds": self.lease_seconds, "waitSeconds": self.wait_seconds,
            }),
            wait: Duration::from_secs(self.wait_seconds),
            ack,
            nack_delay: self.nack_delay,
            complained: Mutex::new(None),
        });
        let mut interrupts = Interrupts::new()?;
        say!("{} Worker connected. Listening... (token: {kind})", tag::info());
        let mut lines = JoinSet::new();
        for _ in 0..self.concurrency.max(1) {
            lines.spawn(line.clone().run());
        }
        interrupts.next().await;
        say!("{} Stopping...", tag::warn());
        // A claim that is cut off here goes back with a refund: the server sees us leave.
        lines.shutdown().await;
        Ok(())
    }
}

impl Line {
    async fn run(self: Arc<Line>) {
        loop {
            if let Err(complaint) = self.claim().await {
                self.complain(&complaint);
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }

    /// One claim, and what follows from it. The error is a line for the user.
    async fn claim(&self) -> Result<(), String> {
        let answer = self.api.wait("/tasks/claim", &self.claim, self.wait).await;
        match answer.map_err(|error| format!("claim error: {error:#}"))? {
            (200, body) => {
                let task: Value =
                    serde_json::from_str(&body).map_err(|error| format!("claim error: {error}"))?;
                let text = |name: &str| task[name].as_str().unwrap_or_default().to_owned();
                say!("{} Task claimed: {} ({})", tag::ok(), text("id"), text("command"));
                self.acknowledge(&text("id"), &task["attempts"]).await
            }
            (204, _) => Ok(()),
            (status, body) => Err(format!("claim denied ({status}): {body}")),
        }
    }

    async fn acknowledge(&self, id: &str, attempt: &Value) -> Result<(), String> {
        let Some(verb) = self.ack else { return Ok(()) };
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
            (200..300, _) => Ok(()),
            (status, body) => Err(format!("{verb} denied ({status}): {body}")),
        }
    }

    fn complain(&self, complaint: &str) {
        let mut complained = self.complained.lock().expect("no one panics while complaining");
        if complained.is_none_or(|at| at.elapsed() >= QUIET) {
            *complained = Some(Instant::now());
            say!("{} {complaint}", tag::warn());
        }
    }
}
