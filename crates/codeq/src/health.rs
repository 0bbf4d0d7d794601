//! `codeq health`: one request to a server, for places that have no curl.

use crate::client::{answer, block_on, http_client};
use crate::{say, tag};
use anyhow::{Context, bail};
use std::time::Duration;

/// Ask a server whether it is well; exit code 1 if it is not.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq health\n  codeq health --url http://127.0.0.1:8080/livez")]
pub struct Health {
    /// What to ask [default: /readyz on this machine, at the port of CODEQ_PORT or PORT].
    #[arg(long)]
    url: Option<String>,
    /// How long to wait for the answer.
    #[arg(long, default_value_t = 5, value_name = "N")]
    timeout_seconds: u64,
}

impl Health {
    pub fn run(self) -> anyhow::Result<()> {
        let url = self.url.unwrap_or_else(|| format!("http://127.0.0.1:{}/readyz", port()));
        let request = http_client(&url)?.get(&url).timeout(Duration::from_secs(self.timeout_seconds));
        match block_on(answer(request)).with_context(|| format!("{url} does not answer"))? {
            (200, body) => say!("{} {body}", tag::ok()),
            (status, body) => bail!("{url} ({status}): {body}"),
        }
        Ok(())
    }
}

fn port() -> u16 {
    let named = ["CODEQ_PORT", "PORT"].iter().filter_map(|name| std::env::var(name).ok()?.parse().ok());
    named.into_iter().find(|port| *port > 0).unwrap_or(8080)
}
