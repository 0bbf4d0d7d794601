//! `codeq bench grpc`: full cycles over streams, with and without fsync, against an echo without a store.

mod echo;
pub mod load;
pub mod stream;

pub use echo::EchoStream;

use super::meter::{Reading, Used, histogram, record, sync_median};
use super::on::{On, RedisUrl};
use super::process::Process;
use super::report::{self, Output, Row};
use anyhow::Context;
use load::{Shape, Tally};
use serde_json::json;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// Rounds that every row is taken in: a noisy minute then hits all rows alike.
const ROUNDS: u32 = 3;
const WAKES: u64 = 200;
const STORES: &[&str] = &["memory", "local-fsync", "local-os"];
const KVROCKS: &[&str] = &["kvrocks"];

/// Full cycles (create, assignment, result, all acknowledged) over gRPC streams on every store, one task a
/// message and in batches, against a stream that only echoes. Only acks with ok = true count. The ratio is
/// against the echo of the same shape. `--store kvrocks` takes the store behind `--redis-url` instead, which
/// should be an empty one.
///
/// Examples:
///   codeq bench grpc --json
///   codeq bench grpc --store kvrocks --redis-url redis://localhost:6666
///   codeq bench grpc --seconds 30 --streams 8 --in-flight 64 --create-batch 16 --claim-batch 32
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct GrpcBench {
    /// Seconds per row.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Producer streams, and as many worker streams.
    #[arg(long, default_value_t = 8)]
    streams: usize,
    /// Messages in flight on a stream when each is about one task.
    #[arg(long, default_value_t = 64)]
    in_flight: usize,
    /// Tasks in a message of a batching producer.
    #[arg(long, default_value_t = 16)]
    create_batch: usize,
    /// Tasks that a batching worker asks for.
    #[arg(long, default_value_t = 32)]
    claim_batch: usize,
    #[command(flatten)]
    on: On,
    /// A server that runs already: its producer stream. Rows are then named `remote`.
    #[arg(long, requires_all = ["worker_addr", "token"])]
    producer_addr: Option<SocketAddr>,
    /// ... and its worker stream.
    #[arg(long)]
    worker_addr: Option<SocketAddr>,
    /// The token for both.
    #[arg(long)]
    token: Option<String>,
    #[command(flatten)]
    output: Output,
}

/// A server with both streams.
pub struct Target {
    pub name: String,
    pub producer: SocketAddr,
    pub worker: SocketAddr,
    pub token: String,
    pub process: Option<Process>,
}

impl GrpcBench {
    pub fn run(self) -> anyhow::Result<()> {
        let root = self.output.root()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let rows = runtime.block_on(self.rows(root.path()))?;
        self.output.print(&rows, &root)
    }

    fn shapes(&self) -> [Shape; 2] {
        let single = Shape { is_batch: false, create: 1, claim: 1, in_flight: self.in_flight };
        let batch =
            Shape { is_batch: true, create: self.create_batch, claim: self.claim_batch, in_flight: 4 };
        [single, batch]
    }

    async fn rows(&self, directory: &Path) -> anyhow::Result<Vec<Row>> {
        let targets = match (self.producer_addr, self.worker_addr, &self.token) {
            (Some(producer), Some(worker), Some(token)) => {
                vec![Target { name: "remote".into(), producer, worker, token: token.clone(), process: None }]
            }
            _ => {
                let kvrocks = self.on.kvrocks()?;
                let names = if kvrocks.is_some() { KVROCKS } else { STORES };
                let started = names.iter().map(|name| start(name, &directory.join(name), kvrocks));
                started.collect::<anyhow::Result<_>>()?
            }
        };
        let echo = Process::start(&["bench", "echo-stream"])?;
        let mut echoes = [Tally::default(), Tally::default()];
        let mut tallies: Vec<[Tally; 2]> = targets.iter().map(|_| Default::default()).collect();
        let slice = Duration::from_secs_f64(self.seconds / f64::from(ROUNDS));
        for round in 1..=ROUNDS {
            for (at, shape) in self.shapes().into_iter().enumerate() {
                report::progress(&format!("round {round} of {ROUNDS}: echo"));
                load::echo(echo.address, self.streams, shape, slice, &mut echoes[at], &echo).await?;
                for (target, tallies) in targets.iter().zip(&mut tallies) {
                    report::progress(&format!("round {round} of {ROUNDS}: {}", target.name));
                    load::cycles(target, self.streams, shape, slice, &mut tallies[at]).await?;
                }
            }
        }
        let mut rows = Vec::new();
        for (at, shape) in self.shapes().into_iter().enumerate() {
            let flight = self.streams * shape.in_flight * shape.create;
            let ceiling = echoes[at].per_second();
            rows.push(echoes[at].row("echo", shape, flight, ceiling, Some(&echo)));
            let taken = targets.iter().zip(&tallies);
            rows.extend(taken.map(|(target, tallies)| {
                tallies[at].row(&target.name, shape, flight, ceiling, target.process.as_ref())
            }));
        }
        compare_with_memory(&mut rows);
        let target = targets.iter().find(|target| target.name != "memory").context("a server")?;
        report::progress("wake");
        rows.push(wake(target, directory).await?);
        Ok(rows)
    }
}

