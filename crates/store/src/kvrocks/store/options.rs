//! What a Kvrocks store is opened with.

use crate::clock::Clock;
use crate::kvrocks::redis::meters::Meters;
use crate::{Rules, Supervisor, SystemClock};
use codeq_queue::Observer;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Who tells when a lease has ended and when due tasks act.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timing {
    /// The lease key's life in the store decides; due tasks act at a claim on their queue or in a sweep, so
    /// often.
    Running { sweep_interval: Duration },
    /// For a clock that is moved by hand, which the store's own clock cannot follow: the deadline in the record
    /// decides, and everything due acts before every call.
    Stepped,
}

/// One server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backend {
    /// `host:port`; in cluster mode any number of them, separated by commas.
    pub address: String,
    pub password: String,
    pub db: u32,
    pub tls: bool,
    /// Connections of this process at most: one carries all writes in their order, the others read.
    pub pool_size: u32,
    /// Who tells which server is master; then there is no address.
    pub sentinel: Option<Sentinel>,
}

impl Default for Backend {
    fn default() -> Backend {
        let (address, password) = (String::new(), String::new());
        Backend { address, password, db: 0, tls: false, pool_size: 10, sentinel: None }
    }
}

/// The Sentinels that watch a master and its replicas.
#[derive(Clone, Debug)]
pub struct Sentinel {
    pub addresses: Vec<String>,
    /// The name of the master.
    pub master: String,
    /// Of the Sentinels, not of the servers.
    pub password: String,
    /// The newest epoch that was followed.
    epoch: Arc<AtomicU64>,
}

impl Sentinel {
    pub fn new(addresses: Vec<String>, master: &str, password: &str) -> Sentinel {
        let epoch = Arc::default();
        Sentinel { addresses, master: master.into(), password: password.into(), epoch }
    }

    /// The newest epoch so far, this one included.
    pub fn followed(&self, epoch: u64) -> u64 {
        self.epoch.fetch_max(epoch, Ordering::AcqRel).max(epoch)
    }
}

impl PartialEq for Sentinel {
    fn eq(&self, other: &Sentinel) -> bool {
        (&self.addresses, &self.master, &self.password) == (&other.addresses, &other.master, &other.password)
    }
}

impl Eq for Sentinel {}

/// Which shard a queue lives on. A shard without a backend of its own is a segment in the keys of the main one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sharding {
    pub default_shard: String,
    /// By command, lower case.
    pub command_mappings: BTreeMap<String, String>,
    pub tenant_overrides: BTreeMap<String, String>,
    pub backends: BTreeMap<String, Backend>,
    /// Whether queues that are not mapped spread over 64 shards by themselves.
    pub spread: bool,
    /// The backends that these live on; without any on the main one.
    pub spread_over: Vec<String>,
}

impl Default for Sharding {
    fn default() -> Sharding {
        Sharding {
            default_shard: "default".into(),
            command_mappings: BTreeMap::new(),
            tenant_overrides: BTreeMap::new(),
            backends: BTreeMap::new(),
            spread: false,
            spread_over: Vec::new(),
        }
    }
}

/// How long a server may say nothing before it is away.
pub const SILENCE: Duration = Duration::from_secs(1);

pub struct KvrocksOptions {
    pub backend: Backend,
    pub cluster: bool,
    /// To connect, and for each call.
    pub timeout: Duration,
    /// A server that does not answer for so long is away.
    pub silence: Duration,
    /// Answer a write only when so many replicas have it.
    pub wait_replicas: u32,
    /// How long a write waits for them.
    pub wait_timeout: Duration,
    /// Who adopts what the original server kept without a tenant.
    pub untenanted_tenant: Option<String>,
    /// Due tasks moved and stale ids dropped per claim.
    pub inspect_limit: u32,
    pub timing: Timing,
    pub sharding: Sharding,
    pub rules: Rules,
    /// For records of the original server that name none.
    pub max_attempts_default: u32,
    pub clock: Arc<dyn Clock>,
    pub observer: Option<Observer>,
    pub meters: Arc<Meters>,
    /// Knows what of the background work fails.
    pub supervisor: Arc<Supervisor>,
}

impl KvrocksOptions {
    pub fn new(address: &str) -> KvrocksOptions {
        KvrocksOptions {
            backend: Backend { address: address.into(), ..Backend::default() },
            cluster: false,
            timeout: Duration::from_secs(5),
            silence: SILENCE,
            wait_replicas: 0,
            wait_timeout: Duration::from_millis(500),
            untenanted_tenant: None,
            inspect_limit: 200,
            timing: Timing::Running { sweep_interval: Duration::from_secs(2) },
            sharding: Sharding::default(),
            rules: Rules::default(),
            max_attempts_default: 5,
            clock: Arc::new(SystemClock),
            observer: None,
            meters: Arc::default(),
            supervisor: Arc::default(),
        }
    }
}
