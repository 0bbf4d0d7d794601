//! Opening: connect, look at the server, load the scripts, adopt old data, start what runs by itself.

use super::clock::Now;
use super::cluster::slot_of;
use super::connection::{Command, Connection, Reply, Target};
use super::events::Teller;
use super::keys::Keys;
use super::known::Memory;
use super::notes::Notes;
use super::options::{Backend, KvrocksOptions, Timing};
use super::presence::Presence;
use super::rate::Servers;
use super::script::Names;
use super::shard::Shard;
use super::signal::{Publisher, hear};
use super::store::{Keeper, KvrocksStore};
use super::waiting::{Claims, Counter, Watchers};
use super::writer::{Tell, Writer};
use codeq_queue::{Backoff, Time};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;
use tokio::sync::watch;

/// Counted attempts for which the policy may give different delays.
const BACKOFF_STEPS: u32 = 1024;
/// Connections to one server for reading.
const MOST_READING: u32 = 1000;
/// How long opening waits until this process hears the others.
const HEARS: Duration = Duration::from_secs(1);
/// The oldest servers that know every command used here.
const OLDEST_REDIS: (u64, u64) = (6, 2);
const OLDEST_KVROCKS: (u64, u64) = (2, 14);

/// Opens the store on the current runtime, which must outlive it. The error says why a server cannot be used.
pub async fn open(options: KvrocksOptions) -> Result<Arc<KvrocksStore>, String> {
    let names = shard_names(&options);
    let home = line(&options, &options.sharding.default_shard);
    let channel = Keys::new(&options.sharding.default_shard, options.cluster).of("ev");
    let publisher = Publisher::start(home.clone(), &channel);
    let teller = Arc::new(Teller {
        observer: options.observer.clone(),
        claims: Arc::new(Claims::default()),
        watchers: Arc::new(Watchers::default()),
        publisher,
        presence: Presence::new(home.target().backend.db),
        memory: Arc::new(Memory::default()),
    });
    let shards = open_shards(&options, &names, &teller).await?;
    let keeper = assemble(&options, shards, teller.clone());
    if !options.cluster {
        keeper.migrate(&options).await?;
    }
    let (claims, serving) = (teller.claims.clone(), keeper.clone());
    let listening = tokio::spawn(hear(home.target().clone(), channel, teller.clone()));
    // What happens from here on is heard, unless the server is too slow to say so.
    let _ = tokio::time::timeout(HEARS, teller.presence.hears.notified()).await;
    tokio::spawn(async move { claims.serve(serving as Arc<dyn Counter>).await });
    start_timers(&keeper);
    let closing = keeper.clone();
    tokio::spawn(async move {
        closing.closed().await;
        listening.abort();
    });
    Ok(Arc::new(KvrocksStore { keeper }))
}

fn start_timers(keeper: &Arc<Keeper>) {
    let (sweeping, closing) = (keeper.clone(), keeper.clone());
    match keeper.timing {
        Timing::Running { sweep_interval } => {
            let sweeping = tokio::spawn(sweeping.keep_sweeping(sweep_interval));
            tokio::spawn(async move {
                closing.closed().await;
                sweeping.abort();
            });
        }
        Timing::Stepped => {
            let (moved, mut moves) = watch::channel(());
            keeper.now.clock().on_jump(Box::new(move || {
                moved.send_replace(());
            }));
            tokio::spawn(async move {
                while moves.changed().await.is_ok() {
                    let entered = sweeping.enter().await;
                    if *sweeping.is_closed.borrow() {
                        return;
                    }
                    sweeping.noted_health(entered.err());
                    sweeping.teller.claims.ring_all();
                    sweeping.teller.watchers.tell_all();
                }
            });
        }
    }
}

