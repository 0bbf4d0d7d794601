//! Batches: how they are made and how they are shown.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The body of a POST.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct BatchBody<'a> {
    /// For people to read; at most 128 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// It closes when no task has joined for this many seconds: 1 to 31,622,400, a day if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub close_after_seconds: Option<i64>,
    /// Bodies of creates: tasks that wait for the batch.
    #[serde(
        borrow,
        default,
        deserialize_with = "crate::list::kept",
        skip_serializing_if = "Option::is_none"
    )]
    pub then: Option<Vec<&'a RawValue>>,
    /// `run` or `skip`: what becomes of them when the batch fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<String>,
}

/// A batch as it is at one moment.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct BatchView<'a> {
    /// What creates name in `batchId` and `after`.
    pub id: Cow<'a, str>,
    /// Whose tasks may join.
    pub tenant_id: Cow<'a, str>,
    /// Absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Cow<'a, str>>,
    /// `open`, `closed`, `completed` or `failed`.
    pub state: Cow<'a, str>,
    /// How its members stand.
    pub counts: BatchCounts,
    /// The part of the members that has ended, 0 to 1.
    pub progress: f64,
    /// It closes when no task has joined for this long.
    pub close_after_seconds: u64,
    /// Its members are to end as cancelled, and it ends as failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancelled: bool,
    /// When it was opened.
    pub created_at: String,
    /// When it was told to close, or closed by itself; absent while tasks may join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<String>,
    /// When it was closed and its last member had ended; absent before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// Ids of the tasks that wait for it; only in the answer of the POST that made them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub then: Vec<String>,
}

/// How many members of a batch live and how the others ended.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BatchCounts {
    /// Members that have not ended.
    pub live: u64,
    /// Members that completed.
    pub completed: u64,
    /// Members that ended in any other way.
    pub failed: u64,
}
