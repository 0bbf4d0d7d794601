//! The outbox as operators see it.

use super::admin::{one_tenant, scope};
use super::call::Call;
use super::error::Error;
use super::reply;
use super::search::limit;
use crate::auth::Admin;
use crate::broker::DeliveryFilter;
use crate::stamp::Stamp;
use axum::http::StatusCode;
use axum::response::Response;
use codeq_api::admin::{DeliveryBody, DeliveryPage};
use codeq_queue::{Delivery, DeliveryState, Refusal, TaskId};
use std::borrow::Cow;

pub async fn list(call: Call, admin: Admin) -> Result<Response, Error> {
    let is_failed = match call.query("state").as_deref() {
        None | Some("pending") => false,
        Some("failed") => true,
        Some(_) => return Err(Refusal::InvalidBody.into()),
    };
    let task = call.query("taskId").filter(|id| !id.is_empty());
    let filter = DeliveryFilter {
        tenant: scope(&call, &admin)?,
        is_failed,
        task: task.map(|id| TaskId::parse(&id)),
        after: cursor(call.query("cursor").as_deref())?,
        limit: limit(call.query("limit").as_deref()),
    };
    let (found, next) = call.broker()?.deliveries(filter).await?;
    let items = found.iter().map(|delivery| shown(delivery, &call.app.stamp)).collect();
    Ok(reply::ok(&DeliveryPage { items, next: next.map(|id| format!("{id:032x}")) }))
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

fn shown<'a>(delivery: &'a Delivery, stamp: &Stamp) -> DeliveryBody<'a> {
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
