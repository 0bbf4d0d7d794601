//! The servers that all processes share: our own redis-servers, or those that are named.

use super::super::on::RedisUrl;
use anyhow::{Context, anyhow, bail};
use codeq_store::kvrocks::{self, Backend};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// A server of our own ends with us, however we end: then the pipe closes.
const GUARD: &str =
    "redis-server \"$@\" >/dev/null & server=$!; read -r _; kill -KILL $server 2>/dev/null; wait";
/// Until a server has to answer.
const START_TIME_MAX: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);

pub struct Servers {
    pub backends: Vec<Backend>,
    own: Vec<Own>,
}

struct Own {
    guard: Child,
    pipe: Option<ChildStdin>,
}

impl Servers {
    pub fn named(urls: &[RedisUrl]) -> Servers {
        Servers { backends: urls.iter().map(RedisUrl::backend).collect(), own: Vec::new() }
    }

    /// So many redis-servers, every write of which is on disk before it is answered.
    pub async fn start(count: usize, directory: &Path) -> anyhow::Result<Servers> {
        let mut servers = Servers { backends: Vec::new(), own: Vec::new() };
        for number in 0..count {
            let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
            let directory = directory.join(format!("redis-{count}-{number}"));
            std::fs::create_dir_all(&directory)?;
            servers.own.push(Own::start(port, &directory)?);
            servers.backends.push(Backend { address: format!("127.0.0.1:{port}"), ..Backend::default() });
        }
        servers.answer().await?;
        Ok(servers)
    }

    async fn answer(&self) -> anyhow::Result<()> {
        let end = Instant::now() + START_TIME_MAX;
        while let Err(reason) = self.cpu().await {
            if Instant::now() > end {
                bail!("{reason}; install redis-server, or name servers with --redis-url");
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Processor time of all of them so far.
    pub async fn cpu(&self) -> anyhow::Result<Duration> {
        let mut all = Duration::ZERO;
        for backend in &self.backends {
            all += kvrocks::processor_time(backend).await.map_err(|reason| anyhow!(reason))?;
        }
        Ok(all)
    }
}

impl Own {
    fn start(port: u16, directory: &Path) -> anyhow::Result<Own> {
        let directory = directory.to_str().context("the directory's name is not text")?;
        let mut command = Command::new("sh");
        command.args(["-c", GUARD, "guard", "--port", &port.to_string(), "--bind", "127.0.0.1"]);
        command.args(["--save", "", "--appendonly", "yes", "--appendfsync", "always", "--dir", directory]);
        let mut guard = command.stdin(Stdio::piped()).spawn().context("cannot start a shell")?;
        let pipe = guard.stdin.take();
        Ok(Own { guard, pipe })
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        drop(self.pipe.take());
        let _ = self.guard.wait();
    }
}
