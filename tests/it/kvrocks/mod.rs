//! Several stateless replicas over one keyspace, on a real redis-server that syncs every write.

mod adoption;
mod away;
mod batches;
mod bench;
mod events;
mod limits;
mod notifications;
mod replicas;
mod schedules;
mod shards;
mod storm;
mod tls;
mod workers;

use crate::harness::{DEV_TOKEN, Server};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

pub struct Redis {
    child: Child,
    port: u16,
    directory: TempDir,
    /// More arguments.
    more: Vec<String>,
}

impl Redis {
    pub async fn start() -> Redis {
        Redis::start_in(tempfile::tempdir().expect("a temporary directory"), &[]).await
    }

    async fn start_in(directory: TempDir, more: &[&str]) -> Redis {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let more: Vec<String> = more.iter().map(|word| word.replace("PORT", &port.to_string())).collect();
        let child = Redis::launch(&directory, port, &more);
        let redis = Redis { child, port, directory, more };
        redis.listens().await;
        redis
    }

    fn launch(directory: &TempDir, port: u16, more: &[String]) -> Child {
        let arguments =
            ["--appendonly", "yes", "--appendfsync", "always", "--save", "", "--bind", "127.0.0.1"];
        let mut command = Command::new("redis-server");
        command.arg("--port").arg(port.to_string()).arg("--dir").arg(directory.path()).args(arguments);
        command.args(more);
        command.stdout(Stdio::null()).spawn().expect("redis-server is installed by scripts/test.sh")
    }

    async fn listens(&self) {
        let connects = async {
            while tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), connects).await.expect("redis-server listens");
    }

    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    async fn kill_and_start(&mut self) {
        self.stop();
        self.child = Redis::launch(&self.directory, self.port, &self.more);
        self.listens().await;
    }

    fn replica(&self) -> Server {
        self.replica_with(json!({}))
    }

    fn replica_with(&self, more: Value) -> Server {
        Server::serve(self.config(more))
    }

    pub fn config(&self, more: Value) -> Value {
        let raw = json!({"role": "ADMIN", "tenantId": "dev-tenant"});
        let mut config = json!({
            "env": "dev",
            "persistenceProvider": "kvrocks",
            "persistenceConfig": {"addr": format!("127.0.0.1:{}", self.port)},
            "producerAuthProvider": "static",
            "producerAuthConfig": {"token": DEV_TOKEN, "subject": "p", "raw": raw},
            "allowProducerAsWorker": true,
        });
        config.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        config
    }

    /// What the server answers, one value a line.
    fn ask(&self, words: &[&str]) -> Vec<String> {
        let mut command = Command::new("redis-cli");
        let output = command.arg("-p").arg(self.port.to_string()).args(words).output();
        let text = String::from_utf8(output.expect("redis-cli comes with redis-server").stdout);
        text.expect("answers are text").lines().map(str::to_owned).collect()
    }

    fn number(&self, words: &[&str]) -> i64 {
        self.ask(words)[0].parse().unwrap_or_else(|_| panic!("{words:?} gives a number"))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn ok(server: &Server, path: &str, body: Value) -> Value {
    let answer = server.post(&format!("/v1/codeq{path}"), DEV_TOKEN, body).await;
    assert!(matches!(answer.status, 200 | 202), "{path}: {} {}", answer.status, answer.text);
    answer.json
}
