//! `codeq doctor`: would a server start here, and if not, what to do.

mod auth;
mod clock;
mod faults;
mod kvrocks;
mod oidc;
mod ports;
mod report;
mod store;
mod tls;

use crate::client::block_on;
use crate::{say, serve, terminal};
use anyhow::bail;
use codeq_server::config::{Config, Loaded, Mode, Persistence};
pub use faults::advice;
use report::Report;
use std::path::PathBuf;

/// Check whether a server can run here: configuration, auth, store, clock, ports.
///
/// Changes nothing. Exit code 1 if anything has failed; every failure comes with the next step.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq doctor --config /etc/codeq/config.yaml\n  codeq doctor --dev\n  \
    codeq doctor --config codeq.yaml --json")]
pub struct Doctor {
    /// YAML file with settings.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check for `codeq dev` instead of `codeq serve`.
    #[arg(long)]
    dev: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub fn run(self) -> anyhow::Result<()> {
        let mode = if self.dev { Mode::Dev } else { Mode::Serve };
        let mut report = Report::default();
        match serve::load(mode, self.config.clone(), Vec::new()) {
            Ok(loaded) => {
                let config = configuration(&mut report, loaded, &self.config);
                block_on(async { examine(&mut report, &config).await })?;
            }
            Err(error) => {
                faults::check(&mut report, &error);
                clock::check(&mut report, None);
            }
        }
        match self.json {
            true => say!("{}", report.json()),
            false => terminal::print(&report.text()),
        }
        match report.failures() {
            0 => Ok(()),
            1 => bail!("1 check failed"),
            count => bail!("{count} checks failed"),
        }
    }
}

fn configuration(report: &mut Report, loaded: Loaded, file: &Option<PathBuf>) -> Config {
    let source = match file {
        Some(file) => file.display().to_string(),
        None => "no file; environment and defaults".into(),
    };
    report.ok("config", format!("{source} (store: {})", loaded.config.persistence.name()));
    for warning in loaded.warnings {
        report.warn("config", warning, "remove or correct the setting");
    }
    loaded.config
}

async fn examine(report: &mut Report, config: &Config) -> anyhow::Result<()> {
    let server_time = auth::check(report, config).await?;
    oidc::check(report, config).await;
    let is_served = ports::is_served(config).await;
    match &config.persistence {
        Persistence::Embedded(embedded) => store::check(report, &embedded.path, is_served),
        Persistence::Kvrocks(kvrocks) => kvrocks::check(report, config, kvrocks).await,
        Persistence::Memory => {
            report.warn("store", "in memory: tasks are lost on exit", "set persistenceProvider: embedded");
        }
    }
    clock::check(report, server_time.map(|time| (time, config.allowed_clock_skew)));
    tls::check(report, config);
    ports::check(report, config, is_served);
    Ok(())
}
