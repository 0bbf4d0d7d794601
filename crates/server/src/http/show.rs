//! How the things of the rules look on the wire.

use crate::stamp::{WireTime, utc_seconds};
use codeq_api::task::{ArtifactOut, RawJson, ResultRecord, Task};
use codeq_queue::{Body, TaskId};
use serde_json::value::RawValue;
use std::borrow::Cow;

fn text(optional: &Option<Box<str>>) -> Cow<'_, str> {
    Cow::Borrowed(optional.as_deref().unwrap_or_default())
}

/// `results` is where the store keeps results; a slash at its end asks for the id behind it.
pub fn task<'a>(task: &'a codeq_queue::Task, results: &str, stamp: &WireTime) -> Task<'a> {
    let body: &Body = &task.body;
    let lease = task.state.lease();
    let result_key = match task.has_result() {
        true if results.ends_with('/') => format!("{results}{}", task.id),
        true => results.to_owned(),
        false => String::new(),
    };
    let created_at: Cow<'_, str> = stamp.text(task.created_at).into();
    let updated_at = match task.updated_at == task.created_at {
        true => created_at.clone(),
        false => stamp.text(task.updated_at).into(),
    };
    Task {
        id: task.id.to_string().into(),
        command: Cow::Borrowed(&body.command),
        payload: Cow::Borrowed(&body.payload),
        priority: task.priority,
        webhook: text(&body.webhook),
        trace_parent: text(&body.trace_parent),
        trace_state: text(&body.trace_state),
        headers: Cow::Borrowed(&body.headers),
        status: task.state.status().word().into(),
        last_known_location: task.state.place().word().into(),
        worker_id: lease.map_or(Cow::Borrowed(""), |lease| Cow::Borrowed(&lease.owner.worker_id)),
        lease_until: lease.map_or(Cow::Borrowed(""), |lease| utc_seconds(lease.until).into()),
        attempts: task.attempts,
        refunds: task.refunds,
        max_attempts: task.max_attempts,
        error: Cow::Borrowed(task.error.as_deref().unwrap_or_default()),
        result_key: result_key.into(),
        tenant_id: Cow::Borrowed(&body.tenant),
        lane: Cow::Borrowed(body.lane().unwrap_or_default()),
        tags: body.tags().iter().map(|tag| Cow::Borrowed(&**tag)).collect(),
        idempotency_key: Cow::Borrowed(""),
        unique_key: body.unique().map_or(Cow::Borrowed(""), |unique| Cow::Borrowed(&unique.key)),
        expires_at: body.expires_at().map_or(Cow::Borrowed(""), |at| stamp.text(at).into()),
        after: body.after().iter().map(|id| id.to_string().into()).collect(),
        batch_id: body.batch().map_or(Cow::Borrowed(""), |id| id.to_string().into()),
        waiting_for: task.state.held().map_or(0, |held| held.open.len() as u32),
        checkpoint: task.checkpoint.as_deref().and_then(RawJson::of),
        progress: task.progress.as_deref().and_then(RawJson::of),
        created_at,
        updated_at,
    }
}

/// A task with the key that its producer made it with, for those who look at it.
pub fn with_key<'a>(shown: Task<'a>, task: &'a codeq_queue::Task) -> Task<'a> {
    Task { idempotency_key: text(&task.body.idempotency_key), ..shown }
}

/// A result as producers and workers see it: an empty one is left out.
pub fn record<'a>(id: TaskId, record: &'a codeq_queue::ResultRecord, stamp: &WireTime) -> ResultRecord<'a> {
    let shown = whole_record(id, record, stamp);
    ResultRecord { result: shown.result.filter(|result| !is_empty_object(result.get())), ..shown }
}

fn is_empty_object(text: &str) -> bool {
    let inside = text.trim_ascii().strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    inside.is_some_and(|inside| inside.trim_ascii().is_empty())
}

/// A result with everything that is kept of it.
pub fn whole_record<'a>(
    id: TaskId,
    record: &'a codeq_queue::ResultRecord,
    stamp: &WireTime,
) -> ResultRecord<'a> {
    let result: Option<&RawValue> = record.result.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let artifacts = record.artifacts.iter();
    ResultRecord {
        task_id: id.to_string().into(),
        status: record.status.word().into(),
        result: result.map(Cow::Borrowed),
        error: record.error.as_deref().map(Cow::Borrowed),
        failure_reason: record.failure_reason.map(|reason| reason.word().into()),
        artifacts: artifacts
            .map(|artifact| ArtifactOut { name: (&*artifact.name).into(), url: (&*artifact.url).into() })
            .collect(),
        completed_at: stamp.text(record.completed_at).into(),
    }
}
