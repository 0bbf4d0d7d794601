//! `codeq dlq` and `codeq failed`: tasks that have failed, by cause.

mod delete;
mod failed;
mod groups;
mod requeue;

pub use failed::Failed;

use crate::client::{Api, Connection, block_on, path};
use crate::command::CommandName;
use crate::filter;
use crate::task::Listing;
use clap::Subcommand;

/// How tasks have failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// They ran out of attempts.
    Dead,
    /// Their worker gave them up for good.
    Failed,
}

impl Ended {
    /// The word of the routes and of the command line.
    pub fn route(self) -> &'static str {
        match self {
            Ended::Dead => "dlq",
            Ended::Failed => "failed",
        }
    }

    pub fn noun(self) -> &'static str {
        match self {
            Ended::Dead => "dead letter",
            Ended::Failed => "failed task",
        }
    }

    fn place(self) -> &'static str {
        match self {
            Ended::Dead => "dead",
            Ended::Failed => "failed",
        }
    }
}

/// List, replay and delete dead letters: tasks that ran out of attempts.
///
/// Tasks that their worker gave up for good are in `codeq failed`.
#[derive(clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  codeq dlq groups\n  \
    codeq dlq requeue --group GROUP --dry-run\n  codeq dlq requeue demo --rate 50 --yes"
)]
pub struct Dlq {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    List(List),
    Groups(groups::Groups),
    Requeue(requeue::Requeue),
    Delete(delete::Delete),
}

/// List dead letters.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  codeq dlq list\n  codeq dlq list demo --filter error=timeout --limit 10"
)]
struct List {
    #[command(flatten)]
    of: CommandName,
    /// Only dead letters that match, such as error=timeout; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    filter: Vec<String>,
    #[command(flatten)]
    listing: Listing,
}

impl Dlq {
    pub fn run(self, front: &Connection) -> anyhow::Result<()> {
        let api = self.connection.or(front).settings()?.producer()?;
        block_on(async {
            match self.verb {
                Verb::List(List { of, filter, listing }) => {
                    list(&api, Ended::Dead, of.name(), &filter, listing).await
                }
                Verb::Groups(groups) => groups.run(&api).await,
                Verb::Requeue(requeue) => requeue.run(&api).await,
                Verb::Delete(delete) => delete.run(&api).await,
            }
        })
    }
}

async fn list(
    api: &Api,
    of: Ended,
    command: Option<String>,
    filter: &[String],
    listing: Listing,
) -> anyhow::Result<()> {
    let mut pairs = filter::read(filter)?;
    let path = match command {
        Some(command) => path(&["admin", of.route(), &command]),
        None => {
            pairs.push(("place".into(), of.place().into()));
            "/admin/tasks".into()
        }
    };
    listing.show(api, &path, pairs).await
}
