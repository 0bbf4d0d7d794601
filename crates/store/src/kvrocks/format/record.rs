//! Tasks as text: the JSON of the wire with a few fields that are only stored.
//!
//! The fields that change come first, in the form that `scripts/record.lua` writes too; then the id and
//! everything that never changes. Records of the original server have the same fields in another order; they
//! are read here as they are, and rewritten once by the migration.

use crate::kvrocks::format::asked::{self, CancelText, UniqueText};
use crate::kvrocks::timers::links::{self, LinksText};
use codeq_queue::{Body, Lease, OnFailure, Owner, QueueKey, State, Task, TaskId, TaskOptions, Time};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

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
pub struct RecordExtras<'a> {
    /// The order of creation within a millisecond.
    pub number: u64,
    /// The shard whose queues hold the id: shards of one server share the records.
    pub shard: &'a str,
    /// What unknown fields of a foreign record said, each with its comma.
    pub unknown: &'a str,
}

/// The whole record.
pub fn text_of(task: &Task, beside: RecordExtras<'_>) -> String {
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
    asked::write_head(&mut out.0, task);
    links::write_head(&mut out.0, task);
}

fn write_tail(out: &mut Writer, task: &Task, beside: RecordExtras<'_>) {
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
    if !options.tags.is_empty() {
        let tags: Vec<String> = options.tags.iter().map(|tag| quoted(tag)).collect();
        write!(out.0, ",\"tags\":[{}]", tags.join(",")).expect("writing to a string does not fail");
    }
    links::write_after(&mut out.0, options);
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
    expires_at_ms: i64,
    max_run_ms: u64,
    unique: Option<UniqueText>,
    cancel: Option<CancelText>,
    notes: u32,
    links: Option<LinksText>,
    after: Vec<String>,
    on_dependency_failure: String,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    headers: Option<Headers>,
}

pub fn parse(text: &[u8]) -> Option<Task> {
    parse_placed(text).map(|placed| placed.task)
}

/// A task, and what its record says of where to look.
pub struct Placed {
    pub task: Task,
    /// The name of its shard; empty if the record does not say.
    pub shard: String,
    /// What is kept beside the record.
    pub notes: u32,
}

pub fn parse_placed(text: &[u8]) -> Option<Placed> {
    let stored: Stored<'_> = serde_json::from_slice(text).ok()?;
    Some(Placed { task: stored.task()?, notes: stored.notes, shard: stored.shard })
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
        let created_at = time(self.created_at_ms, &self.created_at);
        let queue = || QueueKey::new(&self.tenant_id, &self.command);
        let options = TaskOptions {
            lane: given(&self.lane),
            tags: self.tags.iter().map(|tag| tag.as_str().into()).collect(),
            unique: self.unique.as_ref().map(|unique| unique.rule(&queue(), created_at)),
            expires_at: (self.expires_at_ms != 0).then(|| Time::from_millis(self.expires_at_ms)),
            max_run: (self.max_run_ms != 0).then(|| Duration::from_millis(self.max_run_ms)),
            after: links::parse_ids(&self.after),
            on_failure: OnFailure::parse(&self.on_dependency_failure).unwrap_or_default(),
            batch: self.links.as_ref().and_then(LinksText::batch),
            ..TaskOptions::default()
        };
        options.boxed()
    }

    fn state(&self, updated_at: Time) -> Option<State> {
        Some(match (&*self.status, &*self.last_known_location) {
            ("PENDING", "DELAYED_ZSET") => State::Delayed { until: Time::from_millis(self.visible_at_ms) },
            ("PENDING", "HELD_SET") => self.links.as_ref()?.state()?,
            ("PENDING", _) => State::Ready { seq: self.seq },
            ("IN_PROGRESS", _) => State::Running(Arc::new(Lease {
                cancel: self.cancel.as_ref().map(CancelText::request),
                ..Lease::new(
                    Arc::new(Owner::new(&self.owner_sub, &self.worker_id)),
                    time(self.lease_until_ms, &self.lease_until),
                    if self.claimed_at_ms == 0 { updated_at } else { time(self.claimed_at_ms, "") },
                )
            })),
            ("COMPLETED", _) => State::Completed,
            ("FAILED", "DLQ_SET") => State::Dead,
            ("FAILED", _) if self.cancelled => State::Cancelled,
            ("FAILED", _) => State::Failed,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
