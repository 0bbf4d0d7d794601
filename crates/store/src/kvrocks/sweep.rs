//! What time does: delays that are over, leases that have ended, retention.
//!
//! A claim acts on the queues it looks at; the sweep acts on all of them, now and then. Sweeps of several
//! processes may overlap: every step is a script that looks before it acts.

use super::connection::{Command, Reply};
use super::create::seconds;
use super::events::Told;
use super::known::Known;
use super::reply::{Answered, int, list, string, strings, text};
use super::script::{Call, Script};
use super::store::Keeper;
use codeq_queue::event::What;
use codeq_queue::{AttemptOutcome, Event, Failure, QueueKey, State, TaskId, Time, limits};
use futures_util::future::try_join_all;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Due tasks that a sweep makes ready in one script when there are very many: a script holds up everyone else
/// on the server.
const SWEPT_TOGETHER: u32 = 24;
/// How many times as long as such a round took the sweep rests after it.
const RESTS: u32 = 2;
/// Ids whose retention is looked at together.
const REMOVED_TOGETHER: usize = 200;
/// Queues that are tidied at once.
const TIDIED_TOGETHER: usize = 64;
/// Sweeps between two that look at everything from the beginning.
const FULL_LOOK: u64 = 15;

impl Keeper {
    /// `spare`: how many to move when more than the limit are due and no one is short of ready ones.
    fn promote_call(&self, shard: usize, queue: &QueueKey, now: Time, spare: u32) -> Call {
        let shard = &self.shards[shard];
        Call::new(Script::Promote, shard.keys.with_queue(queue))
            .arg(shard.low(queue).0)
            .number(now.millis())
            .arg(now.to_utc())
            .number(self.inspect_limit)
            .number(self.inspect_limit.min(spare))
            .number(self.now.numbers(self.inspect_limit.into()))
    }

    /// What a claim does first with a queue: everything that it may need, and no more than that.
    pub fn timer_calls(&self, shard: usize, queue: &QueueKey, now: Time) -> [Call; 2] {
        [self.promote_call(shard, queue, now, 0), self.repair_call(shard, queue, now)]
    }

    fn repair_call(&self, shard: usize, queue: &QueueKey, now: Time) -> Call {
        let shard = &self.shards[shard];
        let ends = self.rules.dead_retention.map_or_else(|| "+inf".into(), |keep| seconds(now.plus(keep)));
        let seed: u32 = rand::random_range(1..0x7fff_ffff);
        Call::new(Script::Repair, shard.keys.with_queue(queue))
            .arg(shard.low(queue).1)
            .number(now.millis())
            .arg(now.to_utc())
            .number(self.inspect_limit)
            .number(self.now.numbers(self.inspect_limit.into()))
            .arg(shard.keys.lease_prefix())
            .arg(self.lease_clock())
            .arg(self.backoff_ranges.as_str())
            .number(seed)
            .arg(ends)
            .arg(if self.rules.callbacks { "1" } else { "" })
            .arg((self.rules.stamp)(now))
            .arg(format!("{:024x}", rand::random::<u128>() >> 32))
    }

    /// Acts on everything that is due on every shard.
    pub async fn sweep(&self, now: Time) -> Result<(), Failure> {
        for shard in 0..self.shards.len() {
            let queues = self.queues_on(shard, None).await?;
            try_join_all(queues.iter().map(|queue| self.sweep_queue(shard, queue, now))).await?;
        }
        Ok(())
    }

    /// Repeats until a round finds fewer than the limit, and rests in between: callers come first.
    async fn sweep_queue(&self, shard: usize, queue: &QueueKey, now: Time) -> Result<(), Failure> {
        loop {
            let begun = Instant::now();
            let promote = self.promote_call(shard, queue, now, SWEPT_TOGETHER);
            let calls = vec![promote, self.repair_call(shard, queue, now)];
            let (keeper, queue) = (self.me(), queue.clone());
            let settle = move |replies: Vec<Reply>| {
                let (mut replies, mut events) = (replies.into_iter(), Vec::new());
                let (promoted, repaired) = (replies.next(), replies.next());
                let timers = Timers { shard, queue: &queue, now };
                let looked = timers.settle(
                    &keeper,
                    promoted.unwrap_or(Reply::Nil),
                    repaired.unwrap_or(Reply::Nil),
                    &mut events,
                )?;
                Ok((looked, events))
            };
            let looked = self.shards[shard].writer.run(calls, settle).await?;
            if looked < i64::from(self.inspect_limit) {
                return Ok(());
            }
            tokio::time::sleep(begun.elapsed() * RESTS).await;
        }
    }

