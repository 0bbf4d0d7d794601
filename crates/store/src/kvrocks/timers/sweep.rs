//! What time does: delays that are over, leases that have ended, ticks of schedules, retention.
//!
//! A claim acts on the queues it looks at. For the others one process at a time sweeps a keyspace: it asks
//! `codeq:timers` for queues whose bound has passed, and acts on those. Beside that it walks through all queues (see
//! [`crate::kvrocks::timers::walking`]). Overlapping sweeps are harmless: every step is a script that looks before it acts.

use crate::kvrocks::context::known::Known;
use crate::kvrocks::format::keys::suffix_of;
use crate::kvrocks::redis::connection::{Command, Reply};
use crate::kvrocks::redis::reply::{Answered, int, string, strings};
use crate::kvrocks::redis::script::{Call, Script};
use crate::kvrocks::store::StoreContext;
use crate::kvrocks::verbs::acted::Acted;
use crate::kvrocks::verbs::create::seconds;
use codeq_queue::{Failure, QueueKey, TaskId, Time, limits};
use futures_util::future::{join_all, try_join_all};
use hashbrown::HashMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Due tasks that a sweep makes ready in one script when there are very many: a script holds up everyone else
/// on the server.
const SWEPT_TOGETHER: u32 = 24;
/// How many times as long as such a round took the sweep rests after it.
const RESTS: u32 = 2;
/// Queues with something due that are asked for at once.
const DUE_TOGETHER: usize = 500;
/// Ids whose retention is looked at together.
const REMOVED_TOGETHER: usize = 200;
/// Between two looks at the clocks of the servers.
const CLOCK_INTERVAL: Duration = Duration::from_secs(10);
/// How long nobody else sweeps after the last sign of whoever does, at least.
const SWEEPER_LIFE: Duration = Duration::from_secs(3);

impl StoreContext {
    /// What `due.lua` needs.
    pub fn due_args(&self, call: Call, now: Time) -> Call {
        let ends = self.rules.dead_retention.map_or_else(|| "+inf".into(), |keep| seconds(now.plus(keep)));
        let seed: u32 = rand::random_range(1..0x7fff_ffff);
        let call = call
            .number(now.millis())
            .arg(now.to_utc())
            .number(self.inspect_limit)
            .number(self.now.numbers(2 * u64::from(self.inspect_limit)))
            .arg(self.lease_clock())
            .arg(self.backoff_ranges.as_str())
            .number(seed)
            .arg(ends);
        self.with_endings(call, now)
    }

    /// What `stop.lua` needs, besides the time.
    pub fn with_endings(&self, call: Call, now: Time) -> Call {
        let kept = self.rules.failed_retention.unwrap_or(self.rules.retention);
        call.arg(if self.rules.callbacks { "1" } else { "" })
            .arg((self.rules.stamp)(now))
            .arg(format!("{:024x}", rand::random::<u128>() >> 32))
            .arg(seconds(now.plus(kept)))
    }

    /// Acts on everything that is due, in every keyspace. One that fails does not keep the others from theirs.
    pub async fn sweep(&self, now: Time) -> Result<(), Failure> {
        let swept = join_all(self.keyspaces.iter().map(|shards| self.sweep_keyspace(shards, now))).await;
        swept.into_iter().collect()
    }

    /// The queues whose bound has passed, and a shard of the keyspace each belongs to.
    async fn due_queues(&self, shards: &[usize], now: Time) -> Result<Vec<(usize, QueueKey)>, Failure> {
        let at = &self.shards[shards[0]];
        let range = Command::new("ZRANGEBYSCORE").arg(at.keys.of("timers")).args([
            "-inf",
            &now.millis().to_string(),
            "LIMIT",
            "0",
            &DUE_TOGETHER.to_string(),
        ]);
        Ok(self.placed_queues(shards, strings(at.read_one(range).await?)))
    }

    /// Names of an index by the shards that they belong to; those of shards that nobody has configured are left.
    pub fn placed_queues(&self, shards: &[usize], names: Vec<String>) -> Vec<(usize, QueueKey)> {
        let by_suffix: HashMap<&str, usize> =
            shards.iter().rev().map(|shard| (self.shards[*shard].keys.suffix(), *shard)).collect();
        let place = |name: String| {
            let shard = *by_suffix.get(suffix_of(&name))?;
            Some((shard, self.shards[shard].keys.parse_queue(&name)?))
        };
        names.into_iter().filter_map(place).collect()
    }

    pub async fn sweep_keyspace(&self, shards: &[usize], now: Time) -> Result<(), Failure> {
        loop {
            let due = self.due_queues(shards, now).await?;
            try_join_all(due.iter().map(|(shard, queue)| self.sweep_queue(*shard, queue, now))).await?;
            if due.len() < DUE_TOGETHER {
                self.sweep_ticks(shards, now).await?;
                return self.carry(self.keyspace_of(shards[0]), now, now).await;
            }
        }
    }

