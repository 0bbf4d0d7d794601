//! Looking for many who wait whether there is something for them: one read per server, which writes nothing.

use crate::kvrocks::redis::patience::ask_all;
use crate::kvrocks::redis::reply::{Answered, int};
use crate::kvrocks::redis::script::{Call, Script};
use crate::kvrocks::store::StoreContext;
use codeq_queue::{Failure, QueueKey};
use std::collections::BTreeSet;

/// Queues that one script looks at.
const TOGETHER: usize = 500;

/// A queue and one of the shards that it may be on.
type Place = (usize, QueueKey);

impl StoreContext {
    /// Those of the queues that may have something. Of a server that does not answer, or takes much longer than the others,
    /// all: a claim will tell.
    pub async fn glance(&self, queues: Vec<QueueKey>) -> Vec<QueueKey> {
        let mut by_keyspace: Vec<Vec<Place>> = self.keyspaces.iter().map(|_| Vec::new()).collect();
        for queue in queues {
            for shard in self.queue_shards(&queue) {
                by_keyspace[self.keyspace_of(shard)].push((shard, queue.clone()));
            }
        }
        let parts: Vec<&[Place]> = by_keyspace.iter().flat_map(|places| places.chunks(TOGETHER)).collect();
        let answers = ask_all(parts.iter().map(|part| self.glance_on(part))).await;
        let mut found = BTreeSet::new();
        for (part, answer) in parts.into_iter().zip(answers) {
            let all = (0..part.len()).collect();
            found.extend(answer.unwrap_or(all).into_iter().filter_map(|at| Some(part.get(at)?.1.clone())));
        }
        found.into_iter().collect()
    }

    /// The numbers of those among queues of one keyspace that may have something.
    async fn glance_on(&self, places: &[Place]) -> Result<Vec<usize>, Failure> {
        let at = &self.shards[places[0].0];
        let mut names = vec![at.keys.of("tasks")];
        names.extend(places.iter().map(|(shard, queue)| self.shards[*shard].keys.base(queue)));
        let call = Call::new(Script::Glance, names).number(self.now.get().millis());
        let mut answer = Answered::of(at.evaluate(&call).await?)?;
        Ok(answer.list().iter().filter_map(|place| usize::try_from(int(place)).ok()).collect())
    }
}
