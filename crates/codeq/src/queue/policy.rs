//! `codeq queue policy` and `codeq queue lanes`: what restricts a queue.

use crate::client::{Api, path, query};
use crate::command::CommandName;
use crate::table::Table;
use crate::{say, tag, terminal};
use anyhow::Context;
use clap::Subcommand;
use codeq_api::policy::{LaneBody, LanesBody};
use reqwest::Method;
use serde_json::Value;

/// Limits of a queue: running tasks, starts per time, lanes, defaults.
#[derive(clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  codeq queue policy set demo '{\"concurrency\":5}'\n  codeq queue policy get demo\n  \
                  codeq queue policy delete demo"
)]
pub struct Policy {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Print the policy of a queue.
    #[command(after_help = "Example:\n  codeq queue policy get demo")]
    Get(Named),
    /// Replace the policy of a queue.
    #[command(
        after_help = "Examples:\n  codeq queue policy set demo '{\"rate\":{\"limit\":5,\"periodSeconds\":1}}'\n  \
                            codeq queue policy set demo @policy.json"
    )]
    Set {
        #[command(flatten)]
        queue: Named,
        /// The policy as JSON, '@FILE' to read it from a file, or '-' for standard input.
        policy: Option<String>,
    },
    /// Remove the policy of a queue.
    #[command(after_help = "Example:\n  codeq queue policy delete demo")]
    Delete(Named),
}

#[derive(clap::Args)]
struct Named {
    #[command(flatten)]
    of: CommandName,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Policy {
    pub async fn run(self, api: &Api) -> anyhow::Result<()> {
        match self.verb {
            Verb::Get(queue) => {
                let policy: Value = api.get(&place(&queue.of.required()?)).await?;
                print(&policy, queue.json)
            }
            Verb::Set { queue, policy } => {
                let command = queue.of.required()?;
                let policy = policy.context("policy is required")?;
                let text = crate::task::read_payload(policy)?;
                let policy: Value = serde_json::from_str(&text).context("invalid policy JSON")?;
                let request = api.request(Method::PUT, &place(&command)).body(policy.to_string());
                let stored: Value = serde_json::from_str(&api.text(request).await?)?;
                if queue.json {
                    return print(&stored, true);
                }
                say!("{} Policy of {command} is set: version {}", tag::ok(), stored["version"]);
                Ok(())
            }
            Verb::Delete(queue) => {
                let command = queue.of.required()?;
                api.text(api.request(Method::DELETE, &place(&command))).await?;
                match queue.json {
                    true => say!("{{\"command\":{}}}", Value::from(command)),
                    false => say!("{} Policy of {command} is deleted", tag::ok()),
                }
                Ok(())
            }
        }
    }
}

fn place(command: &str) -> String {
    path(&["admin", "queues", command, "policy"])
}

fn print(policy: &Value, is_compact: bool) -> anyhow::Result<()> {
    match is_compact {
        true => say!("{policy}"),
        false => say!("{}", serde_json::to_string_pretty(policy)?),
    }
    Ok(())
}

/// List the busiest lanes of a queue.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq queue lanes demo\n  codeq queue lanes demo --limit 5 --json")]
pub struct Lanes {
    #[command(flatten)]
    queue: Named,
    /// Maximum number of lanes.
    #[arg(long, default_value_t = 50)]
    limit: u32,
}

impl Lanes {
    pub async fn run(self, api: &Api) -> anyhow::Result<()> {
        let path = path(&["admin", "queues", &self.queue.of.required()?, "lanes"]);
        let path = format!("{path}{}", query(&[("limit".to_owned(), self.limit.to_string())]));
        let LanesBody { items } = api.get(&path).await?;
        if self.queue.json {
            say!("{}", serde_json::to_string(&items)?);
            return Ok(());
        }
        if items.is_empty() {
            say!("no lanes");
            return Ok(());
        }
        let mut table = Table::new(&["LANE", "READY", "RUNNING", "WEIGHT", "BLOCKED BY", "UNTIL"]);
        for LaneBody { lane, ready, running, weight, blocked_by, until } in items {
            let name = if lane.is_empty() { "(none)".to_owned() } else { lane };
            let counts = [ready.to_string(), running.to_string(), weight.to_string()];
            let rest = [blocked_by, until].map(|text| text.unwrap_or_else(|| "-".into()));
            table.row([name].into_iter().chain(counts).chain(rest).collect());
        }
        terminal::print(&table.to_string());
        Ok(())
    }
}
