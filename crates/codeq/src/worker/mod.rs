//! `codeq worker`: claim tasks from the command line.

mod child;
mod run;
mod start;

use crate::client::{Connection, block_on};
use anyhow::bail;
use clap::Subcommand;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Claim tasks: to try things out, or to run a program for each.
#[derive(clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  \
    codeq worker start --events demo --ack complete\n  codeq worker run --events demo --exec './handle.sh'"
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
}

impl Worker {
    pub fn run(self, front: &Connection) -> anyhow::Result<()> {
        let settings = self.connection.or(front).settings()?;
        block_on(async {
            match self.verb {
                Verb::Start(start) => start.run(&settings).await,
                Verb::Run(run) => run.run(&settings).await,
            }
        })
    }
}

/// The commands of a comma list.
fn commands(events: Option<&str>) -> anyhow::Result<Vec<String>> {
    let words = events.unwrap_or_default().split(',').map(str::trim).filter(|word| !word.is_empty());
    let commands: Vec<String> = words.map(str::to_owned).collect();
    if commands.is_empty() {
        bail!("events are required");
    }
    Ok(commands)
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
