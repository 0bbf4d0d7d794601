//! Batches: how they are made and how they are shown.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The body of a POST.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct BatchBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// It closes when no task has joined for so long.
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
    pub id: Cow<'a, str>,
    pub tenant_id: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Cow<'a, str>>,
    /// `open`, `closed`, `completed` or `failed`.
    pub state: Cow<'a, str>,
    pub counts: BatchCounts,
    /// The part of the members that has ended, 0 to 1.
    pub progress: f64,
    pub close_after_seconds: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancelled: bool,
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// Ids of the tasks that wait for it; only in the answer of the POST that made them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub then: Vec<String>,
}

#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BatchCounts {
    pub live: u64,
    pub completed: u64,
    pub failed: u64,
}
