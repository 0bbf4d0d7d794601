//! `codeq dlq delete`.

use super::Ended;
use super::groups::{command_of, scope};
use super::requeue::Which;
use crate::client::{Api, path, query};
use crate::command::CommandName;
use crate::filter;
use crate::operation::{self, Care, Deed};

/// Delete dead letters permanently.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq dlq delete --group GROUP --dry-run\n  \
    codeq dlq delete demo --filter createdBefore=2026-01-01T00:00:00Z --yes")]
pub struct Delete {
    #[command(flatten)]
    of: CommandName,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    care: Care,
}

impl Delete {
    pub async fn run(self, api: &Api) -> anyhow::Result<()> {
        let mut pairs = filter::read(&self.which.filter)?;
        let group = self.which.group.as_deref();
        let scope = scope(self.which.tenant.as_deref());
        let command = command_of(api, Ended::Dead, self.of.name(), group, &scope).await?;
        let matched = self.which.count(api, Ended::Dead, &command).await?;
        pairs.extend(group.map(|group| ("group".into(), group.into())));
        pairs.extend(self.which.tenant.clone().map(|tenant| ("tenant".into(), tenant)));
        pairs.push(("confirm".into(), "true".into()));
        let path = format!("{}{}", path(&["admin", "dlq", &command]), query(&pairs));
        let deed = Deed { verb: "delete", done: "Deleted", noun: Ended::Dead.noun(), command: Some(command) };
        operation::perform(api, &self.care, deed, matched, async || api.delete(&path).await).await
    }
}
