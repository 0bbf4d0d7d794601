//! `codeq dlq requeue`.

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
    pub async fn count(&self, api: &Api, command: &str) -> anyhow::Result<u64> {
        let mut body = self.body()?;
        body["dryRun"] = json!(true);
        let Matched { matched } = api.post(&requeue(command, &scope(self.tenant.as_deref())), &body).await?;
        Ok(matched)
    }
}

fn requeue(command: &str, scope: &str) -> String {
    format!("{}{scope}", path(&["admin", "dlq", command, "requeue"]))
}

impl Requeue {
    pub async fn run(self, api: &Api) -> anyhow::Result<()> {
        let scope = scope(self.which.tenant.as_deref());
        let mut body = self.which.body()?;
        let command = command_of(api, self.of.name(), self.which.group.as_deref(), &scope).await?;
        let matched = self.which.count(api, &command).await?;
        for (name, number) in
            [("maxAttempts", self.max_attempts.map(u64::from)), ("ratePerSecond", self.rate)]
        {
            if let Some(number) = number {
                body[name] = json!(number);
            }
        }
        let path = requeue(&command, &scope);
        let deed = Deed { verb: "requeue", done: "Requeued", what: format!("dead letters of {command}") };
        operation::perform(api, &self.care, deed, matched, async || api.post(&path, &body).await).await
    }
}
