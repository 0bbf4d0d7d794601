//! Can tokens be verified?

use super::report::Report;
use crate::client::http_client;
use codeq_server::auth::Gate;
use codeq_server::config::{AuthProvider, Config};
use codeq_server::gate_options;
use codeq_store::SystemClock;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Checks both sides; the time by the clock of an issuer, if one tells it.
pub async fn check(report: &mut Report, config: &Config) -> anyhow::Result<Option<String>> {
    if let Err(text) = Gate::new(gate_options(config, Arc::new(SystemClock))) {
        report.error("auth", text, "correct producerAuthConfig or workerAuthConfig; see docs/auth.md");
        return Ok(None);
    }
    let mut server_time = None;
    if let Some(producer) = &config.producer_auth {
        side(report, "producer auth", producer, &mut server_time).await;
    }
    match &config.worker_auth {
        Some(worker) => side(report, "worker auth", worker, &mut server_time).await,
        None if config.allow_producer_as_worker => {
            report.ok("worker auth", "producer tokens (allowProducerAsWorker)");
        }
        None => {}
    }
    Ok(server_time)
}

async fn side(
    report: &mut Report,
    name: &'static str,
    provider: &AuthProvider,
    server_time: &mut Option<String>,
) {
    let urls = urls(&provider.kind, &provider.config);
    if urls.is_empty() {
        report.ok(name, provider.kind.clone());
    }
    for url in urls {
        match fetch(&url).await {
            Ok((keys, time)) => {
                report.ok(name, format!("{url}: {keys} keys"));
                *server_time = server_time.take().or(time);
            }
            Err(text) => {
                let next = "start the issuer, open the way to it, or correct the URL of its JWKS";
                report.error(name, format!("{url}: {text}"), next);
            }
        }
    }
}

/// Where a provider, or those inside of it, get their keys.
fn urls(kind: &str, config: &Value) -> Vec<String> {
    match kind {
        "jwks" => config["jwksUrl"].as_str().map(str::to_owned).into_iter().collect(),
        "multi" => {
            let inside = config["providers"].as_array().into_iter().flatten();
            inside
                .flat_map(|entry| urls(entry["type"].as_str().unwrap_or_default(), &entry["config"]))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// How many keys there are, and what the clock over there says.
async fn fetch(url: &str) -> Result<(usize, Option<String>), String> {
    let client = http_client(url).map_err(|error| format!("{error:#}"))?;
    let response = client.get(url).timeout(TIMEOUT).send().await;
    let response = response.map_err(|error| format!("{:#}", anyhow::Error::new(error.without_url())))?;
    let status = response.status().as_u16();
    if status != 200 {
        return Err(format!("status {status}"));
    }
    let date = response.headers().get("date").and_then(|date| date.to_str().ok()).map(str::to_owned);
    let body: Value = serde_json::from_str(&response.text().await.unwrap_or_default()).unwrap_or_default();
    match body["keys"].as_array().map_or(0, Vec::len) {
        0 => Err("holds no keys".into()),
        count => Ok((count, date)),
    }
}
