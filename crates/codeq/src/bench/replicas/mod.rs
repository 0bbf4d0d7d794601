//! `codeq bench replicas`: what processes and servers add, and what they cost while nothing happens.

mod load;
mod processes;
mod servers;

use super::meter::Used;
use super::on::RedisUrl;
use super::report::{self, Output, Row};
use processes::Processes;
use servers::Servers;
use std::path::Path;
use std::time::{Duration, Instant};

/// Before anything is measured: connections are made, scripts are loaded, sweeps are taken over.
const WARM_UP: Duration = Duration::from_secs(1);

/// Starts `codeq serve` again and again: one process to `--processes` of them, over one Redis to `--servers` of them (or
/// over all that are named), with queues spread over the servers. Each time it measures whole cycles (create, claim,
/// result over HTTP) and the processor time that a cycle takes of codeQ and of the servers; then what both take while
/// queues hold a task each, nothing is due and claims wait.
#[derive(clap::Args)]
pub struct ReplicasBench {
    /// The most processes of codeQ.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=64))]
    processes: u16,
    /// The most servers of Redis, each started here.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=64))]
    servers: u16,
    /// A server that is there already and holds nothing else, instead of those started here; may be repeated.
    #[arg(long, value_name = "URL")]
    redis_url: Vec<RedisUrl>,
    /// How long each row is measured.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Connections over all processes, each with one request at a time.
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// Queues that hold a ready task while nothing happens.
    #[arg(long, default_value_t = 2000)]
    queues: usize,
    /// Claims that wait at each process while nothing happens.
    #[arg(long, default_value_t = 100)]
    waiting: usize,
    #[command(flatten)]
    output: Output,
}

impl ReplicasBench {
    pub fn run(self) -> anyhow::Result<()> {
        codeq_server::raise_file_limit();
        let root = self.output.root()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let rows = runtime.block_on(self.rows(root.path()))?;
        self.output.print(&rows, &root)
    }

    async fn rows(&self, directory: &Path) -> anyhow::Result<Vec<Row>> {
        let mut rows = Vec::new();
        if !self.redis_url.is_empty() {
            let servers = Servers::named(&self.redis_url);
            self.over(&servers, directory, &mut rows).await?;
            return Ok(rows);
        }
        for count in 1..=usize::from(self.servers) {
            let servers = Servers::start(count, directory).await?;
            self.over(&servers, directory, &mut rows).await?;
        }
        Ok(rows)
    }

    /// One process to as many as wanted, over these servers.
    async fn over(&self, servers: &Servers, directory: &Path, rows: &mut Vec<Row>) -> anyhow::Result<()> {
        for count in 1..=usize::from(self.processes) {
            let processes = Processes::start(count, &servers.backends, directory)?;
            let first = rows.first().map(|row| row.per_second);
            let cycle = self.cycles(&processes, servers, first).await?;
            rows.push(cycle);
            if count == 1 {
                load::fill(processes.addresses()[0], self.queues).await?;
            }
            rows.push(self.idle(&processes, servers).await?);
        }
        Ok(())
    }

    async fn cycles(
        &self,
        processes: &Processes,
        servers: &Servers,
        first: Option<f64>,
    ) -> anyhow::Result<Row> {
        let addresses = processes.addresses();
        let name = named("cycle", addresses.len(), servers.backends.len());
        report::progress(&name);
        let connections = self.connections.max(addresses.len());
        load::cycles(&addresses, connections, WARM_UP).await?;
        let (cpu, server_cpu, begun) = (processes.cpu(), servers.cpu().await?, Instant::now());
        let time = Duration::from_secs_f64(self.seconds.max(0.1));
        let latencies = load::cycles(&addresses, connections, time).await?;
        let elapsed = begun.elapsed();
        let server_cpu = servers.cpu().await?.saturating_sub(server_cpu);
        let used = Used { elapsed, cpu: processes.cpu().saturating_sub(cpu), written: 0 };
        let count = latencies.len();
        let row = Row::new(&name, connections, count, &used, &latencies);
        Ok(Row {
            processes: Some(addresses.len()),
            servers: Some(servers.backends.len()),
            server_cpu_us: Some(rounded(server_cpu.as_secs_f64() * 1e6 / count.max(1) as f64)),
            rss_mb: processes.rss_mb().round(),
            ratio: first.map(|first| row.per_second / first.max(1.0)),
            ..row
        })
    }

    /// Nothing is due, queues hold tasks and claims wait.
    async fn idle(&self, processes: &Processes, servers: &Servers) -> anyhow::Result<Row> {
        let addresses = processes.addresses();
        let name = named("idle", addresses.len(), servers.backends.len());
        report::progress(&name);
        let waiting = load::wait(&addresses, self.waiting).await?;
        tokio::time::sleep(WARM_UP).await;
        let (cpu, server_cpu, begun) = (processes.cpu(), servers.cpu().await?, Instant::now());
        tokio::time::sleep(Duration::from_secs_f64(self.seconds.max(0.1))).await;
        let elapsed = begun.elapsed().as_secs_f64();
        let percent = |used: Duration, of: usize| rounded(used.as_secs_f64() / elapsed / of as f64 * 100.0);
        let cpu = processes.cpu().saturating_sub(cpu);
        let server_cpu = servers.cpu().await?.saturating_sub(server_cpu);
        drop(waiting);
        Ok(Row {
            name,
            backlog: u64::try_from(self.queues).ok(),
            in_flight: self.waiting * addresses.len(),
            processes: Some(addresses.len()),
            servers: Some(servers.backends.len()),
            process_percent: Some(percent(cpu, addresses.len())),
            server_percent: Some(percent(server_cpu, servers.backends.len())),
            rss_mb: processes.rss_mb().round(),
            ..Row::default()
        })
    }
}

/// As `cycle 2x3`: two processes over three servers.
fn named(what: &str, processes: usize, servers: usize) -> String {
    format!("{what} {processes}x{servers}")
}

fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}
