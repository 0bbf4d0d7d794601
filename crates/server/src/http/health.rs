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
    Ok(reply::ok(&HealthBody {
        status: "ok".into(),
        reason: None,
        unavailable: Vec::new(),
        clock_ahead_seconds: None,
    }))
}

pub async fn ready(call: Call) -> Result<Response, Error> {
    let reason = obstacle(&call.app);
    let away = away(&call.app);
    let is_strict = call.query("strict").is_some_and(|strict| strict == "1");
    match reason {
        None if away.is_empty() || !is_strict => {
            let status = if away.is_empty() { "ok" } else { "degraded" };
            let clock_ahead_seconds = call.app.clock_ahead_seconds();
            let (status, reason) = (status.into(), None);
            Ok(reply::ok(&HealthBody { status, reason, unavailable: away, clock_ahead_seconds }))
        }
        _ => Ok(unavailable(&call.app, reason.unwrap_or("store"), away)),
    }
}

fn unavailable(app: &App, reason: &'static str, away: Vec<String>) -> Response {
    let body = HealthBody {
        status: "unavailable".into(),
        reason: Some(reason.into()),
        unavailable: away,
        clock_ahead_seconds: app.clock_ahead_seconds(),
    };
    let mut response = reply::json(StatusCode::SERVICE_UNAVAILABLE, &body);
    response.headers_mut().insert(axum::http::header::RETRY_AFTER, 1.into());
    response
}

/// What keeps the server from taking work.
fn obstacle(app: &App) -> Option<&'static str> {
    if app.is_draining() {
        return Some("shutdown");
    }
    match app.broker().map(|broker| broker.health()) {
        None => Some("starting"),
        Some(Health::Ready | Health::Degraded(_)) => None,
        Some(_) => Some("store"),
    }
}

/// The shards whose servers are away, while others serve.
pub fn away(app: &App) -> Vec<String> {
    match app.broker().map(|broker| broker.health()) {
        Some(Health::Degraded(shards)) => shards,
        _ => Vec::new(),
    }
}

pub async fn metrics(call: Call) -> Result<Response, Error> {
    match call.app.has_metrics_port {
        true => Err(Error::route_not_found()),
        false => render_metrics(&call.app).await,
    }
}

pub async fn render_metrics(app: &App) -> Result<Response, Error> {
    let text = app.metrics.page(app.broker().ok_or_else(Error::starting)?).await?;
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    Ok(reply::with_type(StatusCode::OK, kind, text))
}

/// The original could run as a cluster of its own; this one leaves that to the store.
pub async fn raft_status(_: Call, _: Reader) -> Result<Response, Error> {
    Ok(reply::ok(&RaftStatus { enabled: false, num_groups: 0 }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Gate;
    use crate::config::{Mode, Sources, load};
    use crate::events::Feed;
    use crate::http::Entry;
    use crate::metrics::Metrics;
    use axum::body::Body;
    use axum::extract::Request;
    use codeq_store::{Clock, SystemClock};
    use std::sync::Arc;
    use tokio_util::sync::CancellationToken;

    /// Probes that were made for a server that did not listen before its store was open ask `/metrics`, and passed
    /// too early. `/healthz` tells that the process serves, as `/livez` does.
    #[tokio::test]
    async fn until_the_store_is_open_the_process_lives_and_nothing_else_is_there() {
        let sources = Sources { mode: Mode::Dev, file: None, env: Vec::new(), flags: Vec::new() };
        let config = load(sources).expect("a sound configuration").config;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let gate = Arc::new(Gate::new(crate::gate_options(&config, clock.clone())).expect("a gate"));
        let (metrics, feed) = (Arc::new(Metrics::new()), Arc::new(Feed::new()));
        let app = App::new(&config, gate, metrics, feed, clock, CancellationToken::new());
        let entry = Entry::new(Arc::new(app));
        for (path, status) in [("/livez", 200), ("/healthz", 200), ("/readyz", 503), ("/metrics", 503)] {
            let request = Request::builder().uri(path).body(Body::empty()).expect("a request");
            assert_eq!(entry.clone().serve(request).await.status(), status, "{path}");
        }
    }
}
