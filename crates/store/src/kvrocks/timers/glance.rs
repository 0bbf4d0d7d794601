//! Looking for many who wait whether there is something for them: one read per server, which writes nothing.

use crate::kvrocks::redis::reply::{Answered, int};
use crate::kvrocks::redis::script::{Call, Script};
use crate::kvrocks::store::StoreContext;
use codeq_queue::QueueKey;
use futures_util::future::join_all;
use std::collections::BTreeSet;

/// Queues that one script looks at.
const TOGETHER: usize = 500;

impl StoreContext {
    /// Those of the queues that may have something. Of a server that does not answer, all: a claim will tell.
    pub async fn glance(&self, queues: Vec<QueueKey>) -> Vec<QueueKey> {
        let mut by_shard: Vec<Vec<QueueKey>> = self.shards.iter().map(|_| Vec::new()).collect();
        for queue in queues {
            for shard in self.queue_shards(&queue) {
                by_shard[shard].push(queue.clone());
            }
        }
        let parts = by_shard
            .iter()
            .enumerate()
            .flat_map(|(shard, queues)| queues.chunks(TOGETHER).map(move |part| self.glance_on(shard, part)));
        let found: BTreeSet<QueueKey> = join_all(parts).await.into_iter().flatten().collect();
        found.into_iter().collect()
    }

    async fn glance_on(&self, shard: usize, queues: &[QueueKey]) -> Vec<QueueKey> {
        let at = &self.shards[shard];
        let mut names = vec![at.keys.of("tasks")];
        names.extend(queues.iter().map(|queue| at.keys.base(queue)));
        let call = Call::new(Script::Glance, names).number(self.now.get().millis());
        let Ok(reply) = at.evaluate(&call).await else { return queues.to_vec() };
        let Ok(mut answer) = Answered::of(reply) else { return queues.to_vec() };
        let places = answer.list().into_iter();
        places.filter_map(|place| queues.get(usize::try_from(int(&place)).ok()?).cloned()).collect()
    }
}
