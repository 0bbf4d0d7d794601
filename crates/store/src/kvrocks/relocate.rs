//! Moving the tasks of a command from one shard to another, while nobody works on them.
//!
//! A batch is copied, looked for at the destination, and only then deleted at the source: an interruption
//! leaves copies that the next run recognises. Between shards of one keyspace nothing needs to be copied (see
//! [`super::within`]). The order within a priority is kept.

use super::batch::Item;
use super::connection::{Command, Reply};
use super::keys::queue_text;
use super::record;
use super::reply::{Answered, count, found, string, strings};
use super::script::{Call, Script};
use super::store::{Keeper, KvrocksStore};
use super::within::on_shard;
use codeq_queue::{Failure, QueueKey};

/// What is to be moved. Without a tenant, the command of every tenant.
#[derive(Clone, Debug)]
pub struct Relocation {
    pub command: String,
    pub tenant: Option<String>,
    pub from: String,
    pub to: String,
    /// Tasks copied before they are deleted.
    pub batch: usize,
}

/// Tasks by place.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Places {
    pub pending: u64,
    pub delayed: u64,
    pub in_progress: u64,
    pub dead: u64,
}

impl Places {
    pub fn total(&self) -> u64 {
        self.pending + self.delayed + self.in_progress + self.dead
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Immovable {
    #[error("shard \"{0}\" is unknown")]
    UnknownShard(String),
    #[error("source and destination are the same shard")]
    SameShard,
    #[error("{0} tasks are in progress")]
    InProgress(u64),
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// A place of a queue that tasks are moved from.
#[derive(Clone, Copy)]
pub enum Part {
    Pending(usize),
    Delayed,
    Dead,
}

/// Between which shards.
#[derive(Clone, Copy)]
pub struct Road {
    pub from: usize,
    pub to: usize,
    batch: usize,
    /// Both are the same keys of the same server.
    is_within: bool,
}

/// Everything that moves with a task; texts are empty where there is nothing.
struct Belongings {
    task: Option<Vec<u8>>,
    result: Vec<u8>,
    history: Vec<u8>,
    ends: String,
    visible: String,
}

impl KvrocksStore {
    /// What is there to be moved, on the given shard.
    pub async fn places(&self, relocation: &Relocation, shard: &str) -> Result<Places, Immovable> {
        let at = self.keeper.named_shard(shard)?;
        let mut places = Places::default();
        for queue in self.keeper.relocated(at, relocation).await? {
            self.keeper.count_places(at, &queue, &mut places).await?;
        }
        Ok(places)
    }

    /// Moves everything; refuses before it touches anything if a task is in progress.
    pub async fn relocate(&self, relocation: &Relocation) -> Result<Places, Immovable> {
        let keeper = &self.keeper;
        let (from, to) = (keeper.named_shard(&relocation.from)?, keeper.named_shard(&relocation.to)?);
        if from == to {
            return Err(Immovable::SameShard);
        }
        let there = self.places(relocation, &relocation.from).await?;
        if there.in_progress > 0 {
            return Err(Immovable::InProgress(there.in_progress));
        }
        let is_within = keeper.is_one_keyspace(from, to).await?;
        let road = Road { from, to, batch: relocation.batch.max(1), is_within };
        let mut moved = Places::default();
        for queue in keeper.relocated(from, relocation).await? {
            for priority in 0..10 {
                moved.pending += keeper.move_part(road, &queue, Part::Pending(priority)).await?;
            }
            moved.delayed += keeper.move_part(road, &queue, Part::Delayed).await?;
            moved.dead += keeper.move_part(road, &queue, Part::Dead).await?;
        }
        Ok(moved)
    }
}

impl Keeper {
    fn named_shard(&self, name: &str) -> Result<usize, Immovable> {
        let at = self.shards.iter().position(|shard| *shard.name == *name);
        at.ok_or_else(|| Immovable::UnknownShard(name.into()))
    }

    async fn relocated(&self, shard: usize, relocation: &Relocation) -> Result<Vec<QueueKey>, Failure> {
        let mut queues = self.queues_on(shard, relocation.tenant.as_deref()).await?;
        queues.retain(|queue| queue.command.eq_ignore_ascii_case(&relocation.command));
        queues.sort();
        Ok(queues)
    }

    async fn count_places(&self, shard: usize, queue: &QueueKey, places: &mut Places) -> Result<(), Failure> {
        let at = &self.shards[shard];
        let names = at.keys.queue(queue);
        let mut commands: Vec<Command> =
            names[..10].iter().map(|key| Command::new("LLEN").arg(key.as_str())).collect();
        commands.push(Command::new("SCARD").arg(names[10].as_str()));
        commands.push(Command::new("ZCARD").arg(names[12].as_str()));
        commands.push(Command::new("SCARD").arg(names[13].as_str()));
        let replies = at.read(&commands).await?;
        places.pending += replies[..10].iter().map(count).sum::<u64>();
        places.in_progress += count(&replies[10]);
        places.delayed += count(&replies[11]);
        places.dead += count(&replies[12]);
        Ok(())
    }

    async fn move_part(&self, road: Road, queue: &QueueKey, part: Part) -> Result<u64, Failure> {
        let mut moved = 0;
        loop {
            let ids = self.next_ids(road, queue, part).await?;
            if ids.is_empty() {
                return Ok(moved);
            }
            match road.is_within {
                true => self.shift(road, queue, part, &ids).await?,
                false => self.copy(road, queue, part, &ids).await?,
            }
            // Whoever remembers where they were must look anew.
            self.teller.publisher.publish(format!("m {}", queue_text(queue))).await?;
            moved += u64::try_from(ids.len()).unwrap_or(0);
        }
    }

    /// In the order in which they are to stand there.
    async fn next_ids(&self, road: Road, queue: &QueueKey, part: Part) -> Result<Vec<String>, Failure> {
        let at = &self.shards[road.from];
        let names = at.keys.queue(queue);
        let last = (road.batch - 1).to_string();
        let command = match part {
            // The oldest stand at the end.
            Part::Pending(priority) => Command::new("LRANGE")
                .arg(names[priority].as_str())
                .args([format!("-{}", road.batch).as_str(), "-1"]),
            Part::Delayed => Command::new("ZRANGE").arg(names[12].as_str()).args(["0", last.as_str()]),
            Part::Dead => Command::new("SRANDMEMBER").arg(names[13].as_str()).arg(road.batch.to_string()),
        };
        let mut ids = strings(at.read_one(command).await?);
        if matches!(part, Part::Pending(_)) {
            ids.reverse();
        }
        Ok(ids)
    }

    async fn copy(&self, road: Road, queue: &QueueKey, part: Part, ids: &[String]) -> Result<(), Failure> {
        let belongings = self.belongings(road.from, queue, ids).await?;
        let arrivals = ids.iter().zip(&belongings).filter_map(|(id, own)| {
            let text = own.task.as_deref()?;
            Some(self.arrive_item(road, queue, part, id, text, own))
        });
        self.run_batch(arrivals.collect::<Vec<_>>()).await?;
        let arrived = self.records_on(road.to, ids).await?;
        if arrived.iter().zip(&belongings).any(|(there, own)| own.task.is_some() && there.is_none()) {
            return Err(Failure::Internal("a copied task is not at the destination".into()));
        }
        let departures = ids.iter().zip(&belongings);
        let departures =
            departures.map(|(id, own)| self.leave_item(road, queue, part, id, own.task.as_deref()));
        self.run_batch(departures.collect::<Vec<_>>()).await?;
        Ok(())
    }

    async fn belongings(
        &self,
        shard: usize,
        queue: &QueueKey,
        ids: &[String],
    ) -> Result<Vec<Belongings>, Failure> {
        let (at, delayed) = (&self.shards[shard], self.shards[shard].keys.queue(queue).swap_remove(12));
        let commands: Vec<Command> = ids
            .iter()
            .flat_map(|id| {
                let hash = |name: &str| Command::new("HGET").arg(at.keys.of(name)).arg(id.as_str());
                let score = |key: &str| Command::new("ZSCORE").arg(key).arg(id.as_str());
                let scores = [score(&at.keys.of("tasks:ttl")), score(&delayed)];
                [hash("tasks"), hash("results"), hash("history")].into_iter().chain(scores)
            })
            .collect();
        let replies = at.read(&commands).await?;
        let own = |part: &[Reply]| Belongings {
            task: found(part[0].clone()),
            result: found(part[1].clone()).unwrap_or_default(),
            history: found(part[2].clone()).unwrap_or_default(),
            ends: string(part[3].clone()),
            visible: string(part[4].clone()),
        };
        Ok(replies.chunks_exact(5).map(own).collect())
    }

    fn arrive_item(
        &self,
        road: Road,
        queue: &QueueKey,
        part: Part,
        id: &str,
        text: &[u8],
        own: &Belongings,
    ) -> Item<()> {
        let call = self
            .arrive_call(road, queue, part, id, text)
            .arg(own.visible.as_str())
            .arg(own.ends.as_str())
            .number(record::parse(text).map_or(0, |task| task.created_at.millis()))
            .arg(own.result.clone())
            .arg(own.history.clone())
            .arg(self.shards[road.to].keys.queue_name(queue));
        Item::ask(road.to, call, |reply| {
            Answered::of(reply)?;
            Ok(((), Vec::new()))
        })
    }

    fn arrive_call(&self, road: Road, queue: &QueueKey, part: Part, id: &str, text: &[u8]) -> Call {
        let keys = &self.shards[road.to].keys;
        let task = record::parse(text);
        let mut names = keys.with_queue(queue);
        let key = task.as_ref().and_then(|task| task.body.idempotency_key.as_deref());
        names.extend(key.map(|key| keys.idempotency(queue, key)));
        Call::new(Script::Arrive, names)
            .arg(id)
            .arg(on_shard(text, &self.shards[road.to].name))
            .arg(part.word())
            .number(task.map_or(0, |task| task.priority))
    }

    fn leave_item(
        &self,
        road: Road,
        queue: &QueueKey,
        part: Part,
        id: &str,
        text: Option<&[u8]>,
    ) -> Item<()> {
        let keys = &self.shards[road.from].keys;
        let mut names = keys.with_queue(queue);
        let task = text.and_then(record::parse);
        let key = task.as_ref().and_then(|task| task.body.idempotency_key.as_deref());
        names.extend(key.map(|key| keys.idempotency(queue, key)));
        let call = Call::new(Script::Leave, names).arg(id).arg(part.word()).number(part.priority());
        Item::ask(road.from, call, |reply| {
            Answered::of(reply)?;
            Ok(((), Vec::new()))
        })
    }
}

impl Part {
    pub fn priority(self) -> usize {
        match self {
            Part::Pending(priority) => priority,
            Part::Delayed | Part::Dead => 0,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Part::Pending(_) => "pending",
            Part::Delayed => "delayed",
            Part::Dead => "dead",
        }
    }
}
