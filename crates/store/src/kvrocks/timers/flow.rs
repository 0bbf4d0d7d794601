//! What restricts a queue, as it is read: its policy, its lanes, and how far their limits are used up. Scripts change it
//! (see `scripts/lanes.lua`).

use crate::kvrocks::format::keys::Keys;
use crate::kvrocks::redis::connection::{Command, Reply};
use crate::kvrocks::redis::reply::{count, found, int, list, string, strings};
use crate::kvrocks::store::StoreContext;
use codeq_queue::policy::{LaneLimits, LaneStats, Obstacle};
use codeq_queue::rate::{Rate, RateState};
use codeq_queue::store::{Position, TaskRef};
use codeq_queue::{
    Failure, QueueKey, QueuePolicy, QueueStats, State, StoredPolicy, Task, TaskId, Time, limits,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Replies to the reads of one queue.
pub const FLOW_READS: usize = 6;
/// Ready tasks in lanes among which the oldest one is looked for.
const HEADS: &str = "31";
/// Lanes that are read together.
const LANES_TOGETHER: usize = 500;
/// Digits of a number in `ready` and `order`.
const NUMBER_DIGITS: usize = 16;
const ID_CHARS: usize = 36;

/// How far a queue or a lane has used up its rate, and until when a nack holds it back.
#[derive(Clone, Copy, Default, Debug)]
pub struct Used {
    rate: RateState,
    hold: Time,
}

impl Used {
    fn read(rate: &Reply, hold: &Reply) -> Used {
        let text = string(rate.clone());
        let (ms, ns) = text.split_once(' ').unwrap_or_default();
        let number = |text: &str| text.parse::<i64>().unwrap_or(0);
        let nanos = number(ms).saturating_mul(1_000_000).saturating_add(number(ns));
        Used { rate: RateState::from_nanos(nanos), hold: Time::from_millis(int(hold)) }
    }

    fn obstacle(&self, rate: Option<Rate>, now: Time) -> Option<Obstacle> {
        let allowed = rate.map_or(Time::ZERO, |rate| rate.opens_at(self.rate));
        let until = allowed.max(self.hold);
        match until > now {
            false => None,
            true if until == self.hold => Some(Obstacle::HeldUntil { until }),
            true => Some(Obstacle::RateLimited { until }),
        }
    }
}

/// The counts of a lane.
#[derive(Clone, Copy, Default, Debug)]
pub struct LaneCounts {
    ready: u64,
    running: u64,
}

impl LaneCounts {
    fn parse(text: &str) -> LaneCounts {
        let mut numbers = text.split(' ').map(|number| number.parse().unwrap_or(0));
        LaneCounts { ready: numbers.next().unwrap_or(0), running: numbers.next().unwrap_or(0) }
    }
}

/// What was read of one queue.
#[derive(Default, Debug)]
pub struct FlowState {
    pub policy: Option<StoredPolicy>,
    used: Used,
    plain: Used,
    ready: [u64; 10],
    claimable: u64,
    lanes: u64,
    /// Ids of some ready tasks in lanes.
    pub heads: Vec<String>,
}

impl FlowState {
    pub fn commands(keys: &Keys, queue: &QueueKey) -> [Command; FLOW_READS] {
        let at = |command: &str, part: &str| Command::new(command).arg(keys.flow(queue, part));
        [
            at("HMGET", "flow").args(["policy", "version", "updated"]),
            at("HGET", "rates").arg("q"),
            at("HMGET", "holds").args(["q", ":"]),
            at("HGETALL", "counts"),
            at("HLEN", "lanes"),
            at("ZRANGE", "ready").args(["0", HEADS]),
        ]
    }

    pub fn parse(replies: &[Reply]) -> FlowState {
        let [policy, rate, holds, counts, lanes, heads] = replies else { return FlowState::default() };
        let holds = list(holds.clone());
        let hold = |at: usize| holds.get(at).cloned().unwrap_or(Reply::Nil);
        let claimable = list(counts.clone());
        let claimable = claimable.chunks_exact(2).find(|pair| string(pair[0].clone()) == "c");
        let id = |entry: String| entry.get(entry.len().saturating_sub(ID_CHARS)..).map(str::to_owned);
        FlowState {
            policy: stored_policy(policy.clone()),
            used: Used::read(rate, &hold(0)),
            plain: Used::read(&Reply::Nil, &hold(1)),
            ready: ready_in_lanes(counts),
            claimable: claimable.map_or(0, |pair| count(&pair[1])),
            lanes: count(lanes),
            heads: strings(heads.clone()).into_iter().filter_map(id).collect(),
        }
    }

    fn rule(&self) -> Option<&QueuePolicy> {
        self.policy.as_ref().map(|stored| &*stored.policy)
    }

    fn limits(&self, lane: &str) -> LaneLimits {
        self.rule().map_or(LaneLimits::NONE, |policy| policy.lane(lane))
    }

    /// What the queue itself has against a start.
    fn obstacle(&self, running: u64, now: Time) -> Option<Obstacle> {
        let limit = self.rule().and_then(|policy| policy.concurrency);
        if let Some(limit) = limit.filter(|limit| running >= u64::from(*limit)) {
            return Some(Obstacle::QueueAtConcurrency { limit, running });
        }
        self.used.obstacle(self.rule().and_then(|policy| policy.rate), now)
    }

    /// What a lane has against a start of its tasks.
    fn lane_obstacle(&self, lane: &str, running: u64, used: Used, now: Time) -> Option<Obstacle> {
        let own = self.limits(lane);
        if let Some(limit) = own.concurrency.filter(|limit| running >= u64::from(*limit)) {
            return Some(Obstacle::LaneAtConcurrency { lane: lane.into(), limit, running });
        }
        used.obstacle(own.rate, now)
    }

    /// Adds it to the counts of the queue, which has the tasks without a lane so far.
    pub fn add_to(self, stats: &mut QueueStats, now: Time) {
        let plain = stats.ready_total();
        for (sum, ready) in stats.ready.iter_mut().zip(self.ready) {
            *sum += ready;
        }
        let in_lanes: u64 = self.ready.iter().sum();
        let plain_limited = if self.plain.obstacle(None, now).is_some() { plain } else { 0 };
        stats.limited = match self.obstacle(stats.in_progress, now) {
            Some(_) => stats.ready_total(),
            None => in_lanes.saturating_sub(self.claimable) + plain_limited,
        };
        stats.lanes = self.lanes;
        stats.policy = self.policy;
    }
}

/// A policy as it is kept: text, version, instant.
pub fn stored_policy(reply: Reply) -> Option<StoredPolicy> {
    let mut fields = list(reply).into_iter();
    let text: Arc<str> = String::from_utf8(found(fields.next()?)?).ok()?.into();
    let (version, updated) = (fields.next()?, fields.next()?);
    let policy = Arc::new(QueuePolicy::parse(&text).ok()?);
    Some(StoredPolicy {
        policy,
        text,
        version: count(&version),
        updated_at: Time::from_millis(int(&updated)),
    })
}

/// Ready tasks in lanes by priority.
pub fn ready_in_lanes(counts: &Reply) -> [u64; 10] {
    let mut ready = [0; 10];
    for pair in list(counts.clone()).chunks_exact(2) {
        let priority = string(pair[0].clone()).parse::<usize>().ok();
        if let Some(ready) = priority.and_then(|priority| ready.get_mut(priority)) {
            *ready = count(&pair[1]);
        }
    }
    ready
}

impl StoreContext {
    async fn flow_on(&self, shard: usize, queue: &QueueKey) -> Result<FlowState, Failure> {
        let at = &self.shards[shard];
        Ok(FlowState::parse(&at.read(&FlowState::commands(&at.keys, queue)).await?))
    }

    /// How far lanes have used up their limits.
    async fn used_on(&self, shard: usize, queue: &QueueKey, lanes: &[&str]) -> Result<Vec<Used>, Failure> {
        if lanes.is_empty() {
            return Ok(Vec::new());
        }
        let at = &self.shards[shard];
        let fields: Vec<String> = lanes.iter().map(|lane| format!(":{lane}")).collect();
        let of = |part: &str| {
            let names = fields.iter().map(String::as_str);
            Command::new("HMGET").arg(at.keys.flow(queue, part)).args(names)
        };
        let mut replies = at.read(&[of("rates"), of("holds")]).await?.into_iter().map(list);
        let (rates, holds) = (replies.next().unwrap_or_default(), replies.next().unwrap_or_default());
        Ok(rates.iter().zip(&holds).map(|(rate, hold)| Used::read(rate, hold)).collect())
    }

    /// Names of the lanes of a queue that have live tasks, and what is kept of each, up to a bound.
    pub async fn lanes_on(
        &self,
        shard: usize,
        queue: &QueueKey,
    ) -> Result<Vec<(String, LaneCounts)>, Failure> {
        let at = &self.shards[shard];
        let (mut cursor, mut lanes) = ("0".to_owned(), Vec::new());
        loop {
            let scan = Command::new("HSCAN").arg(at.keys.flow(queue, "lanes"));
            let scan = scan.args([cursor.as_str(), "COUNT", &LANES_TOGETHER.to_string()]);
            let mut answer = list(at.read_one(scan).await?).into_iter();
            cursor = string(answer.next().unwrap_or(Reply::Nil));
            let fields = strings(answer.next().unwrap_or(Reply::Nil));
            let some = fields.chunks_exact(2).map(|pair| (pair[0].clone(), LaneCounts::parse(&pair[1])));
            lanes.extend(some);
            if cursor == "0" || lanes.len() >= limits::LANES_EXAMINED {
                return Ok(lanes);
            }
        }
    }

    pub async fn busiest_lanes(
        self: Arc<Self>,
        queue: QueueKey,
        limit: usize,
    ) -> Result<Vec<LaneStats>, Failure> {
        let now = self.enter().await?;
        let mut all: BTreeMap<Box<str>, LaneStats> = BTreeMap::new();
        for shard in self.queue_shards(&queue) {
            for lane in self.busiest_on(shard, &queue, limit, now).await? {
                let sum = all.entry(lane.lane.clone());
                sum.and_modify(|sum| {
                    (sum.ready, sum.running) = (sum.ready + lane.ready, sum.running + lane.running);
                })
                .or_insert(lane);
            }
        }
        let mut lanes: Vec<LaneStats> = all.into_values().collect();
        lanes.sort_by_key(|lane| std::cmp::Reverse(lane.ready + lane.running));
        lanes.truncate(limit);
        Ok(lanes)
    }

    async fn busiest_on(
        &self,
        shard: usize,
        queue: &QueueKey,
        limit: usize,
        now: Time,
    ) -> Result<Vec<LaneStats>, Failure> {
        let flow = self.flow_on(shard, queue).await?;
        let mut lanes = self.lanes_on(shard, queue).await?;
        let stats = self.stats_on(shard, std::slice::from_ref(queue)).await?.pop();
        let (ready, running) = stats.map_or((0, 0), |stats| (stats.ready_total(), stats.in_progress));
        let in_lanes: u64 = lanes.iter().map(|(_, lane)| lane.running).sum();
        let plain = LaneCounts {
            ready: ready.saturating_sub(flow.ready.iter().sum()),
            running: running.saturating_sub(in_lanes),
        };
        if plain.ready + plain.running > 0 {
            lanes.push((String::new(), plain));
        }
        lanes.sort_by(|(a_name, a), (b_name, b)| {
            (b.ready + b.running).cmp(&(a.ready + a.running)).then_with(|| a_name.cmp(b_name))
        });
        lanes.truncate(limit);
        let names: Vec<&str> = lanes.iter().map(|(name, _)| name.as_str()).collect();
        let used = self.used_on(shard, queue, &names).await?;
        let stats = lanes.iter().zip(used).map(|((name, lane), used)| LaneStats {
            lane: name.as_str().into(),
            ready: lane.ready,
            running: lane.running,
            weight: flow.limits(name).weight,
            blocked_by: flow.lane_obstacle(name, lane.running, used, now),
        });
        Ok(stats.collect())
    }

    /// What keeps a task from starting.
    pub async fn obstacles(self: Arc<Self>, task: TaskRef) -> Result<Option<Vec<Obstacle>>, Failure> {
        let now = self.enter().await?;
        let found = self.find(&[task.id]).await?.remove(&task.id);
        let Some((shard, found)) = found.filter(|(_, found)| found.body.tenant == task.tenant) else {
            return Ok(None);
        };
        if !found.state.is_live() {
            return Ok(None);
        }
        if found.state.lease().is_some() {
            return Ok(Some(Vec::new()));
        }
        let queue = QueueKey::new(&task.tenant, &found.body.command);
        let lane = lane_of(&found);
        let at = &self.shards[shard];
        let reads = [
            Command::new("HGET").arg(at.keys.flow(&queue, "lanes")).arg(lane),
            Command::new("SCARD").arg(at.keys.flow(&queue, "inprog")),
            first_in(&at.keys, &queue, "order", lane),
        ];
        let (flow, replies) = (self.flow_on(shard, &queue).await?, at.read(&reads).await?);
        let counts = LaneCounts::parse(&string(replies[0].clone()));
        let used = self.used_on(shard, &queue, &[lane]).await?.pop().unwrap_or_default();
        let is_ready = matches!(found.state, State::Ready { .. });
        let own = flow.obstacle(count(&replies[1]), now).filter(|_| is_ready);
        let of_lane = flow.lane_obstacle(lane, counts.running, used, now).filter(|_| is_ready);
        let oldest = strings(replies[2].clone()).pop();
        let oldest = oldest.and_then(|entry| TaskId::parse(entry.get(entry.len() - ID_CHARS..)?));
        let in_order = oldest.filter(|oldest| *oldest != task.id && !lane.is_empty());
        let in_order = in_order.map(|task| Obstacle::LaneInOrder { task });
        Ok(Some([own, of_lane, in_order].into_iter().flatten().collect()))
    }

    /// How many of its lane come before a ready task. `None` if it is in no lane.
    pub async fn position_in_lane(&self, shard: usize, task: &Task) -> Result<Option<Position>, Failure> {
        let (lane, State::Ready { seq }) = (lane_of(task), &task.state) else { return Ok(None) };
        if lane.is_empty() {
            return Ok(None);
        }
        let queue = QueueKey::new(&task.body.tenant, &task.body.command);
        let at = &self.shards[shard];
        let ready = at.keys.flow(&queue, "ready");
        let place = 9 - task.priority;
        let own = format!("{lane}\u{1}{place}{seq:0NUMBER_DIGITS$}{}", task.id);
        let between = |from: &str, to: &str| Command::new("ZLEXCOUNT").arg(ready.as_str()).args([from, to]);
        let (first, same) = (format!("[{lane}\u{1}"), format!("[{lane}\u{1}{place}"));
        let replies = at
            .read(&[
                Command::new("ZSCORE").arg(ready.as_str()).arg(own.as_str()),
                between(&same, &format!("({own}")),
                between(&first, &format!("({lane}\u{1}{place}")),
            ])
            .await?;
        let position =
            Position { ahead: Some(count(&replies[1])), ahead_at_higher_priority: count(&replies[2]) };
        Ok((replies[0] != Reply::Nil).then_some(position))
    }
}

fn lane_of(task: &Task) -> &str {
    task.body.options.as_deref().and_then(|options| options.lane.as_deref()).unwrap_or_default()
}

fn first_in(keys: &Keys, queue: &QueueKey, part: &str, lane: &str) -> Command {
    let (from, to) = (format!("[{lane}\u{1}"), format!("({lane}\u{2}"));
    let range = Command::new("ZRANGEBYLEX").arg(keys.flow(queue, part));
    range.args([from.as_str(), to.as_str(), "LIMIT", "0", "1"])
}
