//! Whether the process lives and whether it can take work.

use super::call::Call;
use super::error::Error;
use super::{App, reply};
use crate::auth::Reader;
use axum::http::StatusCode;
use axum::response::Response;
use codeq_api::admin::{HealthBody, RaftStatus};
use codeq_queue::store::Health;

pub async fn live(_: Call) -> Result<Response, Error> {
    Ok(reply::ok(&HealthBody { status: "ok".into(), reason: None }))
}

pub async fn ready(call: Call) -> Result<Response, Error> {
    let reason = obstacle(&call.app);
    let status = match reason {
        None => return live(call).await,
        Some(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut response =
        reply::json(status, &HealthBody { status: "unavailable".into(), reason: reason.map(Into::into) });
    response.headers_mut().insert(axum::http::header::RETRY_AFTER, 1.into());
    Ok(response)
}

/// What keeps the server from taking work.
fn obstacle(app: &App) -> Option<&'static str> {
    if app.is_draining() {
        return Some("shutdown");
    }
    match app.broker().map(|broker| broker.health()) {
        None => Some("starting"),
        Some(Health::Ready) => None,
        Some(_) => Some("store"),
    }
}

/// The original could run as a cluster of its own; this one leaves that to the store.
pub async fn raft_status(_: Call, _: Reader) -> Result<Response, Error> {
    Ok(reply::ok(&RaftStatus { enabled: false, num_groups: 0 }))
}
