//! What workers send: claims, reports and results.

use crate::object::objects;
use crate::task::{ResultRecord, Task};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What a worker asks for when it claims one task.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct ClaimBody<'a> {
    /// At most 256; those of the token if absent.
    #[serde(default, deserialize_with = "crate::list::kept", skip_serializing_if = "Option::is_none")]
    pub commands: Option<Vec<String>>,
    /// 1 to 43,200, clamped; zero, below and absent mean the default of the queue or the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_seconds: Option<i64>,
    /// How long to wait for a task: at most 30, clamped; zero, below and absent do not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_seconds: Option<i64>,
    /// `listed` or `fair`; `listed` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// How often a command is looked at first in a fair claim, compared with the others: 1 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<BTreeMap<String, i64>>,
    /// A [`WorkerInfo`].
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub worker: Option<&'a RawValue>,
}

/// What a worker tells of itself, for the list of workers.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, Default)]
pub struct WorkerInfo {
    /// The machine that it runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its process there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i64>,
    /// The name of the client library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sdk: Option<String>,
    /// The version of the client library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Tasks that it can hold at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<i64>,
}

/// What a worker asks for when it claims several tasks; fields as in [`ClaimBody`].
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct ClaimBatchBody<'a> {
    /// At most 256; those of the token if absent.
    #[serde(default, deserialize_with = "crate::list::kept", skip_serializing_if = "Option::is_none")]
    pub commands: Option<Vec<String>>,
    /// 1 to 43,200, clamped; zero, below and absent mean the default of the queue or the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_seconds: Option<i64>,
    /// 1 to 100; required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
    /// How long to wait for the first task: at most 30, clamped; zero, below and absent do not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_seconds: Option<i64>,
    /// `listed` or `fair`; `listed` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// Of a fair claim: 1 to 100 for each command, 1 if it is not named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<BTreeMap<String, i64>>,
    /// A [`WorkerInfo`].
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub worker: Option<&'a RawValue>,
}

/// The answer to a claim of several tasks.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct ClaimedTasks<'a> {
    /// At least one, at most as many as were asked for.
    pub tasks: Vec<Task<'a>>,
}

/// A worker goes on with its task.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatBody {
    /// In a batch only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The lease ends this long from now: 1 to 43,200, clamped; zero, below and absent mean the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extend_seconds: Option<i64>,
    /// Refused if it is not the current attempt; absent: not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i64>,
    /// Any JSON of at most 4 KiB, for those who watch. Not durable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Box<RawValue>>,
    /// Any JSON of at most 64 KiB, for the next attempt. Durable when answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Box<RawValue>>,
}

/// A batch of heartbeats. Items are read one by one, so that a bad one does not stop the others.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub struct HeartbeatBatch<'a> {
    /// 1 to 100 heartbeats with their `taskId`; required.
    #[serde(
        borrow,
        default,
        alias = "items",
        deserialize_with = "crate::list::kept",
        skip_serializing_if = "Option::is_none"
    )]
    pub heartbeats: Option<Vec<&'a RawValue>>,
}

/// The answer to a heartbeat.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct BeatBody {
    /// Always `true`.
    pub ok: bool,
    /// When the lease ends now, in UTC and whole seconds; never later than it really does.
    pub lease_until: String,
    /// Set when the task is to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<CancelBody>,
}

/// The task is to stop; what is reported before the deadline counts.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, Default)]
pub struct CancelBody {
    /// Absent if none was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the task ends as cancelled if its worker has not reported.
    pub deadline: String,
}

/// What became of one heartbeat of a batch: an answer, or an error.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatItem<'a> {
    /// The task that it was about.
    pub task_id: String,
    /// Absent if it was refused.
    #[serde(flatten)]
    pub beat: Option<BeatBody>,
    /// For people, as in an error answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Cow<'a, str>>,
    /// For programs, as in an error answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Cow<'a, str>>,
}

/// A worker gives its task back though nothing failed.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub struct AbandonBody {
    /// Refused if it is not the current attempt; absent: not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i64>,
    /// Do not count this delivery against the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refund: Option<bool>,
    /// For the next attempt, as with a heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Box<RawValue>>,
}

/// A worker gives its task back because the attempt failed.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct NackBody {
    /// Zero, below and absent leave it to the backoff policy, whose maximum holds except with `hold`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_seconds: Option<i64>,
    /// Becomes the error text of the task; blank leaves the one that it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Refused if it is not the current attempt; absent: not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i64>,
    /// Do not count this delivery against the limit; needs `delay_seconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refund: Option<bool>,
    /// `lane` or `queue`: nothing of it starts before the delay is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<String>,
    /// For the next attempt, as with a heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Box<RawValue>>,
}

/// Where an abandoned or nacked task went.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct ReturnedBody<'a> {
    /// `requeued`, `dlq` or `cancelled`.
    pub status: Cow<'a, str>,
    /// After a nack: how long the task is delayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_seconds: Option<u64>,
}

/// The body of a result; in a batch, one item of it with its `task_id`.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct SubmitBody<'a> {
    /// Read in a batch only; on the route of a task it is a field like any unknown one.
    #[serde(default, deserialize_with = "text_or_none", skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// `COMPLETED` or `FAILED`; required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// A JSON object; required for COMPLETED.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub result: Option<&'a RawValue>,
    /// Required for FAILED and not blank then; ignored for COMPLETED.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// At most 16, with different names.
    #[serde(borrow, default, deserialize_with = "objects", skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Vec<ArtifactIn<'a>>>,
    /// Refused if it is not the current attempt; absent: not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i64>,
}

/// Which task an item of a batch is about, whatever else is wrong with it.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct SubmitTarget {
    /// Absent if it is no string, too.
    #[serde(default, deserialize_with = "text_or_none")]
    pub task_id: Option<String>,
}

/// Anything but a string is none.
fn text_or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let raw = <&RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).ok())
}

/// A file or a link for a result; one with neither is skipped.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactIn<'a> {
    /// 1 to 255 bytes without `/`, `\`, `..` and control characters; required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A link of at most 2,048 bytes that passes through unchanged; wins over the content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Read as `content` too. Borrowed: these are the largest texts on the wire.
    #[serde(borrow, alias = "content", skip_serializing_if = "Option::is_none")]
    pub content_base64: Option<Cow<'a, str>>,
    /// Visible ASCII, at most 255 bytes; `application/octet-stream` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

/// A batch of results. Items are read one by one, so that a bad one does not stop the others.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub struct SubmitBatch<'a> {
    /// 1 to 100 results with their `taskId`; required.
    #[serde(
        borrow,
        default,
        deserialize_with = "crate::list::kept",
        skip_serializing_if = "Option::is_none"
    )]
    pub results: Option<Vec<&'a RawValue>>,
}

/// What became of one result of a batch: the record, or an error.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct SubmittedItem<'a> {
    /// The task that it was about.
    pub task_id: Cow<'a, str>,
    /// Absent if it was refused.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub result: Option<ResultRecord<'a>>,
    /// For people, as in an error answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Cow<'a, str>>,
    /// For programs, as in an error answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Cow<'a, str>>,
}
