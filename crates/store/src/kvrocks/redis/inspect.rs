//! Looking at a server before it is used: what it is, and whether it can do what is needed. That is tried, not read
//! from a version.

use crate::clock::Clock;
use crate::kvrocks::format::keys::Keys;
use crate::kvrocks::redis::connection::{Command, Connection, REPLICA, Reply, Target, ask_once};
use crate::kvrocks::redis::reply::{count, list, string};
use crate::kvrocks::redis::writer::is_passing;
use crate::kvrocks::store::options::{Backend, KvrocksOptions};
use std::sync::Arc;
use std::time::Duration;

/// Uses a key that it does not declare, and every command that is younger than the others.
const TRY: &str = "local probe = ARGV[1] \
    redis.call('HLEN', KEYS[1]) redis.call('SMISMEMBER', probe, 'a', 'b') \
    redis.call('ZADD', probe, 'LT', 2, 'a') redis.call('ZRANGEBYLEX', probe, '[a', '(b', 'LIMIT', 0, 1) \
    redis.call('DEL', probe) \
    redis.call('LPUSH', probe, 'a', 'b') redis.call('RPOP', probe, 2) redis.call('DEL', probe) \
    redis.call('TIME') return 1";
/// How long a mark stays at most, in milliseconds.
const MARK_MS: &str = "5000";

/// Refuses replicas, and servers that cannot do what is needed.
pub async fn check(connection: &Connection, keys: &Keys) -> Result<(), String> {
    let backend = &connection.target().backend;
    let address = &backend.address;
    let probe = keys.of(&format!("probe:{:016x}", rand::random::<u64>()));
    let tried = Command::new("EVAL").arg(TRY).arg("1").arg(keys.of("layout")).arg(probe.as_str());
    let replies = connection.exchange(&[Command::new("ROLE"), tried]).await;
    let mut replies = replies.map_err(|trouble| trouble.text().to_owned())?.into_iter();
    let (role, tried) = (replies.next().unwrap_or(Reply::Nil), replies.next().unwrap_or(Reply::Nil));
    match list(role).first() {
        Some(Reply::Text(role)) if role == b"slave" => {
            return Err(format!("{address}: {REPLICA}"));
        }
        _ => {}
    }
    if let Reply::Error(text) = tried
        && !is_passing(&text)
    {
        return Err(format!(
            "{address}: scripts cannot do what is needed: {text}; Kvrocks needs lua-strict-key-accessing no and \
             at least version 2.14, Redis 6.2"
        ));
    }
    match backend.db {
        0 => Ok(()),
        _ => check_database(connection, keys).await,
    }
}

/// Before version 2.15 Kvrocks accepts SELECT and does nothing: two databases would be one keyspace.
async fn check_database(connection: &Connection, keys: &Keys) -> Result<(), String> {
    let target = connection.target();
    let (backend, key) = (&target.backend, keys.of(&format!("probe:{:016x}", rand::random::<u64>())));
    let set = Command::new("SET").arg(key.as_str()).arg("1").args(["PX", MARK_MS]);
    connection.exchange(&[set]).await.map_err(|trouble| trouble.text().to_owned())?;
    let first = Backend { db: 0, ..backend.clone() };
    let address = crate::kvrocks::redis::master::locate(target).await?;
    let seen = ask_once(&first, &address, target.timeout, &Command::new("EXISTS").arg(key.as_str())).await?;
    let _ = connection.exchange(&[Command::new("DEL").arg(key)]).await;
    match seen {
        Reply::Int(1) => Err(format!(
            "{address}: persistenceConfig.db {} is the same keyspace as 0: SELECT does nothing on this server; \
             use db 0 and a namespace, or a newer Kvrocks",
            backend.db
        )),
        _ => Ok(()),
    }
}

/// What was found at one server.
#[derive(Debug)]
pub struct Inspection {
    pub address: String,
    /// Replicas that are connected to it.
    pub replicas: u64,
    /// Milliseconds from our clock to its.
    pub clock_ms: i64,
    /// `cluster-require-full-coverage` of a Redis Cluster.
    pub needs_full_coverage: bool,
    /// The id in its layout; `None` if it has none yet.
    pub deployment: Option<String>,
}

/// Looks at every server of a configuration, and changes nothing. The error says why one cannot be used.
pub async fn inspect(options: &KvrocksOptions) -> Vec<(String, Result<Inspection, String>)> {
    let mut found = Vec::new();
    for (name, target, keys) in crate::kvrocks::store::open::servers(options) {
        let connection = Connection::new(target.clone(), Arc::default());
        let inspection = match check(&connection, &keys).await {
            Ok(()) => look(&connection, &target, &keys, options.clock.as_ref()).await,
            Err(reason) => Err(reason),
        };
        found.push((name, inspection));
    }
    found
}

async fn look(
    connection: &Connection,
    target: &Target,
    keys: &Keys,
    clock: &dyn Clock,
) -> Result<Inspection, String> {
    let address = crate::kvrocks::redis::master::locate(target).await?;
    let sent = clock.now().millis();
    let replies = connection.exchange(&[Command::new("TIME"), Command::new("ROLE")]).await;
    let replies = replies.map_err(|trouble| trouble.text().to_owned())?;
    let half = (clock.now().millis() - sent) / 2;
    let time: Vec<u64> = list(replies[0].clone()).iter().map(count).collect();
    let server = i64::try_from(time.first().copied().unwrap_or(0)).unwrap_or(0) * 1000
        + i64::try_from(time.get(1).copied().unwrap_or(0)).unwrap_or(0) / 1000;
    let replicas = list(list(replies[1].clone()).get(2).cloned().unwrap_or(Reply::Nil)).len();
    Ok(Inspection {
        address,
        replicas: u64::try_from(replicas).unwrap_or(0),
        clock_ms: server - sent - half,
        needs_full_coverage: needs_full_coverage(connection).await,
        deployment: crate::kvrocks::context::layout::deployment_of(target, keys).await,
    })
}

/// Whether a master of a cluster refuses when another one is away. Kvrocks knows no such setting.
pub async fn needs_full_coverage(connection: &Connection) -> bool {
    if connection.target().slot.is_none() {
        return false;
    }
    let ask = Command::new("CONFIG").arg("GET").arg("cluster-require-full-coverage");
    let told = connection.exchange(&[ask]).await.ok().and_then(|mut replies| replies.pop());
    told.and_then(|told| list(told).get(1).cloned().map(string)).as_deref() == Some("yes")
}

/// The processor time that a server has used so far.
pub async fn processor_time(backend: &Backend) -> Result<Duration, String> {
    let command = Command::new("INFO").arg("cpu");
    let address = &backend.address;
    let told = match ask_once(backend, address, PROCESSOR_TIMEOUT, &command).await? {
        Reply::Error(text) => return Err(format!("{address}: {text}")),
        told => string(told),
    };
    let seconds = |name: &str| {
        let text = told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        text.and_then(|text| text.trim().parse::<f64>().ok())
    };
    match (seconds("used_cpu_sys"), seconds("used_cpu_user")) {
        (Some(system), Some(user)) => Ok(Duration::from_secs_f64((system + user).max(0.0))),
        _ => Err(format!("{address}: INFO cpu does not tell the processor time")),
    }
}

/// For one question about the processor.
const PROCESSOR_TIMEOUT: Duration = Duration::from_secs(5);

/// Clocks further apart are worth a word.
pub const CLOCKS_APART: Duration = Duration::from_millis(500);
