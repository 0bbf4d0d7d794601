//! `codeq failed`: tasks that their worker gave up for good, by cause.

use super::requeue::{Pacing, Which, perform};
use super::{Ended, groups, list};
use crate::client::{Connection, block_on};
use crate::command::CommandName;
use crate::operation::Care;
use crate::task::Listing;
use clap::Subcommand;

/// List and replay failed tasks: those that their worker gave up for good.
///
/// Tasks that ran out of attempts are in `codeq dlq`.
#[derive(clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  codeq failed groups\n  codeq failed list demo\n  \
    codeq failed requeue demo --filter error=timeout --dry-run"
)]
pub struct Failed {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List failed tasks.
    #[command(
        after_help = "Examples:\n  codeq failed list\n  codeq failed list demo --filter error=timeout --limit 10"
    )]
    List {
        #[command(flatten)]
        of: CommandName,
        /// Only failed tasks that match, such as error=timeout; may be repeated.
        #[arg(long, value_name = "KEY=VALUE")]
        filter: Vec<String>,
        #[command(flatten)]
        listing: Listing,
    },
    /// List failed tasks grouped by cause, the most frequent first.
    #[command(after_help = "Examples:\n  codeq failed groups\n  codeq failed groups demo --json")]
    Groups {
        #[command(flatten)]
        of: CommandName,
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
        /// Failed tasks of this tenant, or '*' for all (operators only).
        #[arg(long)]
        tenant: Option<String>,
    },
    /// Put failed tasks back into their queue, with a full set of attempts.
    #[command(after_help = "Examples:\n  codeq failed requeue --group GROUP --dry-run\n  \
        codeq failed requeue demo --filter error=timeout --rate 50")]
    Requeue(Requeue),
}

#[derive(clap::Args)]
struct Requeue {
    #[command(flatten)]
    of: CommandName,
    /// Only failed tasks of this group (see `codeq failed groups`).
    #[arg(long)]
    group: Option<String>,
    /// Only failed tasks that match, such as error=timeout; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    filter: Vec<String>,
    /// Failed tasks of this tenant (operators only).
    #[arg(long)]
    tenant: Option<String>,
    /// Maximum tasks per second.
    #[arg(long, value_name = "N")]
    rate: Option<u64>,
    /// Number of deliveries before they become dead letters [default: as before].
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    #[command(flatten)]
    care: Care,
}

impl Failed {
    pub fn run(self, front: &Connection) -> anyhow::Result<()> {
        let api = self.connection.or(front).settings()?.producer()?;
        block_on(async {
            match self.verb {
                Verb::List { of, filter, listing } => {
                    list(&api, Ended::Failed, of.name(), &filter, listing).await
                }
                Verb::Groups { of, json, tenant } => {
                    groups::show(&api, Ended::Failed, of.name(), tenant.as_deref(), json).await
                }
                Verb::Requeue(Requeue { of, group, filter, tenant, rate, max_attempts, care }) => {
                    let (which, pace) = (Which { group, filter, tenant }, Pacing { rate, max_attempts });
                    perform(&api, Ended::Failed, of.name(), &which, pace, &care).await
                }
            }
        })
    }
}
