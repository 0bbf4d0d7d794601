//! Repairing, as operators do it: cancel, requeue, delete, pause, and in bulk.

use super::admin::{one_tenant, scope, view};
use super::audit::Deed;
use super::call::{Call, parse_or_empty};
use super::error::Error;
use super::search::in_command;
use super::{filter, reply};
use crate::auth::{Admin, Producer};
use crate::broker::BulkRequest;
use crate::stamp::WireTime;
use axum::http::StatusCode;
use axum::response::Response;
use codeq_api::admin::{BulkBody, CancelTaskBody, Matched, OperationBody, OperationPage, RequeueBody};
use codeq_queue::{Operation, OperationKind, Refusal, Whereabouts};
use std::sync::Arc;

pub async fn cancel(call: Call, admin: Admin) -> Result<Response, Error> {
    let tenant = one_tenant(&call, &admin)?;
    cancel_task(call, tenant).await
}

/// A producer may cancel the tasks of its tenant.
pub async fn cancel_own(call: Call, producer: Producer) -> Result<Response, Error> {
    cancel_task(call, producer.0.tenant.clone()).await
}

async fn cancel_task(mut call: Call, tenant: Arc<str>) -> Result<Response, Error> {
    let body: CancelTaskBody = parse_or_empty(&call.read().await?)?;
    let grace = body.grace_seconds.unwrap_or(0);
    let cancelled = call.broker()?.cancel(&tenant, &call.param("id"), grace, body.reason.as_deref()).await;
    Ok(reply::ok(&call.app.show(&cancelled?)))
}

pub async fn requeue(mut call: Call, admin: Admin) -> Result<Response, Error> {
    let body: RequeueBody = parse_or_empty(&call.read().await?)?;
    let tenant = one_tenant(&call, &admin)?;
    let (command, id) = (call.param("command"), call.param("id"));
    let task = call.broker()?.requeue(&tenant, &command, &id, body.max_attempts).await?;
    Ok(reply::ok(&call.app.show(&task)))
}

pub async fn run_now(call: Call, admin: Admin) -> Result<Response, Error> {
    let tenant = one_tenant(&call, &admin)?;
    let task = call.broker()?.run_now(&tenant, &call.param("id")).await?;
    Ok(reply::ok(&call.app.show(&task)))
}

pub async fn remove(call: Call, admin: Admin) -> Result<Response, Error> {
    let tenant = one_tenant(&call, &admin)?;
    call.broker()?.remove(&tenant, &call.param("command"), &call.param("id")).await?;
    Ok(reply::no_content())
}

pub async fn pause(call: Call, admin: Admin) -> Result<Response, Error> {
    set_paused(call, admin, true).await
}

pub async fn resume(call: Call, admin: Admin) -> Result<Response, Error> {
    set_paused(call, admin, false).await
}

async fn set_paused(call: Call, admin: Admin, is_paused: bool) -> Result<Response, Error> {
    let tenant = one_tenant(&call, &admin)?;
    let stats = call.broker()?.pause(&tenant, &call.param("command"), is_paused).await?;
    Ok(reply::ok(&view(&stats, call.app.now())))
}

pub async fn cancel_all(mut call: Call, admin: Admin) -> Result<Response, Error> {
    let body: BulkBody = parse_or_empty(&call.read().await?)?;
    // Without a filter it would end everything, which nobody asks for by leaving something out.
    if body.filter.as_ref().is_none_or(|filter| filter.is_empty()) {
        return Err(Refusal::InvalidFilter("filter is required".into()).into());
    }
    bulk(call, admin, OperationKind::Cancel, body, None).await
}

pub async fn requeue_all(mut call: Call, admin: Admin) -> Result<Response, Error> {
    let body: BulkBody = parse_or_empty(&call.read().await?)?;
    bulk(call, admin, OperationKind::Requeue, body, None).await
}

pub async fn requeue_failed(mut call: Call, admin: Admin) -> Result<Response, Error> {
    let body: BulkBody = parse_or_empty(&call.read().await?)?;
    bulk(call, admin, OperationKind::Requeue, body, Some(Whereabouts::Failed)).await
}

async fn bulk(
    call: Call,
    admin: Admin,
    kind: OperationKind,
    body: BulkBody,
    place: Option<Whereabouts>,
) -> Result<Response, Error> {
    let mut filter = filter::of_body(body.filter)?;
    filter.place = place.or(filter.place);
    if let Some(group) = body.group.filter(|group| !group.is_empty()) {
        filter.group = Some(group);
    }
    if kind == OperationKind::Requeue {
        filter = in_command(&call, filter);
    }
    let request = BulkRequest {
        kind,
        tenant: scope(&call, &admin)?,
        filter,
        max_attempts: body.max_attempts,
        rate_per_second: body.rate_per_second.unwrap_or(0),
        by: admin.0.subject.clone(),
    };
    if body.dry_run == Some(true) {
        let matched = call.broker()?.matched(&request).await?;
        return Ok(Deed::dry().with(reply::ok(&Matched { matched })));
    }
    accepted(call, request).await
}

pub async fn remove_all(call: Call, admin: Admin) -> Result<Response, Error> {
    let filter = filter::of_query(&call, &["confirm", "ratePerSecond"])?;
    if call.query("confirm").as_deref() != Some("true") {
        return Err(Refusal::ConfirmRequired.into());
    }
    let rate = call.query("ratePerSecond").and_then(|rate| rate.parse().ok());
    let request = BulkRequest {
        kind: OperationKind::Delete,
        tenant: scope(&call, &admin)?,
        filter: in_command(&call, filter),
        max_attempts: None,
        rate_per_second: rate.unwrap_or(0),
        by: admin.0.subject.clone(),
    };
    accepted(call, request).await
}

async fn accepted(call: Call, request: BulkRequest) -> Result<Response, Error> {
    let operation = call.broker()?.start_operation(request).await?;
    Ok(reply::json(StatusCode::ACCEPTED, &shown(&operation, &call.app.stamp)))
}

pub async fn operations(call: Call, admin: Admin) -> Result<Response, Error> {
    let tenant = scope(&call, &admin)?;
    let found = call.broker()?.operations(tenant.as_ref()).await?;
    let items = found.iter().map(|operation| shown(operation, &call.app.stamp)).collect();
    Ok(reply::ok(&OperationPage { items, next: None }))
}

pub async fn operation(call: Call, admin: Admin) -> Result<Response, Error> {
    let tenant = scope(&call, &admin)?;
    let operation = call.broker()?.operation(tenant.as_ref(), &call.param("id")).await?;
    Ok(reply::ok(&shown(&operation, &call.app.stamp)))
}

pub async fn cancel_operation(call: Call, admin: Admin) -> Result<Response, Error> {
    let tenant = scope(&call, &admin)?;
    let operation = call.broker()?.cancel_operation(tenant.as_ref(), &call.param("id")).await?;
    Ok(reply::ok(&shown(&operation, &call.app.stamp)))
}

pub fn shown(operation: &Operation, stamp: &WireTime) -> OperationBody {
    OperationBody {
        id: format!("{:032x}", operation.id),
        kind: operation.kind.word().into(),
        state: operation.state.word().into(),
        matched: operation.matched,
        processed: operation.processed,
        failed: operation.failed,
        created_at: stamp.text(operation.created_at),
        updated_at: stamp.text(operation.updated_at),
        error: operation.error.clone(),
        filter: filter::shown(&operation.filter, stamp),
        cause: operation.cause.clone(),
        by: operation.by.as_deref().map(Into::into),
    }
}
