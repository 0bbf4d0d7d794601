//! `codeq batch`: groups of tasks that end together.

use crate::client::{Connection, block_on, path};
use crate::{say, tag};
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

/// Create, watch, close and cancel batches of tasks.
#[derive(clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  codeq batch create --name nightly\n  \
    codeq task create --command render --payload '{}' --batch BATCH\n  codeq batch close BATCH\n  codeq batch get BATCH"
)]
pub struct Batch {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Create a batch; tasks join it with 'codeq task create --batch'.
    #[command(after_help = "Example:\n  codeq batch create --name nightly --close-after-seconds 3600")]
    Create {
        /// A name for people.
        #[arg(long)]
        name: Option<String>,
        /// Seconds without a new task after which the batch closes by itself.
        #[arg(long, value_name = "N")]
        close_after_seconds: Option<i64>,
        /// Print the batch as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the state and the counts of a batch.
    #[command(after_help = "Example:\n  codeq batch get 5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11")]
    Get(One),
    /// Close a batch: no more tasks can join, and it ends with its last member.
    #[command(after_help = "Example:\n  codeq batch close 5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11")]
    Close(One),
    /// Close a batch and cancel its live members.
    #[command(after_help = "Example:\n  codeq batch cancel 5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11")]
    Cancel(One),
    /// List the members of a batch.
    #[command(after_help = "Example:\n  codeq batch members 5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11 --limit 20")]
    Members {
        #[command(flatten)]
        one: One,
        /// Maximum number of members to list.
        #[arg(long, default_value_t = 1000, value_name = "N")]
        limit: usize,
    },
}

/// One batch.
#[derive(clap::Args)]
struct One {
    /// Id of the batch.
    id: String,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

impl Batch {
    pub fn run(self, front: &Connection) -> anyhow::Result<()> {
        let api = self.connection.or(front).settings()?.producer()?;
        block_on(async {
            match self.verb {
                Verb::Create { name, close_after_seconds, json } => {
                    let body = json!({"name": name, "closeAfterSeconds": close_after_seconds});
                    let made: Value = api.post("/batches", &body).await?;
                    match json {
                        true => say!("{made}"),
                        false => say!("{} Batch created: {}", tag::ok(), text(&made, "id")),
                    }
                }
                Verb::Get(one) => show(&one, &api.get(&path(&["batches", &one.id])).await?),
                Verb::Close(one) => {
                    show(&one, &api.post(&path(&["batches", &one.id, "close"]), &json!({})).await?);
                }
                Verb::Cancel(one) => {
                    let request = api.request(Method::DELETE, &path(&["batches", &one.id]));
                    show(&one, &crate::client::read(&api.text(request).await?)?);
                }
                Verb::Members { one, limit } => {
                    let mut all = Vec::new();
                    api.list(&path(&["batches", &one.id, "members"]), &[], limit, |items| all.extend(items))
                        .await?;
                    match one.json {
                        true => say!("{}", Value::from(all)),
                        false => all.iter().for_each(|task| {
                            say!("{} {} {}", text(task, "id"), text(task, "status"), text(task, "command"));
                        }),
                    }
                }
            }
            Ok(())
        })
    }
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

fn show(one: &One, batch: &Value) {
    if one.json {
        return say!("{batch}");
    }
    let counts = &batch["counts"];
    say!(
        "{} {}: {} live, {} completed, {} failed",
        text(batch, "id"),
        text(batch, "state"),
        counts["live"],
        counts["completed"],
        counts["failed"]
    );
}
