//! `codeq task replay`.

use crate::client::{Api, path};
use crate::{say, tag};
use anyhow::{Context, bail};
use serde_json::{Value, json};

/// Put a task that has failed back into its queue, with a full set of attempts.
///
/// Dead letters, and tasks that failed for good or were cancelled. For many at once see `codeq dlq requeue`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq task replay 5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11\n  \
    codeq task replay 5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11 --max-attempts 10")]
pub struct Replay {
    /// Id of the task.
    id: String,
    /// Number of deliveries before it becomes a dead letter again [default: as before].
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Print the task as JSON.
    #[arg(long)]
    json: bool,
}

impl Replay {
    pub async fn run(self, api: &Api) -> anyhow::Result<()> {
        let task: Value = api.get(&path(&["tasks", &self.id])).await?;
        let command = task["command"].as_str().context("a task has a command")?;
        if task["status"] != "FAILED" {
            bail!("task {} has not failed: see `codeq task explain {}`", self.id, self.id);
        }
        let mut body = json!({});
        if let Some(number) = self.max_attempts {
            body["maxAttempts"] = json!(number);
        }
        let replayed: Value = api.post(&path(&["admin", "dlq", command, &self.id, "requeue"]), &body).await?;
        match self.json {
            true => say!("{replayed}"),
            false => say!("{} Task replayed: {}", tag::ok(), self.id),
        }
        Ok(())
    }
}
