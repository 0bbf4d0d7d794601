//! Bulk operations: work on many tasks that outlives the request.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Work on many tasks, and how far it is.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct OperationBody {
    /// 32 hex digits.
    pub id: String,
    /// `cancel`, `requeue`, `delete` or `backfill`.
    pub kind: String,
    /// `running`, `done`, `cancelled` or `failed`.
    pub state: String,
    /// Tasks counted when it was asked for; of a backfill, ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched: Option<u64>,
    /// Tasks done so far; of a backfill, tasks made.
    pub processed: u64,
    /// Tasks that refused.
    pub failed: u64,
    /// When it was asked for: tasks that change later are left alone.
    pub created_at: String,
    /// When its last step was stored.
    pub updated_at: String,
    /// The first refusal, or why it stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Which tasks it is about, in the words of a filter.
    #[serde(default)]
    pub filter: BTreeMap<String, String>,
    /// What the errors of its tasks have in common, if it is about one cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The subject of the token that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Operations that run or ended in the last week.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct OperationPage {
    /// The newest first.
    pub items: Vec<OperationBody>,
    /// Always `None`: all are on one page.
    pub next: Option<String>,
}