fn shard_names(options: &KvrocksOptions) -> Vec<String> {
    let sharding = &options.sharding;
    let mut names = vec![sharding.default_shard.clone()];
    let others = sharding.backends.keys().chain(sharding.command_mappings.values());
    for name in others.chain(sharding.tenant_overrides.values()) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

fn backend(options: &KvrocksOptions, shard: &str) -> Backend {
    options.sharding.backends.get(shard).unwrap_or(&options.backend).clone()
}

fn target(options: &KvrocksOptions, shard: &str) -> Target {
    let slot = options.cluster.then(|| slot_of(shard));
    Target { backend: backend(options, shard), slot, timeout: options.timeout }
}

fn line(options: &KvrocksOptions, shard: &str) -> Arc<Connection> {
    Arc::new(Connection::new(target(options, shard)))
}

/// What the pool has besides the connection for writes, and at least one.
fn reading_lines(options: &KvrocksOptions, shard: &str) -> Arc<Connection> {
    let target = target(options, shard);
    let size = target.backend.pool_size.saturating_sub(1).clamp(1, MOST_READING);
    Arc::new(Connection::pooled(target, usize::try_from(size).unwrap_or(1)))
}

/// Shards on one server share their connections; in a cluster each has its own.
async fn open_shards(
    options: &KvrocksOptions,
    names: &[String],
    teller: &Arc<Teller>,
) -> Result<Vec<Shard>, String> {
    let mut lines: BTreeMap<String, (Writer, Arc<Connection>, Arc<Connection>)> = BTreeMap::new();
    let mut shards = Vec::new();
    for name in names {
        let place = match options.cluster {
            true => name.clone(),
            false => format!("{:?}", backend(options, name)),
        };
        if !lines.contains_key(&place) {
            let (writes, reads) = (line(options, name), reading_lines(options, name));
            check(&reads).await?;
            let scripts = Names::load(&writes).await.map_err(|trouble| trouble.text().to_owned())?;
            let teller = teller.clone();
            let tell: Tell = Arc::new(move |events| teller.tell(events));
            let scripts = Arc::new(RwLock::new(scripts));
            let writer = Writer::start(writes.clone(), scripts, options.wait_replicas, tell);
            lines.insert(place.clone(), (writer, reads, writes));
        }
        let (writer, reads, writes) = &lines[&place];
        let keys = Keys::new(name, options.cluster);
        shards.push(Shard::new(name, keys, writer.clone(), (reads.clone(), writes.clone())));
    }
    Ok(shards)
}

/// Refuses servers that are too old, or that are replicas.
async fn check(connection: &Connection) -> Result<(), String> {
    let address = &connection.target().backend.address;
    let info =
        connection.exchange(&[Command::new("INFO")]).await.map_err(|trouble| trouble.text().to_owned())?;
    let text = match info.into_iter().next() {
        Some(Reply::Text(text)) => String::from_utf8_lossy(&text).into_owned(),
        Some(Reply::Error(error)) => return Err(format!("{address}: {error}")),
        other => return Err(format!("{address}: unexpected answer to INFO: {other:?}")),
    };
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(|value| value.trim().to_owned())
    };
    let (kind, version, oldest) = match (field("kvrocks_version"), field("redis_version")) {
        (Some(version), _) => ("Kvrocks", version, OLDEST_KVROCKS),
        (None, Some(version)) => ("Redis", version, OLDEST_REDIS),
        (None, None) => return Err(format!("{address}: neither Kvrocks nor Redis")),
    };
    let mut parts = version.split('.').map(|part| part.parse::<u64>().unwrap_or(0));
    let found = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if found < oldest {
        return Err(format!("{address}: {kind} {version} is too old, {}.{} is needed", oldest.0, oldest.1));
    }
    if field("role").is_some_and(|role| role == "slave") {
        return Err(format!("{address}: the server is a replica"));
    }
    Ok(())
}

fn assemble(options: &KvrocksOptions, shards: Vec<Shard>, teller: Arc<Teller>) -> Arc<Keeper> {
    Arc::new_cyclic(|me| Keeper {
        me: me.clone(),
        shards,
        default_shard: 0,
        sharding: options.sharding.clone(),
        has_backends: options.cluster || !options.sharding.backends.is_empty(),
        rules: options.rules.clone(),
        backoff_ranges: ranges(&options.rules.backoff),
        inspect_limit: options.inspect_limit.max(1),
        timing: options.timing,
        now: Now::new(options.clock.clone()),
        memory: teller.memory.clone(),
        notes: Arc::new(Notes::default()),
        teller,
        is_closed: watch::channel(false).0,
        stepped_to: tokio::sync::Mutex::new(Time::ZERO),
        trouble: Mutex::new(None),
        rate_servers: Servers::default(),
    })
}

/// The shortest and the longest delay after each counted attempt, up to where they stay the same.
fn ranges(backoff: &Backoff) -> String {
    let range = |used| (backoff.delay_seconds(used, 0), backoff.delay_seconds(used, u64::MAX));
    let last = range(BACKOFF_STEPS);
    let different = (1..=BACKOFF_STEPS).take_while(|used| range(*used) != last).count();
    let steps = u32::try_from(different).unwrap_or(BACKOFF_STEPS) + 1;
    let texts: Vec<String> = (1..=steps).map(range).map(|(low, high)| format!("{low}:{high}")).collect();
    texts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use codeq_queue::BackoffPolicy;

    #[test]
    fn ranges_end_where_the_policy_stays_the_same() {
        let backoff = |policy| Backoff { policy, base_seconds: 5, max_seconds: 30 };
        assert_eq!(ranges(&backoff(BackoffPolicy::Fixed)), "5:5");
        assert_eq!(ranges(&backoff(BackoffPolicy::Linear)), "5:5,10:10,15:15,20:20,25:25,30:30");
        assert_eq!(ranges(&backoff(BackoffPolicy::ExpFullJitter)), "0:10,0:20,0:30");
        assert_eq!(ranges(&backoff(BackoffPolicy::ExpEqualJitter)), "5:10,10:20,15:30");
    }
}
