//! The event stream: what one `data` line holds.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Something that has happened.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct EventBody<'a> {
    /// `created`, `claimed`, `progress`, `completed`, `failed`, `requeued`, `dead`, `cancelled`, `promoted`, `released`,
    /// `paused`, `resumed`, `ticked` or `tick_skipped`.
    #[serde(rename = "type")]
    pub kind: Cow<'a, str>,
    /// `None` for what happens to a queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<Cow<'a, str>>,
    /// Spelled as in the newest create of its queue.
    pub command: Cow<'a, str>,
    /// Whose queue.
    pub tenant_id: Cow<'a, str>,
    /// RFC 3339: when it happened.
    pub at: Cow<'a, str>,
    /// The number of the delivery that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Who holds that delivery, or held it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<Cow<'a, str>>,
    /// The status of the task afterwards; absent where there is no task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Cow<'a, str>>,
    /// What the attempt or the task failed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Cow<'a, str>>,
    /// How far the running task is, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<serde_json::Value>,
    /// The schedule that ticked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Cow<'a, str>>,
    /// What became of the tick: `fired`, `triggered`, `backfilled`, `skipped` or `missed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Cow<'a, str>>,
    /// The tick; of several that were missed, the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_for: Option<Cow<'a, str>>,
    /// How many ticks, if more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// Events were lost.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct LaggedBody<'a> {
    /// Always `lagged`.
    #[serde(rename = "type")]
    pub kind: Cow<'a, str>,
    /// Zero if nobody knows how many.
    pub missed: u64,
}
