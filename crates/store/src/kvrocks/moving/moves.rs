//! Moving a spread shard to another backend, while everything runs.
//!
//! Where it lives now is written into the layout of every server first: where it has left, nothing more is made, and
//! whoever tries looks anew (see `scripts/intake.lua`). Then what waits there moves as any other queue does (see
//! [`crate::kvrocks::moving::relocate`]); until it has, the old place is a former one, which is served first. Running tasks stay until
//! they end. What has no queue stays where the configuration puts the shard: homes of batches, names of schedules.

use crate::kvrocks::context::layout::{AT, GONE, latest_moves, moves_in};
use crate::kvrocks::context::spread::{self, Move};
use crate::kvrocks::format::keys::queue_text;
use crate::kvrocks::moving::relocate::{Immovable, MOVED_TOGETHER, MoveRoute, Places};
use crate::kvrocks::redis::connection::Command;
use crate::kvrocks::redis::reply::{int, strings};
use crate::kvrocks::store::{KvrocksStore, StoreContext};
use crate::kvrocks::verbs::schedules::{FullName, HeldSchedule, SchedulePlace, read_field};
use codeq_queue::{Failure, QueueKey};
use futures_util::future::join_all;
use std::collections::{BTreeMap, BTreeSet};

/// How often a schedule is tried to be moved that others change at the same time.
const TRIES: usize = 32;
/// Schedules that are read together.
const READ_TOGETHER: usize = 200;

/// A spread shard, and the backend that it is to live on.
#[derive(Clone, Debug)]
pub struct ShardMove {
    pub shard: usize,
    pub to: String,
    /// Tasks that are on their way at once, at most a hundred.
    pub batch: usize,
}

impl KvrocksStore {
    /// What is there to be moved, and what has been moved already.
    pub async fn shard_places(&self, wanted: &ShardMove) -> Result<(Places, Places), Immovable> {
        let (keeper, to) = (&self.keeper, self.destination(wanted)?);
        let (mut left, mut there) = (Places::default(), Places::default());
        for at in keeper.spread.all(wanted.shard) {
            for queue in keeper.queues_on(at, None).await? {
                let counted = if at == to { &mut there } else { &mut left };
                keeper.count_places(at, &queue, counted).await?;
            }
        }
        Ok((left, there))
    }

    /// Has a spread shard live on another backend, and moves what waits. To be repeated for what runs meanwhile.
    pub async fn move_shard(&self, wanted: &ShardMove) -> Result<Places, Immovable> {
        let (keeper, to) = (&self.keeper, self.destination(wanted)?);
        keeper.learn_places().await;
        let mut moved = Places::default();
        for from in keeper.sources(wanted.shard, to) {
            if keeper.is_one_keyspace(from, to).await? {
                return Err(Immovable::SameServer(wanted.to.clone()));
            }
        }
        keeper.settle(wanted.shard, to, &wanted.to).await?;
        for from in keeper.sources(wanted.shard, to) {
            let road = MoveRoute { from, to, batch: wanted.batch.clamp(1, MOVED_TOGETHER), is_within: false };
            let queues = keeper.queues_on(from, None).await?;
            moved.add(keeper.move_queues(road, &queues).await?);
        }
        Ok(moved)
    }

    fn destination(&self, wanted: &ShardMove) -> Result<usize, Immovable> {
        let at = self.keeper.spread.on(wanted.shard, &wanted.to);
        at.ok_or_else(|| Immovable::UnknownBackend(wanted.to.clone()))
    }
}

impl Places {
    fn add(&mut self, more: Places) {
        self.pending += more.pending;
        self.delayed += more.delayed;
        self.held += more.held;
        self.in_progress += more.in_progress;
        self.dead += more.dead;
    }
}

impl StoreContext {
    /// Where something of a shard may be that moves. One that is away does not matter unless the shard lives there.
    fn sources(&self, shard: usize, to: usize) -> Vec<usize> {
        let current = self.spread.current(shard);
        let is_there = |at: &usize| *at == current || self.shards[*at].server.gate.away().is_none();
        self.spread.all(shard).into_iter().filter(|at| *at != to).filter(is_there).collect()
    }

    /// Writes where a shard lives: first there, so that it may take tasks, then where it has left.
    async fn settle(&self, shard: usize, to: usize, backend: &str) -> Result<(), Failure> {
        let is_moved = self.spread.current(shard) != to;
        if !is_moved && self.spread.number(shard) == 0 {
            return Ok(());
        }
        // Whoever was interrupted writes the same again.
        let number = self.spread.number(shard) + u64::from(is_moved);
        let (told, name): (Move, _) = ((number, backend.to_owned()), spread::name(shard));
        let text = spread::write_move(&told);
        let (at, gone) = (format!("{AT}{name}"), format!("{GONE}{name}"));
        let set = |place: usize, fields: &[&str]| {
            let layout = Command::new("HSET").arg(self.shards[place].keys.of("layout"));
            fields.iter().fold(layout, |set, field| set.arg(*field).arg(text.as_str()))
        };
        let there = &self.shards[to];
        let forget = Command::new("HDEL").arg(there.keys.of("layout")).arg(gone.as_str());
        there.read(&[forget, set(to, &[&at])]).await?;
        let sources = self.sources(shard, to);
        for place in sources.iter().copied() {
            self.shards[place].read_one(set(place, &[&gone, &at])).await?;
        }
        // The others pass it on to processes that start while those are away.
        let told_to: BTreeSet<usize> =
            sources.iter().chain([&to]).map(|place| self.keyspace_of(*place)).collect();
        for keyspace in (0..self.keyspaces.len()).filter(|keyspace| !told_to.contains(keyspace)) {
            let place = self.keyspaces[keyspace][0];
            let _ = self.shards[place].read_one(set(place, &[&at])).await;
        }
        self.teller.publisher.publish(format!("m {name}")).await?;
        self.follow(shard, &told);
        self.look_for_former_places().await;
        Ok(())
    }

