//! Tasks as text: the JSON of the wire with a few fields that are only stored.
//!
//! The fields that change come first, in the form that `scripts/record.lua` writes too; then the id and
//! everything that never changes. Records of the original server have the same fields in another order; they
//! are read here as they are, and rewritten once by the migration.

use codeq_queue::{Body, Lease, Owner, State, Task, TaskId, TaskOptions, Time};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt::Write;
use std::sync::Arc;

pub const RESULT_KEY: &str = "codeq:results";

pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// What stands directly behind the id: scripts compare it to see whether a task is the caller's.
pub fn tenant_text(tenant: &str) -> String {
    format!(",\"tenantId\":{},", quoted(tenant))
}

/// Whole seconds, as leases are shown.
pub fn lease_text(until: Time) -> String {
    Time::from_millis(until.millis().div_euclid(1000) * 1000).to_utc()
}

struct Writer(String);

impl Writer {
    fn text(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            write!(self.0, ",\"{name}\":{}", quoted(value)).expect("writing to a string does not fail");
        }
    }

    fn number(&mut self, name: &str, value: i64) {
        if value != 0 {
            write!(self.0, ",\"{name}\":{value}").expect("writing to a string does not fail");
        }
    }
}

/// What a record says beside its task.
#[derive(Clone, Copy, Default)]
pub struct Beside<'a> {
    /// The order of creation within a millisecond.
    pub number: u64,
    /// The shard whose queues hold the id: shards of one server share the records.
    pub shard: &'a str,
    /// What unknown fields of a foreign record said, each with its comma.
    pub unknown: &'a str,
}

/// The whole record.
pub fn text_of(task: &Task, beside: Beside<'_>) -> String {
    let mut out = Writer(String::with_capacity(600 + task.body.payload.len()));
    write_head(&mut out, task);
    write_tail(&mut out, task, beside);
    out.0.push_str(beside.unknown);
    out.0.push('}');
    out.0
}

fn write_head(out: &mut Writer, task: &Task) {
    let (status, place) = (task.state.status().word(), task.state.place().word());
    write!(out.0, "{{\"status\":\"{status}\",\"lastKnownLocation\":\"{place}\"")
        .expect("writing to a string does not fail");
    if let Some(lease) = task.state.lease() {
        out.text("workerId", Some(&lease.owner.worker_id));
        out.text("ownerSub", Some(&lease.owner.subject));
        out.text("leaseUntil", Some(&lease_text(lease.until)));
        out.number("leaseUntilMs", lease.until.millis());
        out.number("claimedAtMs", lease.claimed_at.millis());
    }
    out.text("error", task.error.as_deref());
    out.text("resultKey", task.has_result().then_some(RESULT_KEY));
    out.text("updatedAt", Some(&task.updated_at.to_utc()));
    out.number("attempts", task.attempts.into());
    out.number("refunds", task.refunds.into());
    out.number("maxAttempts", task.max_attempts.into());
    match task.state {
        State::Delayed { until } => out.number("visibleAtMs", until.millis()),
        State::Ready { seq } => out.number("seq", i64::try_from(seq).unwrap_or(i64::MAX)),
        State::Cancelled => out.0.push_str(",\"cancelled\":true"),
        _ => {}
    }
    out.number("updatedAtMs", task.updated_at.millis());
}

fn write_tail(out: &mut Writer, task: &Task, beside: Beside<'_>) {
    let (body, number) = (&task.body, beside.number);
    write!(
        out.0,
        ",\"id\":\"{}\"{}\"command\":{},\"priority\":{},\"createdAt\":\"{}\",\"createdAtMs\":{},\"createdNo\":{number}",
        task.id,
        tenant_text(&body.tenant),
        quoted(&body.command),
        task.priority,
        task.created_at.to_utc(),
        task.created_at.millis(),
    )
    .expect("writing to a string does not fail");
    out.text("shard", Some(beside.shard));
    out.text("webhook", body.webhook.as_deref());
    out.text("idempotencyKey", body.idempotency_key.as_deref());
    out.text("traceParent", body.trace_parent.as_deref());
    out.text("traceState", body.trace_state.as_deref());
    write_options(out, body.options.as_deref());
    write!(out.0, ",\"payload\":{}", quoted(&body.payload)).expect("writing to a string does not fail");
    if !body.headers.is_empty() {
        let headers: Vec<String> =
            body.headers.iter().map(|(name, value)| format!("{}:{}", quoted(name), quoted(value))).collect();
        write!(out.0, ",\"headers\":{{{}}}", headers.join(",")).expect("writing to a string does not fail");
    }
}

