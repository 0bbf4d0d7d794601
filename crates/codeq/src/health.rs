//! `codeq health`: one request to a server, for places that have no curl.

use crate::client::{answer, block_on, http_client, unchecked_client};
use crate::{say, tag};
use anyhow::bail;
use serde_json::json;
use std::time::Duration;

/// Check whether a server is healthy; exit code 1 if it is not.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  codeq health\n  codeq health --url http://127.0.0.1:8080/livez --json\n  \
    codeq health --url https://127.0.0.1:8080/readyz --insecure"
)]
pub struct Health {
    /// URL to ask [default: /readyz on this machine, at the port of CODEQ_PORT or PORT, by https if CODEQ_TLS_CERT_FILE
    /// is set].
    #[arg(long)]
    url: Option<String>,
    /// Accept any certificate: for probes on the same machine.
    #[arg(long)]
    insecure: bool,
    /// Seconds to wait for an answer.
    #[arg(long, default_value_t = 5, value_name = "N")]
    timeout_seconds: u64,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

impl Health {
    pub fn run(self) -> anyhow::Result<()> {
        // On this machine nobody can be mistaken for the server, and its certificate names another address.
        let is_insecure = self.insecure || (self.url.is_none() && has_tls());
        let scheme = if has_tls() { "https" } else { "http" };
        let url = self.url.unwrap_or_else(|| format!("{scheme}://127.0.0.1:{}/readyz", port()));
        let client = if is_insecure { unchecked_client()? } else { http_client(&url)? };
        let request = client.get(&url).timeout(Duration::from_secs(self.timeout_seconds));
        let answered =
            block_on(answer(request)).map_err(|error| error.context(format!("{url} does not answer")));
        if self.json {
            let (status, error) = match &answered {
                Ok((status, _)) => (Some(*status), None),
                Err(error) => (None, Some(format!("{error:#}"))),
            };
            say!("{}", json!({"url": url, "ok": status == Some(200), "status": status, "error": error}));
        }
        match answered? {
            (200, body) if !self.json => say!("{} {body}", tag::ok()),
            (200, _) => {}
            (status, body) => bail!("{url} ({status}): {body}"),
        }
        Ok(())
    }
}

/// Whether the server of this environment speaks TLS.
fn has_tls() -> bool {
    std::env::var_os("CODEQ_TLS_CERT_FILE").is_some_and(|file| !file.is_empty())
}

fn port() -> u16 {
    let named = ["CODEQ_PORT", "PORT"].iter().filter_map(|name| std::env::var(name).ok()?.parse().ok());
    named.into_iter().find(|port| *port > 0).unwrap_or(8080)
}