    /// Repeats until a round finds fewer than the limit, and rests in between: callers come first.
    async fn sweep_queue(&self, shard: usize, queue: &QueueKey, now: Time) -> Result<(), Failure> {
        loop {
            let begun = Instant::now();
            let call = Call::new(Script::Sweep, self.shards[shard].keys.with_queue(queue));
            let call = self.due_args(call, now).number(SWEPT_TOGETHER);
            let (keeper, swept) = (self.me(), queue.clone());
            let settle = move |replies: Vec<Reply>| {
                let mut answer = Answered::of(replies.into_iter().next().unwrap_or(Reply::Nil))?;
                if answer.has_freed {
                    keeper.teller.freed(&swept);
                }
                let mut events = Vec::new();
                let looked = Acted::parse(answer.next()).settle(&keeper, now, &mut events);
                Ok((looked, events))
            };
            let looked = self.shards[shard].writer.run(vec![call], settle).await?;
            if looked < i64::from(self.inspect_limit) {
                return Ok(());
            }
            tokio::time::sleep(begun.elapsed() * RESTS).await;
        }
    }

    /// Removes what is past its retention, and failed callbacks that were kept long enough.
    pub async fn retain(&self, now: Time) -> Result<(), Failure> {
        let retained =
            join_all(self.keyspaces.iter().map(|shards| self.retain_keyspace(shards[0], now))).await;
        retained.into_iter().collect()
    }

    async fn retain_keyspace(&self, shard: usize, now: Time) -> Result<(), Failure> {
        while self.retain_on(shard, now).await? == REMOVED_TOGETHER {}
        self.forget_deliveries(shard, now).await
    }

    async fn retain_on(&self, shard: usize, now: Time) -> Result<usize, Failure> {
        let at = &self.shards[shard];
        let due = Command::new("ZRANGEBYSCORE").arg(at.keys.of("tasks:ttl")).args([
            "-inf",
            &seconds(now),
            "LIMIT",
            "0",
            &REMOVED_TOGETHER.to_string(),
        ]);
        let ids = strings(at.read_one(due).await?);
        let found = self.known_on(shard, &ids).await?;
        let removals = ids.iter().zip(found).map(|(id, known)| self.remove_due(shard, id, known, now));
        try_join_all(removals).await?;
        Ok(ids.len())
    }

    async fn remove_due(
        &self,
        shard: usize,
        id: &str,
        known: Option<Known>,
        now: Time,
    ) -> Result<(), Failure> {
        let (Some(known), Some(task)) = (known, TaskId::parse(id)) else {
            // An entry without a record that can be read: nothing is kept by it.
            let forget = Command::new("ZREM").arg(self.shards[shard].keys.of("tasks:ttl")).arg(id);
            return self.shards[shard].read_one(forget).await.map(|_| ());
        };
        let call = self.remove_call(task, &known, "due", "", now, now);
        let settle = |replies: Vec<Reply>| {
            Answered::of(replies.into_iter().next().unwrap_or(Reply::Nil))?;
            Ok(((), Vec::new()))
        };
        self.shards[known.shard].writer.run(vec![call], settle).await?;
        self.memory.forget(task);
        Ok(())
    }

    async fn forget_deliveries(&self, shard: usize, now: Time) -> Result<(), Failure> {
        let keys = &self.shards[shard].keys;
        let kept = i64::try_from(limits::FAILED_DELIVERY_KEPT.as_millis()).unwrap_or(i64::MAX);
        let call = Call::new(Script::OutboxForget, vec![keys.of("outbox"), keys.of("outbox:failed")])
            .number(now.millis() - kept)
            .number(REMOVED_TOGETHER);
        let settle = |replies: Vec<Reply>| {
            Answered::of(replies.into_iter().next().unwrap_or(Reply::Nil))?;
            Ok(((), Vec::new()))
        };
        self.shards[shard].writer.run(vec![call], settle).await
    }

    /// Sweeps one keyspace for ever, at the pace of the options, while nobody else does, and walks through its queues beside
    /// that.
    pub async fn keep_sweeping(self: Arc<Self>, keyspace: usize, interval: Duration) {
        let (ours, is_ours) = watch::channel(false);
        tokio::join!(self.keep_turning(keyspace, interval, &ours), self.keep_walking(keyspace, is_ours));
    }

