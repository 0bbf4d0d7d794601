//! The way to one server: one connection, or a few for whoever does not care for the order of its exchanges.
//! What breaks is made anew. The only file that names the client library.
//!
//! Promise: [`Connection::exchange`] sends all commands in one write and gives one reply per command, errors
//! in their places. [`Trouble::Unsent`] means that nothing was sent; after [`Trouble::Lost`] everything or
//! nothing may have happened.

use super::options::Backend;
use futures_util::StreamExt;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo, Value};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

/// How long a refused connection is not tried again; doubles up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(2);

#[derive(Clone, PartialEq, Debug)]
pub enum Reply {
    Nil,
    Int(i64),
    Text(Vec<u8>),
    List(Vec<Reply>),
    Error(String),
}

/// One command, word by word.
#[derive(Clone, Debug)]
pub struct Command(Vec<Vec<u8>>);

impl Command {
    pub fn new(name: &str) -> Command {
        Command(vec![name.into()])
    }

    pub fn arg(mut self, word: impl Into<Vec<u8>>) -> Command {
        self.0.push(word.into());
        self
    }

    pub fn args<W: Into<Vec<u8>>>(mut self, words: impl IntoIterator<Item = W>) -> Command {
        self.0.extend(words.into_iter().map(Into::into));
        self
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trouble {
    Unsent(String),
    Lost(String),
}

impl Trouble {
    pub fn text(&self) -> &str {
        match self {
            Trouble::Unsent(text) | Trouble::Lost(text) => text,
        }
    }
}

/// Where a connection leads: a fixed server, or whichever holds a slot of the cluster.
#[derive(Clone, Debug)]
pub struct Target {
    pub backend: Backend,
    /// The cluster slot that all keys of this connection share.
    pub slot: Option<u16>,
    pub timeout: Duration,
}

enum Line {
    Down { since: Instant, pause: Duration, reason: String },
    Up(MultiplexedConnection),
    Never,
}

/// One line, and how many exchanges it has to carry.
struct Wire {
    line: Mutex<Line>,
    exchanges: AtomicUsize,
}

/// An exchange on a wire, until it is over or given up.
struct Exchange<'a>(&'a Wire);

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        self.0.exchanges.fetch_sub(1, Ordering::Relaxed);
    }
}

pub struct Connection {
    target: Target,
    wires: Vec<Wire>,
    round_trips: AtomicU64,
}

impl Connection {
    pub fn new(target: Target) -> Connection {
        Connection::pooled(target, 1)
    }

    /// Up to `size` connections; each but the first is made when all before it are busy.
    pub fn pooled(target: Target, size: usize) -> Connection {
        let wire = || Wire { line: Mutex::new(Line::Never), exchanges: AtomicUsize::new(0) };
        let wires = (0..size.max(1)).map(|_| wire()).collect();
        Connection { target, wires, round_trips: AtomicU64::new(0) }
    }

    /// The first wire that carries least.
    fn begin(&self) -> Exchange<'_> {
        let least = self.wires.iter().min_by_key(|wire| wire.exchanges.load(Ordering::Relaxed));
        let wire = least.expect("there is at least one wire");
        wire.exchanges.fetch_add(1, Ordering::Relaxed);
        Exchange(wire)
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Exchanges that were sent so far.
    pub fn round_trips(&self) -> u64 {
        self.round_trips.load(Ordering::Relaxed)
    }

    /// Sends all commands in one write and awaits their replies.
    pub async fn exchange(&self, commands: &[Command]) -> Result<Vec<Reply>, Trouble> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let exchange = self.begin();
        let mut line = self.line(exchange.0).await?;
        self.round_trips.fetch_add(1, Ordering::Relaxed);
        let mut pipeline = redis::Pipeline::with_capacity(commands.len());
        for command in commands {
            let mut cmd = redis::Cmd::new();
            command.0.iter().for_each(|word| {
                cmd.arg(word.as_slice());
            });
            pipeline.add_command(cmd);
        }
        match line.send_packed_commands(&pipeline, 0, commands.len()).await {
            Ok(values) => Ok(values.into_iter().map(reply).collect()),
            Err(error) => {
                exchange.0.hang_up().await;
                // What broke one has mostly broken all. One that is being made is not waited for.
                self.wires.iter().filter_map(|wire| wire.line.try_lock().ok()).for_each(forget);
                Err(Trouble::Lost(error.to_string()))
            }
        }
    }

    /// Forgets the connections; the next exchange makes another one.
    pub async fn hang_up(&self) {
        for wire in &self.wires {
            wire.hang_up().await;
        }
    }

    async fn line(&self, wire: &Wire) -> Result<MultiplexedConnection, Trouble> {
        let mut line = wire.line.lock().await;
        let pause = match &*line {
            Line::Up(connection) => return Ok(connection.clone()),
            Line::Down { since, pause, reason } if since.elapsed() < *pause => {
                return Err(Trouble::Unsent(reason.clone()));
            }
            Line::Down { pause, .. } => (*pause * 2).min(LAST_PAUSE),
            Line::Never => FIRST_PAUSE,
        };
        match self.dial().await {
            Ok(connection) => {
                *line = Line::Up(connection.clone());
                Ok(connection)
            }
            Err(reason) => {
                *line = Line::Down { since: Instant::now(), pause, reason: reason.clone() };
                Err(Trouble::Unsent(reason))
            }
        }
    }

    async fn dial(&self) -> Result<MultiplexedConnection, String> {
        let address = super::cluster::locate(&self.target).await?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.target.timeout))
            .set_response_timeout(Some(self.target.timeout));
        let client = client(&self.target.backend, &address)?;
        let is_tls = self.target.backend.tls;
        let at_address = |error: redis::RedisError| format!("{address}: {error}{}", advice(&error, is_tls));
        let dialled = client.get_multiplexed_async_connection_with_config(&config).await;
        let mut line = dialled.map_err(at_address)?;
        // A server that wants a password hangs up without a word on the first thing that is long.
        match line.send_packed_command(&redis::cmd("PING")).await.map(reply).map_err(at_address)? {
            Reply::Error(text) => Err(format!("{address}: {text}")),
            _ => Ok(line),
        }
    }
}

