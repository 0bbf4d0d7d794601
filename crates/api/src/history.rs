//! How queues went over the last minutes or hours.

use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct HistoryBody {
    /// When the server began to keep it: there is nothing older.
    pub since: String,
    /// The end of the last point; every point is `step_seconds` wide.
    pub until: String,
    pub step_seconds: u64,
    /// The queues asked for, added up.
    pub total: HistorySeries,
    pub queues: Vec<HistoryQueue>,
}

/// One number per point: how many in it, or how many at its end, or how long.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct HistorySeries {
    pub created: Vec<u64>,
    pub claimed: Vec<u64>,
    pub completed: Vec<u64>,
    /// Ended otherwise: failed, dead or cancelled.
    pub failed: Vec<u64>,
    /// Attempts that ended without a result.
    pub returned: Vec<u64>,
    pub ready: Vec<u64>,
    pub delayed: Vec<u64>,
    pub in_progress: Vec<u64>,
    pub dlq: Vec<u64>,
    /// From create to end; `None` where nothing ended.
    pub p50_ms: Vec<Option<f64>>,
    pub p95_ms: Vec<Option<f64>>,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct HistoryQueue {
    pub command: String,
    pub tenant_id: String,
    /// Over the last 15 seconds.
    pub created_per_second: f64,
    pub ended_per_second: f64,
    pub created: Vec<u64>,
    pub ended: Vec<u64>,
    /// Of those that ended: failed, dead or cancelled.
    #[serde(default)]
    pub failed: Vec<u64>,
}
