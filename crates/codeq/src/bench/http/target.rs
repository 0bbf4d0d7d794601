//! The server under load: one of our own in a process of its own, or one that is there already.

use super::super::on::RedisUrl;
use super::super::process::Process;
use crate::issuer::Issuer;
use anyhow::Context;
use serde_json::json;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The addresses and tokens of the server under load.
pub struct Target {
    pub process: Option<Process>,
    pub address: SocketAddr,
    pub producer: String,
    pub worker: String,
}

impl Target {
    /// A server of our own with RS256 tokens, on an embedded store with fsync or over Kvrocks.
    pub fn start(directory: &Path, kvrocks: Option<&RedisUrl>) -> anyhow::Result<Target> {
        let issuer = Issuer::generate("bench")?;
        let jwks = publish(issuer.jwks().to_string())?;
        let mut config = json!({
            "port": 0, "bindAddress": "127.0.0.1", "env": "dev", "logLevel": "info",
            "persistenceConfig": {"path": directory.join("data")},
            "identityJwksUrl": jwks, "identityIssuer": "bench", "identityAudience": "codeq-producer",
            "workerJwksUrl": jwks, "workerIssuer": "bench", "workerAudience": "codeq-worker",
        });
        if let Some(url) = kvrocks {
            url.configure(&mut config);
        }
        let file = directory.join("config.yaml");
        std::fs::write(&file, config.to_string())?;
        let file = file.to_str().context("the directory's name is not text")?;
        let process = Process::start(&["serve", "--config", file])?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let claims =
            json!({"iss": "bench", "exp": now + 86_400, "iat": now, "tenantId": "bench", "sub": "bench"});
        let with = |more: serde_json::Value| {
            let mut all = claims.clone();
            for (name, value) in more.as_object().into_iter().flatten() {
                all[name] = value.clone();
            }
            issuer.mint(&all)
        };
        let scopes = "codeq:claim codeq:heartbeat codeq:abandon codeq:nack codeq:result codeq:subscribe";
        Ok(Target {
            address: process.address,
            process: Some(process),
            producer: with(json!({"aud": "codeq-producer", "role": "ADMIN"}))?,
            worker: with(json!({"aud": "codeq-worker", "eventTypes": ["*"], "scope": scopes}))?,
        })
    }

    /// A server that is there already.
    pub fn at(base_url: &str, producer: String, worker: String) -> anyhow::Result<Target> {
        let host = base_url.strip_prefix("http://").context("the base URL has to be http://HOST:PORT")?;
        let host = host.trim_end_matches('/');
        let address = host.to_socket_addrs().with_context(|| format!("cannot resolve {host}"))?.next();
        let address = address.with_context(|| format!("{host} has no address"))?;
        Ok(Target { process: None, address, producer, worker })
    }
}

/// Serves one JSON text as long as this process lives; returns its URL.
fn publish(text: String) -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/jwks.json", listener.local_addr()?);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let _ = stream.read(&mut [0; 4096]);
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length";
            let _ = write!(stream, "{head}: {}\r\n\r\n{text}", text.len());
        }
    });
    Ok(url)
}
