//! Tasks: how they are created and how they are shown.

use crate::is_zero;
use crate::object::object;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The body of a create; in a batch, one item of it.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct CreateBody<'a> {
    /// 1 to 128 of `[A-Za-z0-9_.:-]`; required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Kept as exactly this text.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub payload: Option<&'a RawValue>,
    /// 0 to 9, clamped; 0 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// An absolute http or https URL that is sent the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    /// At most 16, together at most 4 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<Headers>,
    /// Zero, below and absent mean the default of the queue or the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<i64>,
    /// At most 255 bytes: a later create with it answers with this task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// RFC 3339; wins over `delay_seconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_at: Option<String>,
    /// 0 to 31,622,400.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_seconds: Option<i64>,
    /// Tasks of one lane share fairness, limits and, where asked, order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    /// At most 8, each 1 to 64 of `[A-Za-z0-9_.:-]`.
    #[serde(default, deserialize_with = "crate::list::kept", skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// At most one task of the command with this key.
    #[serde(default, deserialize_with = "object", skip_serializing_if = "Option::is_none")]
    pub unique: Option<UniqueBody>,
    /// The task fails if nobody has claimed it within this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expire_seconds: Option<i64>,
    /// RFC 3339; instead of `expire_seconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// A lease ends at the latest this long after the claim: 1 to 604,800.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_run_seconds: Option<i64>,
    /// Ids of tasks and batches that have to end before; in a batch create `#0` names an earlier item.
    #[serde(default, deserialize_with = "crate::list::kept", skip_serializing_if = "Option::is_none")]
    pub after: Option<Vec<String>>,
    /// `cancel` or `run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_dependency_failure: Option<String>,
    /// The batch that the task joins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_id: Option<String>,
}

/// One task per key.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct UniqueBody {
    /// 1 to 255 bytes.
    pub key: String,
    /// `ended` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<UniqueUntil>,
    /// `keep`, `replace` or `cancel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_conflict: Option<String>,
    /// How long replacements may put the holder off, counted from its create.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_wait_seconds: Option<i64>,
}

/// When a unique key is free again.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(untagged)]
pub enum UniqueUntil {
    /// Counted from the create, whatever becomes of the task.
    Seconds(i64),
    /// `started` or `ended`.
    Word(String),
}

/// A batch of creates. Items are read one by one, so that a bad one does not stop the others.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub struct CreateBatch<'a> {
    /// 1 to 100 bodies of creates; required.
    #[serde(
        borrow,
        default,
        deserialize_with = "crate::list::kept",
        skip_serializing_if = "Option::is_none"
    )]
    pub tasks: Option<Vec<&'a RawValue>>,
}

/// What became of one item: a task, or an error.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct CreatedItem<'a> {
    /// Absent if the item was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<Task<'a>>,
    /// The idempotency key named a task that was there already.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replayed: bool,
    /// The unique key was taken; this is its holder.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deduplicated: bool,
    /// For people, as in an error answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Cow<'a, str>>,
    /// For programs, as in an error answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Cow<'a, str>>,
}

/// One answer per item, in order.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Results<T> {
    /// As many as there were items.
    pub results: Vec<T>,
}

/// An object of strings in the order it was sent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Headers(pub Vec<(String, String)>);

impl Headers {
    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Headers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        header_map(&self.0, serializer)
    }
}

fn header_map<S: Serializer>(headers: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(headers.len()))?;
    for (name, value) in headers {
        map.serialize_entry(name, value)?;
    }
    map.end()
}