impl Wire {
    async fn hang_up(&self) {
        forget(self.line.lock().await);
    }
}

fn forget(mut line: MutexGuard<'_, Line>) {
    if matches!(*line, Line::Up(_)) {
        *line = Line::Never;
    }
}

/// What to try when a server is there but does not understand.
fn advice(error: &redis::RedisError, is_tls: bool) -> &'static str {
    match is_tls {
        false if error.is_connection_dropped() => " (if the server speaks TLS, set persistenceConfig.tls)",
        true if error.is_timeout() => " (if the server does not speak TLS, unset persistenceConfig.tls)",
        _ => "",
    }
}

fn client(backend: &Backend, address: &str) -> Result<Client, String> {
    let (host, port) = address.rsplit_once(':').ok_or_else(|| format!("{address}: no port"))?;
    let port: u16 = port.parse().map_err(|_| format!("{address}: invalid port"))?;
    let host = host.trim_matches(['[', ']']).to_owned();
    let address = match backend.tls {
        true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
        false => ConnectionAddr::Tcp(host, port),
    };
    let mut settings = RedisConnectionInfo::default().set_db(backend.db.into()).set_skip_set_lib_name();
    if !backend.password.is_empty() {
        settings = settings.set_password(&backend.password);
    }
    let info = address.into_connection_info().map_err(|error| error.to_string())?;
    Client::open(info.set_redis_settings(settings)).map_err(|error| error.to_string())
}

/// One exchange on a connection of its own.
pub async fn ask_once(
    backend: &Backend,
    address: &str,
    timeout: Duration,
    command: &Command,
) -> Result<Reply, String> {
    let backend = Backend { address: address.into(), ..backend.clone() };
    let connection = Connection::new(Target { backend, slot: None, timeout });
    let mut replies = connection
        .exchange(std::slice::from_ref(command))
        .await
        .map_err(|trouble| trouble.text().to_owned())?;
    Ok(replies.pop().unwrap_or(Reply::Nil))
}

/// Listens to a channel until the connection breaks; tells why it did.
pub async fn listen(target: &Target, channel: &str, mut heard: impl FnMut(&[u8])) -> String {
    let subscribed = async {
        let address = super::cluster::locate(target).await?;
        let client = client(&target.backend, &address)?;
        let mut messages = client.get_async_pubsub().await.map_err(|error| error.to_string())?;
        messages.subscribe(channel).await.map_err(|error| error.to_string())?;
        Ok::<_, String>(messages)
    };
    let messages = match tokio::time::timeout(target.timeout, subscribed).await {
        Ok(Ok(messages)) => messages,
        Ok(Err(reason)) => return reason,
        Err(_) => return "timed out".into(),
    };
    // What happened before the subscription stood was not heard.
    heard(b"");
    let mut stream = messages.into_on_message();
    while let Some(message) = stream.next().await {
        heard(message.get_payload_bytes());
    }
    "the connection was closed".into()
}

fn reply(value: Value) -> Reply {
    match value {
        Value::Nil => Reply::Nil,
        Value::Int(number) => Reply::Int(number),
        Value::BulkString(bytes) => Reply::Text(bytes),
        Value::SimpleString(text) => Reply::Text(text.into_bytes()),
        Value::Okay => Reply::Text(b"OK".to_vec()),
        Value::Array(items) | Value::Set(items) => Reply::List(items.into_iter().map(reply).collect()),
        Value::ServerError(error) => {
            Reply::Error(format!("{} {}", error.code(), error.details().unwrap_or_default()))
        }
        other => Reply::Error(format!("unexpected reply {other:?}")),
    }
}
