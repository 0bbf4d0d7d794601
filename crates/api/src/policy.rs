//! Queue policies and lanes.

use serde::{Deserialize, Serialize};

/// The policy of a queue, as it is kept.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct QueuePolicyBody {
    pub command: String,
    pub policy: serde_json::Value,
    pub version: u64,
    pub updated_at: String,
}

/// A lane of a queue; the empty name is that of tasks without one.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct LaneBody {
    pub lane: String,
    pub ready: u64,
    pub running: u64,
    pub weight: u8,
    /// The code of what keeps it from starting more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct LanesBody {
    pub items: Vec<LaneBody>,
}
