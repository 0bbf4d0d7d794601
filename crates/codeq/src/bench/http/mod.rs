//! `codeq bench http`: the whole server over real sockets, against an echo on the same stack.

mod bare;
pub mod client;
mod load;
mod target;
mod wake;

use super::on::On;
use super::process::Process;
use super::report::{self, Output, Row};
use codeq_server::http::{self, Entry};
use load::{Ceiling, Load, Op};
use target::Target;

/// Rounds that every row is taken in: a noisy minute then hits all rows alike.
const ROUNDS: u32 = 4;

/// The HTTP API over real sockets: durable creates, claims and results with RS256 tokens, one at a time and
/// in batches of 100, against an echo route on the same stack without auth or parsing. Only answers with
/// the right status count. Processor time and memory are the server's.
///
/// With `--store kvrocks` the server works over the given server, which should be an empty one: the bench
/// leaves its tasks there. The ceiling is then `bare`: one MULTI, EVALSHA, EXEC per task over as many
/// connections, without a server of ours in between.
///
/// Examples:
///   codeq bench http --json
///   codeq bench http --seconds 20 --connections 64 --held 10000
///   codeq bench http --store kvrocks --redis-url redis://localhost:6666 --backlog 1000000
///   codeq bench http --base-url http://localhost:8080 --producer-token T --worker-token T
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct HttpBench {
    /// Seconds per row.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Connections at once, one request in flight on each.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Also hold this many long polls open at once, and report the server's memory.
    #[arg(long, default_value_t = 0)]
    held: usize,
    /// Number of tasks that wait in the queue before anything is measured.
    #[arg(long, default_value_t = 0)]
    backlog: usize,
    #[command(flatten)]
    on: On,
    /// URL of a running server to measure instead of starting one.
    #[arg(long, requires_all = ["producer_token", "worker_token"])]
    base_url: Option<String>,
    /// Token of a producer, for --base-url.
    #[arg(long)]
    producer_token: Option<String>,
    /// Token of a worker, for --base-url.
    #[arg(long)]
    worker_token: Option<String>,
    #[command(flatten)]
    output: Output,
}

impl HttpBench {
    pub fn run(self) -> anyhow::Result<()> {
        codeq_server::raise_file_limit();
        let root = self.output.root()?;
        let target = match (&self.base_url, &self.producer_token, &self.worker_token) {
            (Some(url), Some(producer), Some(worker)) => Target::at(url, producer.clone(), worker.clone())?,
            _ => Target::start(root.path(), self.on.kvrocks()?)?,
        };
        let ceiling = match (&target.process, self.on.kvrocks()?) {
            (None, _) => Ceiling::None,
            (Some(_), None) => Ceiling::Echo(Process::start(&["bench", "echo"])?),
            (Some(_), Some(address)) => Ceiling::Bare(Box::new(address.options())),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let rows = runtime.block_on(self.rows(&target, &ceiling, root.path()))?;
        self.output.print(&rows, &root)
    }

    async fn rows(
        &self,
        target: &Target,
        ceiling: &Ceiling,
        directory: &std::path::Path,
    ) -> anyhow::Result<Vec<Row>> {
        let load = Load::new(target, ceiling, self.connections);
        load.fill(self.backlog).await?;
        let slice = self.seconds / f64::from(ROUNDS);
        let mut tallies: Vec<_> = Op::ALL.iter().map(|op| (*op, load::Tally::default())).collect();
        // Batches last: what they leave to the background would burden the single requests after them.
        for is_batch in [false, true] {
            for round in 1..=ROUNDS {
                let taken = tallies.iter_mut().filter(|(op, _)| op.is_batch() == is_batch);
                for (op, tally) in taken.filter(|(op, _)| load.has(*op)) {
                    report::progress(&format!("round {round} of {ROUNDS}: {}", op.name()));
                    load.settle().await;
                    load.run(*op, slice, tally).await?;
                }
            }
        }
        let ceilings = tallies.iter().filter(|(op, _)| op.is_ceiling()).map(|(_, tally)| tally.per_second());
        let ceiling = ceilings.into_iter().find(|ceiling| *ceiling > 0.0);
        let taken = tallies.iter().filter(|(_, tally)| tally.has_run());
        let mut rows: Vec<Row> =
            taken.map(|(op, tally)| tally.row(op.name(), self.connections, ceiling, &load, *op)).collect();
        if self.backlog > 0 {
            rows.iter_mut().for_each(|row| row.backlog = u64::try_from(self.backlog).ok());
        }
        report::progress("wake");
        load.settle().await;
        rows.push(wake::wake(target, directory).await?);
        if self.held > 0 {
            report::progress("held claims");
            rows.push(wake::held(target, self.held).await?);
        }
        Ok(rows)
    }
}

/// The echo server, in a process of its own; used by `bench http`.
#[derive(clap::Args)]
pub struct Echo {}

impl Echo {
    pub fn run(self) -> anyhow::Result<()> {
        codeq_server::raise_file_limit();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
            let seats = codeq_server::seats::Seats::new(100_000);
            let listening = http::listen(listener, Entry::echo(), &http::Doors { seats, tls: None })?;
            println!("{}", serde_json::json!({"msg": "listening", "addr": listening.address}));
            std::future::pending().await
        })
    }
}
