//! Opening: connect, look at the server, load the scripts, adopt old data, start what runs by itself.

use super::clock::Now;
use super::cluster::slot_of;
use super::connection::{Connection, Target};
use super::events::Teller;
use super::former::Former;
use super::gate::Gate;
use super::inspect::check;
use super::keys::Keys;
use super::known::Memory;
use super::layout::Layout;
use super::notes::Notes;
use super::options::{Backend, KvrocksOptions, Timing};
use super::presence::Presence;
use super::rate::Servers;
use super::replication::Replication;
use super::script::Names;
use super::shard::{Server, Shard};
use super::signal::{Publisher, hear};
use super::spread;
use super::store::{Keeper, KvrocksStore};
use super::waiting::{Claims, Counter, Watchers};
use super::writer::{Tell, Writer};
use codeq_queue::{Backoff, Time};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Counted attempts for which the policy may give different delays.
const BACKOFF_STEPS: u32 = 1024;
/// Connections to one server for reading.
const MOST_READING: u32 = 1000;
/// How long opening waits until this process hears the others.
const HEARS: Duration = Duration::from_secs(1);

/// Opens the store on the current runtime, which must outlive it. The error says why a server cannot be used.
pub async fn open(options: KvrocksOptions) -> Result<Arc<KvrocksStore>, String> {
    let layout = super::layout::survey(servers(&options), &places(&options)).await;
    let home = line(target(&options, &options.sharding.default_shard), Arc::default());
    let keys = Keys::new(&options.sharding.default_shard, options.cluster);
    let channel = match &layout.deployment {
        Some(deployment) => format!("{}:{deployment}", keys.of("ev")),
        None => keys.of("ev"),
    };
    let publisher = Publisher::start(home.clone(), &channel);
    let teller = Arc::new(Teller {
        observer: options.observer.clone(),
        claims: Arc::new(Claims::default()),
        watchers: Arc::new(Watchers::default()),
        publisher,
        presence: Presence::new(home.target().backend.db),
        moved: tokio::sync::Notify::new(),
        memory: Arc::new(Memory::default()),
    });
    let shards = open_shards(&options, &layout, &teller).await?;
    let keeper = assemble(&options, shards, teller.clone());
    keeper.tell_time().await;
    let late = keeper.set_up(&options).await?;
    keeper.note_layout().await;
    keeper.look_for_former_places().await;
    let (claims, serving) = (teller.claims.clone(), keeper.clone());
    let listening = tokio::spawn(hear(home.target().clone(), channel, teller.clone()));
    // What happens from here on is heard, unless the server is too slow to say so.
    let _ = tokio::time::timeout(HEARS, teller.presence.hears.notified()).await;
    tokio::spawn(async move { claims.serve(serving as Arc<dyn Counter>).await });
    keeper.begin_watching();
    start_timers(&keeper);
    if !late.is_empty() {
        let (keeper, options) = (keeper.clone(), options);
        tokio::spawn(async move { keeper.set_up_late(late, &options).await });
    }
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
            let sweeps: Vec<_> = (0..keeper.keyspaces.len())
                .map(|keyspace| tokio::spawn(sweeping.clone().keep_sweeping(keyspace, sweep_interval)))
                .chain([
                    tokio::spawn(sweeping.clone().keep_time()),
                    tokio::spawn(sweeping.clone().keep_former_places()),
                ])
                .collect();
            tokio::spawn(async move {
                closing.closed().await;
                sweeps.iter().for_each(JoinHandle::abort);
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
                    sweeping.noted_health(0, entered.err());
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
    if sharding.spread {
        names.extend((0..spread::SPREAD_SHARDS).map(spread::name));
    }
    names
}

fn backend(options: &KvrocksOptions, shard: &str) -> Backend {
    let sharding = &options.sharding;
    let spread = spread::parse(shard).filter(|_| sharding.spread && !sharding.spread_over.is_empty());
    let name = match spread {
        Some(at) => &sharding.spread_over[spread::backend_of(at, sharding.spread_over.len())],
        None => shard,
    };
    sharding.backends.get(name).unwrap_or(&options.backend).clone()
}

fn target(options: &KvrocksOptions, shard: &str) -> Target {
    let slot = options.cluster.then(|| slot_of(&spread::tag(shard)));
    Target { backend: backend(options, shard), slot, timeout: options.timeout, expected: None }
}

/// What the shards on one server have in common; in a cluster each shard has its own.
fn place(options: &KvrocksOptions, shard: &str) -> String {
    match options.cluster {
        true => shard.to_owned(),
        false => format!("{:?}", backend(options, shard)),
    }
}

/// The shards of every server, by the first of them. That of the default shard comes first.
pub fn places(options: &KvrocksOptions) -> Vec<(String, Vec<String>)> {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for name in shard_names(options) {
        let at = *places.entry(place(options, &name)).or_insert(found.len());
        match found.get_mut(at) {
            Some((_, shards)) => shards.push(name),
            None => found.push((name.clone(), vec![name])),
        }
    }
    found
}

/// Every server, by the first of its shards.
pub fn servers(options: &KvrocksOptions) -> Vec<(String, Target, Keys)> {
    let firsts = places(options).into_iter().map(|(first, _)| first);
    firsts.map(|name| (name.clone(), target(options, &name), Keys::new(&name, options.cluster))).collect()
}

/// The first of the shards that are on the same server as this one.
pub fn place_of(options: &KvrocksOptions, shard: &str) -> Option<String> {
    places(options)
        .into_iter()
        .find(|(_, shards)| shards.iter().any(|name| name == shard))
        .map(|(first, _)| first)
}

fn line(target: Target, gate: Arc<Gate>) -> Arc<Connection> {
    Arc::new(Connection::new(target, gate))
}

/// What the pool has besides the connection for writes, and at least one.
fn reading_lines(target: Target, gate: Arc<Gate>) -> Arc<Connection> {
    let size = target.backend.pool_size.saturating_sub(1).clamp(1, MOST_READING);
    Arc::new(Connection::pooled(target, gate, usize::try_from(size).unwrap_or(1)))
}

/// Shards on one server share their connections; in a cluster each has its own.
async fn open_shards(
    options: &KvrocksOptions,
    layout: &Layout,
    teller: &Arc<Teller>,
) -> Result<Vec<Shard>, String> {
    let mut lines: BTreeMap<String, (Writer, Arc<Server>)> = BTreeMap::new();
    let (mut shards, mut away) = (Vec::new(), Vec::new());
    for name in &shard_names(options) {
        let place = place(options, name);
        if !lines.contains_key(&place) {
            let gate = Arc::<Gate>::default();
            let target = Target { expected: layout.expected(name), ..target(options, name) };
            let (writes, reads) =
                (line(target.clone(), gate.clone()), reading_lines(target.clone(), gate.clone()));
            let scripts = match prepare(&reads, &writes, &Keys::new(name, options.cluster)).await {
                Ok(scripts) => scripts,
                Err(reason) if gate.away().is_some() => {
                    away.push(reason);
                    Names::unknown()
                }
                Err(reason) => return Err(reason),
            };
            let teller = teller.clone();
            let tell: Tell = Arc::new(move |events| teller.tell(events));
            let scripts = Arc::new(RwLock::new(scripts));
            let replication =
                Replication::new(options.wait_replicas, options.wait_timeout, options.meters.clone());
            let writer = Writer::start(writes.clone(), scripts.clone(), replication, tell);
            tokio::spawn(gate.clone().watch(target, Keys::new(name, options.cluster)));
            lines.insert(place.clone(), (writer, Arc::new(Server::new((reads, writes), gate, scripts))));
        }
        let (writer, server) = &lines[&place];
        let keys = Keys::new(name, options.cluster);
        shards.push(Shard::new(name, keys, writer.clone(), server.clone()));
    }
    // Whoever is away takes down what it holds and nothing else; with all of them there is nothing to serve.
    match away.len() == lines.len() {
        true => Err(away.join("; ")),
        false => Ok(shards),
    }
}

async fn prepare(reads: &Connection, writes: &Connection, keys: &Keys) -> Result<Names, String> {
    check(reads, keys).await?;
    Names::load(writes).await.map_err(|trouble| trouble.text().to_owned())
}

/// Between two tries to set up a server that was away at the start.
const LATE_INTERVAL: Duration = Duration::from_millis(500);

impl Keeper {
    /// Adopts old data and writes missing indexes. Gives the keyspaces whose servers are away.
    async fn set_up(&self, options: &KvrocksOptions) -> Result<Vec<usize>, String> {
        let mut late = Vec::new();
        for keyspace in 0..self.keyspaces.len() {
            let server = &self.shards[self.keyspaces[keyspace][0]].server;
            match self.set_up_keyspace(keyspace, options).await {
                Ok(()) => {}
                Err(_) if server.gate.away().is_some() => late.push(keyspace),
                Err(reason) => return Err(reason),
            }
        }
        Ok(late)
    }

    async fn set_up_keyspace(&self, keyspace: usize, options: &KvrocksOptions) -> Result<(), String> {
        if !options.cluster {
            self.migrate(keyspace, options).await?;
        }
        self.index_queues(keyspace).await.map_err(|failure| failure.to_string())
    }

    async fn set_up_late(&self, mut late: Vec<usize>, options: &KvrocksOptions) {
        while !late.is_empty() && !*self.is_closed.borrow() {
            tokio::time::sleep(LATE_INTERVAL).await;
            let keyspace = late.remove(0);
            if let Err(reason) = self.set_up_keyspace(keyspace, options).await {
                tracing::debug!(err = reason, "a server that was away is not set up yet");
                late.push(keyspace);
            } else {
                self.note_layout().await;
            }
        }
    }
}

/// Shards by what they share.
fn keyspaces(shards: &[Shard]) -> Vec<Vec<usize>> {
    let mut keyspaces: Vec<Vec<usize>> = Vec::new();
    for (at, shard) in shards.iter().enumerate() {
        let is_same = |other: &Vec<usize>| {
            let other = &shards[other[0]];
            Arc::ptr_eq(&other.server, &shard.server) && other.keys.of("") == shard.keys.of("")
        };
        match keyspaces.iter_mut().find(|keyspace| is_same(keyspace)) {
            Some(keyspace) => keyspace.push(at),
            None => keyspaces.push(vec![at]),
        }
    }
    keyspaces
}

fn assemble(options: &KvrocksOptions, shards: Vec<Shard>, teller: Arc<Teller>) -> Arc<Keeper> {
    Arc::new_cyclic(|me| Keeper {
        me: me.clone(),
        name: format!("{:032x}", rand::random::<u128>()),
        keyspaces: keyspaces(&shards),
        shards,
        timeout: options.timeout,
        default_shard: 0,
        sharding: options.sharding.clone(),
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
        trouble: Mutex::default(),
        former: Former::default(),
        rate_servers: Servers::default(),
        watch: Mutex::default(),
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
