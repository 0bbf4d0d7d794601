//! Moving the tasks of a command from one shard to another, while everything runs.
//!
//! A script takes the oldest ids of a place out of it into `codeq:moving`, where nobody can claim them; the
//! destination stores them, in their order; the source forgets them and leaves pointers in their idempotency keys.
//! So a task is never claimable twice, and whatever is interrupted is found in `codeq:moving` and goes on. Between
//! shards of one keyspace each task moves in one step (see [`crate::kvrocks::moving::within`]). Running tasks stay until they end.

use crate::kvrocks::format::asked;
use crate::kvrocks::format::keys::queue_text;
use crate::kvrocks::format::record;
use crate::kvrocks::moving::within::on_shard;
use crate::kvrocks::redis::batch::Item;
use crate::kvrocks::redis::connection::{Command, Reply};
use crate::kvrocks::redis::reply::{Answered, count, found, list, string};
use crate::kvrocks::redis::script::{Call, Script};
use crate::kvrocks::store::{KvrocksStore, StoreContext};
use codeq_queue::{Failure, QueueKey};

/// Tasks that are on their way at once.
pub const MOVED_TOGETHER: usize = 100;

/// What is to be moved. Without a tenant, the command of every tenant.
#[derive(Clone, Debug)]
pub struct Relocation {
    pub command: String,
    pub tenant: Option<String>,
    pub from: String,
    pub to: String,
    /// Tasks that are on their way at once, at most a hundred.
    pub batch: usize,
}

/// Tasks by place.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Places {
    pub pending: u64,
    pub delayed: u64,
    /// Tasks that wait for others.
    pub held: u64,
    pub in_progress: u64,
    pub dead: u64,
}

