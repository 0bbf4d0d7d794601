//! `codeq bench hostile`: one tenant that does its worst, and strangers without a token, beside an honest one.

mod honest;
mod strangers;
mod tenant;
mod verdict;

use super::http::client::Client;
use super::meter::Used;
use super::process::Process;
use super::report::{self, Output, Row};
use anyhow::Context;
use honest::Seen;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use verdict::{Alone, STRANGERS_MB, TENANT_MB};

/// The token of the honest tenant, and those of the hostile one.
const HONEST: &str = "honest";
const HOSTILE: [&str; 3] = ["hostile-1", "hostile-2", "hostile-3"];
/// What the server may have in flight: the default follows the memory of the machine.
const IN_FLIGHT_BYTES: u64 = 256 << 20;
/// Within this it has to be as quick as before.
const RECOVERY: Duration = Duration::from_secs(10);

/// An honest tenant creates, claims and finishes tasks: alone, then beside a tenant that does everything at
/// once that its rights allow, then beside strangers without a token. Its p99 may be three times what it was
/// alone, it gets no 5xx, the server has at most 1000 MB (500 MB under strangers), and ten seconds later all is as
/// before. What does not hold makes the command fail.
#[derive(clap::Args)]
pub struct HostileBench {
    /// How long each attack lasts.
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// Connections of the strangers.
    #[arg(long, default_value_t = 10_000)]
    connections: usize,
    /// Print the verdicts and succeed in any case.
    #[arg(long)]
    print_only: bool,
    #[command(flatten)]
    output: Output,
}

/// The server under attack.
pub struct Target {
    process: Process,
}

impl Target {
    fn start(directory: &Path) -> anyhow::Result<Target> {
        let verbs = ["claim", "heartbeat", "abandon", "nack", "result", "subscribe"];
        let scopes: Vec<String> = verbs.iter().map(|verb| format!("codeq:{verb}")).collect();
        let token = |token: &str, tenant: &str| {
            json!({"type": "static", "config": {
                "token": token, "subject": token, "scopes": scopes, "eventTypes": ["*"],
                "raw": {"tenantId": tenant, "role": "ADMIN"},
            }})
        };
        let mut tokens = vec![token(HONEST, "honest")];
        tokens.extend(HOSTILE.map(|name| token(name, "hostile")));
        let config = json!({
            "port": 0, "bindAddress": "127.0.0.1", "env": "dev",
            "workerStreamAddr": "127.0.0.1:0", "producerStreamAddr": "127.0.0.1:0",
            "producerAuthProvider": "multi", "producerAuthConfig": {"providers": tokens.clone()},
            "workerAuthProvider": "multi", "workerAuthConfig": {"providers": tokens},
            "persistenceConfig": {"path": directory.join("data")},
            "limits": {"maxInFlightBytes": IN_FLIGHT_BYTES},
            "webhooks": {"timeoutSeconds": 5},
        });
        let file = directory.join("config.yaml");
        std::fs::write(&file, config.to_string())?;
        let file = file.to_str().context("the directory's name is not text")?;
        Ok(Target { process: Process::start(&["serve", "--config", file])? })
    }

    fn http(&self) -> SocketAddr {
        self.process.address
    }

    fn worker(&self) -> anyhow::Result<SocketAddr> {
        self.process.worker_streams.context("no worker stream")
    }
}

impl HostileBench {
    pub fn run(self) -> anyhow::Result<()> {
        codeq_server::raise_file_limit();
        let root = self.output.root()?;
        let target = Target::start(root.path())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let attackers = attackers()?;
        let rows = runtime.block_on(self.rows(target, attackers.handle(), root.path()))?;
        attackers.shutdown_background();
        self.output.print(&rows, &root)?;
        match &verdict::faults(&rows)[..] {
            [] => Ok(()),
            _ if self.print_only => Ok(()),
            faults => anyhow::bail!("not everything held:\n{}", faults.join("\n")),
        }
    }

