//! `codeq task list`, and how lists of tasks are shown.

use crate::client::Api;
use crate::filter::{Filter, Pairs};
use crate::table::Table;
use crate::terminal;
use serde_json::Value;

/// List tasks, newest first.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq task list --command demo --place dead\n  \
    codeq task list --error timeout --created-after 2026-03-01T00:00:00Z\n  \
    codeq task list --header origin=upload --all --json\n  \
    codeq task list --tag invoice --payload-contains '\"customer\": 7'")]
pub struct List {
    /// Only tasks whose payload contains this text. Payloads are looked at one by one, which takes a while.
    #[arg(long, value_name = "TEXT")]
    payload_contains: Option<String>,
    /// List the oldest tasks first.
    #[arg(long)]
    oldest: bool,
    #[command(flatten)]
    listing: Listing,
    // Last: what follows it would stand under its heading.
    #[command(flatten)]
    filter: Filter,
}

/// How much of a list, and how it is shown.
#[derive(clap::Args)]
pub struct Listing {
    /// Maximum number of tasks to list.
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: usize,
    /// List all tasks.
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Print a JSON array.
    #[arg(long)]
    json: bool,
    /// List tasks of this tenant, or '*' for all (operators only).
    #[arg(long)]
    tenant: Option<String>,
}

impl List {
    pub async fn run(self, api: &Api) -> anyhow::Result<()> {
        let mut pairs = self.filter.pairs()?;
        pairs.extend(self.payload_contains.map(|text| ("payloadContains".into(), text)));
        if self.oldest {
            pairs.push(("order".into(), "oldest".into()));
        }
        self.listing.show(api, "/admin/tasks", pairs).await
    }
}

impl Listing {
    pub async fn show(self, api: &Api, path: &str, mut pairs: Pairs) -> anyhow::Result<()> {
        pairs.extend(self.tenant.map(|tenant| ("tenant".into(), tenant)));
        let limit = if self.all { usize::MAX } else { self.limit };
        let mut shown = 0;
        let take = |items: Vec<Value>| {
            let text = if self.json { as_json(&items, shown == 0) } else { as_table(&items, shown == 0) };
            shown += items.len();
            terminal::print(&text);
        };
        let has_more = api.list(path, &pairs, limit, take).await?;
        match (self.json, shown) {
            (true, 0) => terminal::print("[]\n"),
            (true, _) => terminal::print("\n]\n"),
            (false, 0) if limit > 0 => terminal::print("no tasks\n"),
            (false, _) => {}
        }
        if has_more {
            eprintln!("there are more: raise --limit or pass --all");
        }
        Ok(())
    }
}

/// The items of a page, in an array that is still open.
fn as_json(items: &[Value], is_first: bool) -> String {
    let items: Vec<String> = items.iter().map(Value::to_string).collect();
    format!("{}{}", if is_first { "[\n" } else { ",\n" }, items.join(",\n"))
}

fn as_table(items: &[Value], is_first: bool) -> String {
    let mut table = Table::new(&["ID", "COMMAND", "STATE", "ATTEMPTS", "CREATED", "WORKER", "ERROR"]);
    for task in items {
        let text = |name: &str| task[name].as_str().unwrap_or_default().to_owned();
        // A completed task keeps the error of an earlier attempt.
        let error = if task["status"] == "COMPLETED" { String::new() } else { text("error") };
        let created = text("createdAt").chars().take(19).collect();
        let (id, command, worker) = (text("id"), text("command"), text("workerId"));
        table.row(vec![id, command, state(task).into(), attempts(task), created, worker, error]);
    }
    let lines = table.lines();
    lines[usize::from(!is_first)..].iter().map(|line| format!("{line}\n")).collect()
}

/// Attempts that count, of how many. Refunded ones do not, and a replay refunds all that went before.
fn attempts(task: &Value) -> String {
    let number = |name: &str| task[name].as_u64().unwrap_or(0);
    let counted = number("attempts").saturating_sub(number("refunds"));
    match number("maxAttempts") {
        0 => counted.to_string(),
        most => format!("{counted}/{most}"),
    }
}

/// The state of a task in one word.
fn state(task: &Value) -> &str {
    match (task["lastKnownLocation"].as_str(), task["status"].as_str()) {
        (Some("PENDING_LIST"), _) => "ready",
        (Some("DELAYED_ZSET"), _) => "delayed",
        (Some("INPROG_SET"), _) => "running",
        (Some("DLQ_SET"), _) => "dead",
        (Some("HELD_SET"), _) => "held",
        (_, Some("COMPLETED")) => "completed",
        (_, Some("FAILED")) => "failed",
        (_, other) => other.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A worker that only looked showed `2930/5`, and a replayed task `2/1`.
    #[test]
    fn attempts_are_those_that_count() {
        assert_eq!(attempts(&json!({"attempts": 2930, "refunds": 2929, "maxAttempts": 5})), "1/5");
        assert_eq!(attempts(&json!({"attempts": 2, "refunds": 1, "maxAttempts": 1})), "1/1");
        assert_eq!(attempts(&json!({})), "0");
    }

    #[test]
    fn a_task_that_waits_for_others_is_held() {
        assert_eq!(state(&json!({"status": "PENDING", "lastKnownLocation": "HELD_SET"})), "held");
    }

    #[test]
    fn a_completed_task_shows_no_old_error() {
        let task =
            json!({"id": "i", "command": "c", "status": "COMPLETED", "attempts": 2, "error": "timeout"});
        assert!(!as_table(&[task], true).contains("timeout"));
    }
}
