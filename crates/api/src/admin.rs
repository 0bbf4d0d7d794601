//! What operators ask for: counts, cleanup, topics, searches, repairs.

use crate::task::{ResultRecord, Task, UniqueBody};
use crate::work::WorkerInfo;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

pub use crate::operation::{OperationBody, OperationPage};

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
    /// Lanes that have live tasks.
    #[serde(default)]
    pub lanes: u64,
    /// Ready tasks that a limit holds back.
    #[serde(default)]
    pub limited: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<serde_json::Value>,
    /// Tasks that wait for others to end.
    #[serde(default)]
    pub held: u64,
    /// Tasks that failed, neither dead nor cancelled, and are kept.
    #[serde(default)]
    pub failed: u64,
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

/// What the store is and how much room it has; without a disk of its own it tells only what it is.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct StoreBody<'a> {
    pub provider: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_free_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_total_bytes: Option<u64>,
    /// The shards of a store on several servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<ShardBody>,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct ShardBody {
    pub name: String,
    pub up: bool,
    /// Of the master of its server; empty for who is no operator.
    pub address: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerBody>,
}

/// What the server of a shard last told; several shards may live on it.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct ServerBody {
    pub replicas: u64,
    pub round_trip_ms: f64,
    pub queues: u64,
    pub tasks: u64,
}

/// A worker that claimed or reported lately.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct WorkerBody<'a> {
    pub worker: Cow<'a, str>,
    pub sub: Cow<'a, str>,
    pub tenant_id: Cow<'a, str>,
    pub protocol: Cow<'a, str>,
    /// As it last asked for them; none is whatever its token allows.
    pub commands: Vec<Cow<'a, str>>,
    #[serde(flatten)]
    pub info: WorkerInfo,
    pub running: Vec<String>,
    pub running_count: u64,
    pub last_seen_at: String,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct WorkersBody<'a> {
    pub items: Vec<WorkerBody<'a>>,
}

/// What an operator did.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct AuditBody<'a> {
    pub at: String,
    pub who: Cow<'a, str>,
    pub tenant: Cow<'a, str>,
    pub verb: Cow<'a, str>,
    pub target: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    pub request_id: Cow<'a, str>,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct AuditListBody<'a> {
    pub items: Vec<AuditBody<'a>>,
    pub next: Option<String>,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct HealthBody<'a> {
    pub status: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'a, str>>,
    /// Shards whose servers are away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unavailable: Vec<String>,
    /// Background work that has failed in the last minute and was begun again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failing: Vec<String>,
    /// How far the wall clock is ahead of the time that tasks live by; there while they are apart.
    #[serde(default, rename = "clockAheadSeconds", skip_serializing_if = "Option::is_none")]
    pub clock_ahead_seconds: Option<i64>,
}

/// A result callback in the outbox.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryBody<'a> {
    /// 32 hex digits.
    pub id: String,
    pub task_id: String,
    pub url: Cow<'a, str>,
    /// `pending`, `failed` or `delivered`.
    pub state: Cow<'a, str>,
    pub attempts: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<Cow<'a, str>>,
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<String>,
    /// What the receiver answered last, as far as the process remembers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_status: Option<u16>,
    /// The first bytes of that answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_body: Option<String>,
}

/// Which failed callbacks to deliver again.
#[derive(Deserialize, Default, Debug)]
#[serde(rename_all = "camelCase", default)]
pub struct RedeliverBody {
    pub task_id: Option<String>,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct RedeliveredBody {
    pub redelivered: u64,
    /// There may be more that failed: call again.
    pub has_more: bool,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct DeliveryPage<'a> {
    pub items: Vec<DeliveryBody<'a>>,
    /// Where the next page begins; `None` on the last.
    pub next: Option<String>,
}

/// One page of a listing.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct TaskPage<'a> {
    pub items: Vec<Task<'a>>,
    /// Where the next page begins; `None` on the last.
    pub next: Option<String>,
    /// Shards whose servers did not answer; what they hold comes with a later page.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partial: Vec<String>,
    /// How many payloads were looked at, if payloads were searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub examined: Option<u64>,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct AttemptBody {
    pub attempt: u32,
    pub worker_id: String,
    pub claimed_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Attempts {
    pub items: Vec<AttemptBody>,
}

/// Dead letters of one cause.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct GroupBody {
    pub group: String,
    pub command: String,
    pub count: u64,
    pub error: String,
    pub examples: Vec<String>,
    pub first_seen: String,
    pub last_seen: String,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct GroupsBody {
    pub groups: Vec<GroupBody>,
    pub truncated: bool,
}

/// What a bulk operation is asked with.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BulkBody {
    #[serde(default)]
    pub filter: Option<serde_json::Map<String, serde_json::Value>>,
    #[serde(default)]
    pub group: Option<String>,
    #[serde(default)]
    pub max_attempts: Option<i64>,
    #[serde(default)]
    pub dry_run: Option<bool>,
    #[serde(default)]
    pub rate_per_second: Option<i64>,
}

/// The answer to a dry run.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Matched {
    pub matched: u64,
}

/// How a task is cancelled.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct CancelTaskBody {
    /// How long a running task may go on: 0 to 3600, at once by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequeueBody {
    #[serde(default)]
    pub max_attempts: Option<i64>,
}

/// A line of an export: a task, with what listings do not show.
#[derive(Serialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct ExportedTask<'a> {
    #[serde(flatten)]
    pub task: Task<'a>,
    #[serde(flatten)]
    pub more: ExportedMore<'a>,
}

/// What a line of an export says besides the task.
#[derive(Serialize, Deserialize, Clone, Default, Debug)]
#[serde(rename_all = "camelCase")]
pub struct ExportedMore<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<Cow<'a, str>>,
    /// When a delayed task becomes ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visible_at: Option<String>,
    /// What `uniqueKey` alone does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique: Option<UniqueBody>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_run_seconds: Option<i64>,
    /// `run` if the task runs whatever becomes of those that it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_dependency_failure: Option<String>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ResultRecord<'a>>,
}

/// Reads the line twice, instead of keeping every field of it until it is known whose it is: a line may be as large as a
/// result, and its unknown fields would take many times their size.
impl<'de: 'a, 'a> Deserialize<'de> for ExportedTask<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ExportedTask<'a>, D::Error> {
        let text = <&'de RawValue>::deserialize(deserializer)?.get();
        let task = serde_json::from_str(text).map_err(D::Error::custom)?;
        let more = serde_json::from_str(text).map_err(D::Error::custom)?;
        Ok(ExportedTask { task, more })
    }
}

/// The last line of an export.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub struct ExportEnd {
    pub count: u64,
    /// Hex, over every byte before this line.
    pub sha256: String,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Default, Debug)]
pub struct ImportedBody {
    pub created: u64,
    pub existing: u64,
    /// The first thousand.
    pub refused: Vec<RefusedLine>,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct RefusedLine {
    pub line: u64,
    pub error: String,
    pub code: String,
}
