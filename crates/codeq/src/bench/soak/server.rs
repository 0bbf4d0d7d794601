//! The server under test: embedded store, fsync, both protocols, everything forgotten soon.

use super::super::http::client::Client;
use super::super::process::Process;
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const TOKEN: &str = "bench";

pub struct Server {
    pub process: Process,
    pub data: PathBuf,
}

impl Server {
    pub fn start(directory: &Path, retention: Duration) -> anyhow::Result<Server> {
        let data = directory.join("data");
        let raw = json!({"tenantId": "bench", "role": "ADMIN"});
        let verbs = ["claim", "heartbeat", "abandon", "nack", "result", "subscribe"];
        let scopes: Vec<String> = verbs.iter().map(|verb| format!("codeq:{verb}")).collect();
        let config = json!({
            "port": 0, "bindAddress": "127.0.0.1", "env": "dev",
            "workerStreamAddr": "127.0.0.1:0", "producerStreamAddr": "127.0.0.1:0",
            "producerAuthProvider": "static", "producerAuthConfig": {"token": TOKEN, "raw": raw},
            "workerAuthProvider": "static",
            "workerAuthConfig": {"token": TOKEN, "raw": raw, "eventTypes": ["*"], "scopes": scopes},
            "persistenceConfig": {"path": data},
            "retentionSeconds": retention.as_secs(), "dlqRetentionSeconds": retention.as_secs(),
            "cleanupIntervalSeconds": 1, "backoffPolicy": "fixed", "backoffBaseSeconds": 1,
            "maxAttemptsDefault": 1_000_000,
        });
        let file = directory.join("config.yaml");
        std::fs::write(&file, config.to_string())?;
        let file = file.to_str().context("the directory's name is not text")?;
        Ok(Server { process: Process::start(&["serve", "--config", file])?, data })
    }

    pub fn http(&self) -> SocketAddr {
        self.process.address
    }

    pub fn producer(&self) -> anyhow::Result<SocketAddr> {
        self.process.producer_streams.context("no producer stream")
    }

    pub fn worker(&self) -> anyhow::Result<SocketAddr> {
        self.process.worker_streams.context("no worker stream")
    }

    /// Tasks of a command that have not ended.
    pub async fn unfinished(&self, command: &str) -> anyhow::Result<u64> {
        let mut client = Client::connect(self.http()).await?;
        let response = client.get(&format!("/v1/codeq/admin/queues/{command}"), TOKEN).await?;
        if response.status != 200 {
            bail!("the counts of a queue answered {}", response.status);
        }
        let counts: Value = serde_json::from_slice(response.body)?;
        Ok(["ready", "delayed", "inProgress"].iter().filter_map(|place| counts[place].as_u64()).sum())
    }
}