fn write_options(out: &mut Writer, options: Option<&TaskOptions>) {
    let Some(options) = options else { return };
    out.text("lane", options.lane.as_deref());
    if !options.tags.is_empty() {
        let tags: Vec<String> = options.tags.iter().map(|tag| quoted(tag)).collect();
        write!(out.0, ",\"tags\":[{}]", tags.join(",")).expect("writing to a string does not fail");
    }
}

/// In the order of the text.
#[derive(Default)]
struct Headers(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Headers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Headers, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Headers;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Headers, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Headers(pairs))
            }

            fn visit_unit<E>(self) -> Result<Headers, E> {
                Ok(Headers::default())
            }
        }
        deserializer.deserialize_any(Pairs)
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Stored<'a> {
    id: String,
    pub status: String,
    pub last_known_location: String,
    worker_id: String,
    owner_sub: String,
    lease_until: String,
    lease_until_ms: i64,
    claimed_at_ms: i64,
    visible_at_ms: i64,
    seq: u64,
    error: String,
    attempts: u32,
    refunds: u32,
    pub max_attempts: u32,
    cancelled: bool,
    updated_at: String,
    updated_at_ms: i64,
    pub tenant_id: String,
    command: String,
    priority: i64,
    created_at: String,
    created_at_ms: i64,
    webhook: String,
    idempotency_key: String,
    pub shard: String,
    trace_parent: String,
    trace_state: String,
    lane: String,
    tags: Vec<String>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    headers: Option<Headers>,
}

pub fn parse(text: &[u8]) -> Option<Task> {
    parse_placed(text).map(|(task, _)| task)
}

/// With the name of its shard; empty if the record does not say.
pub fn parse_placed(text: &[u8]) -> Option<(Task, String)> {
    let stored: Stored<'_> = serde_json::from_slice(text).ok()?;
    Some((stored.task()?, stored.shard))
}

/// Milliseconds of an RFC 3339 text.
pub fn instant(text: &str) -> Option<Time> {
    let at: jiff::Timestamp = text.parse().ok()?;
    Some(Time::from_millis(at.as_millisecond()))
}

fn time(millis: i64, text: &str) -> Time {
    match millis {
        0 => instant(text).unwrap_or(Time::ZERO),
        _ => Time::from_millis(millis),
    }
}

fn given(text: &str) -> Option<Box<str>> {
    (!text.is_empty()).then(|| text.into())
}

