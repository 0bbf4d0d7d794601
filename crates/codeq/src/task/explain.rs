//! `codeq task explain`.

use crate::client::{Api, path};
use crate::say;
use crate::table::one_line;
use serde_json::Value;

/// Explain where a task is, why, and what happens next.
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
        lines(&explained).iter().for_each(|line| say!("{line}"));
        Ok(())
    }
}

/// The state and the summary, then what other reasons add to it.
fn lines(explained: &Value) -> Vec<String> {
    let text = |value: &Value| one_line(value.as_str().unwrap_or_default());
    let summary = text(&explained["summary"]);
    let mut lines = vec![format!("{}: {summary}", text(&explained["state"]))];
    for reason in explained["reasons"].as_array().into_iter().flatten() {
        let reason = text(&reason["text"]);
        if reason != summary {
            lines.push(format!("  {reason}"));
        }
    }
    lines.extend(explained["nextChangeAt"].as_str().map(|at| format!("  next change: {at}")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The summary is the text of the first reason, and was printed twice.
    #[test]
    fn every_sentence_is_printed_once() {
        let reasons =
            json!([{"code": "queued", "text": "It is first."}, {"code": "queue_paused", "text": "Paused."}]);
        let explained = json!({"state": "ready", "summary": "It is first.", "reasons": reasons});
        assert_eq!(lines(&explained), ["ready: It is first.", "  Paused."]);
    }
}
