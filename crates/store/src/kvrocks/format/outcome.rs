//! Results, histories and callbacks as text.

use crate::kvrocks::format::record::{instant, quoted};
use codeq_queue::attempt::AttemptEnd;
use codeq_queue::result::StoredArtifact;
use codeq_queue::{
    Artifact, Attempt, AttemptOutcome, Delivery, DeliveryState, FailureReason, ResultRecord, Status, TaskId,
    Time,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArtifactText {
    name: String,
    #[serde(default)]
    url: String,
    /// Only stored: where the bytes are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultText {
    #[serde(default)]
    task_id: String,
    status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    error: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    failure_reason: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    artifacts: Vec<ArtifactText>,
    #[serde(default)]
    completed_at: String,
}

pub fn result_text(id: TaskId, record: &ResultRecord) -> String {
    let artifacts = record.artifacts.iter().map(|artifact| ArtifactText {
        name: artifact.name.clone(),
        url: artifact.url.clone(),
        key: artifact.stored.as_ref().map(|stored| stored.key.clone()),
        content_type: artifact.stored.as_ref().and_then(|stored| stored.content_type.clone()),
    });
    // The text of a result is kept as it came, so it is put in by hand.
    let text = ResultText {
        task_id: id.to_string(),
        status: record.status.word().into(),
        result: None,
        error: record.error.as_deref().unwrap_or_default().into(),
        failure_reason: record.failure_reason.map_or("", FailureReason::word).into(),
        artifacts: artifacts.collect(),
        completed_at: record.completed_at.to_utc(),
    };
    let mut text = serde_json::to_string(&text).expect("texts and lists of texts can be written");
    if let Some(result) = &record.result {
        text.pop();
        text.push_str(",\"result\":");
        text.push_str(result);
        text.push('}');
    }
    text
}

pub fn parse_result(text: &[u8]) -> Option<ResultRecord> {
    let text: ResultText = serde_json::from_slice(text).ok()?;
    let artifacts = text.artifacts.into_iter().map(|artifact| Artifact {
        stored: artifact.key.map(|key| StoredArtifact { key, content_type: artifact.content_type }),
        name: artifact.name,
        url: artifact.url,
    });
    Some(ResultRecord {
        status: if text.status == "COMPLETED" { Status::Completed } else { Status::Failed },
        result: text.result.map(|raw| raw.get().into()).filter(|text: &Arc<str>| &**text != "null"),
        error: (!text.error.is_empty()).then(|| text.error.as_str().into()),
        failure_reason: match &*text.failure_reason {
            "MAX_ATTEMPTS" => Some(FailureReason::MaxAttempts),
            "CANCELLED" => Some(FailureReason::Cancelled),
            "EXPIRED" => Some(FailureReason::Expired),
            "DEPENDENCY" => Some(FailureReason::Dependency),
            _ => None,
        },
        artifacts: artifacts.collect(),
        completed_at: instant(&text.completed_at).unwrap_or(Time::ZERO),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AttemptText {
    attempt: u32,
    worker_id: String,
    claimed_at: i64,
    ended_at: i64,
    outcome: String,
    #[serde(default)]
    error: Option<String>,
}

pub fn parse_history(text: &[u8]) -> Vec<Attempt> {
    let entries: Vec<AttemptText> = serde_json::from_slice(text).unwrap_or_default();
    let attempt = |entry: AttemptText| {
        let outcome = AttemptOutcome::ALL.into_iter().find(|outcome| outcome.word() == entry.outcome)?;
        let end = AttemptEnd::new(Time::from_millis(entry.ended_at), outcome, entry.error.as_deref());
        Some(Attempt {
            attempt: entry.attempt,
            worker_id: entry.worker_id.into(),
            claimed_at: Time::from_millis(entry.claimed_at),
            end: Some(end),
        })
    };
    entries.into_iter().filter_map(attempt).collect()
}

/// A callback as it is put into the outbox: its counters come first, because scripts change them.
pub fn delivery_text(
    id: u128,
    task: TaskId,
    tenant: &str,
    url: &str,
    body: &str,
    created_at: Time,
) -> String {
    format!(
        "{{\"attempts\":0,\"id\":\"{id:032x}\",\"taskId\":\"{task}\",\"tenantId\":{},\"url\":{},\"body\":{},\"createdAt\":\"{}\"}}",
        quoted(tenant),
        quoted(url),
        quoted(body),
        created_at.to_utc(),
    )
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeliveryText {
    id: String,
    task_id: String,
    tenant_id: String,
    url: String,
    body: String,
    #[serde(default)]
    attempts: u32,
    #[serde(default)]
    last_error: Option<String>,
    #[serde(default)]
    created_at: String,
}

pub fn parse_delivery(text: &[u8], state: DeliveryState) -> Option<Delivery> {
    let text: DeliveryText = serde_json::from_slice(text).ok()?;
    Some(Delivery {
        id: u128::from_str_radix(&text.id, 16).ok()?,
        task_id: TaskId::parse(&text.task_id)?,
        tenant: text.tenant_id.into(),
        url: text.url.into(),
        body: text.body.into(),
        state,
        attempts: text.attempts,
        last_error: text.last_error.map(Into::into),
        created_at: instant(&text.created_at).unwrap_or(Time::ZERO),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_read_as_it_was_written() {
        let record = ResultRecord {
            status: Status::Completed,
            result: Some("{ \"a\" : 1.0 }".into()),
            error: None,
            failure_reason: Some(FailureReason::Cancelled),
            artifacts: vec![Artifact {
                name: "n".into(),
                url: "u".into(),
                stored: Some(StoredArtifact { key: "k".into(), content_type: None }),
            }],
            completed_at: Time::from_millis(1_700_000_000_250),
        };
        let text = result_text(TaskId::from_bits(1), &record);
        assert_eq!(parse_result(text.as_bytes()), Some(record), "{text}");
    }

    #[test]
    fn a_callback_has_its_tenant_where_scripts_look_for_it() {
        let text = delivery_text(7, TaskId::from_bits(1), "acme", "u", "{}", Time::ZERO);
        let tail = &text[text.find(",\"id\":").unwrap()..];
        assert!(tail[88..].starts_with(",\"tenantId\":\"acme\","), "{tail}");
    }
}
