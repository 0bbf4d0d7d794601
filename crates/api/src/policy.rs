//! Queue policies and lanes.

use serde::{Deserialize, Serialize};

/// The policy of a queue, as it is kept.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct QueuePolicyBody {
    /// As in the URL.
    pub command: String,
    /// As it was put.
    pub policy: serde_json::Value,
    /// 1 for the first policy; grows with every change.
    pub version: u64,
    /// When it was last changed.
    pub updated_at: String,
}

/// A lane of a queue; the empty name is that of tasks without one.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct LaneBody {
    /// Empty for tasks without a lane.
    pub lane: String,
    /// Tasks that may be claimed, or would be if no limit held them back.
    pub ready: u64,
    /// Tasks with a lease.
    pub running: u64,
    /// 1 to 100: how often it is served, compared with a lane of weight 1.
    pub weight: u8,
    /// The code of what keeps it from starting more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<String>,
    /// When that is over by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// The answer to `GET /admin/queues/:command/lanes`.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct LanesBody {
    /// Those with the most tasks first.
    pub items: Vec<LaneBody>,
}
