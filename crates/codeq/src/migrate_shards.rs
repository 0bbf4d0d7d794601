//! `codeq migrate-shards`: moves the tasks of a command to another Kvrocks shard, or a spread shard to another backend.

use anyhow::{Context, anyhow, bail};
use codeq_server::config::Config;
use codeq_store::kvrocks::{
    self, KvrocksOptions, KvrocksStore, Places, Relocation, ShardMove, Sharding, Timing,
};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Ready, delayed, held and dead-lettered tasks move with their records, results, retention and keys, and with the policies,
/// pauses and schedules of their queues.
///
/// Servers and workers go on meanwhile. What is in progress stays until it ends: repeat the command then. An interrupted run
/// is repeated, too.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  codeq migrate-shards --config c.yaml --command render --from-shard main --to-shard video\n  \
                  codeq migrate-shards --config c.yaml --shard p17 --to three"
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
    /// Spread shard to move, p0 to p63, with everything that is not mapped to a shard by its name.
    #[arg(long, value_name = "SHARD", requires = "to", conflicts_with_all = ["command", "from_shard", "to_shard", "tenant"])]
    shard: Option<String>,
    /// Backend of sharding.backends that the spread shard is to live on.
    #[arg(long, value_name = "BACKEND", requires = "shard")]
    to: Option<String>,
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

/// What is to be moved.
enum Errand {
    Command(Relocation),
    Shard(ShardMove),
}

impl Errand {
    /// What waits to be moved, and what is where it belongs.
    async fn look(&self, store: &KvrocksStore) -> anyhow::Result<Verified> {
        Ok(match self {
            Errand::Command(relocation) => Verified {
                left: store.places(relocation, &relocation.from).await?,
                there: store.places(relocation, &relocation.to).await?,
            },
            Errand::Shard(wanted) => {
                let (left, there) = store.shard_places(wanted).await?;
                Verified { left, there }
            }
        })
    }

    async fn run(&self, store: &KvrocksStore) -> anyhow::Result<Places> {
        Ok(match self {
            Errand::Command(relocation) => store.relocate(relocation).await?,
            Errand::Shard(wanted) => store.move_shard(wanted).await?,
        })
    }
}

impl MigrateShards {
    pub fn run(self) -> anyhow::Result<()> {
        let required = |value: &Option<String>, flag: &str| {
            value.clone().filter(|value| !value.is_empty()).ok_or_else(|| anyhow!("--{flag} is required"))
        };
        if self.config.is_none() {
            bail!("--config is required");
        }
        let batch = self.batch_size.clamp(1, 10_000);
        let errand = match (&self.shard, &self.to) {
            (Some(shard), Some(to)) => Errand::Shard(ShardMove {
                shard: kvrocks::spread_shard(shard)
                    .ok_or_else(|| anyhow!("--shard is p0 to p63, not \"{shard}\""))?,
                to: to.clone(),
                batch,
            }),
            _ => Errand::Command(Relocation {
                command: required(&self.command, "command")?,
                from: required(&self.from_shard, "from-shard")?,
                to: required(&self.to_shard, "to-shard")?,
                tenant: self.tenant.clone(),
                batch,
            }),
        };
        let config = super::serve::load_shards(self.config.clone())?.config;
        let options = options(&config, &errand)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.context("cannot start the runtime")?.block_on(self.migrate(options, &errand))
    }

    async fn migrate(&self, options: KvrocksOptions, errand: &Errand) -> anyhow::Result<()> {
        let store = open(options).await?;
        let places = match self.dry_run {
            true => errand.look(&store).await?.left,
            false => errand.run(&store).await?,
        };
        let verified = match self.verify && !self.dry_run {
            true => Some(errand.look(&store).await?),
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

fn options(config: &Config, errand: &Errand) -> anyhow::Result<KvrocksOptions> {
    let options = codeq_server::kvrocks_options(config).context("persistenceProvider is not kvrocks")?;
    match errand {
        Errand::Command(relocation) => {
            for (end, shard) in [("source", &relocation.from), ("destination", &relocation.to)] {
                if !is_configured(&options.sharding, shard) {
                    bail!("{end} shard \"{shard}\" not found in config backends");
                }
            }
        }
        Errand::Shard(_) if options.cluster => {
            bail!("in a cluster slots move, not shards: redis-cli --cluster reshard")
        }
        Errand::Shard(_) if !options.sharding.spread => {
            bail!("sharding.spread is not set: there are no spread shards to move")
        }
        Errand::Shard(wanted) if !options.sharding.backends.contains_key(&wanted.to) => {
            bail!("backend \"{}\" not found in sharding.backends", wanted.to)
        }
        Errand::Shard(_) => {}
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
    if places.held > 0 {
        eprintln!("Held: {did} {} tasks", places.held);
    }
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
            "held": places.held,
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
