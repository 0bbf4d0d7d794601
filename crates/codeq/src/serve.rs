//! `codeq serve` and `codeq dev`: the server, for production and for the first minute.

use anyhow::Context;
use codeq_server::config::{self, Config, Loaded, Mode, Persistence, Sources};
use codeq_server::{Ready, telemetry};
use std::io::Write;
use std::path::PathBuf;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Run the production server.
///
/// Every setting has a key in the file, an environment variable and a default: see config.default.yaml.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  codeq serve --config /etc/codeq/config.yaml\n  CODEQ_PORT=9000 codeq serve"
)]
pub struct Serve {
    /// YAML file with settings.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Port of the HTTP API; 0 picks one.
    #[arg(long, value_name = "N")]
    port: Option<String>,
}

/// Run a development server on this machine: no configuration, a well-known token, data in ./codeq-data.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  codeq dev\n  codeq dev --port 9000 --data-dir /tmp/try\n  codeq dev --memory\n  \
    codeq dev --test-clock"
)]
pub struct Dev {
    /// Port of the HTTP API; 0 picks one.
    #[arg(long, value_name = "N")]
    port: Option<String>,
    /// Data directory [default: ./codeq-data].
    #[arg(long, value_name = "DIR", conflicts_with = "memory")]
    data_dir: Option<String>,
    /// Keep tasks in memory only; they are lost on exit.
    #[arg(long)]
    memory: bool,
    /// Let time stand still until POST /v1/codeq/test/clock moves it; keeps tasks in memory only.
    #[arg(long, conflicts_with = "data_dir")]
    test_clock: bool,
    /// YAML file with settings.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Serve {
    pub fn run(self) -> anyhow::Result<()> {
        let flags = self.port.map(|port| ("port", port)).into_iter().collect();
        let loaded = load(Mode::Serve, self.config, flags)?;
        start(loaded, |_, _| Ok(()))
    }
}

impl Dev {
    pub fn run(self) -> anyhow::Result<()> {
        let mut flags = Vec::new();
        flags.extend(self.port.map(|port| ("port", port)));
        flags.extend(self.data_dir.map(|path| ("persistenceConfig.path", path)));
        if self.memory || self.test_clock {
            flags.push(("persistenceProvider", "memory".to_owned()));
        }
        let mut loaded = load(Mode::Dev, self.config, flags)?;
        loaded.config.test_clock = self.test_clock;
        start(loaded, introduce)
    }
}

pub fn load(mode: Mode, file: Option<PathBuf>, flags: Vec<(&'static str, String)>) -> anyhow::Result<Loaded> {
    Ok(config::load(Sources { mode, file, env: environment(), flags })?)
}

/// For a tool that needs the shards and nothing else.
pub fn load_shards(file: Option<PathBuf>) -> anyhow::Result<Loaded> {
    Ok(config::load_shards(Sources { mode: Mode::Serve, file, env: environment(), flags: Vec::new() })?)
}

fn environment() -> Vec<(String, String)> {
    let env = std::env::vars_os();
    let env = env.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    env.collect()
}

fn start(loaded: Loaded, told: fn(&Config, &Ready) -> std::io::Result<()>) -> anyhow::Result<()> {
    let config = loaded.config;
    telemetry::logs::init(telemetry::logs::LogOptions {
        level: config.log_level,
        format: config.log_format,
        env: config.env.clone(),
        to_stderr: config.mode == Mode::Dev,
    });
    for warning in loaded.warnings {
        tracing::warn!("{warning}");
    }
    // What is kept is for nobody else's eyes: files 0600, directories 0700.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let served = runtime.block_on(async {
        let shown = config.clone();
        // Whoever reads our output may be gone; the server is not.
        let ready = move |ready: &Ready| drop(told(&shown, ready));
        let store = config.clone();
        let store = |observer| async move { codeq_server::open_store(&store, observer).await };
        codeq_server::run(config, store, ready, shutdown()?).await.map_err(anyhow::Error::from)
    });
    runtime.shutdown_background();
    served
}

/// Resolves at the first SIGINT or SIGTERM; a second one ends the process at once.
fn shutdown() -> anyhow::Result<impl Future<Output = &'static str>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        let first = either(&mut interrupt, &mut terminate).await;
        tokio::spawn(async move {
            either(&mut interrupt, &mut terminate).await;
            std::process::exit(1);
        });
        first
    })
}

async fn either(interrupt: &mut Signal, terminate: &mut Signal) -> &'static str {
    tokio::select! {
        _ = interrupt.recv() => "SIGINT",
        _ = terminate.recv() => "SIGTERM",
    }
}

/// What a newcomer needs: where it is, the tokens, and lines to paste.
fn introduce(config: &Config, ready: &Ready) -> std::io::Result<()> {
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let base = format!("{scheme}://{}", ready.address);
    let curl = |path: &str, body: &str| {
        format!(
            "curl -s -X POST {base}/v1/codeq/tasks{path} -H 'Authorization: Bearer dev-token' -d '{body}'"
        )
    };
    let mut out = std::io::stdout().lock();
    let ok = super::tag::ok();
    let info = super::tag::info();
    writeln!(out, "{ok} codeQ dev listening on {base}")?;
    match &config.persistence {
        Persistence::Embedded(embedded) => writeln!(out, "{info} data: {}", embedded.path.display())?,
        Persistence::Memory => writeln!(out, "{info} data: memory, lost on exit")?,
        Persistence::Kvrocks(kvrocks) => writeln!(out, "{info} data: kvrocks at {}", kvrocks.addr)?,
    }
    if config.test_clock {
        writeln!(out, "{info} clock: stands still; POST {base}/v1/codeq/test/clock moves it")?;
    }
    if config.dev_token().is_some() {
        writeln!(out, "{info} tenant: dev-tenant")?;
        writeln!(out, "{info} producer token (admin): dev-token")?;
        writeln!(out, "{info} worker token: dev-token")?;
        writeln!(out, "{info} create: {}", curl("", r#"{"command":"demo","payload":{"n":1}}"#))?;
        writeln!(out, "{info} claim: {}", curl("/claim", r#"{"commands":["demo"]}"#))?;
        let result = r#"{"status":"COMPLETED","result":{"ok":true}}"#;
        writeln!(out, "{info} finish: {}", curl("/TASK_ID/result", result))?;
    } else {
        writeln!(out, "{info} tokens: as configured (producerAuthProvider, workerAuthProvider)")?;
    }
    writeln!(out, "{info} API: {base}/docs")?;
    writeln!(out, "{info} dashboard: {base}/ui")?;
    out.flush()
}
