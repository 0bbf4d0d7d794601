//! A server process of its own for every test, and a client that tells everything about an answer.

use reqwest::header::HeaderMap;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// The token of `codeq dev`: producer, admin and worker of tenant `dev-tenant`.
pub const DEV_TOKEN: &str = "dev-token";

/// In an environment: how many files the server may have open.
pub const FILES: &str = "FILES";

/// The lines of a log; null where a line is not JSON.
type Said = Arc<Mutex<Vec<Value>>>;

/// A server that is killed when the test ends.
pub struct Server {
    pub base: String,
    /// Where the gRPC streams are, if they are on.
    pub worker_streams: String,
    pub producer_streams: String,
    pub directory: TempDir,
    child: Child,
    said: Said,
    arguments: Vec<String>,
    environment: Environment,
    client: reqwest::Client,
}

type Environment = Vec<(&'static str, String)>;

pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
    /// Null if the body is not JSON.
    pub json: Value,
}

impl Server {
    /// `codeq dev` on a free port with its data in a directory of its own.
    pub fn dev() -> Server {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let data = path(&directory.path().join("data"));
        Server::launch(directory, vec!["dev".into(), "--port".into(), "0".into(), "--data-dir".into(), data])
    }

    /// `codeq dev` on data that is there.
    pub fn dev_on(directory: TempDir, data: &str) -> Server {
        let arguments = ["dev", "--port", "0", "--data-dir", data].map(String::from).to_vec();
        Server::launch(directory, arguments)
    }

    /// `codeq dev` that keeps nothing: for tests that are not about keeping, because it starts at once.
    pub fn memory() -> Server {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Server::launch(directory, ["dev", "--port", "0", "--memory"].map(String::from).to_vec())
    }

    /// One whose clock is moved by calls.
    pub fn test_clock() -> Server {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Server::launch(directory, ["dev", "--port", "0", "--test-clock"].map(String::from).to_vec())
    }

    /// `codeq serve` with this configuration. `port`, `bindAddress` and the data directory are filled in
    /// unless given.
    pub fn serve(config: Value) -> Server {
        Server::serve_in(Environment::new(), config)
    }

    /// The same with these variables; there are no others.
    pub fn serve_in(environment: Environment, mut config: Value) -> Server {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let keys = config.as_object_mut().expect("a configuration is an object");
        keys.entry("port").or_insert(0.into());
        keys.entry("bindAddress").or_insert("127.0.0.1".into());
        let data = path(&directory.path().join("data"));
        keys.entry("persistenceConfig").or_insert(serde_json::json!({"path": data}));
        let file = directory.path().join("config.yaml");
        std::fs::write(&file, config.to_string()).expect("the directory is ours");
        Server::launch_in(environment, directory, vec!["serve".into(), "--config".into(), path(&file)])
    }

    fn launch(directory: TempDir, arguments: Vec<String>) -> Server {
        Server::launch_in(Environment::new(), directory, arguments)
    }