impl Stored<'_> {
    pub fn task(&self) -> Option<Task> {
        let (created_at, updated_at) =
            (time(self.created_at_ms, &self.created_at), time(self.updated_at_ms, &self.updated_at));
        let priority = u8::try_from(self.priority.clamp(0, 9)).expect("clamped to 0..=9");
        Some(Task {
            id: TaskId::parse(&self.id)?,
            body: Arc::new(self.body()),
            priority,
            state: self.state(updated_at)?,
            attempts: self.attempts,
            refunds: self.refunds,
            max_attempts: self.max_attempts,
            error: (!self.error.is_empty()).then(|| self.error.as_str().into()),
            checkpoint: None,
            progress: None,
            created_at,
            updated_at,
        })
    }

    fn body(&self) -> Body {
        // The text of the payload is held in a JSON string.
        let payload = self.payload.map_or_else(String::new, |raw| {
            serde_json::from_str::<String>(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
        });
        let headers = self.headers.as_ref().map(|headers| headers.0.clone()).unwrap_or_default();
        Body {
            tenant: self.tenant_id.as_str().into(),
            command: self.command.as_str().into(),
            payload: payload.into(),
            webhook: given(&self.webhook),
            headers: headers.into(),
            idempotency_key: given(&self.idempotency_key),
            trace_parent: given(&self.trace_parent),
            trace_state: given(&self.trace_state),
            options: self.options(),
        }
    }

    fn options(&self) -> Option<Box<TaskOptions>> {
        let tags = self.tags.iter().map(|tag| tag.as_str().into()).collect();
        TaskOptions { lane: given(&self.lane), tags, ..TaskOptions::default() }.boxed()
    }

    fn state(&self, updated_at: Time) -> Option<State> {
        Some(match (&*self.status, &*self.last_known_location) {
            ("PENDING", "DELAYED_ZSET") => State::Delayed { until: Time::from_millis(self.visible_at_ms) },
            ("PENDING", _) => State::Ready { seq: self.seq },
            ("IN_PROGRESS", _) => State::Running(Arc::new(Lease::new(
                Arc::new(Owner::new(&self.owner_sub, &self.worker_id)),
                time(self.lease_until_ms, &self.lease_until),
                if self.claimed_at_ms == 0 { updated_at } else { time(self.claimed_at_ms, "") },
            ))),
            ("COMPLETED", _) => State::Completed,
            ("FAILED", "DLQ_SET") => State::Dead,
            ("FAILED", _) if self.cancelled => State::Cancelled,
            ("FAILED", _) => State::Failed,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(state: State) -> Task {
        let body = Body {
            tenant: "ac\"me".into(),
            command: "Render".into(),
            payload: "{ \"id\" : [1.0, \"é\\n\"]}".into(),
            webhook: Some("https://h/".into()),
            headers: Box::new([("z".into(), "1".into()), ("a".into(), "\"2\"".into())]),
            idempotency_key: Some("k".into()),
            trace_parent: Some("p".into()),
            trace_state: None,
            options: TaskOptions {
                lane: Some("l\"1".into()),
                tags: ["a".into()].into(),
                ..TaskOptions::default()
            }
            .boxed(),
        };
        Task {
            id: TaskId::from_bits(7),
            body: Arc::new(body),
            priority: 3,
            state,
            attempts: 2,
            refunds: 1,
            max_attempts: 5,
            error: Some("it \"broke\"".into()),
            checkpoint: None,
            progress: None,
            created_at: Time::from_millis(1_700_000_000_001),
            updated_at: Time::from_millis(1_700_000_000_020),
        }
    }

    #[test]
    fn every_state_is_read_as_it_was_written() {
        let lease = Lease::new(
            Arc::new(Owner::new("s", "w")),
            Time::from_millis(1_700_000_060_123),
            Time::from_millis(1_700_000_000_009),
        );
        for state in [
            State::Ready { seq: 9 },
            State::Delayed { until: Time::from_millis(1_700_000_001_234) },
            State::Running(Arc::new(lease)),
            State::Completed,
            State::Failed,
            State::Cancelled,
            State::Dead,
        ] {
            let task = task(state);
            let text = text_of(&task, Beside::default());
            assert_eq!(parse(text.as_bytes()), Some(task), "{text}");
        }
    }

    #[test]
    fn the_tail_begins_where_scripts_look_for_it() {
        let task = task(State::Dead);
        let text = text_of(&task, Beside::default());
        let at = text.find(&format!(",\"id\":\"{}\"", task.id)).unwrap();
        let tail = &text[at..];
        assert!(tail[44..].starts_with(",\"tenantId\":\"ac\\\"me\",\"command\":\"Render\",\"priority\":3,"));
    }

    #[test]
    fn a_record_of_the_original_server_is_read_as_it_is() {
        let text = "{\"id\":\"5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11\",\"command\":\"RENDER\",\"payload\":\"{\\\"a\\\":1}\",\
            \"priority\":2,\"status\":\"IN_PROGRESS\",\"workerId\":\"w\",\"leaseUntil\":\"2026-03-01T12:00:05Z\",\
            \"attempts\":1,\"maxAttempts\":5,\"tenantId\":\"t\",\"createdAt\":\"2026-03-01T12:00:00.5Z\",\
            \"updatedAt\":\"2026-03-01T14:00:01+02:00\",\"extra\":[]}";
        let task = parse(text.as_bytes()).unwrap();
        assert_eq!((&*task.body.payload, task.priority), ("{\"a\":1}", 2));
        assert_eq!(task.created_at, Time::from_millis(1_772_366_400_500));
        assert_eq!(task.updated_at, Time::from_millis(1_772_366_401_000));
        assert_eq!(task.state.lease().unwrap().until, Time::from_millis(1_772_366_405_000));
    }
}