    /// Follows what the layout tells at the start. The error says which backend is missing.
    pub fn follow_all(&self, moves: &BTreeMap<usize, Move>) -> Result<(), String> {
        for (shard, to) in moves.iter().filter(|_| self.sharding.spread) {
            if self.spread.on(*shard, &to.1).is_none() {
                let (name, backend) = (spread::name(*shard), &to.1);
                return Err(format!(
                    "codeq:layout says that spread shard {name} was moved to backend \"{backend}\"; define it in \
                     sharding.backends"
                ));
            }
            self.spread.follow(*shard, to);
        }
        Ok(())
    }

    fn follow(&self, shard: usize, to: &Move) -> bool {
        let has_moved = self.spread.follow(shard, to);
        if has_moved {
            self.former.forget();
            self.teller.memory.forget_all();
        }
        has_moved
    }

    /// Looks where spread shards live.
    pub async fn learn_places(&self) {
        if !self.spread.can_move() {
            return;
        }
        let asked = self.keyspaces.iter().map(|shards| async {
            let at = &self.shards[shards[0]];
            at.read_one(Command::new("HGETALL").arg(at.keys.of("layout"))).await.map(|told| moves_in(&told))
        });
        let told: Vec<_> = join_all(asked).await.into_iter().flatten().collect();
        let mut has_moved = false;
        for (shard, to) in latest_moves(told.iter()) {
            has_moved |= self.follow(shard, &to);
        }
        if has_moved {
            self.look_for_former_places().await;
            self.teller.claims.ring_all();
        }
    }

    /// A queue that is paused where it was is paused where it goes.
    pub async fn copy_pause(&self, from: usize, to: usize, queue: &QueueKey) -> Result<(), Failure> {
        let (source, there) = (&self.shards[from], &self.shards[to]);
        let asks = Command::new("SISMEMBER").arg(source.keys.of("paused")).arg(queue_text(queue));
        if int(&source.read_one(asks).await?) == 1 {
            let add = Command::new("SADD").arg(there.keys.of("paused")).arg(queue_text(queue));
            there.read_one(add).await?;
        }
        Ok(())
    }

    /// Schedules that make tasks of these queues go where the queues are.
    pub async fn move_schedules(&self, from: usize, to: usize, queues: &[QueueKey]) -> Result<(), Failure> {
        let at = &self.shards[from];
        let fields = strings(at.read_one(Command::new("HKEYS").arg(at.keys.of("schedules"))).await?);
        let names: Vec<FullName> = fields.iter().filter_map(|field| read_field(field)).collect();
        for part in names.chunks(READ_TOGETHER) {
            for (name, held) in part.iter().zip(self.held_schedules(from, part).await?) {
                let is_meant = |held: HeldSchedule| {
                    let queue = held.schedule.definition.queue();
                    let lives_there = self.current_shard(&queue) == to && self.shards[to].spread.is_some();
                    queues.contains(&queue) || lives_there
                };
                if held.is_some_and(is_meant) {
                    self.move_schedule(from, to, name).await?;
                }
            }
        }
        Ok(())
    }

    /// It stops ticking here, is copied, is found there, ticks there, and is forgotten here. Whoever is interrupted does
    /// the same again; in between it does not tick, and what it has missed is caught up with.
    async fn move_schedule(&self, from: usize, to: usize, name: &FullName) -> Result<(), Failure> {
        for _ in 0..TRIES {
            let Some(held) = self.held_schedule(from, name).await? else { return Ok(()) };
            if !self.ticks_at(to, name).await? && !self.hand_over(from, to, name, &held).await? {
                continue;
            }
            let Some(held) = self.held_schedule(from, name).await? else { return Ok(()) };
            if self.store_schedule(from, name, Some(&held), None).await? == "OK" {
                return Ok(());
            }
        }
        Err(Failure::unavailable("a schedule is being changed by others"))
    }

    /// False if others were quicker.
    async fn hand_over(
        &self,
        from: usize,
        to: usize,
        name: &FullName,
        held: &HeldSchedule,
    ) -> Result<bool, Failure> {
        let schedule = &held.schedule;
        if self.store_schedule_until(from, name, Some(held), Some(schedule), None).await? != "OK" {
            return Ok(false);
        }
        let there = self.held_schedule(to, name).await?;
        match self.store_schedule_until(to, name, there.as_ref(), Some(schedule), None).await?.as_str() {
            "OK" => {}
            "TOO_MANY" => return Err(Failure::unavailable("the destination has too many schedules")),
            _ => return Ok(false),
        }
        let (entry, queue) = (self.schedule_entry(name).await?, schedule.definition.queue());
        let place =
            SchedulePlace { shard: self.shards[to].name.to_string(), command: queue.command.to_string() };
        if !self.set_schedule_entry(name, &entry, Some(&place)).await? {
            return Ok(false);
        }
        let there = self.held_schedule(to, name).await?;
        Ok(self.store_schedule(to, name, there.as_ref(), Some(schedule)).await? == "OK")
    }

    async fn ticks_at(&self, shard: usize, name: &FullName) -> Result<bool, Failure> {
        let at = &self.shards[shard];
        let score = Command::new("ZSCORE")
            .arg(at.keys.of("ticks"))
            .arg(crate::kvrocks::verbs::schedules::field(name));
        Ok(at.read_one(score).await? != crate::kvrocks::redis::connection::Reply::Nil)
    }
}
