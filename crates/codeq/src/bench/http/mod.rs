//! `codeq bench http`: the whole server over real sockets, against an echo on the same stack.

pub mod client;
mod load;
mod target;
mod wake;

use super::process::Process;
use super::report::{self, Row};
use codeq_server::http::{self, Entry};
use load::{Load, Op};
use std::path::PathBuf;
use target::Target;

/// Rounds that every row is taken in: a noisy minute then hits all rows alike.
const ROUNDS: u32 = 4;

/// The HTTP API over real sockets: durable creates, claims and results with RS256 tokens, one at a time and
/// in batches of 100, against an echo route on the same stack without auth or parsing. Only answers with
/// the right status count. Processor time and memory are the server's.
///
/// Examples:
///   codeq bench http --json
///   codeq bench http --seconds 20 --connections 64 --held 10000
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
    /// Also hold so many long polls at once, and tell the server's memory.
    #[arg(long, default_value_t = 0)]
    held: usize,
    /// A server that runs already, instead of one of our own.
    #[arg(long, requires_all = ["producer_token", "worker_token"])]
    base_url: Option<String>,
    #[arg(long)]
    producer_token: Option<String>,
    #[arg(long)]
    worker_token: Option<String>,
    /// Where to put the data; a temporary directory by default.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// One JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

impl HttpBench {
    pub fn run(self) -> anyhow::Result<()> {
        codeq_server::raise_file_limit();
        let root = match &self.directory {
            Some(directory) => tempfile::tempdir_in(directory)?,
            None => tempfile::tempdir()?,
        };
        let target = match (&self.base_url, &self.producer_token, &self.worker_token) {
            (Some(url), Some(producer), Some(worker)) => Target::at(url, producer.clone(), worker.clone())?,
            _ => Target::start(root.path())?,
        };
        let echo = match target.process {
            Some(_) => Some(Process::start(&["bench", "echo"])?),
            None => None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let rows = runtime.block_on(self.rows(&target, echo.as_ref(), root.path()))?;
        report::print(&rows, &root.path().display().to_string(), self.json)
    }

    async fn rows(
        &self,
        target: &Target,
        echo: Option<&Process>,
        directory: &std::path::Path,
    ) -> anyhow::Result<Vec<Row>> {
        let load = Load::new(target, echo, self.connections);
        let slice = self.seconds / f64::from(ROUNDS);
        let mut tallies: Vec<_> = Op::ALL.iter().map(|op| (*op, load::Tally::default())).collect();
        // Batches last: what they leave to the background would burden the single requests after them.
        for is_batch in [false, true] {
            for round in 1..=ROUNDS {
                let taken = tallies.iter_mut().filter(|(op, _)| op.is_batch() == is_batch);
                for (op, tally) in taken.filter(|(op, _)| *op != Op::Echo || echo.is_some()) {
                    report::progress(&format!("round {round} of {ROUNDS}: {}", op.name()));
                    load.settle().await;
                    load.run(*op, slice, tally).await?;
                }
            }
        }
        let ceiling = tallies.iter().find(|(op, _)| *op == Op::Echo).map(|(_, tally)| tally.per_second());
        let ceiling = ceiling.filter(|ceiling| *ceiling > 0.0);
        let taken = tallies.iter().filter(|(_, tally)| tally.has_run());
        let mut rows: Vec<Row> =
            taken.map(|(op, tally)| tally.row(op.name(), self.connections, ceiling, &load, *op)).collect();
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
            let listening = http::listen(listener, Entry::echo(), 100_000)?;
            println!("{}", serde_json::json!({"msg": "listening", "addr": listening.address}));
            std::future::pending().await
        })
    }
}
