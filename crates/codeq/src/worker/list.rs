//! `codeq worker list`: who works.

use crate::client::Api;
use crate::table::Table;
use crate::{say, terminal};
use serde_json::Value;

/// List the workers that claimed or reported within the last five minutes.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq worker list\n  codeq worker list --json")]
pub struct List {
    /// Workers of this tenant, or '*' for all (operators only).
    #[arg(long)]
    tenant: Option<String>,
    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

impl List {
    pub async fn run(self, api: &Api) -> anyhow::Result<()> {
        let workers = seen(api, self.tenant.as_deref()).await?;
        match (self.json, workers.is_empty()) {
            (true, _) => say!("{}", Value::from(workers)),
            (false, true) => say!("no worker was heard of within the last five minutes"),
            (false, false) => terminal::print(&table(&workers).to_string()),
        }
        Ok(())
    }
}

/// The workers of a tenant, or of all.
pub async fn seen(api: &Api, tenant: Option<&str>) -> anyhow::Result<Vec<Value>> {
    let of = tenant.map(|tenant| format!("?tenant={}", crate::client::encoded(tenant)));
    let found: Value = api.get(&format!("/admin/workers{}", of.unwrap_or_default())).await?;
    Ok(found["items"].as_array().cloned().unwrap_or_default())
}

pub fn table(workers: &[Value]) -> Table {
    let mut table =
        Table::new(&["WORKER", "SUB", "OVER", "RUNNING", "SLOTS", "SDK", "COMMANDS", "LAST SEEN"]);
    for worker in workers {
        let text = |name: &str| worker[name].as_str().unwrap_or("-").to_owned();
        let sdk = match worker["version"].as_str() {
            Some(version) => format!("{} {version}", text("sdk")),
            None => text("sdk"),
        };
        let commands = worker["commands"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let commands = commands.collect::<Vec<_>>().join(",");
        table.row(vec![
            text("worker"),
            text("sub"),
            text("protocol"),
            worker["runningCount"].to_string(),
            worker["slots"].as_i64().map_or("-".into(), |slots| slots.to_string()),
            sdk,
            if commands.is_empty() { "*".into() } else { commands },
            text("lastSeenAt").chars().take(19).collect(),
        ]);
    }
    table
}
