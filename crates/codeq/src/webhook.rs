//! `codeq webhook`: result callbacks that wait or were given up.

use crate::client::{Api, Connection, block_on, path};
use crate::table::Table;
use crate::{say, tag, terminal};
use anyhow::bail;
use clap::Subcommand;
use serde_json::{Value, json};

/// List result callbacks, and redeliver those that failed.
#[derive(clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  codeq webhook list --state failed\n  codeq webhook redeliver --all-failed"
)]
pub struct Webhook {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    List(List),
    Redeliver(Redeliver),
}

/// List callbacks that wait for delivery or have failed.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq webhook list\n  codeq webhook list --state failed --json")]
struct List {
    /// Which callbacks: pending or failed.
    #[arg(long, default_value = "pending", value_parser = ["pending", "failed"])]
    state: String,
    /// Only callbacks of this task.
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// Maximum number of callbacks to list.
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: usize,
    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

/// Redeliver failed callbacks now.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq webhook redeliver 0f8d3c1a5b7e4f60a1b2c3d4e5f60718\n  \
    codeq webhook redeliver --all-failed --task 5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11\n  \
    codeq webhook redeliver --all-failed --yes")]
struct Redeliver {
    /// Ids of failed callbacks.
    ids: Vec<String>,
    /// Redeliver every callback that has failed.
    #[arg(long, conflicts_with = "ids")]
    all_failed: bool,
    /// With --all-failed: only callbacks of this task.
    #[arg(long, value_name = "ID", requires = "all_failed")]
    task: Option<String>,
    /// Do not ask for confirmation.
    #[arg(long, short)]
    yes: bool,
    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

impl Webhook {
    pub fn run(self, front: &Connection) -> anyhow::Result<()> {
        let api = self.connection.or(front).settings()?.producer()?;
        block_on(async {
            match self.verb {
                Verb::List(list) => list.run(&api).await,
                Verb::Redeliver(redeliver) => redeliver.run(&api).await,
            }
        })
    }
}

async fn deliveries(
    api: &Api,
    state: &str,
    task: Option<String>,
    limit: usize,
) -> anyhow::Result<(Vec<Value>, bool)> {
    let mut pairs = vec![("state".to_owned(), state.to_owned())];
    pairs.extend(task.map(|task| ("taskId".to_owned(), task)));
    let mut found = Vec::new();
    let has_more = api.list("/admin/webhooks", &pairs, limit, |items| found.extend(items)).await?;
    Ok((found, has_more))
}

impl List {
    async fn run(self, api: &Api) -> anyhow::Result<()> {
        let (found, has_more) = deliveries(api, &self.state, self.task, self.limit).await?;
        match (self.json, found.is_empty()) {
            (true, _) => say!("{}", Value::from(found)),
            (false, true) => say!("no {} callbacks", self.state),
            (false, false) => terminal::print(&table(&found).to_string()),
        }
        if has_more {
            eprintln!("there are more: raise --limit");
        }
        Ok(())
    }
}

fn table(deliveries: &[Value]) -> Table {
    let mut table = Table::new(&["ID", "TASK", "STATE", "ATTEMPTS", "NEXT ATTEMPT", "URL", "LAST ERROR"]);
    for delivery in deliveries {
        let text = |name: &str| delivery[name].as_str().unwrap_or_default().to_owned();
        let next = match delivery["nextAttemptAt"].as_str() {
            Some(at) => at.chars().take(19).collect(),
            None => "-".into(),
        };
        let attempts = delivery["attempts"].to_string();
        table.row(vec![
            text("id"),
            text("taskId"),
            text("state"),
            attempts,
            next,
            text("url"),
            text("lastError"),
        ]);
    }
    table
}

impl Redeliver {
    async fn run(self, api: &Api) -> anyhow::Result<()> {
        let ids = match self.all_failed {
            true => {
                let (found, _) = deliveries(api, "failed", self.task, usize::MAX).await?;
                let ids: Vec<String> =
                    found.iter().filter_map(|delivery| delivery["id"].as_str()).map(str::to_owned).collect();
                if !ids.is_empty() {
                    terminal::confirm(&format!("redeliver {} failed callbacks", ids.len()), self.yes)?;
                }
                ids
            }
            false if self.ids.is_empty() => bail!("give the id of a callback, or --all-failed"),
            false => self.ids,
        };
        let mut done = Vec::new();
        for id in &ids {
            let delivery: Value =
                api.post(&path(&["admin", "webhooks", id, "redeliver"]), &json!({})).await?;
            done.push(delivery);
        }
        match self.json {
            true => say!("{}", Value::from(done)),
            false => say!("{} Redelivering {}", tag::ok(), crate::table::plural(done.len(), "callback")),
        }
        Ok(())
    }
}
