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
    /// The queue runs all the tasks that its policy allows.
    QueueAtConcurrency {
        /// How many may run at once.
        limit: u32,
        /// How many do; more than `limit` after the limit was lowered.
        running: u64,
    },
    /// The lane runs all the tasks that the policy allows it.
    LaneAtConcurrency {
        /// The name of the lane.
        lane: Box<str>,
        /// How many may run at once.
        limit: u32,
        /// How many do; more than `limit` after the limit was lowered.
        running: u64,
    },
    /// The rate of the queue or of the lane is used up.
    RateLimited {
        /// When the next start is allowed.
        until: Time,
    },
    /// A nack holds back the lane or the queue.
    HeldUntil {
        /// When the hold ends.
        until: Time,
    },
    /// An older task of its ordered lane comes first.
    LaneInOrder {
        /// The older task.
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
    /// Its name; empty for tasks without a lane.
    pub lane: Box<str>,
    /// Tasks that wait to be claimed.
    pub ready: u64,
    /// Tasks with a lease.
    pub running: u64,
    /// 1 to 100: how often it is served, compared with a lane of weight 1.
    pub weight: u8,
    /// Why its next task may not start; `None` if it may.
    pub blocked_by: Option<Obstacle>,
}

/// Keeps the policies of queues and acts on them.
///
/// Limits are exact: of any number of claims at once no more start than a limit allows, over crash and restart.
pub trait Policies: Send + Sync {
    /// Replaces the policy of a queue; `text` is compact JSON that has been checked. An equal one changes nothing.
    fn put_policy(&self, queue: QueueKey, text: Arc<str>) -> Answer<Result<StoredPolicy, Refusal>>;
    /// `None` if nothing restricts the queue.
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
