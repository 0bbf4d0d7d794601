//! `codeq worker`: claim tasks from the command line.

mod child;
mod list;
mod run;
mod sightings;
mod start;

pub use list::{seen, table};

use crate::client::{Connection, MissingFlag, block_on};
use crate::{say, tag};
use anyhow::bail;
use clap::Subcommand;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Claim tasks, run a program for each, and list workers.
#[derive(clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  \
    codeq worker run --command demo --exec './handle.sh'\n  codeq worker start --command demo --ack complete\n  \
    codeq worker list"
)]
pub struct Worker {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Start(start::Start),
    Run(run::Run),
    List(list::List),
}

impl Worker {
    pub fn run(self, front: &Connection) -> anyhow::Result<()> {
        let settings = self.connection.or(front).settings()?;
        block_on(async {
            match self.verb {
                Verb::Start(start) => start.run(&settings).await,
                Verb::Run(run) => run.run(&settings).await,
                Verb::List(list) => list.run(&settings.producer()?).await,
            }
        })
    }
}

/// The commands of comma lists.
fn commands(lists: &[String]) -> anyhow::Result<Vec<String>> {
    let words = lists.iter().flat_map(|list| list.split(',')).map(str::trim).filter(|word| !word.is_empty());
    let commands: Vec<String> = words.map(str::to_owned).collect();
    if commands.is_empty() {
        bail!(MissingFlag::new("events are required", "--command LIST"));
    }
    Ok(commands)
}

/// What a worker says, in text or as JSON lines.
#[derive(Clone, Copy)]
struct Report {
    json: bool,
}

impl Report {
    fn connecting(self, base: &str, kind: &str) {
        match self.json {
            true => say!("{}", json!({"event": "connecting", "url": base, "token": kind})),
            false => say!("{} Connecting to {base} (token: {kind})", tag::info()),
        }
    }

    fn connected(self, kind: &str) {
        match self.json {
            true => say!("{}", json!({"event": "connected", "token": kind})),
            false => say!("{} Worker connected. Listening... (token: {kind})", tag::info()),
        }
    }

    fn claimed(self, id: &str, command: &str) {
        match self.json {
            true => say!("{}", json!({"event": "claimed", "taskId": id, "command": command})),
            false => say!("{} Task claimed: {id} ({command})", tag::ok()),
        }
    }

    fn completed(self, id: &str) {
        match self.json {
            true => say!("{}", json!({"event": "completed", "taskId": id})),
            false => say!("{} Task completed: {id}", tag::ok()),
        }
    }

    /// Anything but a completed task: `retry`, `failed` or `stopped`.
    fn ended(self, event: &str, id: &str, text: &str, reason: &str) {
        match self.json {
            true => say!("{}", json!({"event": event, "taskId": id, "reason": reason})),
            false => say!("{} {text}: {id}: {}", tag::warn(), crate::table::one_line(reason)),
        }
    }

    fn warn(self, text: &str) {
        match self.json {
            true => say!("{}", json!({"event": "warning", "text": text})),
            false => say!("{} {text}", tag::warn()),
        }
    }
}

/// SIGINT and SIGTERM, from here on.
pub struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    pub fn new() -> anyhow::Result<Interrupts> {
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Interrupts { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
