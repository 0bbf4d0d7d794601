//! `codeq dlq requeue` and `codeq failed requeue`.

use super::Ended;
use super::groups::{command_of, scope};
use crate::client::{Api, path};
use crate::command::CommandName;
use crate::filter;
use crate::operation::{self, Care, Deed, Matched};
use serde_json::{Value, json};

/// Put dead letters back into their queue, with a full set of attempts.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq dlq requeue --group GROUP --dry-run\n  \
    codeq dlq requeue demo --filter error=timeout --rate 50\n  codeq dlq requeue demo --max-attempts 10 --yes")]
pub struct Requeue {
    #[command(flatten)]
    of: CommandName,
    #[command(flatten)]
    which: Which,
    /// Maximum tasks per second.
    #[arg(long, value_name = "N")]
    rate: Option<u64>,
    /// Number of deliveries before they become dead letters again [default: as before].
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    #[command(flatten)]
    care: Care,
}

/// Which dead letters of a command; all of them by default.
#[derive(clap::Args)]
pub struct Which {
    /// Only dead letters of this group (see `codeq dlq groups`).
    #[arg(long)]
    pub group: Option<String>,
    /// Only dead letters that match, such as error=timeout; may be repeated. A requeue with place=failed or
    /// place=cancelled means tasks that ended so.
    #[arg(long, value_name = "KEY=VALUE")]
    pub filter: Vec<String>,
    /// Dead letters of this tenant (operators only).
    #[arg(long)]
    pub tenant: Option<String>,
}

impl Which {
    /// The body of a requeue of these.
    pub fn body(&self) -> anyhow::Result<Value> {
        let mut body = json!({"filter": filter::object(&filter::read(&self.filter)?)});
        if let Some(group) = &self.group {
            body["group"] = json!(group);
        }
        Ok(body)
    }

    /// How many they are: a requeue that is not done.
    pub async fn count(&self, api: &Api, of: Ended, command: &str) -> anyhow::Result<u64> {
        let mut body = self.body()?;
        body["dryRun"] = json!(true);
        let Matched { matched } =
            api.post(&requeue(of, command, &scope(self.tenant.as_deref())), &body).await?;
        Ok(matched)
    }
}

fn requeue(of: Ended, command: &str, scope: &str) -> String {
    format!("{}{scope}", path(&["admin", of.route(), command, "requeue"]))
}

impl Requeue {
    pub async fn run(self, api: &Api) -> anyhow::Result<()> {
        let Requeue { of, which, rate, max_attempts, care } = self;
        perform(api, Ended::Dead, of.name(), &which, Pacing { rate, max_attempts }, &care).await
    }
}

/// How fast, and with how many attempts each.
#[derive(Clone, Copy)]
pub struct Pacing {
    pub rate: Option<u64>,
    pub max_attempts: Option<u32>,
}

/// Counts what would be requeued, asks, and does it.
pub async fn perform(
    api: &Api,
    of: Ended,
    command: Option<String>,
    which: &Which,
    pace: Pacing,
    care: &Care,
) -> anyhow::Result<()> {
    let scope = scope(which.tenant.as_deref());
    let mut body = which.body()?;
    let command = command_of(api, of, command, which.group.as_deref(), &scope).await?;
    let matched = which.count(api, of, &command).await?;
    let numbers = [("maxAttempts", pace.max_attempts.map(u64::from)), ("ratePerSecond", pace.rate)];
    for (name, number) in numbers {
        if let Some(number) = number {
            body[name] = json!(number);
        }
    }
    let path = requeue(of, &command, &scope);
    let deed = Deed { verb: "requeue", done: "Requeued", noun: of.noun(), command: Some(command) };
    operation::perform(api, care, deed, matched, async || api.post(&path, &body).await).await
}
