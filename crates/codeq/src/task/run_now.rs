//! `codeq task run-now`.

use crate::client::{Api, path};
use crate::{say, tag};
use serde_json::{Value, json};

/// Make a task that waits for a delay or a retry ready at once.
///
/// A ready task stays as it is. Held, running and ended tasks are refused.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  codeq task run-now 5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11")]
pub struct RunNow {
    /// Id of the task.
    id: String,
    /// Print the task as JSON.
    #[arg(long)]
    json: bool,
}

impl RunNow {
    pub async fn run(self, api: &Api) -> anyhow::Result<()> {
        let task: Value = api.post(&path(&["admin", "tasks", &self.id, "run-now"]), &json!({})).await?;
        match self.json {
            true => say!("{task}"),
            false => say!("{} Task is ready: {}", tag::ok(), self.id),
        }
        Ok(())
    }
}
