//! One shard: its keys, the connection it is read through and the writer that changes it.

use super::connection::{Command, Connection, Reply, Trouble};
use super::keys::Keys;
use super::writer::Writer;
use codeq_queue::{Failure, QueueKey};
use hashbrown::HashMap;
use std::sync::{Arc, Mutex};

/// How much later than ours another process's clock may be without its insertions being overlooked until the
/// next full look.
const SKEW_MS: f64 = 5_000.0;

pub struct Shard {
    pub name: Box<str>,
    pub keys: Keys,
    pub writer: Writer,
    pub reads: Arc<Connection>,
    writes: Arc<Connection>,
    low: Mutex<HashMap<QueueKey, Low>>,
}

/// Up to where the delayed tasks and the leases of a queue have been consumed. Ranges begin here, because a
/// range from the beginning has to step over everything that was ever removed.
#[derive(Clone, Copy, Default)]
struct Low {
    delayed_ms: Option<f64>,
    leases_ms: Option<f64>,
}

impl Shard {
    pub fn new(name: &str, keys: Keys, writer: Writer, lines: (Arc<Connection>, Arc<Connection>)) -> Shard {
        let (reads, writes) = lines;
        Shard { name: name.into(), keys, writer, reads, writes, low: Mutex::default() }
    }

    pub fn round_trips(&self) -> u64 {
        self.reads.round_trips() + self.writes.round_trips()
    }

    /// Reads through the connection. What was lost on the way, or asked of the wrong server, is asked again:
    /// reading twice is harmless.
    pub async fn read(&self, commands: &[Command]) -> Result<Vec<Reply>, Failure> {
        let is_moved = |reply: &Reply| matches!(reply, Reply::Error(text) if text.starts_with("MOVED"));
        let replies = match self.reads.exchange(commands).await {
            Ok(replies) if !replies.iter().any(is_moved) => replies,
            Err(Trouble::Unsent(reason)) => return Err(Failure::unavailable(reason)),
            Ok(_) | Err(Trouble::Lost(_)) => {
                self.reads.hang_up().await;
                let again = self.reads.exchange(commands).await;
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

    /// The scores from which delayed tasks (seconds) and leases (milliseconds) are looked at.
    pub fn low(&self, queue: &QueueKey) -> (String, String) {
        let low = self
            .low
            .lock()
            .expect("no one panics holding the scores")
            .get(queue)
            .copied()
            .unwrap_or_default();
        let from = |score: Option<f64>, unit: f64| {
            score.map_or_else(|| "-inf".into(), |ms| format!("{:.3}", (ms - SKEW_MS) / unit))
        };
        (from(low.delayed_ms, 1000.0), from(low.leases_ms, 1.0))
    }

    pub fn consumed(&self, queue: &QueueKey, delayed_score: &str, lease_score: &str) {
        let mut lows = self.low.lock().expect("no one panics holding the scores");
        let low = lows.entry(queue.clone()).or_default();
        if let Ok(seconds) = delayed_score.parse::<f64>() {
            low.delayed_ms = Some(seconds * 1000.0);
        }
        if let Ok(ms) = lease_score.parse() {
            low.leases_ms = Some(ms);
        }
    }

    /// The next look begins at the beginning: other processes may have inserted something earlier.
    pub fn forget_lows(&self) {
        self.low.lock().expect("no one panics holding the scores").clear();
    }
}
