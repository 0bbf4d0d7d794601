//! A server process that can be killed and started again under the same addresses.

use reqwest::Client;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_codeq");
pub const TOKEN: &str = "dev-token";
/// Longer than anything that goes well takes.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Server {
    pub base: String,
    pub producer_stream: String,
    pub worker_stream: String,
    ports: [u16; 3],
    directory: TempDir,
    child: Option<Child>,
    client: Client,
}

impl Server {
    /// `codeq dev` with both streams and short pauses before a retry.
    pub fn start() -> Server {
        Server::with(json!({}))
    }

    /// The same with more settings.
    pub fn with(mut config: Value) -> Server {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let ports = [free_port(), free_port(), free_port()];
        let [http, producer_stream, worker_stream] = ports.map(|port| format!("127.0.0.1:{port}"));
        let keys = config.as_object_mut().expect("a configuration is an object");
        keys.insert("producerStreamAddr".into(), producer_stream.clone().into());
        keys.insert("workerStreamAddr".into(), worker_stream.clone().into());
        keys.insert("backoffPolicy".into(), "fixed".into());
        keys.insert("backoffBaseSeconds".into(), 1.into());
        std::fs::write(directory.path().join("config.yaml"), config.to_string()).expect("a file");
        let client = Client::builder().no_proxy().build().expect("a plain client");
        let base = format!("http://{http}");
        let mut server =
            Server { base, producer_stream, worker_stream, ports, directory, child: None, client };
        server.start_again();
        server
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("the server runs");
        child.kill().expect("the server runs");
        child.wait().expect("the server was ours");
    }

    /// On the same data and the same ports; returns when it listens.
    pub fn start_again(&mut self) {
        let path = |name: &str| self.directory.path().join(name);
        let mut command = Command::new(BINARY);
        command.env_clear().args(["dev", "--port", &self.ports[0].to_string()]);
        command.arg("--data-dir").arg(path("data")).arg("--config").arg(path("config.yaml"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let listens = lines.by_ref().map_while(Result::ok).any(|line| line.contains("listening on"));
        assert!(listens, "the server starts");
        // Whatever it says later must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        self.child = Some(child);
    }

    pub async fn task(&self, id: &str) -> Value {
        self.read(&format!("/tasks/{id}")).await
    }

    pub async fn stats(&self, command: &str) -> Value {
        self.read(&format!("/admin/queues/{command}")).await
    }

    async fn read(&self, path: &str) -> Value {
        let request = self.client.get(format!("{}/v1/codeq{path}", self.base)).bearer_auth(TOKEN);
        let text = request.send().await.expect("the server answers").text().await.expect("a whole answer");
        serde_json::from_str(&text).expect("JSON")
    }

    /// In the name of a worker; the status.
    pub async fn post_as(&self, worker: &str, path: &str, body: Value) -> u16 {
        let request = self.client.post(format!("{}/v1/codeq{path}", self.base)).bearer_auth(TOKEN);
        let request = request.header("Codeq-Worker", worker).body(body.to_string());
        request.send().await.expect("the server answers").status().as_u16()
    }

    /// Waits until the task satisfies `is`, and shows it.
    pub async fn task_until(&self, id: &str, is: impl Fn(&Value) -> bool) -> Value {
        let mut task = Value::Null;
        until(async || {
            task = self.task(id).await;
            is(&task)
        })
        .await;
        task
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Asks again and again until the answer is yes.
pub async fn until(mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("it comes true");
}

/// Below the ports that the system gives to clients: one that connects again and again must not be given
/// the very port that it waits for.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id() % 120).expect("small") * 100;
    loop {
        let port = 20_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed)) % 12_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// An example of the SDK. Cargo builds it with all tests of the workspace, and puts it beside the binary.
pub fn example(name: &str) -> PathBuf {
    let program = Path::new(BINARY).with_file_name("examples").join(name);
    assert!(program.is_file(), "there is no {name}: cargo build -p codeq -p codeq-client --bins --examples");
    program
}
