//! What operators ask for: counts, cleanup, topics, searches, repairs.

mod audit;
mod store;
mod webhooks;
mod workers;

use crate::task::{ResultRecord, Task, UniqueBody};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

pub use crate::operation::{OperationBody, OperationPage};
pub use audit::{AuditBody, AuditListBody};
pub use store::{ServerBody, ShardBody, StoreBody};
pub use webhooks::{DeliveryBody, DeliveryPage, RedeliverBody, RedeliveredBody};
pub use workers::{WorkerBody, WorkersBody};

/// How many tasks of a queue are where.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct QueueStats<'a> {
    /// As in the URL; in a list as in the newest create.
    pub command: Cow<'a, str>,
    /// Tasks that may be claimed.
    pub ready: u64,
    /// Tasks that wait for their time.
    pub delayed: u64,
    /// Tasks with a lease.
    pub in_progress: u64,
    /// Dead letters.
    pub dlq: u64,
}

/// A queue in the list of all, with what only operators want to know.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct QueueView<'a> {
    /// Where its tasks are.
    #[serde(flatten)]
    pub stats: QueueStats<'a>,
    /// Whose queue.
    pub tenant_id: Cow<'a, str>,
    /// Since the create of the oldest ready task; 0 if none is ready.
    pub oldest_ready_age_seconds: u64,
    /// Claims pass the queue over.
    pub paused: bool,
    /// Lanes that have live tasks.
    #[serde(default)]
    pub lanes: u64,
    /// Ready tasks that a limit holds back.
    #[serde(default)]
    pub limited: u64,
    /// As it was put; absent if nothing restricts the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<serde_json::Value>,
    /// Tasks that wait for others to end.
    #[serde(default)]
    pub held: u64,
    /// Tasks that failed, neither dead nor cancelled, and are kept.
    #[serde(default)]
    pub failed: u64,
}

/// The answer to `GET /admin/queues?view=stats`.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct QueueViews<'a> {
    /// Of the tenant, or of all tenants where an operator asks for them.
    pub queues: Vec<QueueView<'a>>,
}

/// Which tasks a cleanup removes: completed and failed ones that need not be kept any longer.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub struct CleanupBody {
    /// How many at most; zero, below and absent mean 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
    /// RFC 3339: those whose retention ends by then; absent: by now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

/// What a cleanup has removed.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct CleanedUp {
    /// RFC 3339, in whole seconds; with the offset that was sent.
    pub before: String,
    /// Tasks removed.
    pub deleted: u64,
    /// As it was sent; 0 if it was absent.
    pub limit: i64,
}

/// The policy of a topic. Fields that nobody knows are refused.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyBody {
    /// 1 to 10 different numbers from 0 to 10; shown in ascending order.
    #[serde(default)]
    pub priority_tiers: Option<Vec<i64>>,
    /// 1 to 100.
    #[serde(default)]
    pub max_attempts: Option<i64>,
    /// A DNS label other than the topic's own name.
    #[serde(default)]
    pub dead_letter_topic_ref: Option<String>,
    /// 0 to 2,147,483,647.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_seconds: Option<i64>,
    /// 0 to 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_consumers: Option<i64>,
}

/// A topic of the catalogue.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct TopicBody<'a> {
    /// `<tenant>.<name>`.
    pub topic_id: String,
    /// Whose catalogue it is in.
    pub tenant_id: Cow<'a, str>,
    /// A DNS label, at most 63 characters.
    pub topic_name: Cow<'a, str>,
    /// What was put last.
    pub policy: PolicyBody,
    /// 1 for the first policy; grows with every change.
    pub version: u64,
    /// When it was put for the first time.
    pub created_at: String,
    /// When it was last changed.
    pub updated_at: String,
}

/// What clients of the original server ask for. Here the store replicates, if anything does.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct RaftStatus {
    /// Always `false`.
    pub enabled: bool,
    /// Always 0.
    pub num_groups: u32,
}

/// The answer to a question for health.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct HealthBody<'a> {
    /// `ok`, `degraded` or `unavailable`.
    pub status: Cow<'a, str>,
    /// Why it is unavailable: `store`, `shutdown` or `starting`.
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

