//! One shard: its keys, the connection it is read through and the writer that changes it.

use super::connection::{Command, Connection, Reply, Trouble};
use super::gate::Gate;
use super::keys::Keys;
use super::script::{Call, Names};
use super::writer::Writer;
use crate::clock::Clock;
use codeq_queue::{Failure, Time};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, RwLock};
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
    /// Milliseconds from our clock to its; unknown at first.
    offset: AtomicI64,
}

const UNKNOWN_OFFSET: i64 = i64::MIN;
/// An answer that took longer does not tell the time.
const CLOCK_ROUND_TRIP: Duration = Duration::from_millis(200);

impl Server {
    pub fn new(
        (reads, writes): (Arc<Connection>, Arc<Connection>),
        gate: Arc<Gate>,
        names: Arc<RwLock<Names>>,
    ) -> Server {
        Server { reads, writes, gate, names, offset: AtomicI64::new(UNKNOWN_OFFSET) }
    }

    /// Milliseconds from the given clock to the server's, measured anew. `None` if it did not tell in time.
    pub async fn measure(&self, clock: &dyn Clock) -> Option<i64> {
        let (begun, sent) = (Instant::now(), clock.now().millis());
        let reply = self.reads.exchange(&[Command::new("TIME")]).await.ok()?.pop()?;
        let took = begun.elapsed();
        let parts = super::reply::strings(reply);
        let [seconds, micros] = parts.as_slice() else { return None };
        let server = seconds.parse::<i64>().ok()? * 1000 + micros.parse::<i64>().ok()? / 1000;
        let half = i64::try_from(took.as_millis() / 2).unwrap_or(0);
        let offset = server - (sent + half);
        if took > CLOCK_ROUND_TRIP {
            return None;
        }
        self.offset.store(offset, Ordering::Release);
        Some(offset)
    }

    pub fn offset(&self) -> Option<i64> {
        Some(self.offset.load(Ordering::Acquire)).filter(|offset| *offset != UNKNOWN_OFFSET)
    }
}

impl Shard {
    pub fn new(name: &str, keys: Keys, writer: Writer, server: Arc<Server>) -> Shard {
        Shard { name: name.into(), keys, writer, server, spread: super::spread::parse(name) }
    }

    pub fn round_trips(&self) -> u64 {
        self.server.reads.round_trips() + self.server.writes.round_trips()
    }

    /// The instant of the server's clock after which nobody waits for an answer any more; `now` is `ahead` of the
    /// clock that the server was measured by.
    pub fn latest(&self, now: Time, ahead: i64, timeout: Duration) -> Option<i64> {
        let timeout = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX / 4);
        self.server.offset().map(|offset| now.millis() - ahead + offset + timeout)
    }

    /// Runs a script that only reads, beside the writes.
    pub async fn evaluate(&self, call: &Call) -> Result<Reply, Failure> {
        let command = self.server.names.read().expect("no one panics holding the names").command(call);
        match self.server.reads.exchange(&[command]).await {
            Ok(mut replies) => match replies.pop() {
                Some(Reply::Error(text)) if text.contains("NOSCRIPT") => self.read_one(call.in_full()).await,
                Some(reply) => Ok(reply),
                None => Ok(Reply::Nil),
            },
            Err(trouble) => Err(Failure::unavailable(trouble.text())),
        }
    }

    /// Reads through the connection. What was lost on the way, or asked of the wrong server, is asked again:
    /// reading twice is harmless.
    pub async fn read(&self, commands: &[Command]) -> Result<Vec<Reply>, Failure> {
        let is_moved = |reply: &Reply| matches!(reply, Reply::Error(text) if text.starts_with("MOVED"));
        let replies = match self.server.reads.exchange(commands).await {
            Ok(replies) if !replies.iter().any(is_moved) => replies,
            Err(Trouble::Unsent(reason)) => return Err(Failure::unavailable(reason)),
            Ok(_) | Err(Trouble::Lost(_)) => {
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