    async fn rows(&self, target: Target, attackers: &Handle, directory: &Path) -> anyhow::Result<Vec<Row>> {
        let time = Duration::from_secs_f64(self.seconds.max(1.0));
        let side = (time / 4).max(Duration::from_secs(1));
        report::progress("alone");
        honest::work(target.http(), Duration::from_secs(1)).await?;
        let alone = watched(&target, side).await?;
        let before = Alone { p99_us: alone.p99_us };
        let mut rows = vec![Row { name: "alone".into(), ..alone }];
        report::progress("a hostile tenant");
        let over = CancellationToken::new();
        let attack = {
            let _on = attackers.enter();
            tenant::attack(&target, &over)
        };
        let row = beside(&target, attack, over, time).await?;
        rows.push(before.judge(Row { name: "hostile tenant".into(), ..row }, TENANT_MB));
        rows.push(after(&target, before).await?);
        // Another server: what the first attack has left in memory is not the strangers'.
        drop(target);
        let target = Target::start(&fresh(directory)?)?;
        honest::work(target.http(), Duration::from_secs(1)).await?;
        report::progress("strangers");
        let over = CancellationToken::new();
        let attack = {
            let _on = attackers.enter();
            strangers::attack(&target, self.connections, &over)?
        };
        let row = beside(&target, attack, over, time).await?;
        rows.push(before.judge(Row { name: "strangers".into(), ..row }, STRANGERS_MB));
        rows.push(after(&target, before).await?);
        Ok(rows)
    }
}

/// The honest tenant while an attack goes on.
async fn beside(
    target: &Target,
    mut attack: JoinSet<()>,
    over: CancellationToken,
    time: Duration,
) -> anyhow::Result<Row> {
    // The first moments are of the attack alone: connections are made.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let row = watched(target, time).await?;
    over.cancel();
    attack.abort_all();
    while attack.join_next().await.is_some() {}
    Ok(row)
}

/// Who attacks does so from elsewhere, in truth: here it has the processors that nobody else wants, so that it is
/// the server that is measured and not the machine they share.
fn attackers() -> std::io::Result<tokio::runtime::Runtime> {
    let step_back = || {
        let _ = rustix::process::nice(19);
    };
    tokio::runtime::Builder::new_multi_thread().on_thread_start(step_back).enable_all().build()
}

fn fresh(directory: &Path) -> std::io::Result<std::path::PathBuf> {
    let fresh = directory.join("strangers");
    std::fs::create_dir_all(&fresh)?;
    Ok(fresh)
}

/// The honest tenant for so long; the most memory that the server had meanwhile.
async fn watched(target: &Target, time: Duration) -> anyhow::Result<Row> {
    let (cpu, written, started) = (target.process.cpu(), target.process.written(), Instant::now());
    let working = honest::work(target.http(), time);
    tokio::pin!(working);
    let mut most = target.process.rss_mb();
    let Seen { latencies, failed } = loop {
        tokio::select! {
            seen = &mut working => break seen?,
            () = tokio::time::sleep(Duration::from_millis(100)) => most = most.max(target.process.rss_mb()),
        }
    };
    let used = Used {
        elapsed: started.elapsed(),
        cpu: target.process.cpu().saturating_sub(cpu),
        written: target.process.written().saturating_sub(written),
    };
    let row = Row::new("honest", honest::LANES, latencies.len(), &used, &latencies);
    Ok(Row { rss_mb: most.round(), refused: Some(failed), handles: Some(target.process.handles()), ..row })
}

/// Second by second, until it is as quick as before.
async fn after(target: &Target, before: Alone) -> anyhow::Result<Row> {
    let from = Instant::now();
    loop {
        report::progress(&format!("after: {} s", from.elapsed().as_secs()));
        let second = watched(target, Duration::from_secs(1)).await?;
        let is_quick = before.is_back(&second);
        if is_quick || from.elapsed() >= RECOVERY {
            let words = if is_quick { "recovered within" } else { "not recovered after" };
            let verdict = format!("{words} {:.0} s", from.elapsed().as_secs_f64());
            return Ok(Row { name: "after".into(), verdict: Some(verdict), ..second });
        }
    }
}

/// A request of an attacker; whatever comes of it.
async fn ask(client: &mut Option<Client>, address: SocketAddr, path: &str, token: &str, body: &Value) -> u16 {
    if client.is_none() {
        *client = Client::connect(address).await.ok();
    }
    let Some(open) = client else { return 0 };
    let asked = open.post(path, token, body.to_string().as_bytes()).await;
    let status = asked.map(|response| response.status);
    status.unwrap_or_else(|_| {
        *client = None;
        0
    })
}
