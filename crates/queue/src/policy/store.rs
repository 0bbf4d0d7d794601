//! What a store that keeps policies promises.

use super::StoredPolicy;
use crate::TaskId;
use crate::queue::QueueKey;
use crate::refusal::Refusal;
use crate::store::{Answer, TaskRef};
use crate::time::Time;
use std::sync::Arc;

/// Why a waiting task does not start though its turn may have come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Obstacle {
    QueueAtConcurrency {
        limit: u32,
        running: u64,
    },
    LaneAtConcurrency {
        lane: Box<str>,
        limit: u32,
        running: u64,
    },
    RateLimited {
        until: Time,
    },
    HeldUntil {
        until: Time,
    },
    /// An older task of its ordered lane comes first.
    LaneInOrder {
        task: TaskId,
    },
}

impl Obstacle {
    /// The stable code of the reason.
    pub fn code(&self) -> &'static str {
        match self {
            Obstacle::QueueAtConcurrency { .. } => "queue_at_concurrency",
            Obstacle::LaneAtConcurrency { .. } => "lane_at_concurrency",
            Obstacle::RateLimited { .. } => "rate_limited",
            Obstacle::HeldUntil { .. } => "held_until",
            Obstacle::LaneInOrder { .. } => "lane_in_order",
        }
    }

    /// When it goes away by itself.
    pub fn until(&self) -> Option<Time> {
        match self {
            Obstacle::RateLimited { until } | Obstacle::HeldUntil { until } => Some(*until),
            _ => None,
        }
    }
}

/// One lane of a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaneStats {
    pub lane: Box<str>,
    pub ready: u64,
    pub running: u64,
    pub weight: u8,
    pub blocked_by: Option<Obstacle>,
}

/// Keeps the policies of queues and acts on them.
///
/// Limits are exact: of any number of claims at once no more start than a limit allows, over crash and restart.
pub trait Policies: Send + Sync {
    /// Replaces the policy of a queue; `text` is compact JSON that has been checked. An equal one changes nothing.
    fn put_policy(&self, queue: QueueKey, text: Arc<str>) -> Answer<Result<StoredPolicy, Refusal>>;
    fn policy(&self, queue: QueueKey) -> Answer<Option<StoredPolicy>>;
    /// Whether there was one.
    fn delete_policy(&self, queue: QueueKey) -> Answer<Result<bool, Refusal>>;
    /// All of them.
    fn policies(&self) -> Answer<Vec<(QueueKey, StoredPolicy)>>;
    /// The busiest lanes of a queue.
    fn lanes(&self, queue: QueueKey, limit: usize) -> Answer<Vec<LaneStats>>;
    /// What keeps a ready task, or one of an ordered lane, from starting; `None` if no such task is live.
    fn obstacles(&self, task: TaskRef) -> Answer<Option<Vec<Obstacle>>>;
}
