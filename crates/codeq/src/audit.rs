//! `codeq audit`: what operators did.

use crate::client::{Connection, block_on};
use crate::table::Table;
use crate::{say, terminal};
use serde_json::Value;

/// List what operators did, the newest first.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq audit\n  codeq audit --verb pause --limit 10\n  \
    codeq audit --who ann --after 2026-03-01T00:00:00Z --json")]
pub struct Audit {
    #[command(flatten)]
    connection: Connection,
    /// Only calls of this verb, such as pause, cancel, requeue or delete.
    #[arg(long)]
    verb: Option<String>,
    /// Only calls of this subject (the `sub` of the token).
    #[arg(long, value_name = "SUB")]
    who: Option<String>,
    /// Only later than this instant.
    #[arg(long, value_name = "RFC3339")]
    after: Option<String>,
    /// Only earlier than this instant.
    #[arg(long, value_name = "RFC3339")]
    before: Option<String>,
    /// Tenant whose records to list, or '*' for all (operators only).
    #[arg(long)]
    tenant: Option<String>,
    /// Maximum number of records to list.
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: usize,
    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

impl Audit {
    pub fn run(self, front: &Connection) -> anyhow::Result<()> {
        let api = self.connection.or(front).settings()?.producer()?;
        let filter = [
            ("verb", self.verb),
            ("who", self.who),
            ("after", self.after),
            ("before", self.before),
            ("tenant", self.tenant),
        ];
        let pairs = filter.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let pairs: Vec<(String, String)> = pairs.collect();
        let mut found = Vec::new();
        let has_more = block_on(async {
            api.list("/admin/audit", &pairs, self.limit, |items| found.extend(items)).await
        })?;
        match (self.json, found.is_empty()) {
            (true, _) => say!("{}", Value::from(found)),
            (false, true) => say!("nothing was done"),
            (false, false) => terminal::print(&table(&found).to_string()),
        }
        if has_more {
            eprintln!("there are more: raise --limit");
        }
        Ok(())
    }
}

fn table(records: &[Value]) -> Table {
    let mut table = Table::new(&["AT", "WHO", "TENANT", "VERB", "COUNT", "TARGET", "REQUEST"]);
    for record in records {
        let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
        table.row(vec![
            text("at").chars().take(19).collect(),
            text("who"),
            text("tenant"),
            text("verb"),
            record["count"].as_u64().map_or("-".into(), |count| count.to_string()),
            text("target"),
            text("requestId"),
        ]);
    }
    table
}