    /// Removes what is past its retention, and failed callbacks that were kept long enough.
    pub async fn retain(&self, now: Time) -> Result<(), Failure> {
        for shard in 0..self.shards.len() {
            while self.retain_on(shard, now).await? == REMOVED_TOGETHER {}
            self.forget_deliveries(shard, now).await?;
        }
        Ok(())
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

    /// Looks at running tasks without a lease entry or a lease key, which only foreign writers or a lost key
    /// leave, and forgets queues that hold nothing.
    pub async fn tidy(&self, now: Time) -> Result<(), Failure> {
        for shard in 0..self.shards.len() {
            for part in self.queues_on(shard, None).await?.chunks(TIDIED_TOGETHER) {
                try_join_all(part.iter().map(|queue| self.tidy_queue(shard, queue, now))).await?;
            }
        }
        Ok(())
    }

    async fn tidy_queue(&self, shard: usize, queue: &QueueKey, now: Time) -> Result<(), Failure> {
        let at = &self.shards[shard];
        let names = at.keys.queue(queue);
        let cursor = self.notes.cursor(shard, queue);
        let scan = Command::new("SSCAN").arg(names[10].as_str()).args([
            cursor.as_str(),
            "COUNT",
            &self.inspect_limit.to_string(),
        ]);
        let mut answer = list(at.read_one(scan).await?).into_iter();
        let next = string(answer.next().unwrap_or(Reply::Nil));
        let ids = strings(answer.next().unwrap_or(Reply::Nil));
        self.notes.scanned(shard, queue, next);
        let stray = self.stray(shard, &names[11], &ids).await?;
        let mut calls: Vec<Call> = stray.iter().map(|id| self.adopt_call(shard, queue, id, now)).collect();
        if ids.is_empty() {
            let call = Call::new(Script::QueueDrop, at.keys.with_queue(queue));
            calls.push(call.arg(at.keys.queue_name(queue)));
        }
        if calls.is_empty() {
            return Ok(());
        }
        at.writer.run(calls, |_| Ok(((), Vec::new()))).await
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
            .arg(keys.lease_prefix())
            .number(self.now.numbers(1))
    }

    /// Sweeps for ever, at the pace of the options.
    pub async fn keep_sweeping(self: Arc<Self>, interval: Duration) {
        let mut round = tokio::time::interval(interval);
        round.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut rounds, mut retained) = (0u64, Time::ZERO);
        loop {
            round.tick().await;
            let now = self.now.get();
            rounds += 1;
            if rounds.is_multiple_of(FULL_LOOK) {
                self.shards.iter().for_each(|shard| shard.forget_lows());
            }
            let mut swept = self.sweep(now).await;
            if swept.is_ok() {
                swept = self.tidy(now).await;
            }
            if swept.is_ok() && now.since(retained) >= self.rules.cleanup_interval {
                swept = self.retain(now).await;
                retained = now;
            }
            self.noted_health(swept.err());
        }
    }
}

/// Reads the replies of promote and repair on one queue.
pub struct Timers<'a> {
    pub shard: usize,
    pub queue: &'a QueueKey,
    pub now: Time,
}

impl Timers<'_> {
    /// Gives the larger number of ids that one of the two looked at.
    pub fn settle(
        &self,
        keeper: &Keeper,
        promoted: Reply,
        repaired: Reply,
        events: &mut Vec<Event>,
    ) -> Result<i64, Failure> {
        let (mut promoted, mut repaired) = (Answered::of(promoted)?, Answered::of(repaired)?);
        let (moved, ended) = (promoted.list(), repaired.list());
        let looked = promoted.int().max(repaired.int());
        let (before_promotion, before_repair) = (promoted.int(), repaired.int());
        let mut is_empty = before_promotion == 0;
        for text in moved {
            let Some(told) = Told::parse(&super::reply::text(text)) else { continue };
            events.push(told.event(self.now, What::Promoted, std::mem::take(&mut is_empty)));
        }
        let mut is_empty = before_repair == 0;
        for pair in ended {
            let mut pair = list(pair).into_iter();
            let told = Told::parse(&pair.next().map(text).unwrap_or_default());
            let place = string(pair.next().unwrap_or(Reply::Nil));
            events.extend(told.map(|told| self.expired(keeper, &told, &place, &mut is_empty)));
        }
        let scores = (string(promoted.next()), string(repaired.next()));
        keeper.shards[self.shard].consumed(self.queue, &scores.0, &scores.1);
        Ok(looked)
    }

    fn expired(&self, keeper: &Keeper, told: &Told, place: &str, is_empty: &mut bool) -> Event {
        let (outcome, error) = (AttemptOutcome::LeaseExpired, Some("LEASE_EXPIRED".into()));
        match place {
            "DLQ_SET" => told.ended(self.now, State::Dead, Some(outcome), error, keeper.rules.callbacks),
            "PENDING_LIST" => told.returned(self.now, outcome, error, std::mem::take(is_empty)),
            _ => told.returned(self.now, outcome, error, false),
        }
    }
}
