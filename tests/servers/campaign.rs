//! A campaign from beginning to end: servers, clients, rounds of killing, the drain, the account.

use super::account::Account;
use super::audit::Auditor;
use super::books::Books;
use super::clients::{TOKEN, WORKER_TOKENS};
use super::doors::Doors;
use super::power::Power;
use super::process::Server;
use super::producer::{BACKLOG, Producer};
use super::redis::Redis;
use super::replicated::{Promoter, Replicated};
use super::task_book::Wrong;
use super::worker::Worker;
use anyhow::{Context, ensure};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub const PRODUCERS: usize = 32;
pub const WORKERS: usize = 32;
/// How long a round of load lasts, in milliseconds.
const ROUND_MS: std::ops::Range<u64> = 100..1_300;
/// How often a server is killed while it starts.
const KILLED_IN_RECOVERY: f64 = 0.15;
/// How often a server is killed during its very first start, which makes its files.
const KILLED_AT_FIRST: u32 = 4;
/// How long a start in vain may last, in milliseconds.
const IN_VAIN_MS: std::ops::Range<u64> = 0..200;
/// Longer than every lease, backoff and delay together; what is alive then is stuck.
const DRAIN: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);
/// For the first create after a promotion.
const FOLLOWED: Duration = Duration::from_secs(60);
/// Kills between two lines of progress.
const TOLD_EVERY: u32 = 50;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Storage {
    Embedded {
        shards: u32,
        durability: Durability,
        /// With every kill power is lost: what was not synced is gone.
        loses_power: bool,
    },
    /// Loses everything: the account must see it.
    Memory,
    /// Two servers over one redis-server that syncs every write. Of three rounds two kill a server, in turn,
    /// and one kills Redis.
    Redis,
    /// Two servers over redis-servers with a replica each. Every round takes a master away, by a kill or by stopping it
    /// until another one has been promoted; no process of ours is restarted.
    Replicated {
        promoter: Promoter,
        /// How many replicas have to have what is answered.
        wait_replicas: u32,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    Fsync,
    /// Survives the kill of a process; does not claim to survive a loss of power.
    Os,
}

impl Storage {
    /// What the product does unless told otherwise.
    pub const EMBEDDED: Storage =
        Storage::Embedded { shards: 1, durability: Durability::Fsync, loses_power: false };
}

#[derive(Clone, Debug)]
pub struct Plan {
    /// The binary to be killed.
    pub server: PathBuf,
    pub storage: Storage,
    pub rounds: u32,
    pub seed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Phase {
    Load,
    /// Producers stop, workers complete whatever they get.
    Drain,
    Over,
}

/// What all clients share.
pub struct Stage {
    pub books: Books,
    pub doors: Doors,
    phase: AtomicU8,
    backlog: AtomicU64,
}

impl Stage {
    pub fn phase(&self) -> Phase {
        [Phase::Load, Phase::Drain, Phase::Over][usize::from(self.phase.load(Ordering::Acquire))]
    }

    fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// Live tasks, as a server counted them a moment ago.
    pub fn backlog(&self) -> u64 {
        self.backlog.load(Ordering::Relaxed)
    }
}

struct Ground {
    servers: Vec<Server>,
    redis: Option<Redis>,
    /// And how many replicas have to have what is answered.
    replicated: Option<(Replicated, u32)>,
    /// How long it took until a create was acknowledged once one could be, in milliseconds.
    recovered: Vec<u64>,
    stage: Arc<Stage>,
    _directory: TempDir,
}

/// Runs the plan. An error means that it could not be carried out; what was found wrong is in the account.
pub async fn campaign(plan: &Plan) -> anyhow::Result<Account> {
    let begun = Instant::now();
    let mut random = SmallRng::seed_from_u64(plan.seed);
    let mut ground = Ground::prepare(plan, &mut random)?;
    let stage = ground.stage.clone();
    let mut clients = clients(&stage, &mut random);
    let counting = tokio::spawn(count(stage.clone()));
    for round in 0..plan.rounds {
        tokio::time::sleep(Duration::from_millis(random.random_range(ROUND_MS))).await;
        tokio::task::block_in_place(|| ground.strike(round, &mut random))?;
        if (round + 1) % TOLD_EVERY == 0 {
            eprintln!("{} of {} kills, {} s", round + 1, plan.rounds, begun.elapsed().as_secs());
        }
    }
    stage.enter(Phase::Drain);
    for producer in clients.drain(..PRODUCERS) {
        producer.await.context("a producer panicked")?;
    }
    let auditor = Auditor::new(stage.clone());
    let drained = auditor.drained(DRAIN).await;
    stage.enter(Phase::Over);
    for client in clients {
        client.await.context("a client panicked")?;
    }
    counting.await.context("the counting panicked")?;
    let found = auditor.look(drained).await?;
    Ok(Account::make(plan, &stage.books, found, &ground.servers, &ground.recovered, begun.elapsed()))
}

fn clients(stage: &Arc<Stage>, random: &mut SmallRng) -> Vec<tokio::task::JoinHandle<()>> {
    let mut seeds = || SmallRng::seed_from_u64(random.random());
    let mut clients = Vec::new();
    for number in 0..PRODUCERS {
        clients.push(tokio::spawn(Producer::new(stage, number, seeds()).run()));
    }
    for number in 0..WORKERS {
        clients.push(tokio::spawn(Worker::new(stage, number, seeds()).run()));
    }
    clients
}

/// Keeps the backlog of the stage up to date.
async fn count(stage: Arc<Stage>) {
    let auditor = Auditor::new(stage.clone());
    while stage.phase() == Phase::Load {
        if let Some(live) = auditor.live().await {
            stage.backlog.store(live, Ordering::Relaxed);
        }
        tokio::time::sleep(LOOK).await;
    }
}

impl Ground {
    fn prepare(plan: &Plan, random: &mut SmallRng) -> anyhow::Result<Ground> {
        let directory = tempfile::tempdir()?;
        let place = directory.path().join("redis");
        let (redis, replicated, count) = match plan.storage {
            Storage::Redis => (Some(Redis::start(&place)?), None, 2),
            Storage::Replicated { promoter, wait_replicas } => {
                (None, Some((Replicated::start(promoter, &place)?, wait_replicas)), 2)
            }
            Storage::Embedded { .. } | Storage::Memory => (None, None, 1),
        };
        let stage = Arc::new(Stage {
            books: Books::default(),
            doors: Doors::new(count),
            phase: AtomicU8::new(Phase::Load as u8),
            backlog: AtomicU64::new(0),
        });
        let mut servers = Vec::new();
        for number in 0..count {
            let place = directory.path().join(format!("server-{number}"));
            let (mut config, mut power) = (config(), None);
            (config["persistenceProvider"], config["persistenceConfig"]) = match (plan.storage, &redis) {
                (Storage::Embedded { shards, durability, loses_power }, _) => {
                    config["durability"] = json!(if durability == Durability::Os { "os" } else { "fsync" });
                    let disk = place.join("disk");
                    std::fs::create_dir_all(&disk)?;
                    power = loses_power.then(|| Power::prepare(&place, &disk)).transpose()?;
                    let data = disk.join("data");
                    (json!("embedded"), json!({"path": data, "numShards": shards}))
                }
                (_, Some(redis)) => (json!("kvrocks"), json!({"addr": redis.address()})),
                (_, None) => match &replicated {
                    Some((all, wait_replicas)) => {
                        if all.is_cluster() {
                            config["sharding"] = json!({"enabled": true, "spread": true});
                        }
                        (json!("kvrocks"), all.config(*wait_replicas))
                    }
                    None => (json!("memory"), json!({})),
                },
            };
            config["localArtifactsDir"] = json!(place.join("artifacts"));
            let mut server = Server::new(&plan.server, &place, &config, power)?;
            let killed = if replicated.is_some() { 0 } else { KILLED_AT_FIRST };
            for _ in 0..killed {
                server.start_in_vain(Duration::from_millis(random.random_range(IN_VAIN_MS)), random)?;
            }
            stage.doors.open(number, server.start()?);
            servers.push(server);
        }
        let recovered = Vec::new();
        Ok(Ground { servers, redis, replicated, recovered, stage, _directory: directory })
    }

    /// Kills whose turn it is, and starts it again.
    fn strike(&mut self, round: u32, random: &mut SmallRng) -> anyhow::Result<()> {
        if self.replicated.is_some() {
            return self.take_a_master(round);
        }
        if let Some(redis) = self.redis.as_mut().filter(|_| round % 3 == 2) {
            return redis.kill_and_start();
        }
        let turn = (round - round / 3) as usize % self.servers.len();
        let server = &mut self.servers[turn];
        if let Err(error) = server.kill(random) {
            self.stage.books.note(Wrong::Unexpected, error.to_string());
        }
        self.stage.doors.close(turn);
        if random.random_bool(KILLED_IN_RECOVERY) {
            server.start_in_vain(Duration::from_millis(random.random_range(IN_VAIN_MS)), random)?;
        }
        self.stage.doors.open(turn, server.start()?);
        Ok(())
    }
}

impl Ground {
    fn take_a_master(&mut self, round: u32) -> anyhow::Result<()> {
        let Some((replicated, wait_replicas)) = &mut self.replicated else { return Ok(()) };
        let strike = replicated.strike(round)?;
        // The one that was promoted has no replica until the old master is back, and confirms nothing before.
        let strike = match wait_replicas {
            0 => Some(strike),
            _ => replicated.restore(strike).map(|()| None)?,
        };
        let (begun, before) = (Instant::now(), self.stage.books.pages().counts.creates);
        // With too much to do nobody creates.
        let is_busy = || self.stage.backlog() > BACKLOG;
        while self.stage.books.pages().counts.creates == before && !is_busy() {
            ensure!(begun.elapsed() < FOLLOWED, "no create is acknowledged after a promotion");
            std::thread::sleep(Duration::from_millis(1));
        }
        if !is_busy() {
            self.recovered.push(u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX));
        }
        strike.map_or(Ok(()), |strike| replicated.restore(strike))
    }
}

/// Short pauses, so that a drain is short.
fn config() -> Value {
    let scopes = ["codeq:claim", "codeq:heartbeat", "codeq:abandon", "codeq:nack", "codeq:result"];
    let raw = json!({"tenantId": "acme", "role": "ADMIN"});
    let worker = |token: &str| {
        json!({"type": "static", "config": {
            "token": token, "subject": token, "scopes": scopes, "eventTypes": ["*"], "raw": raw,
        }})
    };
    json!({
        "env": "dev",
        "port": 0,
        "bindAddress": "127.0.0.1",
        "workerStreamAddr": "127.0.0.1:0",
        "producerStreamAddr": "127.0.0.1:0",
        "backoffBaseSeconds": 1,
        "backoffMaxSeconds": 2,
        "sweepIntervalSeconds": 1,
        "producerAuthProvider": "static",
        "producerAuthConfig": {"token": TOKEN, "subject": "producer", "raw": raw},
        "workerAuthProvider": "multi",
        "workerAuthConfig": {"providers": WORKER_TOKENS.map(worker)},
    })
}
