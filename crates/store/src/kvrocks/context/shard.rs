//! One shard: its keys, the connection it is read through and the writer that changes it.

use crate::clock::Clock;
use crate::kvrocks::format::keys::Keys;
use crate::kvrocks::redis::connection::{Command, Connection, ExchangeError, Reply};
use crate::kvrocks::redis::gate::Gate;
use crate::kvrocks::redis::script::{Call, Names};
use crate::kvrocks::redis::writer::Writer;
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
const CLOCK_ROUND_TRIP_MAX: Duration = Duration::from_millis(200);

impl Server {
    pub fn new(
        (reads, writes): (Arc<Connection>, Arc<Connection>),
        gate: Arc<Gate>,
        names: Arc<RwLock<Names>>,
    ) -> Server {
        Server { reads, writes, gate, names, offset: AtomicI64::new(UNKNOWN_OFFSET) }
    }

    /// Compares the given clock with the server's. Nothing is learned if the server did not tell in time.
    pub async fn measure(&self, clock: &dyn Clock) {
        let (begun, sent) = (Instant::now(), clock.now().millis());
        let Ok(mut replies) = self.reads.exchange(&[Command::new("TIME")]).await else { return };
        let took = begun.elapsed();
        let told = replies.pop().map(crate::kvrocks::redis::reply::strings).unwrap_or_default();
        let Some(server) = milliseconds(&told).filter(|_| took <= CLOCK_ROUND_TRIP_MAX) else { return };
        let known = self.offset().unwrap_or(0);
        self.offset.store(nearest_offset(known, sent, took, server), Ordering::Release);
    }

    pub fn offset(&self) -> Option<i64> {
        Some(self.offset.load(Ordering::Acquire)).filter(|offset| *offset != UNKNOWN_OFFSET)
    }
}

/// What TIME answers.
fn milliseconds(told: &[String]) -> Option<i64> {
    let [seconds, micros] = told else { return None };
    Some(seconds.parse::<i64>().ok()? * 1000 + micros.parse::<i64>().ok()? / 1000)
}

/// The milliseconds from our clock to a server's that are nearest to those known and fit what it told: that was the time
/// at some moment between sending and receiving. So a slow answer alone changes nothing, and no task falls due early.
fn nearest_offset(known: i64, sent: i64, took: Duration, server: i64) -> i64 {
    let received = sent + i64::try_from(took.as_millis()).unwrap_or(i64::MAX / 4);
    // Either clock is read in whole milliseconds.
    known.clamp(server - received - 1, server - sent + 1)
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

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Duration = Duration::from_millis(180);

    #[test]
    fn a_slow_answer_of_a_clock_like_ours_changes_nothing() {
        for told_after in [0, 1, 90, 180] {
            assert_eq!(nearest_offset(0, 5_000, SLOW, 5_000 + told_after), 0);
        }
    }

    #[test]
    fn a_clock_that_differs_is_followed_as_far_as_is_certain() {
        assert_eq!(nearest_offset(0, 5_000, SLOW, 6_000), 819, "told when it was received, at the earliest");
        assert_eq!(
            nearest_offset(819, 5_200, Duration::ZERO, 6_200),
            999,
            "a quick answer says it more exactly"
        );
        assert_eq!(nearest_offset(0, 5_000, SLOW, 4_000), -999);
        assert_eq!(nearest_offset(999, 5_000, Duration::ZERO, 5_000), 1, "the clock was set");
    }
}
