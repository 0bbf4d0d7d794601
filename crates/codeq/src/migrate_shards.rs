//! `codeq migrate-shards`: moves the tasks of a command to another Kvrocks shard.

use anyhow::{Context, anyhow, bail};
use codeq_server::config::Config;
use codeq_store::kvrocks::{self, KvrocksOptions, KvrocksStore, Places, Relocation, Sharding, Timing};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Ready, delayed and dead-lettered tasks move with their records, results, retention and keys.
///
/// Stop the workers first: nothing is moved while a task is in progress. An interrupted run is repeated.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  codeq migrate-shards --config c.yaml --command render --from-shard main --to-shard video"
)]
pub struct MigrateShards {
    /// YAML file with settings.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Command to move.
    #[arg(long)]
    command: Option<String>,
    /// Shard to move from.
    #[arg(long, value_name = "SHARD")]
    from_shard: Option<String>,
    /// Shard to move to.
    #[arg(long, value_name = "SHARD")]
    to_shard: Option<String>,
    /// Only this tenant.
    #[arg(long)]
    tenant: Option<String>,
    /// Tasks copied before they are deleted at the source.
    #[arg(long, default_value_t = 1000)]
    batch_size: usize,
    /// Only count; change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Check afterwards whether anything is left.
    #[arg(long)]
    verify: bool,
    /// Print one JSON object on stdout instead of text on stderr.
    #[arg(long)]
    json: bool,
}

/// What was found afterwards.
struct Verified {
    left: Places,
    there: Places,
}

impl MigrateShards {
    pub fn run(self) -> anyhow::Result<()> {
        let required = |value: &Option<String>, flag: &str| {
            value.clone().filter(|value| !value.is_empty()).ok_or_else(|| anyhow!("--{flag} is required"))
        };
        if self.config.is_none() {
            bail!("--config is required");
        }
        let relocation = Relocation {
            command: required(&self.command, "command")?,
            from: required(&self.from_shard, "from-shard")?,
            to: required(&self.to_shard, "to-shard")?,
            tenant: self.tenant.clone(),
            batch: self.batch_size.clamp(1, 10_000),
        };
        let config = super::serve::load_shards(self.config.clone())?.config;
        let options = options(&config, &relocation)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.context("cannot start the runtime")?.block_on(self.migrate(options, &relocation))
    }

    async fn migrate(&self, options: KvrocksOptions, relocation: &Relocation) -> anyhow::Result<()> {
        let store = open(options).await?;
        let places = match self.dry_run {
            true => store.places(relocation, &relocation.from).await?,
            false => store.relocate(relocation).await?,
        };
        let verified = match self.verify && !self.dry_run {
            true => Some(Verified {
                left: store.places(relocation, &relocation.from).await?,
                there: store.places(relocation, &relocation.to).await?,
            }),
            false => None,
        };
        match self.json {
            true => println!("{}", as_json(self.dry_run, &places, verified.as_ref())),
            false => tell(self.dry_run, &places, verified.as_ref()),
        }
        match verified.map_or(0, |verified| verified.left.total()) {
            0 => Ok(()),
            left => bail!("{left} tasks are left at the source"),
        }
    }
}

fn options(config: &Config, relocation: &Relocation) -> anyhow::Result<KvrocksOptions> {
    let options = codeq_server::kvrocks_options(config).context("persistenceProvider is not kvrocks")?;
    for (end, shard) in [("source", &relocation.from), ("destination", &relocation.to)] {
        if !is_configured(&options.sharding, shard) {
            bail!("{end} shard \"{shard}\" not found in config backends");
        }
    }
    // Nothing else is done meanwhile.
    Ok(KvrocksOptions { timing: Timing::Running { sweep_interval: Duration::from_secs(86_400) }, ..options })
}

/// Without backends a shard is only a segment of the keys, and whoever is named somewhere is one.
fn is_configured(sharding: &Sharding, shard: &str) -> bool {
    if !sharding.backends.is_empty() {
        return sharding.backends.contains_key(shard);
    }
    let mapped = sharding.command_mappings.values().chain(sharding.tenant_overrides.values());
    std::iter::once(&sharding.default_shard).chain(mapped).any(|name| name == shard)
}

/// Opening looks at every shard.
async fn open(options: KvrocksOptions) -> anyhow::Result<Arc<KvrocksStore>> {
    kvrocks::open(options).await.map_err(|reason| {
        eprintln!("{reason}");
        anyhow!("one or more shards are unhealthy; aborting migration")
    })
}

fn tell(is_dry_run: bool, places: &Places, verified: Option<&Verified>) {
    if is_dry_run {
        eprintln!("[DRY-RUN] No changes will be made");
    }
    let did = if is_dry_run { "Would migrate" } else { "Migrated" };
    eprintln!("Pending: {did} {} tasks", places.pending);
    eprintln!("Delayed: {did} {} tasks", places.delayed);
    eprintln!("In-Progress: {did} {} tasks", places.in_progress);
    eprintln!("DLQ: {did} {} tasks", places.dead);
    eprintln!("Total: {did} {} tasks", places.total());
    if let Some(Verified { left, there }) = verified {
        eprintln!("Source remaining: {}", left.total());
        eprintln!(
            "Dest counts: pending {}, delayed {}, in-progress {}, dlq {}",
            there.pending, there.delayed, there.in_progress, there.dead
        );
    }
}

fn as_json(is_dry_run: bool, places: &Places, verified: Option<&Verified>) -> Value {
    let counts = |places: &Places| {
        json!({
            "pending": places.pending,
            "delayed": places.delayed,
            "inProgress": places.in_progress,
            "dlq": places.dead,
            "total": places.total(),
        })
    };
    let mut told = counts(places);
    told["dryRun"] = is_dry_run.into();
    if let Some(Verified { left, there }) = verified {
        told["sourceRemaining"] = left.total().into();
        told["dest"] = counts(there);
    }
    told
}
