//! Lanes and limits, naively: who may start next is found by counting. Which of several lanes comes first is fairness,
//! which the rules show by properties; here any of them may.

use super::state::{Entry, Model};
use codeq_queue::{QueueKey, Time};
use std::collections::BTreeSet;

/// What a policy says that the model knows of.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ModelLimits {
    pub queue: Option<usize>,
    pub lane: Option<usize>,
    /// Lane "b" has a limit of its own.
    pub lane_b: Option<usize>,
    pub is_ordered: bool,
    /// What the bucket of a lane holds.
    pub lane_rate: Option<Bucket>,
}

/// A leaky bucket: so many starts fit in, and one leaks out after each interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bucket {
    interval_ms: i64,
    burst: i64,
}

/// How full the bucket of a lane is, as of an instant.
#[derive(Clone, Copy, Default)]
pub struct Level {
    ms: i64,
    at: i64,
}

const NONE: ModelLimits =
    ModelLimits { queue: None, lane: None, lane_b: None, is_ordered: false, lane_rate: None };

/// Policies as they are put, and what they say.
pub const POLICIES: [(&str, ModelLimits); 4] = [
    ("{}", NONE),
    (r#"{"concurrency":3}"#, ModelLimits { queue: Some(3), ..NONE }),
    (
        r#"{"concurrency":5,"lanes":{"concurrency":1,"overrides":{"b":{"concurrency":2,"weight":3}}}}"#,
        ModelLimits { queue: Some(5), lane: Some(1), lane_b: Some(2), ..NONE },
    ),
    (r#"{"lanes":{"concurrency":2}}"#, ModelLimits { lane: Some(2), lane_b: Some(2), ..NONE }),
];

pub const ORDERED: (&str, ModelLimits) = (
    r#"{"concurrency":4,"lanes":{"ordered":true}}"#,
    ModelLimits { queue: Some(4), is_ordered: true, ..NONE },
);

/// The same rate in all of them: what is used up of a rate that was away for a while is a store's own affair.
pub const RATES: [(&str, ModelLimits); 2] = [
    (
        r#"{"lanes":{"rate":{"limit":3,"periodSeconds":12,"burst":3}}}"#,
        ModelLimits { lane_rate: Some(BUCKET), ..NONE },
    ),
    (
        r#"{"lanes":{"concurrency":2,"rate":{"limit":3,"periodSeconds":12,"burst":3}}}"#,
        ModelLimits { lane: Some(2), lane_b: Some(2), lane_rate: Some(BUCKET), ..NONE },
    ),
];

const BUCKET: Bucket = Bucket { interval_ms: 4_000, burst: 3 };

impl Bucket {
    fn has_room(self, level: Level, now: Time) -> bool {
        level.leaked(now).ms <= (self.burst - 1) * self.interval_ms
    }
}

impl Level {
    fn leaked(self, now: Time) -> Level {
        let passed = (now.millis() - self.at).max(0);
        Level { ms: (self.ms - passed).max(0), at: self.at.max(now.millis()) }
    }
}

impl ModelLimits {
    /// No limit of lanes holds for tasks without one.
    fn of_lane(&self, lane: &str) -> Option<usize> {
        match lane {
            "" => None,
            "b" => self.lane_b,
            _ => self.lane,
        }
    }
}

fn lane(entry: &Entry) -> &str {
    entry.task.body.lane().unwrap_or("")
}

fn is_running(entry: &&&Entry) -> bool {
    entry.task.state.lease().is_some()
}

impl Model {
    /// Tasks without a lane have no rate.
    fn level(&self, key: &QueueKey, lane: &str) -> Level {
        self.levels.get(&(key.clone(), lane.into())).copied().unwrap_or_default()
    }

    /// A task starts: the bucket of its lane fills.
    pub(super) fn fill(&mut self, key: &QueueKey, lane: Option<&str>) {
        let rate = self.limits.get(key).and_then(|limits| limits.lane_rate);
        let (Some(lane), Some(bucket)) = (lane, rate) else { return };
        let mut level = self.level(key, lane).leaked(self.now);
        level.ms += bucket.interval_ms;
        self.levels.insert((key.clone(), lane.into()), level);
    }

    /// No task of the queue lives.
    pub fn is_empty(&self, key: &QueueKey) -> bool {
        !self.entries.iter().any(|entry| entry.key() == *key && entry.task.state.is_live())
    }

    /// What may start next, by lane.
    pub fn heads(&self, key: &QueueKey) -> Vec<&Entry> {
        let limits = self.limits.get(key).copied().unwrap_or_default();
        let live = |entry: &&Entry| entry.key() == *key && entry.task.state.is_live();
        let live: Vec<&Entry> = self.entries.iter().filter(live).collect();
        if limits.queue.is_some_and(|most| live.iter().filter(is_running).count() >= most) {
            return Vec::new();
        }
        let names: BTreeSet<&str> = live.iter().map(|entry| lane(entry)).collect();
        let head = |name: &str| {
            let members: Vec<&Entry> = live.iter().filter(|entry| lane(entry) == name).copied().collect();
            let running = members.iter().filter(is_running).count();
            if limits.of_lane(name).is_some_and(|most| running >= most) {
                return None;
            }
            if limits.lane_rate.is_some_and(|bucket| !bucket.has_room(self.level(key, name), self.now)) {
                return None;
            }
            if limits.is_ordered && !name.is_empty() {
                let oldest = members.into_iter().min_by_key(|entry| entry.accepted)?;
                return Some(oldest).filter(|oldest| oldest.seq().is_some());
            }
            let ready = members.into_iter().filter(|entry| entry.seq().is_some());
            ready.min_by_key(|entry| (std::cmp::Reverse(entry.task.priority), entry.seq()))
        };
        names.into_iter().filter_map(head).collect()
    }
}
