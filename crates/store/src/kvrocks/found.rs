//! Finding tasks by id: on the shard that this process remembers, else on all of them.

use super::connection::{Command, Reply};
use super::known::Known;
use super::record;
use super::reply::{found, list};
use super::shard::Shard;
use super::store::Keeper;
use codeq_queue::{Failure, QueueKey, Task, TaskId};
use futures_util::future::try_join_all;
use hashbrown::HashMap;
use std::sync::Arc;

/// Ids asked for in one command.
const TOGETHER: usize = 500;

impl Keeper {
    /// The records of tasks and the shards they are on.
    pub async fn find(&self, ids: &[TaskId]) -> Result<HashMap<TaskId, (usize, Task)>, Failure> {
        let mut by_shard: Vec<Vec<TaskId>> = vec![Vec::new(); self.shards.len()];
        for id in ids {
            match self.memory.recall(*id) {
                Some(known) => by_shard[known.shard].push(*id),
                None => by_shard.iter_mut().for_each(|ids| ids.push(*id)),
            }
        }
        let asked = by_shard.iter().enumerate().filter(|(_, ids)| !ids.is_empty());
        let answers = try_join_all(asked.map(|(shard, ids)| self.find_on(shard, ids))).await?;
        let mut all: HashMap<TaskId, (usize, Task)> = HashMap::new();
        for (shard, task) in answers.into_iter().flatten() {
            let is_better = all.get(&task.id).is_none_or(|held| self.is_better(shard, &task, held));
            if is_better {
                all.insert(task.id, (shard, task));
            }
        }
        Ok(all)
    }

    /// Of two copies the one on the current shard of its queue counts, else the one changed last.
    fn is_better(&self, shard: usize, task: &Task, held: &(usize, Task)) -> bool {
        let current = self.current_shard(&QueueKey::new(&task.body.tenant, &task.body.command));
        shard == current || (held.0 != current && task.updated_at > held.1.updated_at)
    }

    async fn find_on(&self, shard: usize, ids: &[TaskId]) -> Result<Vec<(usize, Task)>, Failure> {
        let names: Vec<String> = ids.iter().map(TaskId::to_string).collect();
        let texts = self.records_on(shard, &names).await?;
        Ok(texts.into_iter().flatten().filter_map(|text| self.placed(shard, &text)).collect())
    }

    /// A record that was read through one shard, and the shard of the same server that holds its id.
    fn placed(&self, read_through: usize, text: &[u8]) -> Option<(usize, Task)> {
        let (task, name) = record::parse_placed(text)?;
        let server = &self.shards[read_through].reads;
        let own = |shard: &Shard| *shard.name == *name && Arc::ptr_eq(&shard.reads, server);
        Some((self.shards.iter().position(own).unwrap_or(read_through), task))
    }

    pub async fn records_on(&self, shard: usize, ids: &[String]) -> Result<Vec<Option<Vec<u8>>>, Failure> {
        let shard = &self.shards[shard];
        let command = |part: &[String]| {
            Command::new("HMGET").arg(shard.keys.of("tasks")).args(part.iter().map(String::as_str))
        };
        let commands: Vec<Command> = ids.chunks(TOGETHER).map(command).collect();
        let replies: Vec<Reply> = shard.read(&commands).await?;
        Ok(replies.into_iter().flat_map(list).map(found).collect())
    }

    /// What names the keys of tasks on a shard.
    pub async fn known_on(&self, shard: usize, ids: &[String]) -> Result<Vec<Option<Known>>, Failure> {
        let texts = self.records_on(shard, ids).await?;
        let known = |text: Option<Vec<u8>>| {
            let (shard, task) = self.placed(shard, &text?)?;
            Some(Known::of(&task, shard))
        };
        Ok(texts.into_iter().map(known).collect())
    }

    /// As remembered, else as found. `None` if there is no such task.
    pub async fn known(&self, ids: &[TaskId]) -> Result<Vec<Option<Arc<Known>>>, Failure> {
        let mut known: Vec<Option<Arc<Known>>> = ids.iter().map(|id| self.memory.recall(*id)).collect();
        let missing: Vec<TaskId> =
            ids.iter().zip(&known).filter(|(_, known)| known.is_none()).map(|(id, _)| *id).collect();
        if missing.is_empty() {
            return Ok(known);
        }
        let found = self.find(&missing).await?;
        for (id, known) in ids.iter().zip(&mut known) {
            if let (None, Some((shard, task))) = (&known, found.get(id)) {
                *known = Some(Arc::new(Known::of(task, *shard)));
            }
        }
        Ok(known)
    }
}
