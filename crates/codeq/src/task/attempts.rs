//! `codeq task attempts`.

use crate::client::{Api, path};
use crate::table::Table;
use crate::{say, terminal};
use serde_json::Value;

/// List the attempts of a task: its worker, how long it took, and how it ended.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  codeq task attempts 5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11")]
pub struct Attempts {
    /// Id of the task.
    id: String,
    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

impl Attempts {
    pub async fn run(self, api: &Api) -> anyhow::Result<()> {
        let answer: Value = api.get(&path(&["admin", "tasks", &self.id, "attempts"])).await?;
        let items = answer["items"].as_array().cloned().unwrap_or_default();
        match (self.json, items.is_empty()) {
            (true, _) => say!("{}", Value::from(items)),
            (false, true) => say!("no attempts"),
            (false, false) => terminal::print(&table(&items).to_string()),
        }
        Ok(())
    }
}

fn table(items: &[Value]) -> Table {
    let mut table = Table::new(&["ATTEMPT", "WORKER", "CLAIMED", "ENDED", "OUTCOME", "ERROR"]);
    for attempt in items {
        let text = |name: &str, default: &str| attempt[name].as_str().unwrap_or(default).to_owned();
        let time = |name: &str| text(name, "-").chars().take(19).collect::<String>();
        let outcome = text("outcome", "running");
        let number = attempt["attempt"].to_string();
        let (claimed, ended) = (time("claimedAt"), time("endedAt"));
        table.row(vec![number, text("workerId", ""), claimed, ended, outcome, text("error", "")]);
    }
    table
}
