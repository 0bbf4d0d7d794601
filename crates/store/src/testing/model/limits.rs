//! Lanes and limits, naively: who may start next is found by counting. Which of several lanes comes first is fairness,
//! which the rules show by properties; here any of them may.

use super::state::{Entry, Model};
use codeq_queue::QueueKey;
use std::collections::BTreeSet;

/// What a policy says that the model knows of.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ModelLimits {
    pub queue: Option<usize>,
    pub lane: Option<usize>,
    /// Lane "b" has a limit of its own.
    pub lane_b: Option<usize>,
    pub is_ordered: bool,
}

/// Policies as they are put, and what they say.
pub const POLICIES: [(&str, ModelLimits); 4] = [
    ("{}", ModelLimits { queue: None, lane: None, lane_b: None, is_ordered: false }),
    (r#"{"concurrency":3}"#, ModelLimits { queue: Some(3), lane: None, lane_b: None, is_ordered: false }),
    (
        r#"{"concurrency":5,"lanes":{"concurrency":1,"overrides":{"b":{"concurrency":2,"weight":3}}}}"#,
        ModelLimits { queue: Some(5), lane: Some(1), lane_b: Some(2), is_ordered: false },
    ),
    (
        r#"{"lanes":{"concurrency":2}}"#,
        ModelLimits { queue: None, lane: Some(2), lane_b: Some(2), is_ordered: false },
    ),
];

pub const ORDERED: (&str, ModelLimits) = (
    r#"{"concurrency":4,"lanes":{"ordered":true}}"#,
    ModelLimits { queue: Some(4), lane: None, lane_b: None, is_ordered: true },
);

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
