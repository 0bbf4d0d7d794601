//! What workers send: claims, reports and results.

use crate::task::{ResultRecord, Task};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct ClaimBody<'a> {
    #[serde(default, deserialize_with = "crate::list::kept", skip_serializing_if = "Option::is_none")]
    pub commands: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_seconds: Option<i64>,
    /// `listed` or `fair`.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sdk: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Tasks that it can hold at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<i64>,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct ClaimBatchBody<'a> {
    #[serde(default, deserialize_with = "crate::list::kept", skip_serializing_if = "Option::is_none")]
    pub commands: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<BTreeMap<String, i64>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub worker: Option<&'a RawValue>,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct ClaimedTasks<'a> {
    pub tasks: Vec<Task<'a>>,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatBody {
    /// In a batch only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extend_seconds: Option<i64>,
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
    pub ok: bool,
    pub lease_until: String,
    /// Set when the task is to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<CancelBody>,
}

/// The task is to stop; what is reported before the deadline counts.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, Default)]
pub struct CancelBody {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub deadline: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatItem<'a> {
    pub task_id: String,
    #[serde(flatten)]
    pub beat: Option<BeatBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Cow<'a, str>>,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub struct AbandonBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i64>,
    /// Do not count this delivery against the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refund: Option<bool>,
    /// For the next attempt, as with a heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Box<RawValue>>,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct NackBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
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

/// Where an abandoned or nacked task went: `requeued` or `dlq`.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct ReturnedBody<'a> {
    pub status: Cow<'a, str>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(borrow, default, deserialize_with = "objects", skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Vec<ArtifactIn<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i64>,
}

/// Reads a list of objects. Derived readers would take an array of an object's fields in order, too.
fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    struct Object<T>(T);
    impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<T>, D::Error> {
            deserializer.deserialize_map(Fields(PhantomData))
        }
    }
    struct Fields<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
        type Value = Object<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map)).map(Object)
        }
    }
    let objects: Option<Vec<Object<T>>> = crate::list::kept(deserializer)?;
    Ok(objects.map(|objects| objects.into_iter().map(|Object(object)| object).collect()))
}

/// Which task an item of a batch is about, whatever else is wrong with it.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct SubmitTarget {
    #[serde(default, deserialize_with = "text_or_none")]
    pub task_id: Option<String>,
}

/// Anything but a string is none.
fn text_or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let raw = <&RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).ok())
}

#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactIn<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Read as `content` too. Borrowed: these are the largest texts on the wire.
    #[serde(borrow, alias = "content", skip_serializing_if = "Option::is_none")]
    pub content_base64: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

/// A batch of results. Items are read one by one, so that a bad one does not stop the others.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub struct SubmitBatch<'a> {
    #[serde(
        borrow,
        default,
        deserialize_with = "crate::list::kept",
        skip_serializing_if = "Option::is_none"
    )]
    pub results: Option<Vec<&'a RawValue>>,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct SubmittedItem<'a> {
    pub task_id: Cow<'a, str>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub result: Option<ResultRecord<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Cow<'a, str>>,
}
