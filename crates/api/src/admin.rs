//! What operators ask for: counts, cleanup, topics.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct QueueStats<'a> {
    pub command: Cow<'a, str>,
    pub ready: u64,
    pub delayed: u64,
    pub in_progress: u64,
    pub dlq: u64,
}

/// A queue in the list of all, with what only operators want to know.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct QueueView<'a> {
    #[serde(flatten)]
    pub stats: QueueStats<'a>,
    pub tenant_id: Cow<'a, str>,
    pub oldest_ready_age_seconds: u64,
    pub paused: bool,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct QueueViews<'a> {
    pub queues: Vec<QueueView<'a>>,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub struct CleanupBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct CleanedUp {
    pub before: String,
    pub deleted: u64,
    pub limit: i64,
}

/// The policy of a topic. Fields that nobody knows are refused.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyBody {
    #[serde(default)]
    pub priority_tiers: Option<Vec<i64>>,
    #[serde(default)]
    pub max_attempts: Option<i64>,
    #[serde(default)]
    pub dead_letter_topic_ref: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_seconds: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_consumers: Option<i64>,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct TopicBody<'a> {
    pub topic_id: String,
    pub tenant_id: Cow<'a, str>,
    pub topic_name: Cow<'a, str>,
    pub policy: PolicyBody,
    pub version: u64,
    pub created_at: String,
    pub updated_at: String,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct RaftStatus {
    pub enabled: bool,
    pub num_groups: u32,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct HealthBody<'a> {
    pub status: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'a, str>>,
}

/// A result callback in the outbox.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryBody<'a> {
    /// 32 hex digits.
    pub id: String,
    pub task_id: String,
    pub url: Cow<'a, str>,
    /// `pending` or `failed`.
    pub state: Cow<'a, str>,
    pub attempts: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<Cow<'a, str>>,
    pub created_at: String,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct DeliveryPage<'a> {
    pub items: Vec<DeliveryBody<'a>>,
    /// Where the next page begins; `None` on the last.
    pub next: Option<String>,
}
