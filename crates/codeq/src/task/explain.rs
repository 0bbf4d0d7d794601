//! `codeq task explain`.

use crate::client::{Api, path};
use crate::say;
use crate::table::one_line;
use serde_json::Value;

/// Say in words where a task is, why, and what happens next.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  codeq task explain 5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11")]
pub struct Explain {
    /// Id of the task.
    id: String,
    /// Print the answer of the server as JSON.
    #[arg(long)]
    json: bool,
}

impl Explain {
    pub async fn run(self, api: &Api) -> anyhow::Result<()> {
        let answer = api.get_text(&path(&["admin", "tasks", &self.id, "explain"])).await?;
        if self.json {
            say!("{answer}");
            return Ok(());
        }
        let explained: Value = crate::client::read(&answer)?;
        let text = |value: &Value| one_line(value.as_str().unwrap_or_default());
        say!("{}", text(&explained["summary"]));
        for reason in explained["reasons"].as_array().into_iter().flatten() {
            say!("  {}: {}", text(&reason["code"]), text(&reason["text"]));
        }
        if let Some(at) = explained["nextChangeAt"].as_str() {
            say!("  next change: {at}");
        }
        Ok(())
    }
}
