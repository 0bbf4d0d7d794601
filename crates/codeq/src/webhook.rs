//! `codeq webhook`: result callbacks that wait, were given up or were delivered lately.

use crate::client::{Api, Connection, block_on, path};
use crate::table::{Table, plural};
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

/// List callbacks that wait for delivery, have failed or were delivered lately.
///
/// Delivered ones are remembered by the server process that sent them, up to 500 of a tenant, until it restarts.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq webhook list\n  codeq webhook list --state failed --json")]
struct List {
    /// Which callbacks: pending, failed or delivered.
    #[arg(long, default_value = "pending", value_parser = ["pending", "failed", "delivered"])]
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
    let head = ["ID", "TASK", "STATE", "ATTEMPTS", "NEXT ATTEMPT", "RESPONSE", "URL", "LAST ERROR"];
    let mut table = Table::new(&head);
    for delivery in deliveries {
        let text = |name: &str| delivery[name].as_str().unwrap_or_default().to_owned();
        let next = match delivery["nextAttemptAt"].as_str() {
            Some(at) => at.chars().take(19).collect(),
            None => "-".into(),
        };
        let attempts = delivery["attempts"].to_string();
        let response =
            delivery["responseStatus"].as_u64().map_or_else(|| "-".into(), |status| status.to_string());
        table.row(vec![
            text("id"),
            text("taskId"),
            text("state"),
            attempts,
            next,
            response,
            text("url"),
            text("lastError"),
        ]);
    }
    table
}

impl Redeliver {
    async fn run(self, api: &Api) -> anyhow::Result<()> {
        if self.all_failed {
            return self.run_all(api).await;
        }
        if self.ids.is_empty() {
            bail!("give the id of a callback, or --all-failed");
        }
        let mut done = Vec::new();
        for id in &self.ids {
            let delivery: Value =
                api.post(&path(&["admin", "webhooks", id, "redeliver"]), &json!({})).await?;
            done.push(delivery);
        }
        match self.json {
            true => say!("{}", Value::from(done)),
            false => say!("{} Redelivering {}", tag::ok(), plural(done.len(), "callback")),
        }
        Ok(())
    }

    async fn run_all(self, api: &Api) -> anyhow::Result<()> {
        let (found, _) = deliveries(api, "failed", self.task.clone(), usize::MAX).await?;
        if !found.is_empty() {
            terminal::confirm(&format!("redeliver {}", plural(found.len(), "failed callback")), self.yes)?;
        }
        let mut body = json!({});
        if let Some(task) = &self.task {
            body["taskId"] = json!(task);
        }
        let mut redelivered = 0;
        // Callbacks that fail meanwhile are not waited for: no more calls than what was found needs.
        for _ in 0..=found.len() / REDELIVERED_AT_ONCE {
            let Redelivered { redelivered: some, has_more } =
                api.post(&path(&["admin", "webhooks", "redeliver"]), &body).await?;
            redelivered += some;
            if !has_more {
                break;
            }
        }
        match self.json {
            true => say!("{}", json!({"redelivered": redelivered})),
            false => say!("{} Redelivering {}", tag::ok(), plural(redelivered, "callback")),
        }
        Ok(())
    }
}

/// Callbacks that one call of the server makes due again.
const REDELIVERED_AT_ONCE: usize = 1_000;

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Redelivered {
    redelivered: usize,
    has_more: bool,
}
