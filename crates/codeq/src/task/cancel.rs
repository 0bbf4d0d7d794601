//! `codeq task cancel`.

use crate::client::{Api, path, query};
use crate::filter::{self, Filter};
use crate::operation::{self, Care, Deed, Matched};
use crate::{say, tag};
use anyhow::bail;
use serde_json::{Value, json};

/// Cancel a task, or all tasks that a filter names.
///
/// A cancelled task has failed with the error CANCELLED; a worker that runs it is told with its next call.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq task cancel 5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11\n  \
    codeq task cancel --command demo --place ready --dry-run\n  \
    codeq task cancel --header origin=upload --rate 100 --yes")]
pub struct Cancel {
    /// Id of the task.
    id: Option<String>,
    #[command(flatten)]
    filter: Filter,
    /// So many per second at most.
    #[arg(long, value_name = "N")]
    rate: Option<u64>,
    /// Of this tenant, or '*' for all; operators only.
    #[arg(long)]
    tenant: Option<String>,
    #[command(flatten)]
    care: Care,
}

impl Cancel {
    pub async fn run(self, api: &Api) -> anyhow::Result<()> {
        let pairs = self.filter.pairs()?;
        let scope =
            query(&self.tenant.map(|tenant| ("tenant".to_owned(), tenant)).into_iter().collect::<Vec<_>>());
        match (&self.id, pairs.is_empty()) {
            (Some(_), false) => bail!("give either the id of a task or a filter"),
            (None, true) => bail!("give the id of a task or a filter"),
            (Some(id), true) => return one(api, id, &scope, self.care.json).await,
            (None, false) => {}
        }
        let path = format!("/admin/tasks/cancel{scope}");
        let mut body = json!({"filter": filter::object(&pairs), "dryRun": true});
        let Matched { matched } = api.post(&path, &body).await?;
        body["dryRun"] = json!(false);
        if let Some(rate) = self.rate {
            body["ratePerSecond"] = json!(rate);
        }
        let deed = Deed { verb: "cancel", done: "Cancelled", what: "tasks".into() };
        operation::perform(api, &self.care, deed, matched, async || api.post(&path, &body).await).await
    }
}

async fn one(api: &Api, id: &str, scope: &str, json: bool) -> anyhow::Result<()> {
    let path = format!("{}{scope}", path(&["admin", "tasks", id, "cancel"]));
    let task: Value = api.post(&path, &json!({})).await?;
    match json {
        true => say!("{task}"),
        false => say!("{} Task cancelled: {id}", tag::ok()),
    }
    Ok(())
}
