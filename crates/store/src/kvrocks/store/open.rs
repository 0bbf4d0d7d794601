//! Opening: connect, look at the server, load the scripts, adopt old data, start what runs by itself.

use crate::kvrocks::context::former::Former;
use crate::kvrocks::context::known::Memory;
use crate::kvrocks::context::layout::Layout;
use crate::kvrocks::context::notes::QueueNotes;
use crate::kvrocks::context::shard::{Server, Shard};
use crate::kvrocks::context::spread;
use crate::kvrocks::coordination::events::EventSink;
use crate::kvrocks::coordination::presence::Presence;
use crate::kvrocks::coordination::signal::{Publisher, hear};
use crate::kvrocks::coordination::waiting::{ClaimSource, WaitingClaims};
use crate::kvrocks::coordination::watchers::Watchers;
use crate::kvrocks::format::keys::Keys;
use crate::kvrocks::redis::cluster::slot_of;
use crate::kvrocks::redis::connection::Target;
use crate::kvrocks::redis::reach::{Reached, line, reach_all};
use crate::kvrocks::redis::replication::Replication;
use crate::kvrocks::redis::script::Names;
use crate::kvrocks::redis::writer::{Nudge, Tell, Writer};
use crate::kvrocks::store::options::{Backend, KvrocksOptions, Timing};
use crate::kvrocks::store::{KvrocksStore, StoreContext};
use crate::kvrocks::timers::carrying::Carrier;
use crate::kvrocks::timers::clock::Now;
use crate::kvrocks::verbs::rate::Servers;
use codeq_queue::{Backoff, Time};
use futures_util::future::join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Counted attempts for which the policy may give different delays.
const BACKOFF_STEPS: u32 = 1024;
/// How long opening waits until this process hears the others.
const HEARS: Duration = Duration::from_secs(1);