impl<'de> Deserialize<'de> for Headers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Headers, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Headers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Headers, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Headers(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// A task as it is at one moment. What is zero or empty is left out.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Task<'a> {
    /// A lower-case UUIDv4.
    pub id: Cow<'a, str>,
    /// Spelled as in its create.
    pub command: Cow<'a, str>,
    /// The JSON text as it was sent. Listings leave it out.
    #[serde(skip_serializing_if = "is_empty")]
    pub payload: Cow<'a, str>,
    /// 0 to 9; 9 is served first.
    #[serde(skip_serializing_if = "is_zero")]
    pub priority: u8,
    /// The URL that is sent the result.
    #[serde(skip_serializing_if = "is_empty")]
    pub webhook: Cow<'a, str>,
    /// W3C `traceparent` of its create.
    #[serde(skip_serializing_if = "is_empty")]
    pub trace_parent: Cow<'a, str>,
    /// W3C `tracestate` of its create.
    #[serde(skip_serializing_if = "is_empty")]
    pub trace_state: Cow<'a, str>,
    /// Small metadata, as it was sent.
    #[serde(
        skip_serializing_if = "no_headers",
        serialize_with = "write_headers",
        deserialize_with = "read_headers"
    )]
    pub headers: Cow<'a, [(String, String)]>,
    /// `PENDING`, `IN_PROGRESS`, `COMPLETED` or `FAILED`.
    pub status: Cow<'a, str>,
    /// `PENDING_LIST`, `DELAYED_ZSET`, `INPROG_SET`, `HELD_SET`, `DLQ_SET` or `NONE`.
    #[serde(skip_serializing_if = "is_empty")]
    pub last_known_location: Cow<'a, str>,
    /// Who holds the lease.
    #[serde(skip_serializing_if = "is_empty")]
    pub worker_id: Cow<'a, str>,
    /// When the lease ends, in UTC and whole seconds; never later than it really does.
    #[serde(skip_serializing_if = "is_empty")]
    pub lease_until: Cow<'a, str>,
    /// With the id the fencing token: a later delivery has a larger number.
    #[serde(skip_serializing_if = "is_zero")]
    pub attempts: u32,
    /// How many of the attempts do not count.
    #[serde(skip_serializing_if = "is_zero")]
    pub refunds: u32,
    /// When this many attempts have been used up it is a dead letter.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_attempts: u32,
    /// The last failure text.
    #[serde(skip_serializing_if = "is_empty")]
    pub error: Cow<'a, str>,
    /// Where its result is kept; an opaque text, there once it has ended.
    #[serde(skip_serializing_if = "is_empty")]
    pub result_key: Cow<'a, str>,
    /// Whose task it is.
    #[serde(skip_serializing_if = "is_empty")]
    pub tenant_id: Cow<'a, str>,
    /// The lane of its queue that it is in.
    #[serde(skip_serializing_if = "is_empty")]
    pub lane: Cow<'a, str>,
    /// What its producer tagged it with.
    #[serde(deserialize_with = "crate::list::kept_or_empty", skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Cow<'a, str>>,
    /// What the producer made the task with; told to those who may read it, not with claims.
    #[serde(skip_serializing_if = "is_empty")]
    pub idempotency_key: Cow<'a, str>,
    /// At most one task of the command has it at a time.
    #[serde(skip_serializing_if = "is_empty")]
    pub unique_key: Cow<'a, str>,
    /// It fails if nobody has claimed it by then.
    #[serde(skip_serializing_if = "is_empty")]
    pub expires_at: Cow<'a, str>,
    /// Ids of the tasks and batches that it waits for, or waited for.
    #[serde(deserialize_with = "crate::list::kept_or_empty", skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Cow<'a, str>>,
    /// The batch that it is a member of.
    #[serde(skip_serializing_if = "is_empty")]
    pub batch_id: Cow<'a, str>,
    /// How many of those in `after` have not ended.
    #[serde(skip_serializing_if = "is_zero")]
    pub waiting_for: u32,
    /// What an attempt left for the next one. Listings leave it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<RawJson>,
    /// What the running attempt told last. Listings leave it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<RawJson>,
    /// When it was created.
    pub created_at: Cow<'a, str>,
    /// When its last transition happened.
    pub updated_at: Cow<'a, str>,
}

/// JSON of any kind, kept as its text.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(transparent)]
pub struct RawJson(pub Box<RawValue>);

impl RawJson {
    /// `None` if the text is no JSON.
    pub fn of(text: &str) -> Option<RawJson> {
        RawValue::from_string(text.to_owned()).ok().map(RawJson)
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &RawJson) -> bool {
        self.0.get() == other.0.get()
    }
}

impl Eq for RawJson {}

fn is_empty(text: &str) -> bool {
    text.is_empty()
}

fn no_headers(headers: &[(String, String)]) -> bool {
    headers.is_empty()
}

fn write_headers<S: Serializer>(headers: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    header_map(headers, serializer)
}

fn read_headers<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Cow<'static, [(String, String)]>, D::Error> {
    Headers::deserialize(deserializer).map(|headers| Cow::Owned(headers.0))
}

/// The write-once end of a task.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct ResultRecord<'a> {
    /// The task that has ended.
    pub task_id: Cow<'a, str>,
    /// `COMPLETED` or `FAILED`.
    pub status: Cow<'a, str>,
    /// A JSON object, as the worker sent it.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Cow<'a, RawValue>>,
    /// The failure text; absent if it completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Cow<'a, str>>,
    /// `MAX_ATTEMPTS`, `CANCELLED`, `EXPIRED` or `DEPENDENCY`; absent if a worker ended the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<Cow<'a, str>>,
    /// In the order in which the worker sent them.
    #[serde(default, deserialize_with = "crate::list::kept_or_empty", skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactOut<'a>>,
    /// When the task ended.
    pub completed_at: Cow<'a, str>,
}

/// A file or a link that belongs to a result.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct ArtifactOut<'a> {
    /// Once per result.
    pub name: Cow<'a, str>,
    /// Where to read it.
    pub url: Cow<'a, str>,
}

/// The answer to a result read.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Finished<'a> {
    /// How the task ended.
    #[serde(borrow)]
    pub result: ResultRecord<'a>,
    /// The task as it is now.
    pub task: Task<'a>,
}

#[cfg(test)]
mod tests;