impl Places {
    pub fn total(&self) -> u64 {
        self.pending + self.delayed + self.held + self.in_progress + self.dead
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Immovable {
    #[error("shard \"{0}\" is unknown")]
    UnknownShard(String),
    #[error("source and destination are the same shard")]
    SameShard,
    #[error("no backend \"{0}\" is configured that spread shards can live on")]
    UnknownBackend(String),
    #[error("backend \"{0}\" is the server that the shard lives on")]
    SameServer(String),
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// A place of a queue that tasks are moved from.
#[derive(Clone, Copy)]
pub enum Part {
    Pending(usize),
    /// What is ready in lanes.
    Lanes,
    Delayed,
    Held,
    Dead,
}

/// Between which shards.
#[derive(Clone, Copy)]
pub struct MoveRoute {
    pub from: usize,
    pub to: usize,
    pub batch: usize,
    /// Both are the same keys of the same server.
    pub is_within: bool,
}

/// A task on its way, as `codeq:moving` tells it.
struct Traveller {
    number: u64,
    id: String,
    to: usize,
    part: Part,
    visible: String,
    queue: QueueKey,
}

/// Everything that moves with a task; texts are empty where there is nothing.
struct Belongings {
    task: Option<Vec<u8>>,
    result: Vec<u8>,
    history: Vec<u8>,
    ends: String,
    checkpoint: Vec<u8>,
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

    /// Moves everything that waits; what runs stays until it ends.
    pub async fn relocate(&self, relocation: &Relocation) -> Result<Places, Immovable> {
        let keeper = &self.keeper;
        let (from, to) = (keeper.named_shard(&relocation.from)?, keeper.named_shard(&relocation.to)?);
        if from == to {
            return Err(Immovable::SameShard);
        }
        let is_within = keeper.is_one_keyspace(from, to).await?;
        let road = MoveRoute { from, to, batch: relocation.batch.clamp(1, MOVED_TOGETHER), is_within };
        let queues = keeper.relocated(from, relocation).await?;
        Ok(keeper.move_queues(road, &queues).await?)
    }
}

impl StoreContext {
    fn named_shard(&self, name: &str) -> Result<usize, Immovable> {
        self.place_of(name).ok_or_else(|| Immovable::UnknownShard(name.into()))
    }

    /// Moves everything of these queues that waits, and whatever else is on its way.
    pub async fn move_queues(&self, road: MoveRoute, queues: &[QueueKey]) -> Result<Places, Failure> {
        let mut moved = self.finish_moves(road.from).await?;
        for queue in queues {
            self.copy_policy(road.from, road.to, queue).await?;
            self.copy_pause(road.from, road.to, queue).await?;
            for priority in 0..10 {
                moved.pending += self.move_part(road, queue, Part::Pending(priority)).await?;
            }
            moved.delayed += self.move_part(road, queue, Part::Delayed).await?;
            moved.held += self.move_part(road, queue, Part::Held).await?;
            moved.pending += self.move_part(road, queue, Part::Lanes).await?;
            moved.dead += self.move_part(road, queue, Part::Dead).await?;
        }
        if !road.is_within {
            self.move_schedules(road.from, road.to, queues).await?;
        }
        Ok(moved)
    }

    async fn relocated(&self, shard: usize, relocation: &Relocation) -> Result<Vec<QueueKey>, Failure> {
        let mut queues = self.queues_on(shard, relocation.tenant.as_deref()).await?;
        queues.retain(|queue| queue.command.eq_ignore_ascii_case(&relocation.command));
        queues.sort();
        Ok(queues)
    }

    pub async fn count_places(
        &self,
        shard: usize,
        queue: &QueueKey,
        places: &mut Places,
    ) -> Result<(), Failure> {
        let at = &self.shards[shard];
        let names = at.keys.queue(queue);
        let mut commands: Vec<Command> =
            names[..10].iter().map(|key| Command::new("LLEN").arg(key.as_str())).collect();
        commands.push(Command::new("SCARD").arg(names[10].as_str()));
        commands.push(Command::new("ZCARD").arg(names[12].as_str()));
        commands.push(Command::new("SCARD").arg(names[13].as_str()));
        commands.push(Command::new("HVALS").arg(names[14].as_str()));
        commands.push(Command::new("SCARD").arg(names[15].as_str()));
        commands.push(Command::new("HGETALL").arg(at.keys.flow(queue, "counts")));
        let replies = at.read(&commands).await?;
        places.pending += crate::kvrocks::timers::flow::ready_in_lanes(&replies[15]).iter().sum::<u64>();
        let stale: u64 = list(replies[13].clone()).iter().map(count).sum();
        places.pending += replies[..10].iter().map(count).sum::<u64>().saturating_sub(stale);
        places.in_progress += count(&replies[10]);
        places.delayed += count(&replies[11]);
        places.dead += count(&replies[12]);
        places.held += count(&replies[14]);
        Ok(())
    }

    async fn move_part(&self, road: MoveRoute, queue: &QueueKey, part: Part) -> Result<u64, Failure> {
        let mut moved = 0;
        loop {
            let looked = match road.is_within {
                true => self.shift(road, queue, part).await?,
                false => self.depart(road, queue, part).await?,
            };
            if looked == 0 {
                return Ok(moved);
            }
            if !road.is_within {
                self.finish_moves(road.from).await?;
            }
            // Whoever remembers where they were must look anew.
            self.teller.publisher.publish(format!("m {}", queue_text(queue))).await?;
            moved += looked;
        }
    }

    /// Takes the oldest out of their place. Gives how many there were.
    async fn depart(&self, road: MoveRoute, queue: &QueueKey, part: Part) -> Result<u64, Failure> {
        let at = &self.shards[road.from];
        let call = Call::new(Script::Depart, at.keys.with_queue(queue))
            .arg(part.word())
            .number(part.priority())
            .number(road.batch)
            .arg(&*self.shards[road.to].name)
            .number(self.now.numbers(road.batch as u64))
            .arg(at.keys.queue_name(queue));
        let settle = |replies: Vec<Reply>| {
            let mut answer = Answered::of(replies.into_iter().next().unwrap_or(Reply::Nil))?;
            Ok((u64::try_from(answer.int()).unwrap_or(0), Vec::new()))
        };
        at.writer.run(vec![call], settle).await
    }

    /// Brings everything that is on its way from a shard to its destination, in order.
    pub async fn finish_moves(&self, from: usize) -> Result<Places, Failure> {
        let at = &self.shards[from];
        let entries = list(at.read_one(Command::new("HGETALL").arg(at.keys.of("moving"))).await?);
        let mut travellers: Vec<Traveller> = entries
            .chunks_exact(2)
            .filter_map(|pair| self.traveller(from, string(pair[0].clone()), &string(pair[1].clone())))
            .collect();
        travellers.sort_by_key(|traveller| traveller.number);
        let mut moved = Places::default();
        for part in travellers.chunks(MOVED_TOGETHER) {
            self.bring(from, part).await?;
            for traveller in part {
                match traveller.part {
                    Part::Pending(_) | Part::Lanes => moved.pending += 1,
                    Part::Delayed => moved.delayed += 1,
                    Part::Held => moved.held += 1,
                    Part::Dead => moved.dead += 1,
                }
            }
        }
        Ok(moved)
    }

    /// `None` for what belongs to a shard that this process does not know.
    fn traveller(&self, from: usize, id: String, text: &str) -> Option<Traveller> {
        let mut fields = text.split('\n');
        let number = fields.next()?.parse().ok()?;
        let to = self.named_shard(fields.next()?).ok()?;
        // A process that has not heard of a move yet would take the task for one that has arrived.
        if self.keyspace_of(to) == self.keyspace_of(from) {
            return None;
        }
        let (place, priority) = (fields.next()?, fields.next()?.parse().ok()?);
        let visible = fields.next()?.to_owned();
        let queue = self.shards[from].keys.parse_queue(fields.next()?)?;
        let part = match place {
            "pending" => Part::Pending(priority),
            "delayed" => Part::Delayed,
            "held" => Part::Held,
            _ => Part::Dead,
        };
        Some(Traveller { number, id, to, part, visible, queue })
    }

    async fn bring(&self, from: usize, travellers: &[Traveller]) -> Result<(), Failure> {
        let ids: Vec<String> = travellers.iter().map(|traveller| traveller.id.clone()).collect();
        let belongings = self.belongings(from, &ids).await?;
        for (traveller, own) in travellers.iter().zip(&belongings) {
            let task = own.task.as_deref().and_then(record::parse);
            if let Some((tenant, batch)) =
                task.and_then(|task| Some((task.body.tenant.clone(), task.body.batch()?)))
            {
                let there = self.keyspace_of(traveller.to);
                self.share_for_moved(&tenant, batch, there, self.now.get()).await?;
            }
        }
        let arrivals = travellers
            .iter()
            .zip(&belongings)
            .filter_map(|(traveller, own)| Some(self.arrive_item(traveller, own.task.as_deref()?, own)));
        self.run_batch(arrivals.collect::<Vec<_>>()).await?;
        let departures = travellers.iter().zip(&belongings);
        let departures =
            departures.map(|(traveller, own)| self.leave_item(from, traveller, own.task.as_deref()));
        self.run_batch(departures.collect::<Vec<_>>()).await?;
        Ok(())
    }

    async fn belongings(&self, shard: usize, ids: &[String]) -> Result<Vec<Belongings>, Failure> {
        let at = &self.shards[shard];
        let commands: Vec<Command> = ids
            .iter()
            .flat_map(|id| {
                let hash = |name: &str| Command::new("HGET").arg(at.keys.of(name)).arg(id.as_str());
                let ends = Command::new("ZSCORE").arg(at.keys.of("tasks:ttl")).arg(id.as_str());
                [hash("tasks"), hash("results"), hash("history"), ends, hash("checkpoints")]
            })
            .collect();
        let replies = at.read(&commands).await?;
        let own = |part: &[Reply]| Belongings {
            task: found(part[0].clone()),
            result: found(part[1].clone()).unwrap_or_default(),
            history: found(part[2].clone()).unwrap_or_default(),
            ends: string(part[3].clone()),
            checkpoint: found(part[4].clone()).unwrap_or_default(),
        };
        Ok(replies.chunks_exact(5).map(own).collect())
    }

    fn arrive_item(&self, traveller: &Traveller, text: &[u8], own: &Belongings) -> Item<()> {
        let (to, queue) = (&self.shards[traveller.to], &traveller.queue);
        let task = record::parse(text);
        let key = task.as_ref().and_then(|task| task.body.idempotency_key.as_deref());
        let key = key.map(|key| to.keys.idempotency(queue, key)).unwrap_or_default();
        let expiry = task.as_ref().and_then(asked::waits_until).map(|at| at.millis().to_string());
        let unique = task.as_ref().and_then(asked::held_key).map(|key| to.keys.unique(queue, key));
        let batch = task.as_ref().and_then(|task| task.body.batch()).map(|batch| batch.to_string());
        let call = Call::new(Script::Arrive, to.keys.with_queue(queue))
            .arg(traveller.id.as_str())
            .arg(on_shard(text, &to.name))
            .arg(traveller.part.word())
            .number(task.as_ref().map_or(0, |task| task.priority))
            .arg(traveller.visible.as_str())
            .arg(own.ends.as_str())
            .number(task.map_or(0, |task| task.created_at.millis()))
            .arg(own.result.clone())
            .arg(own.history.clone())
            .arg(&*queue.tenant)
            .arg(key)
            .arg(expiry.unwrap_or_default())
            .arg(unique.unwrap_or_default())
            .arg(own.checkpoint.clone())
            .arg(batch.unwrap_or_default());
        Item::ask(traveller.to, call, |reply| {
            Answered::of(reply)?;
            Ok(((), Vec::new()))
        })
    }

    fn leave_item(&self, from: usize, traveller: &Traveller, text: Option<&[u8]>) -> Item<()> {
        let keys = &self.shards[from].keys;
        let task = text.and_then(record::parse);
        let mut call = Call::new(Script::Leave, keys.with_queue(&traveller.queue))
            .arg(traveller.id.as_str())
            .arg(&*self.shards[traveller.to].name);
        if let Some(key) = task.as_ref().and_then(|task| task.body.idempotency_key.as_deref()) {
            call = call.arg(keys.idempotency(&traveller.queue, key));
            call = keys.legacy_idempotency(key).into_iter().fold(call, Call::arg);
        }
        Item::ask(from, call, |reply| {
            Answered::of(reply)?;
            Ok(((), Vec::new()))
        })
    }
}

impl Part {
    pub fn priority(self) -> usize {
        match self {
            Part::Pending(priority) => priority,
            Part::Lanes | Part::Delayed | Part::Held | Part::Dead => 0,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Part::Pending(_) => "pending",
            Part::Lanes => "lanes",
            Part::Delayed => "delayed",
            Part::Held => "held",
            Part::Dead => "dead",
        }
    }
}
