//! Former places: shards whose index names a queue although it lives elsewhere now. Tasks that were created under
//! another mapping are found, claimed and counted there.

use crate::kvrocks::redis::connection::Command;
use crate::kvrocks::redis::reply::{count, strings};
use crate::kvrocks::store::StoreContext;
use codeq_queue::{Failure, QueueKey};
use hashbrown::HashMap;
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

/// Between two looks whether an index has changed.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// An index is read again after this long, however many queues it names.
const READ_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Default)]
pub struct Former {
    places: RwLock<HashMap<QueueKey, Vec<usize>>>,
    /// By keyspace: when its index was read, how many queues it named, and which of them live elsewhere.
    indexes: Mutex<HashMap<usize, Index>>,
}

struct Index {
    read: Instant,
    size: u64,
    strangers: Vec<(usize, QueueKey)>,
}

impl Former {
    pub fn of(&self, queue: &QueueKey) -> Vec<usize> {
        self.places.read().expect("no one panics holding the places").get(queue).cloned().unwrap_or_default()
    }

    /// The indexes have to be read anew: queues live elsewhere now.
    pub fn forget(&self) {
        self.indexes.lock().expect("no one panics holding the indexes").clear();
    }
}

impl StoreContext {
    /// Where keys of a queue may be besides the shard that it lives on: its former places, and what its spread shard has
    /// left, which does not name the queue any more when only ended tasks are there.
    pub fn earlier_places(&self, queue: &QueueKey) -> Vec<usize> {
        let current = self.current_shard(queue);
        let mut places = self.former.of(queue);
        if let Some(spread) = self.shards[current].spread {
            places.extend(self.spread.left(spread));
        }
        places.retain(|place| *place != current);
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Reads the indexes that may have changed. One that cannot be read stays as it was known.
    pub async fn look_for_former_places(&self) {
        if self.shards.len() < 2 {
            return;
        }
        for keyspace in 0..self.keyspaces.len() {
            if let Ok(Some(index)) = self.changed_index(keyspace).await {
                self.former
                    .indexes
                    .lock()
                    .expect("no one panics holding the indexes")
                    .insert(keyspace, index);
            }
        }
        let mut places: HashMap<QueueKey, Vec<usize>> = HashMap::new();
        for index in self.former.indexes.lock().expect("no one panics holding the indexes").values() {
            for (shard, queue) in &index.strangers {
                places.entry(queue.clone()).or_default().push(*shard);
            }
        }
        *self.former.places.write().expect("no one panics holding the places") = places;
    }

    /// `None` if it is as it was.
    async fn changed_index(&self, keyspace: usize) -> Result<Option<Index>, Failure> {
        let shards = &self.keyspaces[keyspace];
        let at = &self.shards[shards[0]];
        let size = count(&at.read_one(Command::new("SCARD").arg(at.keys.of("queues"))).await?);
        let is_known = self
            .former
            .indexes
            .lock()
            .expect("no one panics holding the indexes")
            .get(&keyspace)
            .is_some_and(|index| index.size == size && index.read.elapsed() < READ_INTERVAL);
        if is_known {
            return Ok(None);
        }
        let names = strings(at.read_one(Command::new("SMEMBERS").arg(at.keys.of("queues"))).await?);
        let mut strangers = self.placed_queues(shards, names);
        strangers.retain(|(shard, queue)| self.current_shard(queue) != *shard);
        Ok(Some(Index { read: Instant::now(), size, strangers }))
    }

    pub async fn keep_former_places(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK_INTERVAL) => {}
                () = self.teller.moved.notified() => {}
            }
            self.learn_places().await;
            self.look_for_former_places().await;
        }
    }
}