/// One page of a listing.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct TaskPage<'a> {
    /// In the order that was asked for.
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

/// One delivery of a task to a worker.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct AttemptBody {
    /// 1 for the first delivery.
    pub attempt: u32,
    /// Who held the lease.
    pub worker_id: String,
    /// When the lease was given.
    pub claimed_at: String,
    /// Absent while the attempt runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// `completed`, `failed`, `nack`, `abandoned`, `refunded`, `lease_expired` or `cancelled`; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The failure text, at most 512 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The last deliveries of a task.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Attempts {
    /// At most 20, the oldest first.
    pub items: Vec<AttemptBody>,
}

/// Tasks that failed for one cause.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct GroupBody {
    /// The same for the same command and cause, whenever it is asked for.
    pub group: String,
    /// Spelled as in one of the tasks.
    pub command: String,
    /// How many tasks.
    pub count: u64,
    /// Their error text with marks in place of what differs: numbers, ids, quoted text, addresses, paths.
    pub error: String,
    /// Ids of at most 3 of the tasks.
    pub examples: Vec<String>,
    /// When the first of them ended.
    pub first_seen: String,
    /// When the last of them ended.
    pub last_seen: String,
}

/// Why tasks failed.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct GroupsBody {
    /// At most 200, the most frequent first.
    pub groups: Vec<GroupBody>,
    /// There are more causes than are told apart here.
    pub truncated: bool,
}

/// What a bulk operation is asked with.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BulkBody {
    /// Which tasks, as in the query of a listing.
    #[serde(default)]
    pub filter: Option<serde_json::Map<String, serde_json::Value>>,
    /// Only tasks of this group of failures.
    #[serde(default)]
    pub group: Option<String>,
    /// Of a requeue: the attempts that each task gets; zero, below and absent leave its own.
    #[serde(default)]
    pub max_attempts: Option<i64>,
    /// Counts the tasks and touches none.
    #[serde(default)]
    pub dry_run: Option<bool>,
    /// Tasks a second; zero, below and absent are as fast as it goes.
    #[serde(default)]
    pub rate_per_second: Option<i64>,
}

/// The answer to a dry run.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Matched {
    /// Tasks that the operation would touch.
    pub matched: u64,
}

/// How a task is cancelled.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct CancelTaskBody {
    /// How long a running task may go on: 0 to 3600, at once by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_seconds: Option<i64>,
    /// Shown in the error text of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How one task is requeued.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequeueBody {
    /// The attempts that it gets; zero, below and absent leave its own.
    #[serde(default)]
    pub max_attempts: Option<i64>,
}

/// A line of an export: a task, with what listings do not show.
#[derive(Serialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct ExportedTask<'a> {
    /// The task itself.
    #[serde(flatten)]
    pub task: Task<'a>,
    /// What does not belong to a task as it is shown.
    #[serde(flatten)]
    pub more: ExportedMore<'a>,
}

/// What a line of an export says besides the task.
#[derive(Serialize, Deserialize, Clone, Default, Debug)]
#[serde(rename_all = "camelCase")]
pub struct ExportedMore<'a> {
    /// What its create was made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<Cow<'a, str>>,
    /// When a delayed task becomes ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visible_at: Option<String>,
    /// What `uniqueKey` alone does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique: Option<UniqueBody>,
    /// The longest run of an attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_run_seconds: Option<i64>,
    /// `run` if the task runs whatever becomes of those that it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_dependency_failure: Option<String>,
    /// How the task ended; absent while it lives.
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
    /// Tasks of the export.
    pub count: u64,
    /// Hex, over every byte before this line.
    pub sha256: String,
}

/// What an import has done.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Default, Debug)]
pub struct ImportedBody {
    /// Tasks that were made.
    pub created: u64,
    /// Lines whose id was here already: left alone.
    pub existing: u64,
    /// The first thousand.
    pub refused: Vec<RefusedLine>,
}

/// A line of an import that no task was made of.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct RefusedLine {
    /// 1 for the first line.
    pub line: u64,
    /// For people, as in an error answer.
    pub error: String,
    /// For programs, as in an error answer.
    pub code: String,
}
