//! One shard: its keys, the connection it is read through and the writer that changes it.

use crate::clock::Clock;
use crate::kvrocks::context::offset::Offset;
use crate::kvrocks::format::keys::Keys;
use crate::kvrocks::redis::connection::{Command, Connection, ExchangeError, Reply};
use crate::kvrocks::redis::gate::Gate;
use crate::kvrocks::redis::script::{Call, Names};
use crate::kvrocks::redis::writer::{Writer, is_elsewhere, refusal};
use codeq_queue::{Failure, Time};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

pub struct Shard {
    pub name: Box<str>,
    pub keys: Keys,
    pub writer: Writer,
    pub server: Arc<Server>,
    /// Which of the spread shards it is.
    pub spread: Option<usize>,
}

/// One server, as all shards on it see it.
pub struct Server {
    pub reads: Arc<Connection>,
    pub writes: Arc<Connection>,
    pub gate: Arc<Gate>,
    pub names: Arc<RwLock<Names>>,
    /// Unknown at first.
    offset: Mutex<Option<Offset>>,
}

/// An answer that took longer does not tell the time.
const CLOCK_ROUND_TRIP_MAX: Duration = Duration::from_millis(200);
/// How often it is asked for the first time it tells.
const FIRST_TRIES: usize = 3;

impl Server {
    pub fn new(
        (reads, writes): (Arc<Connection>, Arc<Connection>),
        gate: Arc<Gate>,
        names: Arc<RwLock<Names>>,
    ) -> Server {
        Server { reads, writes, gate, names, offset: Mutex::default() }
    }

    /// Compares the given clock with the server's. Nothing is learned if the server did not tell in time.
    pub async fn measure(&self, clock: &dyn Clock) {
        let tries = if self.offset().is_none() { FIRST_TRIES } else { 1 };
        for _ in 0..tries {
            self.ask_the_time(clock).await;
            if self.offset().is_some() {
                return;
            }
        }
    }

    async fn ask_the_time(&self, clock: &dyn Clock) {
        let (begun, sent) = (Instant::now(), clock.now().millis());
        let Ok(mut replies) = self.reads.exchange(&[Command::new("TIME")]).await else { return };
        let took = begun.elapsed();
        let told = replies.pop().map(crate::kvrocks::redis::reply::strings).unwrap_or_default();
        let Some(server) = milliseconds(&told).filter(|_| took <= CLOCK_ROUND_TRIP_MAX) else { return };
        let received = sent + i64::try_from(took.as_millis()).unwrap_or(i64::MAX / 4);
        let mut known = self.offset.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some(Offset::told(*known, sent, received, server));
    }

    /// Milliseconds from our clock to its.
    pub fn offset(&self) -> Option<i64> {
        self.offset.lock().unwrap_or_else(PoisonError::into_inner).map(|offset| offset.value)
    }
}

/// What TIME answers.
fn milliseconds(told: &[String]) -> Option<i64> {
    let [seconds, micros] = told else { return None };
    Some(seconds.parse::<i64>().ok()? * 1000 + micros.parse::<i64>().ok()? / 1000)
}

impl Shard {
    pub fn new(name: &str, keys: Keys, writer: Writer, server: Arc<Server>) -> Shard {
        Shard {
            name: name.into(),
            keys,
            writer,
            server,
            spread: crate::kvrocks::context::spread::parse(name),
        }
    }

    /// The instant of the server's clock after which nobody waits for an answer any more; `now` is by the clock that the
    /// server was measured by.
    pub fn latest(&self, now: Time, timeout: Duration) -> Option<i64> {
        let timeout = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX / 4);
        self.server.offset().map(|offset| now.millis() + offset + timeout)
    }

    /// Runs a script that only reads, beside the writes.
    pub async fn evaluate(&self, call: &Call) -> Result<Reply, Failure> {
        let command = self.server.names.read().expect("no one panics holding the names").command(call);
        match self.server.reads.exchange(&[command]).await {
            Ok(mut replies) => match replies.pop() {
                Some(Reply::Error(text)) if text.contains("NOSCRIPT") => self.read_one(call.in_full()).await,
                Some(Reply::Error(text)) if is_elsewhere(&text) => {
                    self.server.reads.hang_up().await;
                    self.read_one(call.in_full()).await
                }
                Some(Reply::Error(text)) => Err(refusal(&text)),
                Some(reply) => Ok(reply),
                None => Ok(Reply::Nil),
            },
            Err(trouble) => Err(Failure::unavailable(trouble.text())),
        }
    }

    /// Reads through the connection. What was lost on the way, or asked of the wrong server, is asked again:
    /// reading twice is harmless.
    pub async fn read(&self, commands: &[Command]) -> Result<Vec<Reply>, Failure> {
        let is_moved = |reply: &Reply| matches!(reply, Reply::Error(text) if is_elsewhere(text));
        let replies = match self.server.reads.exchange(commands).await {
            Ok(replies) if !replies.iter().any(is_moved) => replies,
            Err(ExchangeError::Unsent(reason)) => return Err(Failure::unavailable(reason)),
            Ok(_) | Err(ExchangeError::Lost(_)) => {
                self.server.reads.hang_up().await;
                let again = self.server.reads.exchange(commands).await;
                again.map_err(|trouble| Failure::unavailable(trouble.text()))?
            }
        };
        match replies.iter().find_map(|reply| match reply {
            Reply::Error(text) => Some(text),
            _ => None,
        }) {
            None => Ok(replies),
            Some(text) if text.contains("WRONGTYPE") => Err(Failure::Internal(text.clone())),
            Some(text) => Err(Failure::unavailable(text.as_str())),
        }
    }

    pub async fn read_one(&self, command: Command) -> Result<Reply, Failure> {
        Ok(self.read(&[command]).await?.pop().unwrap_or(Reply::Nil))
    }
}
