//! Queue policies: put, read and deleted where the tasks of the queue are.

use crate::kvrocks::context::shard::Shard;
use crate::kvrocks::format::keys::Keys;
use crate::kvrocks::redis::connection::{Command, Reply};
use crate::kvrocks::redis::reply::{Answered, count, list, string, strings};
use crate::kvrocks::redis::script::{Call, Script};
use crate::kvrocks::store::open::ranges;
use crate::kvrocks::store::{KvrocksStore, StoreContext};
use crate::kvrocks::timers::flow::stored_policy;
use codeq_queue::policy::{LaneOverride, LaneStats, Obstacle};
use codeq_queue::rate::Rate;
use codeq_queue::store::{Answer, TaskRef};
use codeq_queue::{Backoff, Failure, Policies, QueueKey, QueuePolicy, Refusal, StoredPolicy, limits};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// How often a policy is read again that somebody else has changed meanwhile.
const PUT_ROUNDS: usize = 16;
/// Lanes that one script puts where they belong.
const ARRANGED_TOGETHER: usize = 200;
/// Policies that are read together.
const READ_TOGETHER: usize = 100;

fn rate(rate: Rate) -> Value {
    json!([rate.interval_nanos(), rate.burst])
}

fn millis(duration: Duration) -> Value {
    json!(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// What scripts need of a policy (see `scripts/policy.lua` and `scripts/lanes.lua`).
fn rule_text(policy: &QueuePolicy, server: Backoff) -> String {
    let backoff = policy.backoff.map(|own| own.over(server));
    let has_rates = policy.lanes.overrides.values().any(|own| own.rate.is_some());
    let fields = [
        ("c", policy.concurrency.map(|limit| json!(limit))),
        ("r", policy.rate.map(rate)),
        ("lc", policy.lanes.concurrency.map(|limit| json!(limit))),
        ("lr", policy.lanes.rate.map(rate)),
        ("ordered", policy.lanes.is_ordered.then_some(json!(true))),
        ("o", (!policy.lanes.overrides.is_empty()).then_some(json!(true))),
        ("rates", has_rates.then_some(json!(true))),
        ("maxReady", policy.max_ready.map(|most| json!(most))),
        ("lease", policy.lease.map(millis)),
        ("run", policy.max_run.map(millis)),
        ("backoff", backoff.map(|backoff| json!(ranges(&backoff)))),
        ("backoffMax", backoff.map(|backoff| json!(backoff.max_seconds))),
        ("keep", policy.retention.map(millis)),
        ("keepFailed", policy.failed_retention.map(millis)),
    ];
    text_of(fields)
}

fn override_text(own: &LaneOverride) -> String {
    text_of([
        ("w", own.weight.map(|weight| json!(weight))),
        ("c", own.concurrency.map(|limit| json!(limit))),
        ("r", own.rate.map(rate)),
    ])
}

fn text_of<const N: usize>(fields: [(&str, Option<Value>); N]) -> String {
    let fields = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(fields.collect::<Map<_, _>>()).to_string()
}

/// Policies by the shard and the queue they were read for.
pub type KnownPolicies = HashMap<(usize, QueueKey), StoredPolicy>;

/// What became of a policy that was to be written.
enum Written {
    Done,
    /// Somebody else was quicker.
    Changed,
    Refused(Refusal),
}

fn read_policy(keys: &Keys, queue: &QueueKey) -> Command {
    Command::new("HMGET").arg(keys.flow(queue, "flow")).args(["policy", "version", "updated"])
}

impl StoreContext {
    async fn policy_on(&self, shard: usize, queue: &QueueKey) -> Result<Option<StoredPolicy>, Failure> {
        let at = &self.shards[shard];
        Ok(stored_policy(at.read_one(read_policy(&at.keys, queue)).await?))
    }

    /// How many attempts the policies of queues, each on a shard, give to tasks that ask for none.
    pub async fn attempts_by_policy(
        &self,
        queues: impl Iterator<Item = (usize, QueueKey)>,
    ) -> Result<HashMap<QueueKey, u32>, Failure> {
        let mut by_shard: BTreeMap<usize, HashSet<QueueKey>> = BTreeMap::new();
        for (shard, queue) in queues {
            by_shard.entry(shard).or_default().insert(queue);
        }
        let mut attempts = HashMap::new();
        for (shard, queues) in by_shard {
            let at = &self.shards[shard];
            let queues: Vec<QueueKey> = queues.into_iter().collect();
            for part in queues.chunks(READ_TOGETHER) {
                let reads: Vec<Command> = part.iter().map(|queue| read_policy(&at.keys, queue)).collect();
                let stored = at.read(&reads).await?.into_iter().map(stored_policy);
                let given = stored.map(|stored| stored.and_then(|stored| stored.policy.max_attempts));
                attempts
                    .extend(part.iter().cloned().zip(given).filter_map(|(queue, most)| Some((queue, most?))));
            }
        }
        Ok(attempts)
    }

    async fn policy(self: Arc<Self>, queue: QueueKey) -> Result<Option<StoredPolicy>, Failure> {
        self.enter().await?;
        self.policy_on(self.current_shard(&queue), &queue).await
    }

    async fn put_policy(
        self: Arc<Self>,
        queue: QueueKey,
        text: Arc<str>,
    ) -> Result<Result<StoredPolicy, Refusal>, Failure> {
        let now = self.enter().await?;
        for _ in 0..PUT_ROUNDS {
            let current = self.policy_on(self.current_shard(&queue), &queue).await?;
            let put = match StoredPolicy::put(current.as_ref(), &text, now) {
                Ok(put) if current.as_ref() == Some(&put) => return Ok(Ok(put)),
                Ok(put) => put,
                Err(refusal) => return Ok(Err(refusal)),
            };
            match self.change_policy(&queue, current.as_ref(), Some(&put)).await? {
                Written::Done => return Ok(Ok(put)),
                Written::Changed => {}
                Written::Refused(refusal) => return Ok(Err(refusal)),
            }
        }
        Err(Failure::unavailable("others change the policy of this queue all the time"))
    }

    async fn delete_policy(self: Arc<Self>, queue: QueueKey) -> Result<Result<bool, Refusal>, Failure> {
        self.enter().await?;
        for _ in 0..PUT_ROUNDS {
            let Some(current) = self.policy_on(self.current_shard(&queue), &queue).await? else {
                return Ok(Ok(false));
            };
            match self.change_policy(&queue, Some(&current), None).await? {
                Written::Done => return Ok(Ok(true)),
                Written::Changed => {}
                Written::Refused(refusal) => return Ok(Err(refusal)),
            }
        }
        Err(Failure::unavailable("others change the policy of this queue all the time"))
    }

    /// Writes it where the queue lives, then where tasks of it may still be; then lanes are put where they belong now.
    async fn change_policy(
        &self,
        queue: &QueueKey,
        before: Option<&StoredPolicy>,
        after: Option<&StoredPolicy>,
    ) -> Result<Written, Failure> {
        let current = self.current_shard(queue);
        let written = self.write_policy(current, queue, before, after).await?;
        if !matches!(written, Written::Done) {
            return Ok(written);
        }
        self.arrange_lanes(current, queue).await?;
        for shard in self.former.of(queue) {
            let there = self.policy_on(shard, queue).await?;
            self.write_policy(shard, queue, there.as_ref(), after).await?;
            self.arrange_lanes(shard, queue).await?;
        }
        self.teller.freed(queue);
        Ok(Written::Done)
    }

    async fn write_policy(
        &self,
        shard: usize,
        queue: &QueueKey,
        before: Option<&StoredPolicy>,
        after: Option<&StoredPolicy>,
    ) -> Result<Written, Failure> {
        let at = &self.shards[shard];
        let version = before.map(|before| before.version.to_string());
        let call = Call::new(Script::PolicyPut, at.keys.with_queue(queue)).arg(version.unwrap_or_default());
        let call = match after {
            None => call.arg("").arg("").arg("").arg(""),
            Some(put) => call
                .arg(&*put.text)
                .number(put.version)
                .number(put.updated_at.millis())
                .arg(rule_text(&put.policy, self.rules.backoff)),
        };
        let call = call.number(limits::POLICIES).arg(&*queue.tenant);
        let overrides = after.map(|put| &put.policy.lanes.overrides).into_iter().flatten();
        let call = overrides.fold(call, |call, (lane, own)| call.arg(&**lane).arg(override_text(own)));
        let settle = |replies: Vec<Reply>| {
            let answer = Answered::of(replies.into_iter().next().unwrap_or(Reply::Nil))?;
            let written = match answer.word.as_str() {
                "CHANGED" => Written::Changed,
                "NOT_EMPTY" => Written::Refused(Refusal::QueueNotEmpty),
                "TOO_MANY" => Written::Refused(Refusal::TooManyPolicies(limits::POLICIES)),
                _ => Written::Done,
            };
            Ok((written, Vec::new()))
        };
        at.writer.run(vec![self.noted(shard, call)], settle).await
    }

    /// Puts all lanes of a queue where they belong by its policy. A mark tells others that it is not done yet; until then
    /// claims start nothing that the policy does not allow.
    async fn arrange_lanes(&self, shard: usize, queue: &QueueKey) -> Result<(), Failure> {
        let at = &self.shards[shard];
        let names: Vec<String> =
            self.lanes_on(shard, queue).await?.into_iter().map(|(name, _)| name).collect();
        for part in names.chunks(ARRANGED_TOGETHER) {
            self.arrange(shard, queue, "", part).await?;
        }
        at.read_one(Command::new("HDEL").arg(at.keys.flow(queue, "flow")).arg("arrange")).await?;
        Ok(())
    }

    /// The same where somebody has not come to the end of it.
    pub async fn arrange_if_left(&self, shard: usize, queue: &QueueKey) -> Result<(), Failure> {
        let at = &self.shards[shard];
        let mark = Command::new("HGET").arg(at.keys.flow(queue, "flow")).arg("arrange");
        match at.read_one(mark).await? {
            Reply::Nil => Ok(()),
            _ => self.arrange_lanes(shard, queue).await,
        }
    }

    async fn arrange(
        &self,
        shard: usize,
        queue: &QueueKey,
        what: &str,
        names: &[String],
    ) -> Result<(), Failure> {
        let at = &self.shards[shard];
        let call = Call::new(Script::LanesArrange, at.keys.with_queue(queue))
            .number(self.now.get().millis())
            .arg(self.lease_clock())
            .arg(what);
        let call = names.iter().fold(call, |call, name| call.arg(name.as_str()));
        let settle = |replies: Vec<Reply>| {
            Answered::of(replies.into_iter().next().unwrap_or(Reply::Nil))?;
            Ok(((), Vec::new()))
        };
        at.writer.run(vec![call], settle).await
    }

    /// Clears everything that nacks hold back.
    pub async fn clear_holds(&self, queue: &QueueKey) -> Result<(), Failure> {
        let mut has_cleared = false;
        for shard in self.queue_shards(queue) {
            let at = &self.shards[shard];
            let held = strings(at.read_one(Command::new("HKEYS").arg(at.keys.flow(queue, "holds"))).await?);
            for part in held.chunks(ARRANGED_TOGETHER) {
                self.arrange(shard, queue, "holds", part).await?;
                has_cleared = true;
            }
        }
        if has_cleared {
            self.teller.freed(queue);
        }
        Ok(())
    }

    /// All policies; of a queue that has moved, that of the shard it lives on. It is asked for again and again, so what has
    /// not changed since is not read again.
    async fn policies(self: Arc<Self>) -> Result<Vec<(QueueKey, StoredPolicy)>, Failure> {
        self.enter().await?;
        let mut all: BTreeMap<QueueKey, StoredPolicy> = BTreeMap::new();
        let mut known = self.known_policies.lock().await;
        let before = std::mem::take(&mut *known);
        for shards in &self.keyspaces {
            let at = &self.shards[shards[0]];
            let names = match at.read_one(Command::new("SMEMBERS").arg(at.keys.of("policies"))).await {
                // What a server holds that is away is not told, as long as it is.
                Err(_) if at.server.gate.away().is_some() => continue,
                names => strings(names?),
            };
            for part in self.placed_queues(shards, names).chunks(READ_TOGETHER) {
                known.extend(self.read_policies(at, part, &before).await?);
            }
        }
        for ((shard, queue), stored) in known.iter() {
            match *shard == self.current_shard(queue) {
                true => drop(all.insert(queue.clone(), stored.clone())),
                false => drop(all.entry(queue.clone()).or_insert_with(|| stored.clone())),
            }
        }
        Ok(all.into_iter().collect())
    }

    /// The policies at these places of one keyspace: those that are known, unless they have another version now.
    async fn read_policies(
        &self,
        at: &Shard,
        places: &[(usize, QueueKey)],
        known: &KnownPolicies,
    ) -> Result<KnownPolicies, Failure> {
        let ask = |place: &(usize, QueueKey), fields: &[&str]| {
            let key = self.shards[place.0].keys.flow(&place.1, "flow");
            Command::new("HMGET").arg(key).args(fields.iter().copied())
        };
        let marks: Vec<Command> = places.iter().map(|place| ask(place, &["version", "updated"])).collect();
        let marks = at.read(&marks).await?.into_iter().map(strings);
        let (mut read, mut changed) = (KnownPolicies::new(), Vec::new());
        for (place, mark) in places.iter().zip(marks) {
            let is_same = |stored: &&StoredPolicy| {
                mark == [stored.version.to_string(), stored.updated_at.millis().to_string()]
            };
            match known.get(place).filter(is_same) {
                Some(stored) => drop(read.insert(place.clone(), stored.clone())),
                None => changed.push(place.clone()),
            }
        }
        if !changed.is_empty() {
            let texts: Vec<Command> =
                changed.iter().map(|place| ask(place, &["policy", "version", "updated"])).collect();
            let stored = at.read(&texts).await?.into_iter().map(stored_policy);
            read.extend(changed.into_iter().zip(stored).filter_map(|(place, stored)| Some((place, stored?))));
        }
        Ok(read)
    }

    /// Gives a queue that moves to another shard its policy there, what is used up of its limits, and what nacks hold back.
    pub async fn copy_policy(&self, from: usize, to: usize, queue: &QueueKey) -> Result<(), Failure> {
        if let (Some(stored), None) = (self.policy_on(from, queue).await?, self.policy_on(to, queue).await?) {
            self.write_policy(to, queue, None, Some(&stored)).await?;
            self.copy_usage(from, to, queue, "rates").await?;
        }
        if self.copy_usage(from, to, queue, "holds").await? > 0 {
            let (there, holds) = (&self.shards[to], self.shards[to].keys.flow(queue, "holds"));
            let count = count(&there.read_one(Command::new("HLEN").arg(holds)).await?).to_string();
            let known = Command::new("HSET").arg(there.keys.flow(queue, "flow")).arg("holds").arg(count);
            there.read_one(known).await?;
        }
        Ok(())
    }

    /// Copies what is not known there yet. Gives how much there was.
    async fn copy_usage(
        &self,
        from: usize,
        to: usize,
        queue: &QueueKey,
        what: &str,
    ) -> Result<usize, Failure> {
        let (source, there) = (&self.shards[from], &self.shards[to]);
        let used = Command::new("HGETALL").arg(source.keys.flow(queue, what));
        let used: Vec<String> = list(source.read_one(used).await?).into_iter().map(string).collect();
        for pair in used.chunks_exact(2) {
            let set = Command::new("HSETNX").arg(there.keys.flow(queue, what));
            there.read_one(set.args([pair[0].as_str(), pair[1].as_str()])).await?;
        }
        Ok(used.len() / 2)
    }
}

impl Policies for KvrocksStore {
    fn put_policy(&self, queue: QueueKey, text: Arc<str>) -> Answer<Result<StoredPolicy, Refusal>> {
        self.run(|keeper| keeper.put_policy(queue, text))
    }

    fn policy(&self, queue: QueueKey) -> Answer<Option<StoredPolicy>> {
        self.run(|keeper| keeper.policy(queue))
    }

    fn delete_policy(&self, queue: QueueKey) -> Answer<Result<bool, Refusal>> {
        self.run(|keeper| keeper.delete_policy(queue))
    }

    fn policies(&self) -> Answer<Vec<(QueueKey, StoredPolicy)>> {
        self.run(StoreContext::policies)
    }

    fn lanes(&self, queue: QueueKey, limit: usize) -> Answer<Vec<LaneStats>> {
        self.run(move |keeper| keeper.busiest_lanes(queue, limit))
    }

    fn obstacles(&self, task: TaskRef) -> Answer<Option<Vec<Obstacle>>> {
        self.run(|keeper| keeper.obstacles(task))
    }
}
