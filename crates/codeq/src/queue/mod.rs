//! `codeq queue`: what waits, and whether it may be claimed.

mod policy;
mod rates;
mod watch;

pub use rates::Rates;

use crate::client::{Api, Connection, block_on, path};
use crate::command::CommandName;
use crate::table::{Table, age};
use crate::{say, tag, terminal};
use clap::Subcommand;
use codeq_api::admin::{QueueStats, QueueView, QueueViews};
use serde_json::{Value, json};

/// Inspect, pause and resume queues.
#[derive(clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  codeq queue list\n  codeq queue watch\n  codeq queue pause demo"
)]
pub struct Queue {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Count the tasks of a command by state.
    #[command(after_help = "Example:\n  codeq queue inspect demo")]
    Inspect(One),
    /// List queues with their counts.
    #[command(after_help = "Examples:\n  codeq queue list\n  codeq queue list --json")]
    List {
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
        /// Queues of this tenant, or '*' for all (operators only).
        #[arg(long)]
        tenant: Option<String>,
    },
    /// Stop handing out tasks of a command; they can still be created and finished.
    #[command(after_help = "Example:\n  codeq queue pause demo")]
    Pause(One),
    /// Hand out tasks of a command again.
    #[command(after_help = "Example:\n  codeq queue resume demo")]
    Resume(One),
    Policy(policy::Policy),
    Lanes(policy::Lanes),
    Watch(watch::Watch),
}

/// One queue.
#[derive(clap::Args)]
struct One {
    #[command(flatten)]
    of: CommandName,
    /// Print the counts as JSON.
    #[arg(long)]
    json: bool,
}

impl Queue {
    pub fn run(self, front: &Connection) -> anyhow::Result<()> {
        let api = self.connection.or(front).settings()?.producer()?;
        block_on(async {
            match self.verb {
                Verb::Inspect(one) => inspect(&api, one).await,
                Verb::List { json, tenant } => list(&api, json, tenant.as_deref()).await,
                Verb::Pause(one) => switch(&api, one, "pause", "Paused").await,
                Verb::Resume(one) => switch(&api, one, "resume", "Resumed").await,
                Verb::Policy(policy) => policy.run(&api).await,
                Verb::Lanes(lanes) => lanes.run(&api).await,
                Verb::Watch(watch) => watch.run(&api).await,
            }
        })
    }
}

async fn inspect(api: &Api, one: One) -> anyhow::Result<()> {
    let stats: QueueStats<'static> = api.get(&path(&["admin", "queues", &one.of.required()?])).await?;
    if one.json {
        say!("{}", serde_json::to_string(&stats)?);
        return Ok(());
    }
    let QueueStats { ready, delayed, in_progress, dlq, .. } = stats;
    say!("READY: {ready} | DELAYED: {delayed} | IN_PROGRESS: {in_progress} | DLQ: {dlq}");
    Ok(())
}

async fn switch(api: &Api, one: One, verb: &str, done: &str) -> anyhow::Result<()> {
    let command = one.of.required()?;
    let stats: Value = api.post(&path(&["admin", "queues", &command, verb]), &json!({})).await?;
    match one.json {
        true => say!("{stats}"),
        false => say!("{} {done} {command}: {} ready", tag::ok(), stats["ready"]),
    }
    Ok(())
}

/// All queues, by command.
pub async fn views(api: &Api, tenant: Option<&str>) -> anyhow::Result<Vec<QueueView<'static>>> {
    let mut pairs = vec![("view".to_owned(), "stats".to_owned())];
    pairs.extend(tenant.map(|tenant| ("tenant".to_owned(), tenant.to_owned())));
    let path = format!("/admin/queues{}", crate::client::query(&pairs));
    let QueueViews { queues } = api.get(&path).await?;
    Ok(queues)
}

async fn list(api: &Api, json: bool, tenant: Option<&str>) -> anyhow::Result<()> {
    let queues = views(api, tenant).await?;
    if json {
        say!("{}", serde_json::to_string(&queues)?);
        return Ok(());
    }
    if queues.is_empty() {
        say!("no queues");
        return Ok(());
    }
    let head = ["COMMAND", "READY", "DELAYED", "RUNNING", "DEAD", "FAILED", "OLDEST", "TENANT", "STATE"];
    let mut table = Table::new(&head);
    for queue in &queues {
        let [ready, delayed, running, dead, failed] = counts(queue);
        let state = if queue.paused { "paused" } else { "open" };
        let (command, tenant) = (queue.stats.command.to_string(), queue.tenant_id.to_string());
        table.row(vec![command, ready, delayed, running, dead, failed, oldest(queue), tenant, state.into()]);
    }
    terminal::print(&table.to_string());
    Ok(())
}

/// Ready, delayed, running, dead, failed.
pub fn counts(queue: &QueueView<'_>) -> [String; 5] {
    let stats = &queue.stats;
    [stats.ready, stats.delayed, stats.in_progress, stats.dlq, queue.failed].map(|count| count.to_string())
}

/// The age of the task that has waited longest.
pub fn oldest(queue: &QueueView<'_>) -> String {
    if queue.stats.ready == 0 { "-".into() } else { age(queue.oldest_ready_age_seconds) }
}