fn compare_with_memory(rows: &mut [Row]) {
    for suffix in ["-single", "-batch"] {
        let memory = rows.iter().find(|row| row.name == format!("memory{suffix}")).map(|row| row.per_second);
        for row in rows.iter_mut().filter(|row| row.name.starts_with("local") && row.name.ends_with(suffix)) {
            let ratio = memory.map(|memory| (row.per_second / memory * 1000.0).round() / 1000.0);
            row.memory_ratio = ratio;
        }
    }
}

/// A server of our own on one of the stores.
fn start(name: &str, directory: &Path, kvrocks: Option<&RedisUrl>) -> anyhow::Result<Target> {
    std::fs::create_dir_all(directory)?;
    let scopes = "codeq:claim codeq:heartbeat codeq:abandon codeq:nack codeq:result codeq:subscribe";
    let scopes: Vec<&str> = scopes.split(' ').collect();
    let raw = json!({"tenantId": "bench"});
    let mut config = json!({
        "port": 0, "bindAddress": "127.0.0.1", "env": "dev",
        "workerStreamAddr": "127.0.0.1:0", "producerStreamAddr": "127.0.0.1:0",
        "producerAuthProvider": "static", "producerAuthConfig": {"token": "bench", "raw": raw},
        "workerAuthProvider": "static",
        "workerAuthConfig": {"token": "bench", "raw": raw, "eventTypes": ["*"], "scopes": scopes},
    });
    match (name, kvrocks) {
        (_, Some(url)) => url.configure(&mut config),
        ("memory", _) => config["persistenceProvider"] = "memory".into(),
        _ => {
            config["persistenceConfig"] = json!({"path": directory.join("data")});
            config["durability"] = if name == "local-os" { "os" } else { "fsync" }.into();
        }
    }
    let file = directory.join("config.yaml");
    std::fs::write(&file, config.to_string())?;
    let process = Process::start(&["serve", "--config", file.to_str().context("a plain directory name")?])?;
    Ok(Target {
        name: name.into(),
        producer: process.producer_streams.context("no producer stream")?,
        worker: process.worker_streams.context("no worker stream")?,
        token: "bench".into(),
        process: Some(process),
    })
}

/// From sending a create to a worker whose Ready was held having the task, on an idle server.
async fn wake(target: &Target, directory: &Path) -> anyhow::Result<Row> {
    let mut worker = stream::Worker::connect(target.worker, &target.token).await?;
    let mut producer = stream::Producer::connect(target.producer, &target.token).await?;
    let mut latencies = histogram();
    let started = Reading::take();
    for seq in 0..WAKES {
        worker.ready("wake", 1).await?;
        // The Ready is held before the create is sent.
        tokio::time::sleep(Duration::from_millis(5)).await;
        let at = Instant::now();
        producer.create(stream::task(seq, "wake", 0)).await?;
        let task = worker.task().await?;
        record(&mut latencies, at.elapsed());
        producer.acks().await?;
        worker.finish(task).await?;
    }
    let used = Used { cpu: Duration::ZERO, written: 0, ..started.used() };
    let rss_mb = target.process.as_ref().map_or(0.0, |process| process.rss_mb().round());
    let row = Row::new("wake", 1, WAKES, &used, &latencies);
    Ok(Row { rss_mb, sync_p50_us: Some(sync_median(directory)?), ..row })
}
