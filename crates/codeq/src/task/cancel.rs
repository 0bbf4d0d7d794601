//! `codeq task cancel`.

use crate::client::{Api, path, query};
use crate::filter::{self, Filter};
use crate::operation::{self, Care, Deed, Matched};
use crate::{say, tag};
use anyhow::bail;
use serde_json::{Value, json};

/// Cancel one task, or all tasks that match a filter.
///
/// A cancelled task fails with the error CANCELLED. A worker that is running it is told with its next call. With
/// --grace-seconds a running task may end by itself until then.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq task cancel 5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11\n  \
    codeq task cancel 5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11 --grace-seconds 30 --reason 'order withdrawn'\n  \
    codeq task cancel --command demo --place ready --dry-run\n  \
    codeq task cancel --header origin=upload --rate 100 --yes")]
pub struct Cancel {
    /// Id of the task.
    id: Option<String>,
    /// How long a running task may go on, in seconds (with an id only).
    #[arg(long, value_name = "N", default_value_t = 0, requires = "id")]
    grace_seconds: i64,
    /// Why, for the worker and for the error of the task (with an id only).
    #[arg(long, requires = "id")]
    reason: Option<String>,
    /// Maximum tasks per second.
    #[arg(long, value_name = "N")]
    rate: Option<u64>,
    /// Cancel tasks of this tenant, or '*' for all (operators only).
    #[arg(long)]
    tenant: Option<String>,
    #[command(flatten)]
    care: Care,
    // Last: what follows it would stand under its heading.
    #[command(flatten)]
    filter: Filter,
}

impl Cancel {
    pub async fn run(self, api: &Api) -> anyhow::Result<()> {
        let pairs = self.filter.pairs()?;
        let scope =
            query(&self.tenant.map(|tenant| ("tenant".to_owned(), tenant)).into_iter().collect::<Vec<_>>());
        match (&self.id, pairs.is_empty()) {
            (Some(_), false) => bail!("give either the id of a task or a filter"),
            (None, true) => bail!("give the id of a task or a filter"),
            (Some(id), true) => {
                let asked = json!({"graceSeconds": self.grace_seconds, "reason": self.reason});
                return one(api, id, &scope, &asked, self.care.json).await;
            }
            (None, false) => {}
        }
        let path = format!("/admin/tasks/cancel{scope}");
        let mut body = json!({"filter": filter::object(&pairs), "dryRun": true});
        let Matched { matched } = api.post(&path, &body).await?;
        body["dryRun"] = json!(false);
        if let Some(rate) = self.rate {
            body["ratePerSecond"] = json!(rate);
        }
        let deed = Deed { verb: "cancel", done: "Cancelled", noun: "task", command: None };
        operation::perform(api, &self.care, deed, matched, async || api.post(&path, &body).await).await
    }
}

async fn one(api: &Api, id: &str, scope: &str, asked: &Value, json: bool) -> anyhow::Result<()> {
    let path = format!("{}{scope}", path(&["admin", "tasks", id, "cancel"]));
    let task: Value = api.post(&path, asked).await?;
    match json {
        true => say!("{task}"),
        false if task["status"] == "IN_PROGRESS" => say!("{} Task asked to stop: {id}", tag::ok()),
        false => say!("{} Task cancelled: {id}", tag::ok()),
    }
    Ok(())
}
