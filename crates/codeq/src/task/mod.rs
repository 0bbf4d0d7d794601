//! `codeq task`: tasks one by one, and many at a time.

mod attempts;
mod cancel;
mod create;
mod explain;
mod list;
mod replay;
mod result;
mod run_now;

pub use create::read_payload;
pub use list::Listing;

use crate::client::{Connection, block_on, path};
use crate::say;
use clap::Subcommand;

/// Create, inspect, cancel and replay tasks.
#[derive(clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  \
    codeq task create --command demo --payload '{\"n\":1}'\n  codeq task result ID --wait\n  codeq task explain ID"
)]
pub struct Task {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Create(Box<create::Create>),
    /// Show a task as JSON.
    #[command(after_help = "Example:\n  codeq task get 5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11")]
    Get {
        /// Id of the task.
        id: String,
        /// Accepted for symmetry: a task is always shown as JSON.
        #[arg(long, hide = true)]
        json: bool,
    },
    Result(result::Result),
    List(Box<list::List>),
    Explain(explain::Explain),
    Attempts(attempts::Attempts),
    #[command(visible_alias = "requeue")]
    Replay(replay::Replay),
    RunNow(run_now::RunNow),
    Cancel(Box<cancel::Cancel>),
}

impl Task {
    pub fn run(self, front: &Connection) -> anyhow::Result<()> {
        let settings = self.connection.or(front).settings()?;
        block_on(async {
            match self.verb {
                Verb::Create(create) => create.run(&settings).await,
                Verb::Get { id, .. } => {
                    say!("{}", settings.producer()?.get_text(&path(&["tasks", &id])).await?);
                    Ok(())
                }
                Verb::Result(result) => result.run(&settings.producer()?).await,
                Verb::Attempts(attempts) => attempts.run(&settings.producer()?).await,
                Verb::Replay(replay) => replay.run(&settings.producer()?).await,
                Verb::RunNow(run_now) => run_now.run(&settings.producer()?).await,
                Verb::List(list) => list.run(&settings.producer()?).await,
                Verb::Explain(explain) => explain.run(&settings.producer()?).await,
                Verb::Cancel(cancel) => cancel.run(&settings.producer()?).await,
            }
        })
    }
}