/// Opens the store on the current runtime, which must outlive it. The error says why a server cannot be used.
pub async fn open(options: KvrocksOptions) -> Result<Arc<KvrocksStore>, String> {
    let layout = crate::kvrocks::context::layout::survey(servers(&options), &places(&options)).await;
    let home = line(target(&options, &options.sharding.default_shard), Arc::default());
    let keys = Keys::new(&options.sharding.default_shard, options.cluster);
    let channel = match &layout.deployment {
        Some(deployment) => format!("{}:{deployment}", keys.of("ev")),
        None => keys.of("ev"),
    };
    let publisher = Publisher::start(home.clone(), &channel);
    let teller = Arc::new(EventSink {
        observer: options.observer.clone(),
        claims: Arc::new(WaitingClaims::default()),
        watchers: Arc::new(Watchers::default()),
        publisher,
        presence: Presence::new(home.target().backend.db),
        moved: tokio::sync::Notify::new(),
        memory: Arc::new(Memory::default()),
    });
    let carrier = Arc::<Carrier>::default();
    let shards = open_shards(&options, &layout, &teller, &carrier).await?;
    let keeper = assemble(&options, shards, teller.clone(), carrier);
    keeper.follow_all(&layout.moves)?;
    keeper.tell_time().await;
    let late = keeper.set_up(&options).await?;
    keeper.note_layout().await;
    keeper.look_for_former_places().await;
    let (claims, serving) = (teller.claims.clone(), keeper.clone());
    let gate = keeper.home().server.gate.clone();
    let listening = tokio::spawn(hear(home.target().clone(), channel, teller.clone(), gate));
    // What happens from here on is heard, unless the server is too slow to say so.
    let _ = tokio::time::timeout(HEARS, teller.presence.hears.notified()).await;
    tokio::spawn(async move { claims.serve(serving as Arc<dyn ClaimSource>).await });
    keeper.begin_watching();
    tokio::spawn(keeper.clone().keep_carrying());
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

fn start_timers(keeper: &Arc<StoreContext>) {
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
                // The clock keeps the hook and the store keeps the clock: only closing ends this.
                while let Ok(()) = tokio::select! {
                    () = closing.closed() => return,
                    moved = moves.changed() => moved,
                } {
                    let entered = sweeping.enter().await;
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
        // In a cluster slots move, not shards.
        for (name, backend) in sharding.backends.iter().filter(|_| !options.cluster) {
            let others = (0..spread::SPREAD_SHARDS).filter(|shard| home_backend(options, *shard) != backend);
            names.extend(others.map(|shard| spread::place_name(shard, name)));
        }
    }
    names
}

/// Where the configuration puts a spread shard.
fn home_backend(options: &KvrocksOptions, shard: usize) -> &Backend {
    let sharding = &options.sharding;
    match sharding.spread_over.len() {
        0 => &options.backend,
        count => {
            let name = &sharding.spread_over[spread::backend_of(shard, count)];
            sharding.backends.get(name).unwrap_or(&options.backend)
        }
    }
}

fn backend(options: &KvrocksOptions, shard: &str) -> Backend {
    let sharding = &options.sharding;
    if let Some(at) = spread::parse(shard).filter(|_| sharding.spread) {
        return home_backend(options, at).clone();
    }
    let name = spread::backend_name(shard).unwrap_or(shard);
    sharding.backends.get(name).unwrap_or(&options.backend).clone()
}

fn target(options: &KvrocksOptions, shard: &str) -> Target {
    let slot = options.cluster.then(|| slot_of(&spread::tag(shard)));
    Target {
        backend: backend(options, shard),
        slot,
        timeout: options.timeout,
        silence: options.silence,
        expected: None,
    }
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

/// Shards on one server share their connections; in a cluster each has its own.
async fn open_shards(
    options: &KvrocksOptions,
    layout: &Layout,
    teller: &Arc<EventSink>,
    carrier: &Arc<Carrier>,
) -> Result<Vec<Shard>, String> {
    let mut lines: BTreeMap<String, (Writer, Arc<Server>)> = BTreeMap::new();
    let (mut shards, mut away) = (Vec::new(), Vec::new());
    let names = shard_names(options);
    let reached = reach_all(first_shards(options, layout)).await;
    for reached in reached {
        let Reached { name, target, gate, lines: (writes, reads), scripts } = reached;
        let scripts = match scripts {
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
        let (carrier, keyspace) = (carrier.clone(), lines.len());
        let nudge: Nudge = Arc::new(move || carrier.nudge(keyspace));
        let writer = Writer::start(writes.clone(), scripts.clone(), replication, (tell, nudge));
        tokio::spawn(gate.clone().watch(target, Keys::new(&name, options.cluster)));
        let server = Arc::new(Server::new((reads, writes), gate, scripts));
        lines.insert(place(options, &name), (writer, server));
    }
    for name in &names {
        let place = place(options, name);
        let (writer, server) = &lines[&place];
        let base = spread::base_name(name);
        let keys = Keys::new(base, options.cluster);
        shards.push(Shard::new(base, keys, writer.clone(), server.clone()));
    }
    // Whoever is away takes down what it holds and nothing else; with all of them there is nothing to serve.
    match away.len() == lines.len() {
        true => Err(away.join("; ")),
        false => Ok(shards),
    }
}

/// Every server, by the first of its shards.
fn first_shards(options: &KvrocksOptions, layout: &Layout) -> Vec<(String, Target, Keys)> {
    let mut known = BTreeSet::new();
    let mut firsts = Vec::new();
    for name in shard_names(options) {
        if known.insert(place(options, &name)) {
            let target = Target { expected: layout.expected(&name), ..target(options, &name) };
            let keys = Keys::new(&name, options.cluster);
            firsts.push((name, target, keys));
        }
    }
    firsts
}

/// Between two tries to set up a server that was away at the start.
const LATE_INTERVAL: Duration = Duration::from_millis(500);

impl StoreContext {
    /// Adopts old data and writes missing indexes. Gives the keyspaces whose servers are away.
    async fn set_up(&self, options: &KvrocksOptions) -> Result<Vec<usize>, String> {
        let mut late = Vec::new();
        let set_up = (0..self.keyspaces.len()).map(|keyspace| self.set_up_keyspace(keyspace, options));
        for (keyspace, done) in join_all(set_up).await.into_iter().enumerate() {
            let server = &self.shards[self.keyspaces[keyspace][0]].server;
            match done {
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

fn assemble(
    options: &KvrocksOptions,
    shards: Vec<Shard>,
    teller: Arc<EventSink>,
    carrier: Arc<Carrier>,
) -> Arc<StoreContext> {
    let spread = spread_places(options);
    Arc::new_cyclic(|me| StoreContext {
        me: me.clone(),
        spread,
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
        notes: Arc::new(QueueNotes::default()),
        teller,
        is_closed: watch::channel(false).0,
        stepped_to: tokio::sync::Mutex::new(Time::ZERO),
        trouble: Mutex::default(),
        former: Former::default(),
        known_policies: tokio::sync::Mutex::default(),
        rate_servers: Servers::default(),
        watch: Mutex::default(),
        carrier,
    })
}

fn spread_places(options: &KvrocksOptions) -> spread::SpreadPlaces {
    let sharding = &options.sharding;
    if !sharding.spread {
        return spread::SpreadPlaces::default();
    }
    spread::SpreadPlaces::new(&shard_names(options), |shard| {
        let home = home_backend(options, shard);
        let own = sharding.backends.iter().filter(|(_, backend)| *backend == home);
        own.map(|(name, _)| name.clone()).collect()
    })
}

/// The shortest and the longest delay after each counted attempt, up to where they stay the same.
pub fn ranges(backoff: &Backoff) -> String {
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
