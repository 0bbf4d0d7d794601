//! Why a task is where it is, in words.

use serde::{Deserialize, Serialize};

/// Why a task is where it is.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct ExplainBody {
    /// The task that was asked about.
    pub task_id: String,
    /// `ready`, `delayed`, `held`, `running`, `completed`, `failed` or `dead`.
    pub state: String,
    /// One English sentence.
    pub summary: String,
    /// At least one.
    pub reasons: Vec<ReasonBody>,
    /// When the next thing happens to it by itself; absent if nothing is planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_change_at: Option<String>,
}

/// A reason, with what belongs to its code.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct ReasonBody {
    /// For programs, such as `queued` or `rate_limited`; it says which of the other fields are there.
    pub code: String,
    /// One English sentence.
    pub text: String,
    /// 1 for the task that is claimed next; left out if too many are ahead to count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// Tasks of a higher priority that are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead_at_higher_priority: Option<u64>,
    /// When a claim last got a task of the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_claim_at: Option<String>,
    /// When the delay, the rate limit or the hold is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// `scheduled` or `retry`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// How many tasks of the queue or lane may run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// How many do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<u64>,
    /// The name of the lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    /// The older task of the lane, which comes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// When a running task ends as cancelled if its worker does not report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// Who holds the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
    /// The number of the running delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// When the lease ends, or has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<String>,
    /// `MAX_ATTEMPTS`, `EXPIRED` or `DEPENDENCY`; absent if a worker failed the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// The error text of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How many tasks and batches a held task waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The first ten of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
}
