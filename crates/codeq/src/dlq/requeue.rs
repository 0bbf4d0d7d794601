//! `codeq dlq requeue`.

use super::groups::{command_of, scope};
use crate::client::{Api, path};
use crate::filter;
use crate::operation::{self, Care, Deed, Matched};
use serde_json::{Value, json};

/// Send dead letters back to their queue, with a full set of attempts.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq dlq requeue --group GROUP --dry-run\n  \
    codeq dlq requeue demo --filter error=timeout --rate 50\n  codeq dlq requeue demo --max-attempts 10 --yes")]
pub struct Requeue {
    /// Of this command; with --group that of the group unless told.
    command: Option<String>,
    #[command(flatten)]
    which: Which,
    /// So many per second at most.
    #[arg(long, value_name = "N")]
    rate: Option<u64>,
    /// Deliveries before they are dead letters again [default: as before].
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    #[command(flatten)]
    care: Care,
}

/// Which dead letters of a command; all unless told.
#[derive(clap::Args)]
pub struct Which {
    /// Those of this group.
    #[arg(long)]
    pub group: Option<String>,
    /// Only those; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub filter: Vec<String>,
    /// Of this tenant; operators only.
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
        let command = command_of(api, self.command, self.which.group.as_deref(), &scope).await?;
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
