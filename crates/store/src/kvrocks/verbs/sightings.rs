//! What each process has seen of its workers: a text with a life, in the home keyspace, and a sorted set that names the
//! processes by when they kept theirs.

use crate::kvrocks::redis::connection::Command;
use crate::kvrocks::redis::reply::{found, strings};
use crate::kvrocks::store::StoreContext;
use codeq_queue::Failure;
use std::sync::Arc;

/// How long a text is kept.
const LIFE_SECONDS: i64 = 300;
/// Processes whose texts are read.
const PROCESSES: usize = 100;

impl StoreContext {
    pub async fn keep_sightings(self: Arc<Self>, text: String) -> Result<(), Failure> {
        let now = self.enter().await?.millis() / 1000;
        let (home, name) = (self.home(), self.teller.presence.name());
        let (named, life) = (home.keys.of("workers"), LIFE_SECONDS.to_string());
        let commands = [
            Command::new("SET").arg(home.keys.of(&format!("workers:{name}"))).arg(text).arg("EX").arg(&*life),
            Command::new("ZADD").arg(&*named).arg(now.to_string()).arg(name),
            Command::new("ZREMRANGEBYSCORE").arg(&*named).arg("-inf").arg((now - LIFE_SECONDS).to_string()),
            Command::new("EXPIRE").arg(&*named).arg(life),
        ];
        home.read(&commands).await.map(|_| ())
    }

    pub async fn sightings(self: Arc<Self>) -> Result<Vec<String>, Failure> {
        self.enter().await?;
        let home = self.home();
        let newest =
            Command::new("ZREVRANGE").arg(home.keys.of("workers")).arg("0").arg((PROCESSES - 1).to_string());
        let names = strings(home.read_one(newest).await?);
        let ours = self.teller.presence.name();
        let read = |name: &String| Command::new("GET").arg(home.keys.of(&format!("workers:{name}")));
        let reads: Vec<Command> = names.iter().filter(|name| **name != ours).map(read).collect();
        if reads.is_empty() {
            return Ok(Vec::new());
        }
        let texts = home.read(&reads).await?.into_iter().filter_map(found);
        Ok(texts.filter_map(|text| String::from_utf8(text).ok()).collect())
    }
}