    fn launch_in(environment: Environment, directory: TempDir, arguments: Vec<String>) -> Server {
        let said = Said::default();
        let (child, addresses) = launch(&environment, &arguments, &said);
        let Addresses { base, worker_streams, producer_streams } = addresses;
        let client = client();
        Server {
            base,
            worker_streams,
            producer_streams,
            directory,
            child,
            said,
            arguments,
            environment,
            client,
        }
    }

    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.child.kill().expect("the server runs");
        self.child.wait().expect("the server was ours");
    }

    /// SIGTERM, and how the process ended.
    pub fn terminate(&mut self) -> ExitStatus {
        self.signal("TERM");
        self.wait()
    }

    /// How the process ended, once it has.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("the server was ours")
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).status();
        assert!(sent.expect("kill is there").success());
    }

    /// The same server on the same data, on another port.
    pub fn start_again(&mut self) {
        let (child, addresses) = launch(&self.environment, &self.arguments, &self.said);
        self.child = child;
        self.base = addresses.base;
        self.worker_streams = addresses.worker_streams;
        self.producer_streams = addresses.producer_streams;
    }

    pub async fn get(&self, path: &str, token: &str) -> Answer {
        self.send(reqwest::Method::GET, path, Some(token), None).await
    }

    pub async fn post(&self, path: &str, token: &str, body: Value) -> Answer {
        self.send(reqwest::Method::POST, path, Some(token), Some(body.to_string().into_bytes())).await
    }

    /// Waits until the log (of `serve`) has this message, and shows the line.
    pub async fn until_said(&self, message: &str) -> Value {
        let find = || {
            let said = self.said.lock().expect("no one panics holding it");
            said.iter().find(|line| line["msg"] == message).cloned()
        };
        let waiting = async {
            loop {
                if let Some(line) = find() {
                    return line;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(20), waiting).await;
        waited.unwrap_or_else(|_| panic!("{message} is not in {:#?}", self.said.lock()))
    }

    /// Waits until `/metrics` holds this line: what happens inside can be seen there.
    pub async fn until_metric(&self, line: &str) {
        let has_line = async {
            while !self.get("/metrics", "").await.text.lines().any(|found| found == line) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let seen = tokio::time::timeout(Duration::from_secs(20), has_line).await;
        assert!(seen.is_ok(), "{line} is not in\n{}", self.get("/metrics", "").await.text);
    }

    /// Waits until the store holds so many claims that have found nothing.
    pub async fn until_claims_wait(&self, count: usize) {
        self.until_metric(&format!("codeq_claims_waiting {count}")).await;
    }

    /// Any request; `path` begins with a slash.
    pub async fn send(
        &self,
        method: reqwest::Method,
        path: &str,
        token: Option<&str>,
        body: Option<Vec<u8>>,
    ) -> Answer {
        let mut request = self.request(method, path);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.body(body);
        }
        answer(request).await
    }

    /// A request to be completed by the test; see [`answer`].
    pub fn request(&self, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base))
    }
}

impl Answer {
    /// Empty if there is no such header.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub async fn answer(request: reqwest::RequestBuilder) -> Answer {
    let response = request.send().await.expect("the server answers");
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    // A stream of events has no end to wait for.
    let is_stream =
        headers.get("content-type").is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let text = match is_stream {
        true => String::new(),
        false => response.text().await.expect("the answer is complete"),
    };
    let json = serde_json::from_str(&text).unwrap_or(Value::Null);
    Answer { status, headers, text, json }
}

fn client() -> reqwest::Client {
    let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    client.build().expect("a plain client")
}

fn path(path: &Path) -> String {
    path.to_str().expect("temporary directories have plain names").to_owned()
}

#[derive(Default)]
struct Addresses {
    base: String,
    worker_streams: String,
    producer_streams: String,
}

impl Addresses {
    /// Takes what a line tells; true once the server listens.
    fn read(&mut self, line: &str) -> bool {
        if let Some((_, base)) = line.split_once("[OK] codeQ dev listening on ") {
            self.base = base.to_owned();
            return true;
        }
        let Ok(event) = serde_json::from_str::<Value>(line) else { return false };
        let address = event["addr"].as_str().unwrap_or_default();
        match event["msg"].as_str() {
            Some("listening") => self.base = format!("http://{address}"),
            Some("worker streaming gRPC enabled") => self.worker_streams = format!("http://{address}"),
            Some("producer streaming gRPC enabled") => self.producer_streams = format!("http://{address}"),
            _ => {}
        }
        !self.base.is_empty()
    }
}

/// Starts the binary and waits until it says where it listens.
fn launch(environment: &Environment, arguments: &[String], said: &Said) -> (Child, Addresses) {
    let files = environment.iter().find(|(name, _)| *name == FILES).map(|(_, files)| files.as_str());
    let mut command = match files {
        Some(files) => {
            let mut shell = Command::new("/bin/sh");
            shell.args([
                "-c",
                &format!("ulimit -n {files}; exec \"$0\" \"$@\""),
                env!("CARGO_BIN_EXE_codeq"),
            ]);
            shell
        }
        None => Command::new(env!("CARGO_BIN_EXE_codeq")),
    };
    command
        .env_clear()
        .envs(environment.iter().cloned())
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut addresses = Addresses::default();
    let keep = |line: &str| {
        let line = serde_json::from_str(line).unwrap_or(Value::Null);
        said.lock().expect("no one panics holding it").push(line);
    };
    let listens = lines.by_ref().map_while(Result::ok).any(|line| {
        keep(&line);
        addresses.read(&line)
    });
    assert!(listens, "the server starts; its errors are above");
    // Whatever it says later must not fill the pipe.
    let said = said.clone();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let line = serde_json::from_str(&line).unwrap_or(Value::Null);
            said.lock().expect("no one panics holding it").push(line);
        }
    });
    (child, addresses)
}
