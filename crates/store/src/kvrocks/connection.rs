//! One connection to one server, made anew when it breaks. The only file that names the client library.
//!
//! Promise: [`Connection::exchange`] sends all commands in one write and gives one reply per command, errors
//! in their places. [`Trouble::Unsent`] means that nothing was sent; after [`Trouble::Lost`] everything or
//! nothing may have happened.

use super::options::Backend;
use futures_util::StreamExt;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo, Value};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;
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

pub struct Connection {
    target: Target,
    line: Mutex<Line>,
    round_trips: AtomicU64,
}

impl Connection {
    pub fn new(target: Target) -> Connection {
        Connection { target, line: Mutex::new(Line::Never), round_trips: AtomicU64::new(0) }
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
        let mut line = self.line().await?;
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
                self.hang_up().await;
                Err(Trouble::Lost(error.to_string()))
            }
        }
    }

    /// Forgets the connection; the next exchange makes another one.
    pub async fn hang_up(&self) {
        let mut line = self.line.lock().await;
        if matches!(*line, Line::Up(_)) {
            *line = Line::Never;
        }
    }

    async fn line(&self) -> Result<MultiplexedConnection, Trouble> {
        let mut line = self.line.lock().await;
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
        let at_address = |error: redis::RedisError| format!("{address}: {error}");
        let dialled = client.get_multiplexed_async_connection_with_config(&config).await;
        let mut line = dialled.map_err(at_address)?;
        // A server that wants a password hangs up without a word on the first thing that is long.
        match line.send_packed_command(&redis::cmd("PING")).await.map(reply).map_err(at_address)? {
            Reply::Error(text) => Err(format!("{address}: {text}")),
            _ => Ok(line),
        }
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