    async fn keep_turning(&self, keyspace: usize, interval: Duration, ours: &watch::Sender<bool>) {
        let mut round = tokio::time::interval(interval);
        round.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut turn = Turn::default();
        loop {
            round.tick().await;
            let swept = self.take_turn(&self.keyspaces[keyspace], interval, &mut turn).await;
            self.noted_health(keyspace, swept.err());
            ours.send_if_modified(|was| std::mem::replace(was, turn.is_ours) != turn.is_ours);
        }
    }

    async fn take_turn(&self, shards: &[usize], interval: Duration, turn: &mut Turn) -> Result<(), Failure> {
        let was_ours = std::mem::take(&mut turn.is_ours);
        if !self.holds_sweep(shards[0], interval).await? {
            return Ok(());
        }
        turn.is_ours = true;
        let now = self.now.get();
        self.sweep_keyspace(shards, now).await?;
        self.finish_left_moves(shards, &mut turn.moving).await?;
        if !was_ours {
            // What nobody answered to whoever swept before is asked at once.
            self.carry(self.keyspace_of(shards[0]), now, now.plus(limits::ASK_AGAIN)).await?;
        }
        if turn.retained.is_none_or(|at| now.since(at) >= self.rules.cleanup_interval) {
            self.retain_keyspace(shards[0], self.now.aged()).await?;
            turn.retained = Some(now);
        }
        Ok(())
    }

    /// Brings to their destination tasks that whoever moved them has left on the way: those that were there the last time,
    /// too. What is on its way now is not touched.
    async fn finish_left_moves(&self, shards: &[usize], seen: &mut BTreeSet<String>) -> Result<(), Failure> {
        let at = &self.shards[shards[0]];
        if int(&at.read_one(Command::new("HLEN").arg(at.keys.of("moving"))).await?) == 0 {
            seen.clear();
            return Ok(());
        }
        let there = strings(at.read_one(Command::new("HKEYS").arg(at.keys.of("moving"))).await?);
        let there: BTreeSet<String> = there.into_iter().collect();
        if !seen.is_empty() && there.is_subset(seen) {
            for shard in shards {
                self.finish_moves(*shard).await?;
            }
        }
        *seen = there;
        Ok(())
    }

    /// Whether this process is the one that sweeps: it was, or nobody has for a while.
    async fn holds_sweep(&self, shard: usize, interval: Duration) -> Result<bool, Failure> {
        let at = &self.shards[shard];
        let key = at.keys.of("sweeper");
        let life = SWEEPER_LIFE.max(interval * 3 / 2).as_millis().to_string();
        let take = Command::new("SET").arg(key.as_str()).arg(self.name.as_str()).args(["NX", "PX", &life]);
        let replies = at.read(&[take, Command::new("GET").arg(key.as_str())]).await?;
        let is_ours = replies.into_iter().nth(1).map(string).is_some_and(|holder| holder == self.name);
        if is_ours {
            at.read_one(Command::new("PEXPIRE").arg(key).arg(life)).await?;
        }
        Ok(is_ours)
    }

    /// Writes the bounds of all queues and names those of each tenant, where an older version has not.
    pub async fn index_queues(&self, keyspace: usize) -> Result<(), Failure> {
        let shards = &self.keyspaces[keyspace];
        let at = &self.shards[shards[0]];
        let layout = at.keys.of("layout");
        let get = Command::new("HGET").arg(layout.as_str()).arg("timers");
        if at.read_one(get).await? == Reply::Nil {
            self.walk(shards, Duration::ZERO).await?;
            at.read_one(Command::new("HSET").arg(layout).arg("timers").arg("1")).await?;
        }
        Ok(())
    }

    /// Measures the clocks of the servers; that of the default shard is the one that counts.
    pub async fn tell_time(&self) {
        let clock = self.now.clock().clone();
        if !clock.flows() {
            return;
        }
        join_all(self.keyspaces.iter().map(|shards| self.shards[shards[0]].server.measure(clock.as_ref())))
            .await;
        if let Some(offset) = self.home().server.offset() {
            self.now.follow(offset);
        }
    }

    pub async fn keep_time(self: Arc<Self>) {
        loop {
            tokio::time::sleep(CLOCK_INTERVAL).await;
            self.tell_time().await;
        }
    }

    /// Lets another process sweep at once.
    pub async fn release_sweeps(&self) {
        for shards in &self.keyspaces {
            let at = &self.shards[shards[0]];
            let key = at.keys.of("sweeper");
            let holder = at.read_one(Command::new("GET").arg(key.as_str())).await;
            if holder.is_ok_and(|holder| string(holder) == self.name) {
                let _ = at.read_one(Command::new("DEL").arg(key)).await;
            }
        }
    }
}

/// What a process remembers of the keyspace it sweeps.
#[derive(Default)]
struct Turn {
    is_ours: bool,
    /// Ids that were on their way to another shard the last time.
    moving: BTreeSet<String>,
    retained: Option<Time>,
}
