//! How queues went over the last minutes or hours.

use serde::{Deserialize, Serialize};

/// The same numbers for every point of a stretch of time.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct HistoryBody {
    /// When the server began to keep it: there is nothing older.
    pub since: String,
    /// The end of the last point; every point is `step_seconds` wide.
    pub until: String,
    /// The width of a point.
    pub step_seconds: u64,
    /// The queues asked for, added up.
    pub total: HistorySeries,
    /// In the order of their commands.
    pub queues: Vec<HistoryQueue>,
}

/// One number per point: how many in it, or how many at its end, or how long.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct HistorySeries {
    /// Tasks created.
    pub created: Vec<u64>,
    /// Tasks claimed.
    pub claimed: Vec<u64>,
    /// Tasks completed.
    pub completed: Vec<u64>,
    /// Ended otherwise: failed, dead or cancelled.
    pub failed: Vec<u64>,
    /// Attempts that ended without a result.
    pub returned: Vec<u64>,
    /// Ready tasks at the end of the point.
    pub ready: Vec<u64>,
    /// Delayed tasks at the end of the point.
    pub delayed: Vec<u64>,
    /// Running tasks at the end of the point.
    pub in_progress: Vec<u64>,
    /// Dead letters at the end of the point.
    pub dlq: Vec<u64>,
    /// From create to end, the median; `None` where nothing ended.
    pub p50_ms: Vec<Option<f64>>,
    /// From create to end, what 95 of 100 tasks took at most; `None` where nothing ended.
    pub p95_ms: Vec<Option<f64>>,
}

/// One queue over the same points.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct HistoryQueue {
    /// Spelled as in its newest create.
    pub command: String,
    /// Whose queue.
    pub tenant_id: String,
    /// Over the last 15 seconds.
    pub created_per_second: f64,
    /// Over the last 15 seconds.
    pub ended_per_second: f64,
    /// Tasks created, by point.
    pub created: Vec<u64>,
    /// Tasks that ended, by point.
    pub ended: Vec<u64>,
    /// Of those that ended: failed, dead or cancelled.
    #[serde(default)]
    pub failed: Vec<u64>,
}
