//! What producers send: creates and reads.

use super::call::{Call, parse};
use super::error::Error;
use super::{options, reply, show};
use crate::auth::{Producer, Reader};
use crate::broker;
use crate::stamp;
use crate::telemetry::traces::context::Written;
use crate::telemetry::traces::http::Carried;
use axum::body::Body;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use codeq_api::json;
use codeq_api::task::{CreateBatch, CreateBody, CreatedItem, Finished, Results};
use codeq_queue::create::{CreateRequest, merge_keys};
use codeq_queue::{Refusal, limits};
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;

const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const DEDUPLICATED: HeaderName = HeaderName::from_static("codeq-deduplicated");
/// Longest wait for a result.
const RESULT_WAIT: i64 = 60;

pub async fn create(mut call: Call, producer: Producer) -> Result<Response, Error> {
    let text = call.read().await?;
    let body: CreateBody<'_> = parse(&text)?;
    if body.payload.is_none() {
        return Err(Refusal::InvalidBody.into());
    }
    // A key that cannot be read must not pass for none: the retry would make a second task.
    let header = call.header("idempotency-key").map_err(|_| Refusal::IdempotencyKeyTooLong)?;
    let key = merge_keys(body.idempotency_key.as_deref(), header);
    let asked =
        create_request(&producer.0.tenant, &context(&call), CreateBody { idempotency_key: None, ..body })
            .and_then(|request| Ok(CreateRequest { idempotency_key: key?, ..request }));
    let created = call.broker()?.create(vec![asked]).await.pop().expect("one item, one answer")?;
    let mut response = reply::json(StatusCode::ACCEPTED, &call.app.show(&created.task));
    if created.is_replay {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    if created.is_duplicate {
        response.headers_mut().insert(DEDUPLICATED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

pub async fn create_batch(mut call: Call, producer: Producer) -> Result<Response, Error> {
    let text = call.read().await?;
    let batch: CreateBatch<'_> = parse(&text)?;
    let items = within_batch(batch.tasks)?;
    let context = context(&call);
    let asked = items.iter().map(|item| {
        let body: CreateBody<'_> = json::read_checked(item.get()).map_err(|_| Refusal::InvalidBody)?;
        create_request(&producer.0.tenant, &context, body)
    });
    let created = call.broker()?.create_items(asked.collect()).await;
    if let Some(failure) = common_failure(&created) {
        return Err(failure);
    }
    let results = created.iter().map(|item| match item {
        Ok(created) => CreatedItem {
            task: Some(call.app.show(&created.task)),
            replayed: created.is_replay,
            deduplicated: created.is_duplicate,
            error: None,
            code: None,
        },
        Err(error) => {
            let error = Error::from(error.clone());
            CreatedItem {
                task: None,
                replayed: false,
                deduplicated: false,
                error: Some(error.text),
                code: Some(error.code.into()),
            }
        }
    });
    Ok(reply::ok(&Results { results: results.collect() }))
}

/// The trace that the request is part of; empty if tracing is off.
fn context(call: &Call) -> (Written, Option<Arc<str>>) {
    match call.head.extensions.get::<Carried>() {
        Some(carried) => (carried.parent.written().unwrap_or_default(), carried.baggage.clone()),
        None => Default::default(),
    }
}

/// What the rules have to check. A missing payload is `null`, which only batches let through.
pub fn create_request(
    tenant: &Arc<str>,
    (context, baggage): &(Written, Option<Arc<str>>),
    body: CreateBody<'_>,
) -> Result<CreateRequest, Refusal> {
    let given = |text: &String| (!text.is_empty()).then(|| text.clone());
    let run_at = match body.run_at.as_deref().filter(|text| !text.is_empty()) {
        Some(text) => Some(stamp::parse(text).ok_or(Refusal::InvalidRunAt)?),
        None => None,
    };
    let options = options::request(&body)?;
    Ok(CreateRequest {
        tenant: tenant.clone(),
        command: body.command.ok_or(Refusal::InvalidBody)?,
        payload: body.payload.map_or("null", RawValue::get).to_owned(),
        priority: body.priority.unwrap_or(0),
        webhook: body.webhook,
        headers: body.headers.unwrap_or_default().0,
        max_attempts: body.max_attempts.unwrap_or(0),
        idempotency_key: body.idempotency_key,
        run_at,
        delay_seconds: body.delay_seconds.unwrap_or(0),
        trace_parent: given(&context.trace_parent),
        trace_state: given(&context.trace_state),
        options,
        baggage: baggage.clone(),
    })
}

/// The items of a batch that is neither empty nor too long.
pub fn within_batch<T>(items: Option<Vec<T>>) -> Result<Vec<T>, Refusal> {
    let items = items.filter(|items| !items.is_empty()).ok_or(Refusal::InvalidBody)?;
    match items.len() > limits::BATCH {
        true => Err(Refusal::BatchTooLarge(limits::BATCH)),
        false => Ok(items),
    }
}

/// The failure that hit every item; then it is the answer of the whole batch.
pub fn common_failure<T>(items: &broker::Items<T>) -> Option<Error> {
    let is_failed = |item: &Result<T, broker::Error>| {
        matches!(item, Err(broker::Error::Failed(_) | broker::Error::Upload(_)))
    };
    match items.first() {
        Some(Err(error)) if items.iter().all(is_failed) => Some(error.clone().into()),
        _ => None,
    }
}

pub async fn get(call: Call, reader: Reader) -> Result<Response, Error> {
    let found = call.broker()?.get(&reader.0.tenant, &call.param("id")).await;
    let task = found.map_err(|error| Error::from(error).saying("task_not_found", "not found"))?;
    Ok(reply::ok(&show::with_key(call.app.show(&task), &task)))
}

pub async fn result(mut call: Call, reader: Reader) -> Result<Response, Error> {
    let seconds = call.query("waitSeconds").and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
    let wait = wait(seconds, RESULT_WAIT);
    let id = call.param("id");
    call.forget();
    let ended = call.broker()?.result(&reader.0.tenant, &id, wait).await;
    let (task, record) =
        ended.map_err(|error| Error::from(error).saying("task_not_found", "task not found"))?;
    let stamp = &call.app.stamp;
    Ok(reply::ok(&Finished { result: show::record(task.id, &record, stamp), task: call.app.show(&task) }))
}

/// Nothing or less is no wait, more than `most` is `most`.
pub fn wait(seconds: i64, most: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds.clamp(0, most)).unwrap_or(0))
}

pub async fn artifact(call: Call, reader: Reader) -> Result<Response, Error> {
    let found = call.broker()?.artifact(&reader.0.tenant, &call.param("id"), &call.param("name")).await;
    let found = found.map_err(|error| Error::from(error).saying("task_not_found", "task not found"))?;
    let kind = found.content_type.as_deref().and_then(|kind| HeaderValue::from_str(kind).ok());
    let kind = kind.unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let size = found.file.meta.size;
    let mut response = reply::with_type(StatusCode::OK, kind, Body::from_stream(found.file.into_stream()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, size.into());
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}
