//! Finding tasks by id: on the shard that this process remembers, else on the one that the id names, else on all
//! others.

use crate::kvrocks::context::known::Known;
use crate::kvrocks::context::shard::Shard;
use crate::kvrocks::format::asked::{CHECKPOINT, PROGRESS};
use crate::kvrocks::format::record::{self, Placed};
use crate::kvrocks::redis::connection::{Command, Reply};
use crate::kvrocks::redis::patience::ask_all;
use crate::kvrocks::redis::reply::{found, list, string};
use crate::kvrocks::store::StoreContext;
use crate::kvrocks::verbs::create::spread_of;
use codeq_queue::{Failure, QueueKey, Task, TaskId};
use hashbrown::HashMap;
use std::sync::Arc;

/// What was found so far, and why somebody did not answer.
#[derive(Default)]
struct Search {
    found: HashMap<TaskId, (usize, Task)>,
    /// What is kept beside the records of some.
    notes: HashMap<TaskId, u32>,
    failure: Option<Failure>,
}

impl Search {
    /// Fails if a task was not found and somewhere it may be nobody answered.
    fn complete(self, ids: &[TaskId]) -> Result<Search, Failure> {
        match self.failure {
            Some(failure) if ids.iter().any(|id| !self.found.contains_key(id)) => Err(failure),
            _ => Ok(self),
        }
    }
}

/// Ids asked for in one command.
const TOGETHER: usize = 500;

impl StoreContext {
    /// The records of tasks and the shards they are on. Asks where each is likely to be, then everywhere else. Fails
    /// if a task was not found and somewhere it may be nobody answered.
    pub async fn find(&self, ids: &[TaskId]) -> Result<HashMap<TaskId, (usize, Task)>, Failure> {
        Ok(self.search(ids).await.complete(ids)?.found)
    }

    /// The same, with what is kept beside the records.
    pub async fn find_whole(&self, ids: &[TaskId]) -> Result<HashMap<TaskId, (usize, Task)>, Failure> {
        let Search { mut found, notes, .. } = self.search(ids).await.complete(ids)?;
        for (id, notes) in notes {
            let Some((shard, task)) = found.get_mut(&id) else { continue };
            let at = &self.shards[*shard];
            let get = |name: &str| Command::new("HGET").arg(at.keys.of(name)).arg(id.to_string());
            let mut texts = at.read(&[get("checkpoints"), get("progress")]).await?.into_iter().map(string);
            let mut next = |note: u32| {
                let text = texts.next().filter(|text| notes & note != 0 && !text.is_empty());
                text.map(Arc::from)
            };
            (task.checkpoint, task.progress) = (next(CHECKPOINT), next(PROGRESS));
        }
        Ok(found)
    }

    async fn search(&self, ids: &[TaskId]) -> Search {
        let likely = |id: &TaskId| match self.memory.recall(*id) {
            Some(known) => Some(self.keyspace_of(known.shard)),
            None if self.sharding.spread => Some(self.keyspace_of(self.spread_index(spread_of(*id)))),
            None => None,
        };
        let guesses: HashMap<TaskId, usize> = ids.iter().filter_map(|id| Some((*id, likely(id)?))).collect();
        let mut search = Search::default();
        self.ask(&mut search, |id, keyspace| guesses.get(id) == Some(&keyspace), ids).await;
        let left: Vec<TaskId> = ids.iter().filter(|id| !search.found.contains_key(*id)).copied().collect();
        if !left.is_empty() {
            self.ask(&mut search, |id, keyspace| guesses.get(id) != Some(&keyspace), &left).await;
        }
        search
    }

    /// Asks each keyspace for those ids that may be there.
    async fn ask(&self, search: &mut Search, is_there: impl Fn(&TaskId, usize) -> bool, ids: &[TaskId]) {
        let asked = (0..self.keyspaces.len()).filter_map(|keyspace| {
            let own: Vec<TaskId> = ids.iter().filter(|id| is_there(id, keyspace)).copied().collect();
            let shard = self.keyspaces[keyspace][0];
            (!own.is_empty()).then_some(async move { self.find_on(shard, &own).await })
        });
        for answer in ask_all(asked).await {
            match answer {
                Err(failure) => search.failure = Some(failure),
                Ok(tasks) => {
                    for (shard, Placed { task, notes, .. }) in tasks {
                        let held = search.found.get(&task.id);
                        if held.is_none_or(|held| self.is_better(shard, &task, held)) {
                            search.notes.extend((notes != 0).then_some((task.id, notes)));
                            search.found.insert(task.id, (shard, task));
                        }
                    }
                }
            }
        }
    }

    /// Of two copies the one on the current shard of its queue counts, else the one changed last.
    fn is_better(&self, shard: usize, task: &Task, held: &(usize, Task)) -> bool {
        let current = self.current_shard(&QueueKey::new(&task.body.tenant, &task.body.command));
        shard == current || (held.0 != current && task.updated_at > held.1.updated_at)
    }

    async fn find_on(&self, shard: usize, ids: &[TaskId]) -> Result<Vec<(usize, Placed)>, Failure> {
        let names: Vec<String> = ids.iter().map(TaskId::to_string).collect();
        let texts = self.records_on(shard, &names).await?;
        Ok(texts.into_iter().flatten().filter_map(|text| self.placed(shard, &text)).collect())
    }

    /// A record that was read through one shard, and the shard of the same server that holds its id.
    fn placed(&self, read_through: usize, text: &[u8]) -> Option<(usize, Placed)> {
        let placed = record::parse_placed(text)?;
        Some((self.shard_named(read_through, &placed.shard), placed))
    }

    /// The shard of this name on the same server; that through which a record was read if it names none.
    pub fn shard_named(&self, read_through: usize, name: &str) -> usize {
        let server = &self.shards[read_through].server;
        // A record that names none was written while there was only the default shard.
        let name = if name.is_empty() { &*self.home().name } else { name };
        let own = |shard: &Shard| *shard.name == *name && Arc::ptr_eq(&shard.server, server);
        self.shards.iter().position(own).unwrap_or(read_through)
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
            let (shard, placed) = self.placed(shard, &text?)?;
            Some(Known::of(&placed.task, shard))
        };
        Ok(texts.into_iter().map(known).collect())
    }

    /// As remembered, else as found. `None` if there is no such task.
    pub async fn known(&self, ids: &[TaskId]) -> Result<Vec<Option<Arc<Known>>>, Failure> {
        self.known_each(ids).await.into_iter().collect()
    }

    /// The same of each by itself: it fails if the task was not found and somewhere it may be nobody answered.
    pub async fn known_each(&self, ids: &[TaskId]) -> Vec<Result<Option<Arc<Known>>, Failure>> {
        let mut known: Vec<_> = ids.iter().map(|id| Ok(self.memory.recall(*id))).collect();
        let is_missing = |known: &Result<Option<Arc<Known>>, Failure>| matches!(known, Ok(None));
        let missing: Vec<TaskId> =
            ids.iter().zip(&known).filter(|(_, known)| is_missing(known)).map(|(id, _)| *id).collect();
        if missing.is_empty() {
            return known;
        }
        let Search { found, failure, .. } = self.search(&missing).await;
        for (id, known) in ids.iter().zip(&mut known).filter(|(_, known)| is_missing(known)) {
            *known = match (found.get(id), &failure) {
                (Some((shard, task)), _) => Ok(Some(Arc::new(Known::of(task, *shard)))),
                (None, Some(failure)) => Err(failure.clone()),
                (None, None) => Ok(None),
            };
        }
        known
    }
}
