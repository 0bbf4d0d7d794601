//! Batches, as producers make and watch them.

use super::call::{Call, parse_or_empty};
use super::error::Error;
use super::produce::create_request;
use super::reply;
use super::search::limit;
use crate::auth::Producer;
use axum::http::StatusCode;
use axum::response::Response;
use codeq_api::admin::TaskPage;
use codeq_api::batch::{BatchBody, BatchCounts, BatchView};
use codeq_api::json;
use codeq_api::task::CreateBody;
use codeq_queue::batch::{Batch, BatchRequest};
use codeq_queue::create::CreateRequest;
use codeq_queue::{Refusal, Time};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;

fn invalid_then(message: &'static str) -> Refusal {
    Refusal::InvalidBatch { field: "then", message }
}

pub async fn create(mut call: Call, producer: Producer) -> Result<Response, Error> {
    let text = call.read().await?;
    let body: BatchBody<'_> = parse_or_empty(&text)?;
    let tenant = &producer.0.tenant;
    let then = body.then.iter().flatten().map(|text| follower(tenant, text));
    let then = then.collect::<Result<Vec<_>, Refusal>>()?;
    let request = BatchRequest {
        name: body.name.clone(),
        close_after_seconds: body.close_after_seconds,
        on_failure: body.on_failure.clone(),
    };
    let made = call.broker()?.create_batch(tenant, request, then).await?;
    let then = made.then.iter().map(ToString::to_string).collect();
    Ok(reply::json(StatusCode::CREATED, &BatchView { then, ..shown(&made.batch) }))
}

/// A task that waits for the batch.
fn follower(tenant: &Arc<str>, text: &RawValue) -> Result<CreateRequest, Refusal> {
    let body: CreateBody<'_> =
        json::read_checked(text.get()).map_err(|_| invalid_then("must be bodies of creates"))?;
    if body.command.is_none() || body.payload.is_none() {
        return Err(invalid_then("command and payload are required"));
    }
    create_request(tenant, &Default::default(), body)
}

pub async fn get(call: Call, producer: Producer) -> Result<Response, Error> {
    let batch = call.broker()?.batch(&producer.0.tenant, &call.param("batchId")).await?;
    Ok(reply::ok(&shown(&batch)))
}

pub async fn close(call: Call, producer: Producer) -> Result<Response, Error> {
    let batch = call.broker()?.close_batch(&producer.0.tenant, &call.param("batchId")).await?;
    Ok(reply::ok(&shown(&batch)))
}

pub async fn cancel(call: Call, producer: Producer) -> Result<Response, Error> {
    let batch = call.broker()?.cancel_batch(&producer.0.tenant, &call.param("batchId")).await?;
    Ok(reply::json(StatusCode::ACCEPTED, &shown(&batch)))
}

pub async fn members(call: Call, producer: Producer) -> Result<Response, Error> {
    let cursor = call.query("cursor").filter(|cursor| !cursor.is_empty());
    let limit = limit(call.query("limit").as_deref());
    let id = call.param("batchId");
    let listed = call.broker()?.batch_members(&producer.0.tenant, &id, cursor, limit).await?;
    let items = listed.tasks.iter().map(|task| {
        let mut shown = call.app.show(task);
        shown.payload = Cow::Borrowed("");
        (shown.checkpoint, shown.progress) = (None, None);
        shown
    });
    let page =
        TaskPage { items: items.collect(), next: listed.next, partial: listed.missing, examined: None };
    Ok(reply::partial(reply::ok(&page), &page.partial))
}

fn shown(batch: &Batch) -> BatchView<'_> {
    let counts = batch.counts();
    BatchView {
        id: batch.id.to_string().into(),
        tenant_id: Cow::Borrowed(&batch.tenant),
        name: batch.name.as_deref().map(Cow::Borrowed),
        state: batch.state().word().into(),
        counts: BatchCounts { live: counts.live, completed: counts.completed, failed: counts.failed },
        progress: batch.progress(),
        close_after_seconds: batch.close_after.as_secs(),
        cancelled: batch.is_cancelled,
        created_at: batch.created_at.to_utc(),
        closed_at: batch.closed_at.map(Time::to_utc),
        ended_at: batch.end.map(|end| end.at.to_utc()),
        then: Vec::new(),
    }
}
