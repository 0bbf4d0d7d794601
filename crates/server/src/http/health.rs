//! Whether the process lives and whether it can take work.

use super::call::Call;
use super::error::Error;
use super::{App, reply};
use crate::auth::Reader;
use axum::http::{HeaderValue, StatusCode};
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

pub async fn metrics(call: Call) -> Result<Response, Error> {
    match call.app.has_metrics_port {
        true => Err(Error::route_not_found()),
        false => render_metrics(&call.app).await,
    }
}

pub async fn render_metrics(app: &App) -> Result<Response, Error> {
    let text = app.metrics.render(app.broker()).await?;
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    Ok(reply::with_type(StatusCode::OK, kind, text))
}

/// The original could run as a cluster of its own; this one leaves that to the store.
pub async fn raft_status(_: Call, _: Reader) -> Result<Response, Error> {
    Ok(reply::ok(&RaftStatus { enabled: false, num_groups: 0 }))
}
