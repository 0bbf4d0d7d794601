//! Opening the store that the configuration names.

use crate::config::{Config, Kvrocks, Persistence};
use crate::stamp::WireTime;
use codeq_queue::{Observer, Store};
use codeq_store::kvrocks::{self, Backend, KvrocksOptions, Sharding, Timing};
use codeq_store::local::{self, Durability, LocalOptions, Meters};
use codeq_store::memory::{self, MemoryOptions};
use codeq_store::{Clock, Rules, SlewedClock, Supervisor, TestClock};
use std::sync::Arc;

/// Who wants to know what a store does.
pub struct Watchers {
    /// Told every transition.
    pub observer: Observer,
    /// Where the embedded store counts its syncs.
    pub meters: Arc<Meters>,
    /// Where the Kvrocks store counts its waits.
    pub kvrocks_meters: Arc<kvrocks::Meters>,
    /// Knows what of the background work fails.
    pub supervisor: Arc<Supervisor>,
}

/// What tasks live by: a clock that does not step, or one that a test moves.
pub fn clock(config: &Config) -> Arc<dyn Clock> {
    match config.test_clock {
        true => TestClock::shared(),
        false => SlewedClock::shared(),
    }
}

/// The error is the text of `init app`.
pub async fn open_store(config: &Config, watchers: Watchers) -> Result<Arc<dyn Store>, String> {
    let persistence = config.persistence.clone();
    let (rules, clock) = (rules(config), clock(config));
    let store = match persistence {
        Persistence::Kvrocks(_) => open_kvrocks(config, watchers).await?,
        persistence => {
            let opening =
                tokio::task::spawn_blocking(move || open_blocking(persistence, rules, clock, watchers));
            opening.await.map_err(|error| error.to_string())??
        }
    };
    let queues = store.queues(None).await.map_err(|failure| failure.to_string())?;
    let tasks: u64 = queues.iter().map(|queue| queue.ready_total() + queue.delayed + queue.in_progress).sum();
    let (shards, durability) = match &config.persistence {
        Persistence::Embedded(embedded) => (embedded.num_shards, word(embedded.durability)),
        _ => (1, "none"),
    };
    tracing::info!(provider = config.persistence.name(), shards, durability, tasks, "store opened");
    Ok(store)
}

fn word(durability: Durability) -> &'static str {
    match durability {
        Durability::Fsync => "fsync",
        Durability::Os => "os",
    }
}

fn rules(config: &Config) -> Rules {
    let stamp = WireTime::new(config.timezone.clone());
    Rules {
        backoff: config.tasks.backoff,
        retention: config.tasks.retention,
        failed_retention: Some(config.tasks.failed_retention),
        dead_retention: config.tasks.dlq_retention,
        audit_retention: config.tasks.audit_retention,
        cleanup_interval: config.tasks.cleanup_interval,
        callbacks: config.webhooks.enabled,
        stamp: Arc::new(move |time| stamp.text(time)),
    }
}

fn open_blocking(
    persistence: Persistence,
    rules: Rules,
    clock: Arc<dyn Clock>,
    watchers: Watchers,
) -> Result<Arc<dyn Store>, String> {
    let observer = Some(watchers.observer);
    match persistence {
        Persistence::Memory => {
            let store = memory::open(MemoryOptions { rules, shards: 1, clock, observer });
            Ok(store.map_err(|error| error.to_string())?)
        }
        Persistence::Embedded(embedded) => {
            let options = LocalOptions {
                rules,
                clock,
                observer,
                meters: watchers.meters,
                shards: embedded.num_shards,
                durability: embedded.durability,
                ..LocalOptions::new(embedded.path)
            };
            Ok(local::open(options).map_err(|error| error.to_string())?)
        }
        Persistence::Kvrocks(_) => Err("kvrocks: opened elsewhere".into()),
    }
}

async fn open_kvrocks(config: &Config, watchers: Watchers) -> Result<Arc<dyn Store>, String> {
    let options = kvrocks_options(config).ok_or("kvrocks: not configured")?;
    let (observer, meters) = (Some(watchers.observer), watchers.kvrocks_meters);
    let options = KvrocksOptions { observer, meters, supervisor: watchers.supervisor, ..options };
    Ok(kvrocks::open(options).await.map_err(|reason| format!("kvrocks: {reason}"))?)
}

/// How the Kvrocks store is opened; `None` if the configuration names another one.
pub fn kvrocks_options(config: &Config) -> Option<KvrocksOptions> {
    let Persistence::Kvrocks(kvrocks) = &config.persistence else { return None };
    Some(KvrocksOptions {
        backend: Backend {
            address: kvrocks.addr.clone(),
            password: kvrocks.password.expose().into(),
            db: kvrocks.db,
            tls: kvrocks.tls,
            pool_size: kvrocks.pool_size,
            sentinel: kvrocks.sentinel.as_ref().map(sentinel),
        },
        cluster: kvrocks.cluster,
        timeout: kvrocks.timeout,
        silence: kvrocks::SILENCE,
        wait_replicas: kvrocks.wait_replicas,
        wait_timeout: kvrocks.wait_timeout,
        untenanted_tenant: Some(kvrocks.untenanted_tenant.clone()).filter(|tenant| !tenant.is_empty()),
        inspect_limit: kvrocks.requeue_inspect_limit,
        timing: Timing::Running { sweep_interval: kvrocks.sweep_interval },
        sharding: sharding(kvrocks),
        rules: rules(config),
        max_attempts_default: config.tasks.max_attempts,
        clock: SlewedClock::shared(),
        observer: None,
        meters: Arc::default(),
        supervisor: Arc::default(),
    })
}

fn sharding(kvrocks: &Kvrocks) -> Sharding {
    let Some(sharding) = &kvrocks.sharding else { return Sharding::default() };
    let backends = sharding.backends.iter().map(|(name, backend)| {
        let backend = Backend {
            address: backend.address.clone(),
            password: backend.password.expose().into(),
            db: backend.db,
            tls: kvrocks.tls,
            pool_size: backend.pool_size,
            sentinel: backend.sentinel.as_ref().map(sentinel),
        };
        (name.clone(), backend)
    });
    Sharding {
        default_shard: sharding.default_shard.clone(),
        command_mappings: sharding.command_mappings.clone(),
        tenant_overrides: sharding.tenant_overrides.clone(),
        backends: backends.collect(),
        spread: sharding.spread,
        spread_over: sharding.spread_over.clone(),
    }
}

fn sentinel(sentinel: &crate::config::Sentinel) -> kvrocks::Sentinel {
    kvrocks::Sentinel::new(sentinel.addresses.clone(), &sentinel.master, sentinel.password.expose())
}
