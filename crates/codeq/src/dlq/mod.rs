//! `codeq dlq`: dead letters, by cause.

mod delete;
mod groups;
mod requeue;

use crate::client::{Connection, block_on, path};
use crate::command::CommandName;
use crate::filter;
use crate::task::Listing;
use clap::Subcommand;

/// List, replay and delete dead letters.
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
                    let mut pairs = filter::read(&filter)?;
                    let path = match of.name() {
                        Some(command) => path(&["admin", "dlq", &command]),
                        None => {
                            pairs.push(("place".into(), "dead".into()));
                            "/admin/tasks".into()
                        }
                    };
                    listing.show(&api, &path, pairs).await
                }
                Verb::Groups(groups) => groups.run(&api).await,
                Verb::Requeue(requeue) => requeue.run(&api).await,
                Verb::Delete(delete) => delete.run(&api).await,
            }
        })
    }
}
