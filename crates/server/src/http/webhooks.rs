//! The outbox as operators see it.

use super::admin::{one_tenant, scope};
use super::audit::Deed;
use super::call::{Call, parse_or_empty};
use super::error::Error;
use super::reply;
use super::search::limit;
use crate::auth::Admin;
use crate::broker::DeliveryFilter;
use crate::stamp::WireTime;
use crate::webhook::{AnsweredAttempt, ReceiverAnswer};
use axum::http::StatusCode;
use axum::response::Response;
use codeq_api::admin::{DeliveryBody, DeliveryPage, RedeliverBody, RedeliveredBody};
use codeq_queue::{Delivery, DeliveryState, Refusal, TaskId};
use std::borrow::Cow;

pub async fn list(call: Call, admin: Admin) -> Result<Response, Error> {
    let state = call.query("state").filter(|state| !state.is_empty());
    let state = state.as_deref().unwrap_or("pending");
    if !["pending", "failed", "delivered"].contains(&state) {
        return Err(Refusal::InvalidBody.into());
    }
    let task = call.query("taskId").filter(|id| !id.is_empty());
    let filter = DeliveryFilter {
        tenant: scope(&call, &admin)?,
        is_failed: state == "failed",
        task: task.map(|id| TaskId::parse(&id)),
        after: cursor(call.query("cursor").as_deref())?,
        limit: limit(call.query("limit").as_deref()),
    };
    let broker = call.broker()?;
    if state == "delivered" {
        let (found, next) = broker.delivered(&filter);
        let items = found.iter().map(|attempt| delivered(attempt, &call.app.stamp)).collect();
        return Ok(reply::ok(&DeliveryPage { items, next: next.map(|number| format!("{number:032x}")) }));
    }
    let (found, next) = broker.deliveries(filter).await?;
    let ids: Vec<u128> = found.iter().map(|delivery| delivery.id).collect();
    let mut answers = broker.answers().answers(&ids);
    let items = found.iter().map(|delivery| {
        let answer = answers.remove(&delivery.id).filter(|_| delivery.attempts > 0);
        answered(shown(delivery, &call.app.stamp), answer)
    });
    Ok(reply::ok(&DeliveryPage { items: items.collect(), next: next.map(|id| format!("{id:032x}")) }))
}

/// Makes callbacks that failed due again, up to a bound.
pub async fn redeliver_all(mut call: Call, admin: Admin) -> Result<Response, Error> {
    let body: RedeliverBody = parse_or_empty(&call.read().await?)?;
    let tenant = one_tenant(&call, &admin)?;
    let task = body.task_id.filter(|id| !id.is_empty()).map(|id| TaskId::parse(&id));
    let (redelivered, has_more) = call.broker()?.redeliver_all(&tenant, task).await?;
    let answer = reply::json(StatusCode::ACCEPTED, &RedeliveredBody { redelivered, has_more });
    Ok(Deed::count(redelivered).with(answer))
}

pub async fn redeliver(call: Call, admin: Admin) -> Result<Response, Error> {
    let tenant = one_tenant(&call, &admin)?;
    let delivery = call.broker()?.redeliver(tenant, &call.param("id")).await?;
    Ok(reply::json(StatusCode::ACCEPTED, &shown(&delivery, &call.app.stamp)))
}

fn cursor(given: Option<&str>) -> Result<u128, Refusal> {
    match given {
        None | Some("") => Ok(0),
        Some(text) => u128::from_str_radix(text, 16).map_err(|_| Refusal::InvalidBody),
    }
}

fn shown<'a>(delivery: &'a Delivery, stamp: &WireTime) -> DeliveryBody<'a> {
    let (state, next_attempt_at) = match delivery.state {
        DeliveryState::Pending { due } => ("pending", Some(stamp.text(due))),
        DeliveryState::Failed { .. } => ("failed", None),
    };
    DeliveryBody {
        id: format!("{:032x}", delivery.id),
        task_id: delivery.task_id.to_string(),
        url: Cow::Borrowed(&delivery.url),
        state: state.into(),
        attempts: delivery.attempts,
        next_attempt_at,
        last_error: delivery.last_error.as_deref().map(Cow::Borrowed),
        created_at: stamp.text(delivery.created_at),
        delivered_at: None,
        response_status: None,
        response_body: None,
    }
}

fn answered(body: DeliveryBody<'_>, answer: Option<ReceiverAnswer>) -> DeliveryBody<'_> {
    let Some(answer) = answer else { return body };
    let response_body = Some(answer.head.into_string()).filter(|head| !head.is_empty());
    DeliveryBody { response_status: Some(answer.status), response_body, ..body }
}

fn delivered<'a>(attempt: &'a AnsweredAttempt, stamp: &WireTime) -> DeliveryBody<'a> {
    let body = answered(shown(&attempt.delivery, stamp), attempt.answer.clone());
    DeliveryBody {
        state: "delivered".into(),
        attempts: attempt.delivery.attempts + 1,
        next_attempt_at: None,
        last_error: None,
        delivered_at: Some(stamp.text(attempt.at)),
        ..body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_brought_into_their_bounds_and_cursors_are_hex() {
        let asked = [None, Some("7"), Some("0"), Some("-3"), Some("9999"), Some("many")];
        assert_eq!(asked.map(limit), [50, 7, 1, 1, 500, 50]);
        assert_eq!(cursor(Some("0000000000000000000000000000000f")), Ok(15));
        assert_eq!(cursor(None), Ok(0));
        assert_eq!(cursor(Some("next")), Err(Refusal::InvalidBody));
    }
}
