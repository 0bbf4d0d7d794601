//! `codeq dlq groups` and `codeq failed groups`, and the command of a group.

use super::Ended;
use crate::client::{Api, path, query};
use crate::command::CommandName;
use crate::table::Table;
use crate::{say, terminal};
use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::Value;

/// List dead letters grouped by cause, the most frequent first.
///
/// Errors that differ only in numbers, ids, addresses or quoted text are grouped together.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq dlq groups\n  codeq dlq groups demo --json")]
pub struct Groups {
    #[command(flatten)]
    of: CommandName,
    /// Print a JSON array.
    #[arg(long)]
    json: bool,
    /// Dead letters of this tenant, or '*' for all (operators only).
    #[arg(long)]
    tenant: Option<String>,
}

#[derive(Deserialize)]
struct Answer {
    groups: Vec<Value>,
    truncated: bool,
}

impl Groups {
    pub async fn run(self, api: &Api) -> anyhow::Result<()> {
        show(api, Ended::Dead, self.of.name(), self.tenant.as_deref(), self.json).await
    }
}

/// The causes of what has ended so.
pub async fn show(
    api: &Api,
    of: Ended,
    command: Option<String>,
    tenant: Option<&str>,
    json: bool,
) -> anyhow::Result<()> {
    let Answer { groups, truncated } =
        read(api, of, command.as_deref().unwrap_or("*"), &scope(tenant)).await?;
    match (json, groups.is_empty()) {
        (true, _) => say!("{}", Value::from(groups)),
        (false, true) => say!("no {}s", of.noun()),
        (false, false) => terminal::print(&table(&groups).to_string()),
    }
    if truncated {
        eprintln!("there are more groups than these: name a command");
    }
    Ok(())
}

fn table(groups: &[Value]) -> Table {
    let mut table = Table::new(&["GROUP", "COUNT", "COMMAND", "LAST SEEN", "EXAMPLE", "ERROR"]);
    for group in groups {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        table.row(vec![
            text(&group["group"]),
            group["count"].to_string(),
            text(&group["command"]),
            text(&group["lastSeen"]).chars().take(19).collect(),
            text(&group["examples"][0]),
            text(&group["error"]),
        ]);
    }
    table
}

pub fn scope(tenant: Option<&str>) -> String {
    query(&tenant.map(|tenant| ("tenant".to_owned(), tenant.to_owned())).into_iter().collect::<Vec<_>>())
}

async fn read(api: &Api, of: Ended, command: &str, scope: &str) -> anyhow::Result<Answer> {
    api.get(&format!("{}{scope}", path(&["admin", of.route(), command, "groups"]))).await
}

/// The command that is meant: the one that was given, or the one of the group.
pub async fn command_of(
    api: &Api,
    of: Ended,
    given: Option<String>,
    group: Option<&str>,
    scope: &str,
) -> anyhow::Result<String> {
    match (given, group) {
        (Some(command), _) => Ok(command),
        (None, None) => bail!("give a command or --group (see `codeq {} groups`)", of.route()),
        (None, Some(group)) => {
            let groups = read(api, of, "*", scope).await?.groups;
            let found = groups.into_iter().find(|found| found["group"] == group);
            let missing = || format!("there is no group {group:?}: see `codeq {} groups`", of.route());
            let found = found.with_context(missing)?;
            found["command"].as_str().map(str::to_owned).context("a group has a command")
        }
    }
}
