//! Filters as operators write them: in a query or in a body, under the same names.

use super::call::Call;
use crate::stamp::{self, WireTime};
use codeq_queue::{Filter, Refusal, TaskId, TaskStatus, Time, Whereabouts, limits};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

const STATUSES: [TaskStatus; 4] =
    [TaskStatus::Pending, TaskStatus::InProgress, TaskStatus::Completed, TaskStatus::Failed];

/// Bytes of an unknown name that an error tells.
const NAME_SHOWN_BYTES: usize = 64;

fn invalid(text: String) -> Refusal {
    Refusal::InvalidFilter(text)
}

/// The filter of a query. Parameters that are neither a filter's nor among `others` are refused: a
/// misspelled one must not mean everything.
pub fn of_query(call: &Call, others: &[&str]) -> Result<Filter, Refusal> {
    let mut filter = Filter::default();
    let query = call.head.uri.query().unwrap_or_default();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        if name != "tenant" && !others.contains(&&*name) {
            add(&mut filter, &name, &value)?;
        }
    }
    Ok(filter)
}

pub fn of_body(given: Option<Map<String, Value>>) -> Result<Filter, Refusal> {
    let mut filter = Filter::default();
    for (name, value) in given.unwrap_or_default() {
        match value {
            Value::String(text) => add(&mut filter, &name, &text)?,
            Value::Null => {}
            _ => return Err(invalid(format!("filter {} must be a string", named(&name)))),
        }
    }
    Ok(filter)
}

/// A name as an error tells it: whoever sends a long one does not get it back.
fn named(name: &str) -> &str {
    limits::cut(name, NAME_SHOWN_BYTES)
}

/// An empty value is the same as none.
fn add(filter: &mut Filter, name: &str, value: &str) -> Result<(), Refusal> {
    let text = || Some(value.to_owned());
    if let Some(header) = name.strip_prefix("header.").filter(|header| !header.is_empty()) {
        if filter.headers.len() == limits::HEADERS {
            return Err(invalid(format!("more than {} headers", limits::HEADERS)));
        }
        filter.headers.push((header.to_owned(), value.to_owned()));
        return Ok(());
    }
    if value.is_empty() && is_known(name) {
        return Ok(());
    }
    match name {
        "command" => filter.command = text(),
        "status" => filter.status = Some(status(value)?),
        "place" => filter.place = Some(place(value)?),
        "workerId" => filter.worker_id = text(),
        "error" => filter.error = text(),
        "createdAfter" => filter.created_after = Some(time(name, value)?),
        "createdBefore" => filter.created_before = Some(time(name, value)?),
        "updatedAfter" => filter.updated_after = Some(time(name, value)?),
        "updatedBefore" => filter.updated_before = Some(time(name, value)?),
        "idempotencyKey" => filter.idempotency_key = text(),
        "group" => filter.group = text(),
        "lane" => filter.lane = text(),
        "tag" => filter.tag = text(),
        "schedule" => filter.schedule = text(),
        "batch" => filter.batch = Some(batch(value)?),
        _ => return Err(invalid(format!("unknown filter {}", named(name)))),
    }
    Ok(())
}

/// The filter as it would be written in a body.
pub fn shown(filter: &Filter, stamp: &WireTime) -> BTreeMap<String, String> {
    let texts = [
        ("command", &filter.command),
        ("workerId", &filter.worker_id),
        ("error", &filter.error),
        ("idempotencyKey", &filter.idempotency_key),
        ("group", &filter.group),
        ("lane", &filter.lane),
        ("tag", &filter.tag),
        ("schedule", &filter.schedule),
    ];
    let times = [
        ("createdAfter", filter.created_after),
        ("createdBefore", filter.created_before),
        ("updatedAfter", filter.updated_after),
        ("updatedBefore", filter.updated_before),
    ];
    let words = [
        ("status", filter.status.map(|status| status.word().to_owned())),
        ("place", filter.place.map(|place| place.word().to_owned())),
        ("batch", filter.batch.map(|batch| batch.to_string())),
    ];
    let texts = texts.into_iter().map(|(name, text)| (name, text.clone()));
    let times = times.into_iter().map(|(name, time)| (name, time.map(|time| stamp.text(time))));
    let given = texts.chain(times).chain(words);
    let given = given.filter_map(|(name, text)| Some((name.to_owned(), text?)));
    let headers = filter.headers.iter().map(|(name, value)| (format!("header.{name}"), value.clone()));
    given.chain(headers).collect()
}

fn is_known(name: &str) -> bool {
    matches!(name, "command" | "status" | "place" | "workerId" | "error" | "idempotencyKey" | "group")
        || matches!(name, "lane" | "tag" | "schedule" | "batch")
        || matches!(name, "createdAfter" | "createdBefore" | "updatedAfter" | "updatedBefore")
}

fn status(value: &str) -> Result<TaskStatus, Refusal> {
    let known = STATUSES.into_iter().find(|status| status.word().eq_ignore_ascii_case(value));
    known.ok_or_else(|| invalid("invalid status (PENDING, IN_PROGRESS, COMPLETED or FAILED)".into()))
}

fn place(value: &str) -> Result<Whereabouts, Refusal> {
    Whereabouts::parse(value).ok_or_else(|| {
        invalid("invalid place (ready, delayed, running, dead, done, failed, cancelled or held)".into())
    })
}

fn batch(value: &str) -> Result<TaskId, Refusal> {
    TaskId::parse(value).ok_or_else(|| invalid("invalid batch (the id of a batch)".into()))
}

fn time(name: &str, value: &str) -> Result<Time, Refusal> {
    stamp::parse(value).ok_or_else(|| invalid(format!("invalid '{name}' (use RFC3339)")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(given: Value) -> Result<Filter, Refusal> {
        of_body(Some(given.as_object().expect("an object").clone()))
    }

    #[test]
    fn a_filter_says_what_is_wrong_with_it() {
        let whole = json!({
            "command": "c", "status": "failed", "place": "dead", "error": "x", "header.a": "b",
            "createdAfter": "2026-03-01T12:00:00Z", "idempotencyKey": "", "group": null
        });
        let filter = read(whole).unwrap();
        assert_eq!(filter.status, Some(TaskStatus::Failed));
        assert_eq!(filter.place, Some(Whereabouts::Dead));
        assert_eq!(filter.headers, [("a".to_owned(), "b".to_owned())]);
        assert_eq!((filter.idempotency_key, filter.group), (None, None));
        for (bad, text) in [
            (json!({"statsu": "x"}), "unknown filter statsu"),
            (json!({"statsu": ""}), "unknown filter statsu"),
            (json!({"status": "GONE"}), "invalid status (PENDING, IN_PROGRESS, COMPLETED or FAILED)"),
            (
                json!({"place": "x"}),
                "invalid place (ready, delayed, running, dead, done, failed, cancelled or held)",
            ),
            (json!({"createdAfter": "yesterday"}), "invalid 'createdAfter' (use RFC3339)"),
            (json!({"command": 1}), "filter command must be a string"),
            (json!({"x".repeat(100): ""}), &format!("unknown filter {}", "x".repeat(64))),
        ] {
            assert_eq!(read(bad).unwrap_err().to_string(), text);
        }
    }
}
