//! Token buckets that all processes share. They are keys of their own, in a cluster on whichever server their
//! slot lives; what is lost of them in a crash is a few requests too many.

use super::connection::{Command, Connection, Reply, Target};
use super::options::Backend;
use super::reply::int;
use super::store::{Keeper, KvrocksStore};
use codeq_queue::Failure;
use hashbrown::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};

const TAKE: &str = include_str!("scripts/rate_take.lua");

/// One caller in one scope.
#[derive(Clone, Copy, Debug)]
pub struct Bucket<'a> {
    pub scope: &'a str,
    /// A hash that stands for the caller.
    pub caller: &'a [u8; 32],
    pub per_second: f64,
    pub capacity: u32,
}

/// Connections to the servers of a cluster, by address; as many as it has servers.
#[derive(Default)]
pub struct Servers(Mutex<HashMap<String, Arc<Connection>>>);

impl KvrocksStore {
    /// Takes one request, or tells in how many seconds there will be one.
    pub async fn take_token(&self, bucket: Bucket<'_>) -> Result<Result<(), u64>, Failure> {
        self.keeper.take_token(bucket).await
    }
}

impl Keeper {
    async fn take_token(&self, bucket: Bucket<'_>) -> Result<Result<(), u64>, Failure> {
        let mut key = format!("codeq:rl:{}:", bucket.scope);
        for byte in bucket.caller {
            write!(key, "{byte:02x}").expect("writing to a string does not fail");
        }
        let command = Command::new("EVAL").arg(TAKE).arg("1").arg(key).args([
            bucket.per_second.to_string(),
            bucket.capacity.to_string(),
            self.now.get().millis().to_string(),
        ]);
        match self.ask_where_it_lives(command).await? {
            Reply::List(answer) if answer.len() == 2 && int(&answer[0]) == 1 => Ok(Ok(())),
            Reply::List(answer) if answer.len() == 2 => Ok(Err(u64::try_from(int(&answer[1])).unwrap_or(1))),
            other => Err(Failure::unavailable(format!("unexpected reply {other:?}"))),
        }
    }

    /// Asks the default shard's server, and then the one it points to.
    async fn ask_where_it_lives(&self, command: Command) -> Result<Reply, Failure> {
        let home = &self.home().reads;
        let first = one(home, &command).await?;
        let Reply::Error(text) = &first else { return Ok(first) };
        let moved = text.strip_prefix("MOVED ").and_then(|rest| rest.split_whitespace().nth(1));
        let Some(address) = moved else { return Err(Failure::unavailable(text.as_str())) };
        let line = self.rate_servers.line(home.target(), address);
        one(&line, &command).await
    }
}

async fn one(line: &Connection, command: &Command) -> Result<Reply, Failure> {
    let replies = line.exchange(std::slice::from_ref(command)).await;
    let mut replies = replies.map_err(|trouble| Failure::unavailable(trouble.text()))?;
    Ok(replies.pop().unwrap_or(Reply::Nil))
}

impl Servers {
    fn line(&self, seed: &Target, address: &str) -> Arc<Connection> {
        let mut lines = self.0.lock().expect("no one panics holding the connections");
        let dial = || {
            let backend = Backend { address: address.into(), ..seed.backend.clone() };
            Arc::new(Connection::new(Target { backend, slot: None, timeout: seed.timeout }))
        };
        lines.entry(address.to_owned()).or_insert_with(dial).clone()
    }
}
