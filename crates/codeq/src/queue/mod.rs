//! `codeq queue`: what waits, and whether it may be claimed.

mod rates;
mod watch;

use crate::client::{Api, Connection, block_on, path};
use crate::table::{Table, age};
use crate::{say, tag, terminal};
use clap::Subcommand;
use codeq_api::admin::{QueueStats, QueueView, QueueViews};
use serde_json::{Value, json};

/// Look at queues, pause and resume them.
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
    /// Show how many tasks of a command are where.
    #[command(after_help = "Example:\n  codeq queue inspect demo")]
    Inspect {
        /// The command of the queue.
        event: String,
    },
    /// List queues with what they hold.
    #[command(after_help = "Examples:\n  codeq queue list\n  codeq queue list --json")]
    List {
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
        /// Of this tenant, or '*' for all; operators only.
        #[arg(long)]
        tenant: Option<String>,
    },
    /// Stop handing out tasks of a command; they go on being created and finished.
    #[command(after_help = "Example:\n  codeq queue pause demo")]
    Pause {
        /// The command of the queue.
        command: String,
    },
    /// Hand out tasks of a command again.
    #[command(after_help = "Example:\n  codeq queue resume demo")]
    Resume {
        /// The command of the queue.
        command: String,
    },
    Watch(watch::Watch),
}

impl Queue {
    pub fn run(self, front: &Connection) -> anyhow::Result<()> {
        let api = self.connection.or(front).settings()?.producer()?;
        block_on(async {
            match self.verb {
                Verb::Inspect { event } => inspect(&api, &event).await,
                Verb::List { json, tenant } => list(&api, json, tenant.as_deref()).await,
                Verb::Pause { command } => switch(&api, &command, "pause", "Paused").await,
                Verb::Resume { command } => switch(&api, &command, "resume", "Resumed").await,
                Verb::Watch(watch) => watch.run(&api).await,
            }
        })
    }
}

async fn inspect(api: &Api, event: &str) -> anyhow::Result<()> {
    let stats: QueueStats<'static> = api.get(&path(&["admin", "queues", event])).await?;
    let QueueStats { ready, delayed, in_progress, dlq, .. } = stats;
    say!("READY: {ready} | DELAYED: {delayed} | IN_PROGRESS: {in_progress} | DLQ: {dlq}");
    Ok(())
}

async fn switch(api: &Api, command: &str, verb: &str, done: &str) -> anyhow::Result<()> {
    let stats: Value = api.post(&path(&["admin", "queues", command, verb]), &json!({})).await?;
    say!("{} {done} {command}: {} ready", tag::ok(), stats["ready"]);
    Ok(())
}

/// All queues, by command.
async fn views(api: &Api, tenant: Option<&str>) -> anyhow::Result<Vec<QueueView<'static>>> {
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
    let head = ["COMMAND", "READY", "DELAYED", "RUNNING", "DEAD", "OLDEST", "TENANT", "STATE"];
    let mut table = Table::new(&head);
    for queue in &queues {
        let [ready, delayed, running, dead] = counts(queue);
        let state = if queue.paused { "paused" } else { "open" };
        let (command, tenant) = (queue.stats.command.to_string(), queue.tenant_id.to_string());
        table.row(vec![command, ready, delayed, running, dead, oldest(queue), tenant, state.into()]);
    }
    terminal::print(&table.to_string());
    Ok(())
}

fn counts(queue: &QueueView<'_>) -> [String; 4] {
    let stats = &queue.stats;
    [stats.ready, stats.delayed, stats.in_progress, stats.dlq].map(|count| count.to_string())
}

/// The age of the task that has waited longest.
fn oldest(queue: &QueueView<'_>) -> String {
    if queue.stats.ready == 0 { "-".into() } else { age(queue.oldest_ready_age_seconds) }
}
