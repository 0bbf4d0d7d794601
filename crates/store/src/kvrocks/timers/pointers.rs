//! Idempotency keys whose tasks are elsewhere: where a queue lived before, or where a task has moved to.

use crate::kvrocks::redis::connection::{Command, Reply};
use crate::kvrocks::redis::reply::string;
use crate::kvrocks::store::StoreContext;
use codeq_queue::{Failure, QueueKey, Task, TaskId};

impl StoreContext {
    /// A task of this key on a shard that the queue lived on before its mapping changed, or with a key of the
    /// original server, which is not scoped and may be anywhere.
    pub async fn find_elsewhere(&self, queue: &QueueKey, key: &str) -> Result<Option<Task>, Failure> {
        for shard in self.earlier_places(queue) {
            let at = &self.shards[shard];
            let get = Command::new("GET").arg(at.keys.idempotency(queue, key));
            let legacy = at.keys.legacy_idempotency(key).map(|key| Command::new("GET").arg(key));
            let named = at.read(&[get].into_iter().chain(legacy).collect::<Vec<_>>()).await?;
            for named in named.into_iter().filter(|named| *named != Reply::Nil) {
                let named = string(named);
                let id = named.rsplit(' ').next().unwrap_or_default();
                let Some(task) = TaskId::parse(id) else { continue };
                let found = self.find(&[task]).await?.remove(&task).map(|(_, task)| task);
                let is_own = |task: &Task| QueueKey::new(&task.body.tenant, &task.body.command) == *queue;
                if let Some(task) = found.filter(is_own) {
                    return Ok(Some(task));
                }
            }
        }
        Ok(None)
    }

    /// What a pointer of a task that has moved leads to. A task that is gone leaves its key to the next.
    pub async fn follow_pointer(
        &self,
        queue: &QueueKey,
        key: &str,
        pointer: &str,
    ) -> Result<Option<Task>, Failure> {
        let id = pointer.rsplit(' ').next().and_then(TaskId::parse);
        if let Some(id) = id
            && let Some((_, task)) = self.find(&[id]).await?.remove(&id)
        {
            return Ok(Some(task));
        }
        let at = &self.shards[self.current_shard(queue)];
        let keys = [Some(at.keys.idempotency(queue, key)), at.keys.legacy_idempotency(key)];
        for name in keys.into_iter().flatten() {
            if string(at.read_one(Command::new("GET").arg(name.as_str())).await?) == pointer {
                at.read_one(Command::new("DEL").arg(name)).await?;
            }
        }
        Ok(None)
    }
}
