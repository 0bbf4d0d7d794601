//! Whether a server holds what it should: a server that lost its volume must not be served as empty, nor one of another
//! deployment as ours.
//!
//! `codeq:layout` is a hash in every keyspace: `deployment`, a random id made at the first start, and `shard:<name>` for
//! every shard that has been in use, and of a spread shard that was moved `at:<name>` (where it lives) and, where it does
//! not live any more, `gone:<name>`. It is checked with every connection. A keyspace without the id is new if nobody
//! knows its shards, and gets it; if another server knows them, its data is gone, and it counts as away until an
//! operator accepts that (`codeq store accept`).

use crate::kvrocks::context::spread::{Move, parse, parse_move};
use crate::kvrocks::format::keys::Keys;
use crate::kvrocks::redis::connection::{Command, Connection, Reply, Target};
use crate::kvrocks::redis::reply::{list, string};
use crate::kvrocks::store::StoreContext;
use crate::kvrocks::store::options::KvrocksOptions;
use futures_util::future::join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The form of what is kept under our keys.
const FORMAT: &str = "1";
const DEPLOYMENT: &str = "deployment";
/// What begins the fields that tell where a spread shard lives, and that it has left. See `scripts/intake.lua`.
pub const AT: &str = "at:";
pub const GONE: &str = "gone:";

/// What has to be found at a server.
#[derive(Debug)]
pub struct Expected {
    key: String,
    deployment: String,
    /// Of the shards there, for the command that accepts it.
    shard: String,
    /// Whether it gets the id if it has none: nobody has used it so far.
    is_new: AtomicBool,
}

impl Expected {
    /// What to ask.
    pub fn commands(&self) -> Vec<Command> {
        let make =
            Command::new("HSETNX").arg(self.key.as_str()).arg(DEPLOYMENT).arg(self.deployment.as_str());
        let read = Command::new("HGET").arg(self.key.as_str()).arg(DEPLOYMENT);
        match self.is_new.load(Ordering::Acquire) {
            true => vec![make, read],
            false => vec![read],
        }
    }

    /// Why the server cannot be used, by its answers.
    pub fn check(&self, mut replies: Vec<Reply>) -> Result<(), String> {
        let (shard, deployment) = (&self.shard, &self.deployment);
        let found = match replies.pop().unwrap_or(Reply::Nil) {
            Reply::Error(text) => return Err(text),
            found => string(found),
        };
        if found == *deployment {
            self.is_new.store(false, Ordering::Release);
            return Ok(());
        }
        if let Some(Reply::Error(text)) = replies.pop() {
            return Err(text);
        }
        let accept = format!("codeq store accept {shard} --deployment {deployment}");
        Err(match found.is_empty() {
            true => format!(
                "codeq:layout is missing: what it held is gone; bring its data back, or run: {accept}"
            ),
            false => format!(
                "it belongs to deployment {found}, not to {deployment}; correct persistenceConfig and \
                 sharding.backends, or run: {accept}"
            ),
        })
    }
}

/// What one keyspace says of itself.
#[derive(Default)]
struct Found {
    deployment: Option<String>,
    shards: BTreeSet<String>,
    moves: BTreeMap<usize, Move>,
}

/// What is expected of each keyspace, by the name of its first shard, and the id of all of them.
#[derive(Default)]
pub struct Layout {
    pub deployment: Option<String>,
    /// Where spread shards were moved to.
    pub moves: BTreeMap<usize, Move>,
    expected: BTreeMap<String, Arc<Expected>>,
}

impl Layout {
    pub fn expected(&self, shard: &str) -> Option<Arc<Expected>> {
        self.expected.get(shard).cloned()
    }
}

/// Asks every server that answers. The home keyspace comes first: where servers disagree its word counts.
pub async fn survey(servers: Vec<(String, Target, Keys)>, names: &[(String, Vec<String>)]) -> Layout {
    let asked = servers.iter().map(|(_, target, keys)| look(target, keys));
    let found: Vec<Option<Found>> = join_all(asked).await;
    let told = found.iter().flatten().find_map(|found| found.deployment.clone());
    let deployment = match told {
        Some(told) => Some(told),
        None => make(&servers, &found).await,
    };
    let Some(deployment) = deployment else { return Layout::default() };
    let is_ours = |found: &&Found| found.deployment.as_ref() == Some(&deployment);
    let known: BTreeSet<&String> =
        found.iter().flatten().filter(is_ours).flat_map(|found| &found.shards).collect();
    let moves = latest_moves(found.iter().flatten().filter(is_ours).map(|found| &found.moves));
    let shards_of = |first: &str| names.iter().find(|(name, _)| name == first).map(|(_, shards)| shards);
    let expected = servers.iter().map(|(name, _, keys)| {
        let is_known = shards_of(name).is_some_and(|shards| shards.iter().any(|shard| known.contains(shard)));
        let expected = Expected {
            key: keys.of("layout"),
            deployment: deployment.clone(),
            shard: name.clone(),
            is_new: AtomicBool::new(!is_known),
        };
        (name.clone(), Arc::new(expected))
    });
    Layout { expected: expected.collect(), moves, deployment: Some(deployment) }
}

