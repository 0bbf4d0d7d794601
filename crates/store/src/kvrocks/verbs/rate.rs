//! Token buckets that all processes share. They are keys of their own, in a cluster on whichever server their
//! slot lives; what is lost of them in a crash is a few requests too many.

use crate::kvrocks::redis::cluster::slot_of;
use crate::kvrocks::redis::connection::{Command, Connection, Reply, Target};
use crate::kvrocks::redis::reply::int;
use crate::kvrocks::store::StoreContext;
use crate::kvrocks::store::options::Backend;
use codeq_queue::Failure;
use codeq_queue::shared::Bucket;
use hashbrown::HashMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

const TAKE: &str = include_str!("../scripts/rate_take.lua");

/// Where the buckets of a cluster live, as far as this process was told. Empty without a cluster.
#[derive(Default)]
pub struct Servers {
    known: Mutex<Known>,
    /// Answers in a row that were slow.
    slow: AtomicU32,
}

/// An answer that takes so long is slow. After a few of them the server is not waited for: a limit is not worth it.
const SLOW: Duration = Duration::from_millis(250);
const SLOW_ANSWERS: u32 = 3;
/// For a server that is known to be slow.
const PATIENCE: Duration = Duration::from_millis(50);

#[derive(Default)]
struct Known {
    /// As many as the cluster has servers.
    lines: HashMap<String, Arc<Connection>>,
    slots: HashMap<u16, Arc<Connection>>,
}

impl StoreContext {
    pub async fn take_token(self: Arc<Self>, bucket: Bucket) -> Result<Result<(), u64>, Failure> {
        let key = key(&bucket);
        let slot = slot_of(&key);
        let command = Command::new("EVAL").arg(TAKE).arg("1").arg(key).args([
            bucket.per_second.to_string(),
            bucket.capacity.to_string(),
            self.now.get().millis().to_string(),
        ]);
        match self.ask_in_time(slot, &command).await? {
            Reply::List(answer) if answer.len() == 2 && int(&answer[0]) == 1 => Ok(Ok(())),
            Reply::List(answer) if answer.len() == 2 => Ok(Err(u64::try_from(int(&answer[1])).unwrap_or(1))),
            other => Err(Failure::unavailable(format!("unexpected reply {other:?}"))),
        }
    }

    /// A few late answers are waited for; from then on none, until one is in time again.
    async fn ask_in_time(&self, slot: u16, command: &Command) -> Result<Reply, Failure> {
        let (begun, slow) = (Instant::now(), &self.rate_servers.slow);
        let asked = self.ask_where_it_lives(slot, command);
        let is_slow = slow.load(Ordering::Acquire) >= SLOW_ANSWERS;
        let answer = match is_slow {
            false => asked.await,
            true => match tokio::time::timeout(PATIENCE, asked).await {
                Ok(answer) => answer,
                Err(_) => Err(Failure::unavailable("the server of rate limits is slow")),
            },
        };
        let is_late = begun.elapsed() >= if is_slow { PATIENCE } else { SLOW };
        match is_late {
            true => slow.store(slow.load(Ordering::Acquire).saturating_add(1), Ordering::Release),
            false => slow.store(0, Ordering::Release),
        }
        answer
    }

    /// Asks the server that was last known to hold the slot, at first the default shard's, and then the one
    /// it points to.
    async fn ask_where_it_lives(&self, slot: u16, command: &Command) -> Result<Reply, Failure> {
        let home = &self.home().server.reads;
        let line = self.rate_servers.of(slot).unwrap_or_else(|| home.clone());
        let first = one(&line, command).await.inspect_err(|_| self.rate_servers.forget(slot))?;
        let Reply::Error(text) = &first else { return Ok(first) };
        let moved = text.strip_prefix("MOVED ").and_then(|rest| rest.split_whitespace().nth(1));
        let Some(address) = moved else { return Err(Failure::unavailable(text.as_str())) };
        one(&self.rate_servers.moved(slot, home.target(), address), command).await
    }
}

fn key(bucket: &Bucket) -> String {
    let mut key = format!("codeq:rl:{}:", bucket.scope);
    for byte in bucket.caller {
        write!(key, "{byte:02x}").expect("writing to a string does not fail");
    }
    key
}

async fn one(line: &Connection, command: &Command) -> Result<Reply, Failure> {
    let replies = line.exchange(std::slice::from_ref(command)).await;
    let mut replies = replies.map_err(|trouble| Failure::unavailable(trouble.text()))?;
    Ok(replies.pop().unwrap_or(Reply::Nil))
}

impl Servers {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no one panics holding the connections")
    }

    fn of(&self, slot: u16) -> Option<Arc<Connection>> {
        self.known().slots.get(&slot).cloned()
    }

    fn forget(&self, slot: u16) {
        self.known().slots.remove(&slot);
    }

    fn moved(&self, slot: u16, seed: &Target, address: &str) -> Arc<Connection> {
        let mut known = self.known();
        let dial = || {
            let backend = Backend { address: address.into(), ..seed.backend.clone() };
            let target =
                Target { backend, slot: None, timeout: seed.timeout, silence: seed.silence, expected: None };
            Arc::new(Connection::new(target, Arc::default()))
        };
        let line = known.lines.entry(address.to_owned()).or_insert_with(dial).clone();
        known.slots.insert(slot, line.clone());
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_has_the_key_of_the_contract() {
        let bucket = Bucket { scope: "worker", caller: [0x0f; 32], per_second: 1.0, capacity: 1 };
        assert_eq!(key(&bucket), format!("codeq:rl:worker:{}", "0f".repeat(32)));
    }
}
