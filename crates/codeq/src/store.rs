//! `codeq store`: what an operator decides about the servers of a Kvrocks store.

use crate::{say, tag};
use anyhow::{Context, anyhow};
use codeq_store::kvrocks;
use std::path::PathBuf;

/// The servers of a Kvrocks store.
#[derive(clap::Args)]
#[command(arg_required_else_help = true, after_help = "Example:\n  codeq store accept p7 --config c.yaml")]
pub struct Store {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    Accept(Accept),
}

/// Accept the server of a shard that lost its data.
///
/// A server without its `codeq:layout`, or with that of another deployment, counts as away: what it held may be gone. Run
/// this when its data cannot be brought back. The tasks that it held are lost then.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  codeq store accept p7 --config c.yaml")]
struct Accept {
    /// The shard, as `/readyz` names it.
    shard: String,
    /// YAML file with settings.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The id of the deployment, as the log tells it; that of the other servers by default.
    #[arg(long, value_name = "ID")]
    deployment: Option<String>,
}

impl Store {
    pub fn run(self) -> anyhow::Result<()> {
        match self.verb {
            Verb::Accept(accept) => accept.run(),
        }
    }
}

impl Accept {
    fn run(self) -> anyhow::Result<()> {
        let config = super::serve::load_shards(self.config)?.config;
        let options = codeq_server::kvrocks_options(&config).context("persistenceProvider is not kvrocks")?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let accepted = runtime.block_on(kvrocks::accept(&options, &self.shard, self.deployment));
        let id = accepted.map_err(|reason| anyhow!(reason))?;
        say!("{} The server of shard {} belongs to deployment {id} now", tag::ok(), self.shard);
        Ok(())
    }
}