/// `None` if it does not answer.
async fn look(target: &Target, keys: &Keys) -> Option<Found> {
    let connection = Connection::new(target.clone(), Arc::default());
    let ask = Command::new("HGETALL").arg(keys.of("layout"));
    let reply = connection.exchange(&[ask]).await.ok()?.pop()?;
    if matches!(reply, Reply::Error(_)) {
        return None;
    }
    let mut found = Found { moves: moves_in(&reply), ..Found::default() };
    for pair in list(reply).chunks_exact(2) {
        let (field, value) = (string(pair[0].clone()), string(pair[1].clone()));
        match field.strip_prefix("shard:") {
            Some(shard) => drop(found.shards.insert(shard.to_owned())),
            None if field == DEPLOYMENT && !value.is_empty() => found.deployment = Some(value),
            None => {}
        }
    }
    Some(found)
}

/// Where spread shards were moved to, as the layout of a keyspace tells.
pub fn moves_in(layout: &Reply) -> BTreeMap<usize, Move> {
    let mut moves = BTreeMap::new();
    for pair in list(layout.clone()).chunks_exact(2) {
        let field = string(pair[0].clone());
        let name = field.strip_prefix(AT).or_else(|| field.strip_prefix(GONE));
        let told = name.and_then(parse).zip(parse_move(&string(pair[1].clone())));
        if let Some((shard, to)) = told {
            let latest = moves.entry(shard).or_insert_with(|| to.clone());
            *latest = to.max(latest.clone());
        }
    }
    moves
}

/// Of every shard the last move that anybody tells of.
pub fn latest_moves<'a>(told: impl Iterator<Item = &'a BTreeMap<usize, Move>>) -> BTreeMap<usize, Move> {
    let mut moves: BTreeMap<usize, Move> = BTreeMap::new();
    for (shard, to) in told.flatten() {
        let latest = moves.entry(*shard).or_insert_with(|| to.clone());
        if *to > *latest {
            latest.clone_from(to);
        }
    }
    moves
}

/// The id that a keyspace has, if it answers and has one.
pub async fn deployment_of(target: &Target, keys: &Keys) -> Option<String> {
    look(target, keys).await?.deployment
}

/// Makes the id in the home keyspace. Of several processes at once one makes it.
async fn make(servers: &[(String, Target, Keys)], found: &[Option<Found>]) -> Option<String> {
    // Not without the home keyspace: it may have an id of which nobody else knows.
    found.first()?.as_ref()?;
    let (_, target, keys) = servers.first()?;
    let connection = Connection::new(target.clone(), Arc::default());
    let (key, id) = (keys.of("layout"), format!("{:032x}", rand::random::<u128>()));
    let make = Command::new("HSETNX").arg(key.as_str()).arg(DEPLOYMENT).arg(id);
    let read = Command::new("HGET").arg(key).arg(DEPLOYMENT);
    let reply = connection.exchange(&[make, read]).await.ok()?.pop()?;
    Some(string(reply)).filter(|id| !id.is_empty())
}

impl StoreContext {
    /// Writes into every keyspace that is there which shards are in use, so that a server that comes back empty is
    /// told from a new one.
    pub async fn note_layout(&self) {
        let is_there = |shards: &&Vec<usize>| self.shards[shards[0]].server.gate.away().is_none();
        let there: Vec<&Vec<usize>> = self.keyspaces.iter().filter(is_there).collect();
        let names: BTreeSet<&str> = there
            .iter()
            .flat_map(|shards| shards.iter())
            .filter(|at| !self.spread.is_other(**at))
            .map(|at| &*self.shards[*at].name)
            .collect();
        let fields: Vec<String> = names.iter().map(|name| format!("shard:{name}")).collect();
        let noted = there.into_iter().map(|shards| async {
            let at = &self.shards[shards[0]];
            let ask = Command::new("HMGET").arg(at.keys.of("layout")).args(fields.iter().map(String::as_str));
            let Ok(reply) = at.read_one(ask).await else { return };
            if list(reply).iter().all(|field| *field != Reply::Nil) {
                return;
            }
            let pairs = fields.iter().flat_map(|field| [field.as_str(), "1"]);
            let note = Command::new("HSET").arg(at.keys.of("layout")).args(["format", FORMAT]).args(pairs);
            if let Err(failure) = at.read_one(note).await {
                tracing::debug!(err = %failure, "the layout cannot be written yet");
            }
        });
        join_all(noted).await;
    }
}

/// Takes a server as it is: gives it the id of the deployment, that of the others unless one is given. Gives that id.
pub async fn accept(
    options: &KvrocksOptions,
    shard: &str,
    deployment: Option<String>,
) -> Result<String, String> {
    let servers = crate::kvrocks::store::open::servers(options);
    let place = crate::kvrocks::store::open::place_of(options, shard)
        .ok_or_else(|| format!("shard \"{shard}\" is unknown"))?;
    let mut given = deployment;
    for (_, target, keys) in servers.iter().filter(|(name, ..)| *name != place) {
        if given.is_none() {
            given = deployment_of(target, keys).await;
        }
    }
    let id = given.ok_or(
        "no other server tells the id of the deployment: name it with --deployment, as the log and \
         /v1/codeq/admin/store do",
    )?;
    let (_, target, keys) = servers.iter().find(|(name, ..)| *name == place).ok_or("no such server")?;
    let connection = Connection::new(target.clone(), Arc::default());
    let set = Command::new("HSET").arg(keys.of("layout")).args([DEPLOYMENT, &id, "format", FORMAT]);
    match connection.exchange(&[set]).await.map_err(|trouble| trouble.text().to_owned())?.pop() {
        Some(Reply::Error(text)) => Err(text),
        _ => Ok(id),
    }
}
