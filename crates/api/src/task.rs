//! Tasks: how they are created and how they are shown.

use crate::is_zero;
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Kept as exactly this text.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<Headers>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// RFC 3339; wins over `delay_seconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_seconds: Option<i64>,
    /// Tasks of one lane share fairness, limits and, where asked, order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    #[serde(default, deserialize_with = "crate::list::kept", skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique: Option<UniqueBody>,
    /// The task fails if nobody has claimed it within this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expire_seconds: Option<i64>,
    /// RFC 3339; instead of `expire_seconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// A lease ends at the latest so long after the claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_run_seconds: Option<i64>,
    /// Ids of tasks and batches that have to end before; in a batch create `#0` names an earlier item.
    #[serde(default, deserialize_with = "crate::list::kept", skip_serializing_if = "Option::is_none")]
    pub after: Option<Vec<String>>,
    /// `cancel` or `run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_dependency_failure: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_id: Option<String>,
}

/// One task per key.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct UniqueBody {
    pub key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<UniqueUntil>,
    /// `keep`, `replace` or `cancel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_conflict: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_wait_seconds: Option<i64>,
}

/// When a unique key is free again.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(untagged)]
pub enum UniqueUntil {
    Seconds(i64),
    /// `started` or `ended`.
    Word(String),
}

/// A batch of creates. Items are read one by one, so that a bad one does not stop the others.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub struct CreateBatch<'a> {
    #[serde(
        borrow,
        default,
        deserialize_with = "crate::list::kept",
        skip_serializing_if = "Option::is_none"
    )]
    pub tasks: Option<Vec<&'a RawValue>>,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct CreatedItem<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<Task<'a>>,
    /// The idempotency key named a task that was there already.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replayed: bool,
    /// The unique key was taken; this is its holder.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deduplicated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Cow<'a, str>>,
}

/// One answer per item, in order.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Results<T> {
    pub results: Vec<T>,
}

/// An object of strings in the order it was sent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Headers(pub Vec<(String, String)>);

impl Headers {
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
    pub id: Cow<'a, str>,
    pub command: Cow<'a, str>,
    /// The JSON text as it was sent. Listings leave it out.
    #[serde(skip_serializing_if = "is_empty")]
    pub payload: Cow<'a, str>,
    #[serde(skip_serializing_if = "is_zero")]
    pub priority: u8,
    #[serde(skip_serializing_if = "is_empty")]
    pub webhook: Cow<'a, str>,
    #[serde(skip_serializing_if = "is_empty")]
    pub trace_parent: Cow<'a, str>,
    #[serde(skip_serializing_if = "is_empty")]
    pub trace_state: Cow<'a, str>,
    #[serde(
        skip_serializing_if = "no_headers",
        serialize_with = "write_headers",
        deserialize_with = "read_headers"
    )]
    pub headers: Cow<'a, [(String, String)]>,
    pub status: Cow<'a, str>,
    #[serde(skip_serializing_if = "is_empty")]
    pub last_known_location: Cow<'a, str>,
    #[serde(skip_serializing_if = "is_empty")]
    pub worker_id: Cow<'a, str>,
    #[serde(skip_serializing_if = "is_empty")]
    pub lease_until: Cow<'a, str>,
    /// With the id the fencing token: a later delivery has a larger number.
    #[serde(skip_serializing_if = "is_zero")]
    pub attempts: u32,
    #[serde(skip_serializing_if = "is_zero")]
    pub refunds: u32,
    #[serde(skip_serializing_if = "is_zero")]
    pub max_attempts: u32,
    #[serde(skip_serializing_if = "is_empty")]
    pub error: Cow<'a, str>,
    #[serde(skip_serializing_if = "is_empty")]
    pub result_key: Cow<'a, str>,
    #[serde(skip_serializing_if = "is_empty")]
    pub tenant_id: Cow<'a, str>,
    #[serde(skip_serializing_if = "is_empty")]
    pub lane: Cow<'a, str>,
    #[serde(deserialize_with = "crate::list::kept_or_empty", skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Cow<'a, str>>,
    /// What the producer made the task with; told to those who may read it, not with claims.
    #[serde(skip_serializing_if = "is_empty")]
    pub idempotency_key: Cow<'a, str>,
    #[serde(skip_serializing_if = "is_empty")]
    pub unique_key: Cow<'a, str>,
    #[serde(skip_serializing_if = "is_empty")]
    pub expires_at: Cow<'a, str>,
    #[serde(deserialize_with = "crate::list::kept_or_empty", skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Cow<'a, str>>,
    #[serde(skip_serializing_if = "is_empty")]
    pub batch_id: Cow<'a, str>,
    /// How many of them have not ended.
    #[serde(skip_serializing_if = "is_zero")]
    pub waiting_for: u32,
    /// What an attempt left for the next one. Listings leave it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<RawJson>,
    /// What the running attempt told last. Listings leave it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<RawJson>,
    pub created_at: Cow<'a, str>,
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
    pub task_id: Cow<'a, str>,
    pub status: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Cow<'a, RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "crate::list::kept_or_empty", skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactOut<'a>>,
    pub completed_at: Cow<'a, str>,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct ArtifactOut<'a> {
    pub name: Cow<'a, str>,
    pub url: Cow<'a, str>,
}

/// The answer to a result read.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Finished<'a> {
    #[serde(borrow)]
    pub result: ResultRecord<'a>,
    pub task: Task<'a>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn payload_text_is_kept_to_the_byte() {
        let body = br#"{"command":"c","payload": {"a" : 9007199254740993, "b":"\u00e9"} ,"x":[1]}"#;
        let create: CreateBody<'_> = json::read(body).unwrap();
        assert_eq!(create.payload.unwrap().get(), r#"{"a" : 9007199254740993, "b":"\u00e9"}"#);
        let none: CreateBody<'_> = json::read(br#"{"command":null,"payload":null}"#).unwrap();
        assert!(none.payload.is_none() && none.command.is_none());
    }

    #[test]
    fn integers_are_integers() {
        for bad in [
            r#"{"priority":1.0}"#,
            r#"{"priority":"1"}"#,
            r#"{"delaySeconds":1e3}"#,
            r#"{"headers":{"a":1}}"#,
        ] {
            assert!(json::read::<CreateBody<'_>>(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_zero_or_empty_is_left_out() {
        let task = Task { id: "i".into(), status: "PENDING".into(), ..Task::default() };
        let text = serde_json::to_string(&task).unwrap();
        assert_eq!(text, r#"{"id":"i","command":"","status":"PENDING","createdAt":"","updatedAt":""}"#);
        let headers = vec![("b".to_owned(), "1".to_owned()), ("a".to_owned(), "2".to_owned())];
        let task = Task { priority: 3, headers: headers.into(), ..task };
        let text = serde_json::to_string(&task).unwrap();
        assert!(text.contains(r#""priority":3,"headers":{"b":"1","a":"2"},"status""#), "{text}");
        assert_eq!(serde_json::from_str::<Task<'_>>(&text).unwrap(), task);
    }
}
