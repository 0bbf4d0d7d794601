//! Changing many tasks at once: count, ask, start, follow to the end.
//!
//! The server does the work and remembers its progress; to stop watching does not stop the work.

use crate::client::{Api, Connection, Refused, block_on, path};
use crate::table::{Table, plural};
use crate::{say, tag, terminal};
use anyhow::bail;
use clap::Subcommand;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long a server may be away while we watch; the operation goes on when it is back.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(clap::Args, Clone)]
pub struct Care {
    /// Only print how many tasks would change.
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask for confirmation.
    #[arg(long, short)]
    pub yes: bool,
    /// Print the operation as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Words for what is done.
pub struct Deed {
    /// `requeue`
    pub verb: &'static str,
    /// `Requeued`
    pub done: &'static str,
    /// One of them: `dead letter`.
    pub noun: &'static str,
    /// The command, where it is one.
    pub command: Option<String>,
}

impl Deed {
    /// `2 dead letters of demo`
    fn what(&self, count: u64) -> String {
        let of = self.command.as_ref().map(|command| format!(" of {command}")).unwrap_or_default();
        format!("{}{of}", plural(count, self.noun))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    pub id: String,
    pub kind: String,
    pub state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matched: Option<u64>,
    pub processed: u64,
    pub failed: u64,
    pub created_at: String,
    pub updated_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What it is about; shown as it came.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

#[derive(Deserialize)]
pub struct Matched {
    pub matched: u64,
}

/// Asks, and does it. `start` is not called unless it is to be done.
pub async fn perform(
    api: &Api,
    care: &Care,
    deed: Deed,
    matched: u64,
    start: impl AsyncFnOnce() -> anyhow::Result<Operation>,
) -> anyhow::Result<()> {
    let (verb, what) = (deed.verb, deed.what(matched));
    if care.dry_run {
        match care.json {
            true => say!("{}", serde_json::json!({"matched": matched})),
            false => say!("{} Would {verb} {what}", tag::info()),
        }
        return Ok(());
    }
    if matched > 0 {
        terminal::confirm(&format!("{verb} {what}"), care.yes)?;
    }
    let started = start().await?;
    conclude(follow(api, started, matched).await?, &deed, care.json)
}

/// Says how it ended.
fn conclude(operation: Operation, deed: &Deed, json: bool) -> anyhow::Result<()> {
    if json {
        say!("{}", serde_json::to_string(&operation)?);
    }
    if operation.state != "done" {
        bail!("operation {} {}: {}", operation.id, operation.state, operation.error.unwrap_or_default());
    }
    if !json {
        say!("{} {} {}", tag::ok(), deed.done, deed.what(operation.processed));
    }
    match operation.failed {
        0 => Ok(()),
        failed => {
            let reason = operation.error.map(|error| format!(", {error}")).unwrap_or_default();
            bail!("{failed} could not be changed{reason} (operation {})", operation.id)
        }
    }
}

/// Watches until it has ended.
async fn follow(api: &Api, mut operation: Operation, expected: u64) -> anyhow::Result<Operation> {
    let bar = bar(&operation, expected);
    let path = path(&["admin", "operations", &operation.id]);
    let mut seen = Instant::now();
    while operation.state == "running" {
        tokio::time::sleep(LOOK_EVERY).await;
        match api.get(&path).await {
            Ok(now) => {
                operation = now;
                seen = Instant::now();
            }
            Err(error) if is_final(&error) || seen.elapsed() > PATIENCE => return Err(error),
            Err(_) => {}
        }
        if let Some(matched) = operation.matched {
            bar.set_length(matched);
        }
        bar.set_position(operation.processed + operation.failed);
    }
    bar.finish_and_clear();
    Ok(operation)
}

/// Whether asking again is of no use.
fn is_final(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refused>().is_some_and(|refused| refused.status < 500 && refused.status != 429)
}

/// Drawn on a terminal only.
fn bar(operation: &Operation, expected: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(expected), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {rate} eta {eta}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    let rate = |state: &ProgressState, out: &mut dyn Write| {
        let _ = out.write_str(&per_second(state.per_sec()));
    };
    bar.set_style(style.with_key("rate", rate));
    bar.set_message(format!("operation {}", operation.id));
    bar
}

/// `0.4/s`, `96/s`.
fn per_second(rate: f64) -> String {
    match rate {
        rate if rate < 10.0 => format!("{rate:.1}/s"),
        rate => format!("{rate:.0}/s"),
    }
}

/// List and stop bulk operations.
///
/// Cancelling, requeueing and deleting many tasks runs on the server and survives restarts.
#[derive(clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  codeq operation list\n  codeq operation cancel 0f8d3c1a5b7e4f60a1b2c3d4e5f60718"
)]
pub struct Operations {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List bulk operations, newest first.
    #[command(after_help = "Examples:\n  codeq operation list\n  codeq operation list --json")]
    List {
        /// Maximum number of operations to list.
        #[arg(long, default_value_t = 50, value_name = "N")]
        limit: usize,
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Stop a bulk operation; what it has changed stays changed.
    #[command(after_help = "Example:\n  codeq operation cancel 0f8d3c1a5b7e4f60a1b2c3d4e5f60718")]
    Cancel {
        /// Id of the operation.
        id: String,
        /// Print the operation as JSON.
        #[arg(long)]
        json: bool,
    },
}

impl Operations {
    pub fn run(self, front: &Connection) -> anyhow::Result<()> {
        let api = self.connection.or(front).settings()?.producer()?;
        block_on(async {
            match self.verb {
                Verb::List { limit, json } => list(&api, limit, json).await,
                Verb::Cancel { id, json } => cancel(&api, &id, json).await,
            }
        })
    }
}

async fn list(api: &Api, limit: usize, json: bool) -> anyhow::Result<()> {
    let mut found = Vec::new();
    let has_more = api.list("/admin/operations", &[], limit, |items| found.extend(items)).await?;
    match (json, found.is_empty()) {
        (true, _) => say!("{}", Value::from(found)),
        (false, true) => say!("no operations"),
        (false, false) => terminal::print(&table(&found).to_string()),
    }
    if has_more {
        eprintln!("there are more: raise --limit");
    }
    Ok(())
}

fn table(operations: &[Value]) -> Table {
    let head = ["ID", "KIND", "STATE", "DONE", "FAILED", "MATCHED", "STARTED", "BY", "ABOUT", "ERROR"];
    let mut table = Table::new(&head);
    for operation in operations {
        let text = |name: &str| operation[name].as_str().unwrap_or_default().to_owned();
        let number =
            |name: &str| operation[name].as_u64().map_or("-".to_owned(), |number| number.to_string());
        let started = text("createdAt").chars().take(19).collect();
        let counts = [number("processed"), number("failed"), number("matched")];
        let [done, failed, matched] = counts;
        table.row(vec![
            text("id"),
            text("kind"),
            text("state"),
            done,
            failed,
            matched,
            started,
            text("by"),
            about(operation),
            text("error"),
        ]);
    }
    table
}

/// `command=mail place=dead cause=timeout after <n> s`
fn about(operation: &Value) -> String {
    let filter = operation["filter"].as_object().into_iter().flatten();
    let cause = operation["cause"].as_str();
    let filter = filter.filter(|(name, _)| cause.is_none() || *name != "group");
    let mut words: Vec<String> =
        filter.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default())).collect();
    words.extend(cause.map(|cause| format!("cause={cause}")));
    words.join(" ")
}

async fn cancel(api: &Api, id: &str, json: bool) -> anyhow::Result<()> {
    let operation: Value = api.post(&path(&["admin", "operations", id, "cancel"]), &json!({})).await?;
    match json {
        true => say!("{operation}"),
        false => say!("{} Operation {id} is {}", tag::ok(), operation["state"].as_str().unwrap_or_default()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_says_what_it_is_about() {
        let filter = json!({"command": "mail", "group": "00ff", "place": "dead"});
        let told = about(&json!({"filter": filter, "cause": "timeout after <n> s"}));
        assert_eq!(told, "command=mail place=dead cause=timeout after <n> s");
        assert_eq!(about(&json!({"filter": {"group": "00ff"}})), "group=00ff");
    }

    #[test]
    fn rates_are_short() {
        assert_eq!([0.0, 9.55, 95.8342, 12_345.6].map(per_second), ["0.0/s", "9.6/s", "96/s", "12346/s"]);
    }
}
