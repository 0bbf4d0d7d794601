//! Walking through all queues of a keyspace: whoever sweeps it does so when it takes over, and every ten minutes, and puts in
//! order what other writers, or older versions, have left. There may be any number of queues, so it takes its time:
//! callers and timers do not notice.

use crate::kvrocks::redis::connection::{Command, Reply};
use crate::kvrocks::redis::reply::{count, int, list, string, strings};
use crate::kvrocks::redis::script::{Call, Script};
use crate::kvrocks::store::StoreContext;
use codeq_queue::{Failure, QueueKey, Time};
use futures_util::future::try_join_all;
use std::time::Duration;
use tokio::sync::watch;

/// Queues that are walked through at once.
const WALKED_TOGETHER: usize = 16;
/// How long a walk takes, and how long it rests between two parts at most.
const WALK_TIME: Duration = Duration::from_secs(500);
const WALK_PAUSE_MAX: Duration = Duration::from_millis(100);
/// Between two walks, and after one that was interrupted.
const WALK_INTERVAL: Duration = Duration::from_secs(600);
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

impl StoreContext {
    /// Walks through all queues of a keyspace: writes bounds that are missing, finds a place for running tasks
    /// without a lease entry or a lease key, which only foreign writers or a lost key leave, and forgets queues
    /// that hold nothing.
    ///
    /// A few at a time: a walk takes at least so long, as far as it has parts to rest between.
    pub async fn walk(&self, shards: &[usize], time: Duration) -> Result<(), Failure> {
        let at = &self.shards[shards[0]];
        let index = at.keys.of("queues");
        let size = usize::try_from(count(&at.read_one(Command::new("SCARD").arg(index.as_str())).await?));
        let parts = u32::try_from(size.unwrap_or(usize::MAX) / WALKED_TOGETHER + 1).unwrap_or(u32::MAX);
        // All keyspaces may be walked through at once, on few servers.
        let keyspaces = u32::try_from(self.keyspaces.len()).unwrap_or(u32::MAX);
        let pause = (time / parts).min(WALK_PAUSE_MAX.saturating_mul(keyspaces));
        let (mut cursor, together) = ("0".to_owned(), WALKED_TOGETHER.to_string());
        loop {
            let scan = Command::new("SSCAN").arg(index.as_str());
            let scan = scan.args([cursor.as_str(), "COUNT", together.as_str()]);
            let mut answer = list(at.read_one(scan).await?).into_iter();
            cursor = string(answer.next().unwrap_or(Reply::Nil));
            let names = strings(answer.next().unwrap_or(Reply::Nil));
            for part in self.placed_queues(shards, names).chunks(WALKED_TOGETHER) {
                let now = self.now.get();
                try_join_all(part.iter().map(|(shard, queue)| self.walk_queue(*shard, queue, now))).await?;
                tokio::time::sleep(pause).await;
            }
            if cursor == "0" {
                return Ok(());
            }
        }
    }

    /// Walks when this process has begun to sweep, and from then on again and again.
    pub async fn keep_walking(&self, keyspace: usize, is_ours: watch::Receiver<bool>) {
        let (mut begins, mut ends) = (is_ours.clone(), is_ours);
        loop {
            let _ = begins.wait_for(|is_ours| *is_ours).await;
            let walked = async {
                let walked = self.walk(&self.keyspaces[keyspace], WALK_TIME).await;
                match walked
                    .inspect_err(|failure| tracing::debug!(err = %failure, "a walk has to begin anew"))
                {
                    Ok(()) => tokio::time::sleep(WALK_INTERVAL).await,
                    Err(_) => tokio::time::sleep(RETRY_INTERVAL).await,
                }
            };
            tokio::select! {
                () = walked => {}
                _ = ends.wait_for(|is_ours| !*is_ours) => {}
            }
        }
    }

    async fn walk_queue(&self, shard: usize, queue: &QueueKey, now: Time) -> Result<(), Failure> {
        let at = &self.shards[shard];
        let names = at.keys.queue(queue);
        let mut cursor = "0".to_owned();
        loop {
            let scan = Command::new("SSCAN").arg(names[10].as_str()).args([
                cursor.as_str(),
                "COUNT",
                &self.inspect_limit.to_string(),
            ]);
            let mut answer = list(at.read_one(scan).await?).into_iter();
            cursor = string(answer.next().unwrap_or(Reply::Nil));
            let ids = strings(answer.next().unwrap_or(Reply::Nil));
            let stray = self.stray(shard, &names[11], &ids).await?;
            let calls: Vec<Call> = stray.iter().map(|id| self.adopt_call(shard, queue, id, now)).collect();
            if !calls.is_empty() {
                at.writer.run(calls, |_| Ok(((), Vec::new()))).await?;
            }
            if cursor == "0" {
                break;
            }
        }
        let walk = self.due_args(Call::new(Script::Walk, at.keys.with_queue(queue)), now);
        let walk = walk.arg(&*queue.tenant).number(self.inspect_limit);
        let is_former = shard != self.current_shard(queue);
        let drop = Call::new(Script::QueueDrop, at.keys.with_queue(queue)).arg(&*queue.tenant);
        let drop = drop.arg(if is_former { "1" } else { "" });
        at.writer.run(vec![walk, drop], |_| Ok(((), Vec::new()))).await?;
        self.arrange_if_left(shard, queue).await
    }

    /// Of the ids in the set of running tasks, those without a lease entry or without a lease key.
    async fn stray(&self, shard: usize, leases: &str, ids: &[String]) -> Result<Vec<String>, Failure> {
        let at = &self.shards[shard];
        let looks: Vec<Command> = ids
            .iter()
            .flat_map(|id| {
                let key = format!("{}{id}", at.keys.lease_prefix());
                [Command::new("ZSCORE").arg(leases).arg(id.as_str()), Command::new("EXISTS").arg(key)]
            })
            .collect();
        let found = at.read(&looks).await?;
        let is_stray = |pair: &[Reply]| pair[0] == Reply::Nil || int(&pair[1]) == 0;
        Ok(ids
            .iter()
            .zip(found.chunks(2))
            .filter(|(_, pair)| is_stray(pair))
            .map(|(id, _)| id.clone())
            .collect())
    }

    pub fn adopt_call(&self, shard: usize, queue: &QueueKey, id: &str, now: Time) -> Call {
        let keys = &self.shards[shard].keys;
        Call::new(Script::Adopt, keys.with_queue(queue))
            .arg(id)
            .number(now.millis())
            .arg(now.to_utc())
            .number(self.now.numbers(1))
    }
}
