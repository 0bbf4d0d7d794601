//! Real servers of codeQ, all of one configuration.

use super::super::process::Process;
use anyhow::Context;
use codeq_store::kvrocks::Backend;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

pub const TOKEN: &str = "bench";

pub struct Processes(Vec<Process>);

impl Processes {
    pub fn start(count: usize, backends: &[Backend], directory: &Path) -> anyhow::Result<Processes> {
        let file = directory.join(format!("config-{}-{count}.yaml", backends.len()));
        std::fs::write(&file, config(backends).to_string())?;
        let file = file.to_str().context("the directory's name is not text")?;
        (0..count)
            .map(|_| Process::start(&["serve", "--config", file]))
            .collect::<Result<_, _>>()
            .map(Processes)
    }

    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.0.iter().map(|process| process.address).collect()
    }

    /// Processor time of all of them so far.
    pub fn cpu(&self) -> Duration {
        self.0.iter().map(Process::cpu).sum()
    }

    /// The memory of the largest.
    pub fn rss_mb(&self) -> f64 {
        self.0.iter().map(Process::rss_mb).fold(0.0, f64::max)
    }
}

/// Queues spread over all servers by themselves.
fn config(backends: &[Backend]) -> Value {
    let raw = json!({"tenantId": "bench", "role": "ADMIN"});
    let verbs = ["claim", "heartbeat", "abandon", "nack", "result", "subscribe"];
    let scopes: Vec<String> = verbs.iter().map(|verb| format!("codeq:{verb}")).collect();
    let names: Vec<String> = (1..=backends.len()).map(|number| format!("server-{number}")).collect();
    let entry = |backend: &Backend| json!({"address": backend.address, "password": backend.password, "db": backend.db});
    let entries: serde_json::Map<String, Value> =
        names.iter().cloned().zip(backends.iter().map(entry)).collect();
    let first = &backends[0];
    json!({
        "port": 0, "bindAddress": "127.0.0.1", "env": "dev",
        "producerAuthProvider": "static", "producerAuthConfig": {"token": TOKEN, "raw": raw},
        "workerAuthProvider": "static",
        "workerAuthConfig": {"token": TOKEN, "raw": raw, "eventTypes": ["*"], "scopes": scopes},
        "persistenceProvider": "kvrocks",
        "persistenceConfig": {
            "addr": first.address, "password": first.password, "db": first.db, "tls": first.tls,
        },
        "sharding": {
            "enabled": true, "defaultShard": names[0], "backends": entries,
            "spread": true, "spreadOver": names,
        },
    })
}
