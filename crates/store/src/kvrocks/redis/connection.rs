//! The way to one server: one connection, or a few for whoever does not care for the order of its exchanges.
//! What breaks is made anew, unless the server is away (see [`crate::kvrocks::redis::gate`]). The only file that names the client library.
//!
//! Promise: [`Connection::exchange`] sends all commands in one write and gives one reply per command, errors
//! in their places. [`ExchangeError::Unsent`] means that nothing was sent; after [`ExchangeError::Lost`] everything or
//! nothing may have happened.

use crate::kvrocks::context::layout::Expected;
use crate::kvrocks::redis::gate::Gate;
use crate::kvrocks::store::options::Backend;
use futures_util::StreamExt;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard};

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
pub enum ExchangeError {
    Unsent(String),
    Lost(String),
}

impl ExchangeError {
    pub fn text(&self) -> &str {
        match self {
            ExchangeError::Unsent(text) | ExchangeError::Lost(text) => text,
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
    /// How long it may say nothing.
    pub silence: Duration,
    /// What has to be found there; `None` if nobody minds.
    pub expected: Option<Arc<Expected>>,
}

impl Target {
    /// Whether somebody else tells who is master: a cluster, or Sentinel.
    pub fn is_followed(&self) -> bool {
        self.slot.is_some() || self.backend.sentinel.is_some()
    }

    /// Whether it leads to what we store. Others may be anything.
    fn wants_master(&self) -> bool {
        self.is_followed() || self.expected.is_some()
    }
}

enum Line {
    /// And how often the server had been away when it was made.
    Up(MultiplexedConnection, u64),
    Down,
}

/// One line, and how many exchanges it has to carry.
struct PooledLink {
    line: Mutex<Line>,
    exchanges: AtomicUsize,
}

/// An exchange on a wire, until it is over or given up.
struct Exchange<'a>(&'a PooledLink);

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        self.0.exchanges.fetch_sub(1, Ordering::Relaxed);
    }
}

pub struct Connection {
    target: Target,
    gate: Arc<Gate>,
    wires: Vec<PooledLink>,
    round_trips: AtomicU64,
}

impl Connection {
    pub fn new(target: Target, gate: Arc<Gate>) -> Connection {
        Connection::pooled(target, gate, 1)
    }

    /// Up to `size` connections; each but the first is made when all before it are busy.
    pub fn pooled(target: Target, gate: Arc<Gate>, size: usize) -> Connection {
        let wire = || PooledLink { line: Mutex::new(Line::Down), exchanges: AtomicUsize::new(0) };
        let wires = (0..size.max(1)).map(|_| wire()).collect();
        Connection { target, gate, wires, round_trips: AtomicU64::new(0) }
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
    pub async fn exchange(&self, commands: &[Command]) -> Result<Vec<Reply>, ExchangeError> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        self.exchange_held(commands, || {}).await.map(|(replies, _)| replies)
    }

    /// The same, and the line it went over. `departed` is called when everything is on its way, in its order.
    pub async fn exchange_held(
        &self,
        commands: &[Command],
        departed: impl FnOnce(),
    ) -> Result<(Vec<Reply>, Held), ExchangeError> {
        if let Some(reason) = self.gate.away() {
            return Err(ExchangeError::Unsent(reason));
        }
        let exchange = self.begin();
        let (mut line, made) = self.line(exchange.0).await?;
        self.round_trips.fetch_add(1, Ordering::Relaxed);
        let sent = tokio::select! {
            biased;
            sent = send(&mut line, commands, departed) => sent,
            reason = self.gate.shuts(made) => Err(ExchangeError::Lost(reason)),
        };
        match sent {
            Ok(replies) => Ok((replies, Held(line))),
            Err(trouble) => {
                exchange.0.hang_up().await;
                // What broke one has mostly broken all. One that is being made is not waited for.
                self.wires.iter().filter_map(|wire| wire.line.try_lock().ok()).for_each(forget);
                Err(trouble)
            }
        }
    }

    /// Forgets the connections; the next exchange makes another one.
    pub async fn hang_up(&self) {
        for wire in &self.wires {
            wire.hang_up().await;
        }
    }

    /// And how often the server had been away when it was made.
    async fn line(&self, wire: &PooledLink) -> Result<(MultiplexedConnection, u64), ExchangeError> {
        let mut line = wire.line.lock().await;
        let times_away = self.gate.times_away();
        if let Line::Up(connection, made) = &*line
            && *made == times_away
        {
            return Ok((connection.clone(), *made));
        }
        match dial(&self.target).await {
            Ok((connection, address)) => {
                let made = times_away + u64::from(self.gate.reached(&self.target, &address));
                *line = Line::Up(connection.clone(), made);
                Ok((connection, made))
            }
            Err(reason) => {
                self.gate.shut(&self.target, &reason);
                Err(ExchangeError::Unsent(reason))
            }
        }
    }
}

/// What is said of a server that nothing can be written to.
pub const REPLICA: &str = "the server is a replica";

/// A connection of its own that only asks whether the server is there, and how it is.
pub struct Probe {
    line: MultiplexedConnection,
    silence: Duration,
    /// Where it leads.
    pub address: String,
}

impl Probe {
    pub async fn dial(target: &Target) -> Result<Probe, String> {
        let silence = target.silence;
        let patient = Target { timeout: target.timeout.min(silence), ..target.clone() };
        let dialled = tokio::time::timeout(silence, dial(&patient)).await;
        let (line, address) = dialled.unwrap_or_else(|_| Err(silent(silence)))?;
        Ok(Probe { line, silence, address })
    }

    /// Asks within the time that a server has to answer.
    pub async fn ask(&mut self, commands: &[Command]) -> Result<Vec<Reply>, String> {
        let asked = tokio::time::timeout(self.silence, send(&mut self.line, commands, || {})).await;
        match asked {
            Err(_) => Err(silent(self.silence)),
            Ok(answered) => answered.map_err(|trouble| trouble.text().to_owned()),
        }
    }

    pub async fn ping(&mut self) -> Result<(), String> {
        self.ask(&[Command::new("PING")]).await.map(drop)
    }
}

fn silent(time: Duration) -> String {
    format!("timed out: no answer for {time:?}")
}

/// A line to the master, and its address.
async fn dial(target: &Target) -> Result<(MultiplexedConnection, String), String> {
    let address = crate::kvrocks::redis::master::locate(target).await?;
    let patience = target.timeout.min(target.silence);
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(patience))
        .set_response_timeout(Some(target.timeout));
    let client = client(&target.backend, &address)?;
    let is_tls = target.backend.tls;
    let at_address = |error: redis::RedisError| format!("{address}: {error}{}", advice(&error, is_tls));
    let dialled = client.get_multiplexed_async_connection_with_config(&config).await;
    let mut line = dialled.map_err(at_address)?;
    greet(target, &mut line, &address, is_tls).await?;
    if let Some(expected) = &target.expected {
        let replies = send(&mut line, &expected.commands(), || {}).await;
        let replies = replies.map_err(|trouble| format!("{address}: {}", trouble.text()))?;
        expected.check(replies).map_err(|reason| format!("{address}: {reason}"))?;
    }
    Ok((line, address))
}

/// Whether a server lets us in, and is the master if somebody else said so.
async fn greet(
    target: &Target,
    line: &mut MultiplexedConnection,
    address: &str,
    is_tls: bool,
) -> Result<(), String> {
    let at_address = |error: redis::RedisError| format!("{address}: {error}{}", advice(&error, is_tls));
    // A server that wants a password hangs up without a word on the first thing that is long.
    match line.send_packed_command(&redis::cmd("PING")).await.map(reply).map_err(at_address)? {
        Reply::Error(text) => return Err(format!("{address}: {text}")),
        _ if !target.wants_master() => return Ok(()),
        _ => {}
    }
    // Whoever was master a moment ago may be a replica now.
    match line.send_packed_command(&redis::cmd("ROLE")).await.map(reply).map_err(at_address)? {
        Reply::List(role) if role.first() != Some(&Reply::Text(b"master".to_vec())) => {
            Err(format!("{address}: {REPLICA}"))
        }
        _ => Ok(()),
    }
}

/// A line that an exchange went over. What follows on it reaches the same server, or nobody.
pub struct Held(MultiplexedConnection);

impl Held {
    pub async fn exchange(&mut self, commands: &[Command]) -> Result<Vec<Reply>, ExchangeError> {
        send(&mut self.0, commands, || {}).await
    }
}

/// `departed` is called once the commands stand in the line's queue,
/// which is what the first poll does: whoever begins after that stands behind them.
async fn send(
    line: &mut MultiplexedConnection,
    commands: &[Command],
    departed: impl FnOnce(),
) -> Result<Vec<Reply>, ExchangeError> {
    let mut pipeline = redis::Pipeline::with_capacity(commands.len());
    for command in commands {
        let mut cmd = redis::Cmd::new();
        command.0.iter().for_each(|word| {
            cmd.arg(word.as_slice());
        });
        pipeline.add_command(cmd);
    }
    let mut sending = std::pin::pin!(line.send_packed_commands(&pipeline, 0, commands.len()));
    let first = std::future::poll_fn(|context| Poll::Ready(sending.as_mut().poll(context))).await;
    departed();
    let values = match first {
        Poll::Ready(values) => values,
        Poll::Pending => sending.await,
    };
    let values = values.map_err(|error| ExchangeError::Lost(error.to_string()))?;
    Ok(values.into_iter().map(reply).collect())
}

impl PooledLink {
    async fn hang_up(&self) {
        forget(self.line.lock().await);
    }
}

fn forget(mut line: MutexGuard<'_, Line>) {
    if matches!(*line, Line::Up(..)) {
        *line = Line::Down;
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
    let connection = Connection::new(
        Target { backend, slot: None, timeout, silence: timeout, expected: None },
        Arc::default(),
    );
    let mut replies = connection
        .exchange(std::slice::from_ref(command))
        .await
        .map_err(|trouble| trouble.text().to_owned())?;
    Ok(replies.pop().unwrap_or(Reply::Nil))
}

/// Listens to a channel until the connection breaks; tells why it did.
pub async fn listen(target: &Target, channel: &str, mut heard: impl FnMut(&[u8])) -> String {
    let subscribed = async {
        let address = crate::kvrocks::redis::master::locate(target).await?;
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
