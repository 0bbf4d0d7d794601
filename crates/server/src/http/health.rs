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
    Ok(reply::ok(&body("ok")))
}

fn body(status: &'static str) -> HealthBody<'static> {
    HealthBody {
        status: status.into(),
        reason: None,
        unavailable: Vec::new(),
        failing: Vec::new(),
        clock_ahead_seconds: None,
    }
}

/// What is amiss though the server takes work is told; who asks for it gets a 503 then.
pub async fn ready(call: Call) -> Result<Response, Error> {
    let app = &call.app;
    let failing: Vec<String> = app.supervisor.failing().into_iter().map(str::to_owned).collect();
    let unavailable = away(app);
    let is_strict = call.query("strict").is_some_and(|strict| strict == "1");
    let (is_away, is_failing) = (!unavailable.is_empty(), !failing.is_empty());
    let told = |status| {
        let clock_ahead_seconds = app.clock_ahead_seconds();
        HealthBody { unavailable, failing, clock_ahead_seconds, ..body(status) }
    };
    let reason = obstacle(app).or(match (is_strict, is_away, is_failing) {
        (true, true, _) => Some("store"),
        (true, false, true) => Some("background"),
        _ => None,
    });
    let Some(reason) = reason else {
        return Ok(reply::ok(&told(if is_away || is_failing { "degraded" } else { "ok" })));
    };
    let body = HealthBody { reason: Some(reason.into()), ..told("unavailable") };
    let mut response = reply::json(StatusCode::SERVICE_UNAVAILABLE, &body);
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
    app.metrics.count_failures(&app.supervisor.failures());
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
    fn app() -> App {
        let sources = Sources { mode: Mode::Dev, file: None, env: Vec::new(), flags: Vec::new() };
        let config = load(sources).expect("a sound configuration").config;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let gate = Arc::new(Gate::new(crate::gate_options(&config, clock.clone())).expect("a gate"));
        let (metrics, feed) = (Arc::new(Metrics::new()), Arc::new(Feed::new()));
        App::new(&config, gate, metrics, feed, clock, CancellationToken::new())
    }

    async fn ask(entry: &Entry, path: &str) -> (u16, String) {
        let request = Request::builder().uri(path).body(Body::empty()).expect("a request");
        let response = entry.clone().serve(request).await;
        let status = response.status().as_u16();
        let body = http_body_util::BodyExt::collect(response.into_body()).await.expect("a body");
        (status, String::from_utf8(body.to_bytes().to_vec()).expect("text"))
    }

    #[tokio::test]
    async fn until_the_store_is_open_the_process_lives_and_nothing_else_is_there() {
        let entry = Entry::new(Arc::new(app()));
        for (path, status) in [("/livez", 200), ("/healthz", 200), ("/readyz", 503), ("/metrics", 503)] {
            assert_eq!(ask(&entry, path).await.0, status, "{path}");
        }
    }

    /// What had panicked was not there any more, and nobody could tell.
    #[tokio::test]
    async fn background_work_that_fails_is_told() {
        let app = Arc::new(app());
        let entry = Entry::new(app.clone());
        let store = codeq_store::memory::open(codeq_store::memory::MemoryOptions {
            rules: codeq_store::Rules::default(),
            shards: 1,
            clock: Arc::new(SystemClock),
            observer: None,
        });
        let directory = tempfile::tempdir().expect("a directory");
        let files = crate::config::Artifacts { local_dir: directory.path().to_owned(), s3: None };
        let artifacts = crate::artifacts::Artifacts::open(&files).expect("a directory for files");
        let (clock, settings) = (Arc::new(SystemClock), crate::broker::Settings::default());
        let draining = CancellationToken::new();
        let store = store.expect("memory opens");
        app.open(Arc::new(crate::broker::Broker::new(store, clock, settings, Arc::new(artifacts), draining)));
        assert_eq!(ask(&entry, "/readyz").await, (200, r#"{"status":"ok"}"#.to_owned()));
        app.supervisor.note("callbacks");
        let told = r#"{"status":"degraded","failing":["callbacks"]}"#;
        assert_eq!(ask(&entry, "/readyz").await, (200, told.to_owned()));
        let told = r#"{"status":"unavailable","reason":"background","failing":["callbacks"]}"#;
        assert_eq!(ask(&entry, "/readyz?strict=1").await, (503, told.to_owned()));
        let (_, page) = ask(&entry, "/metrics").await;
        assert!(page.contains("codeq_background_failures_total{work=\"callbacks\"} 1"), "{page}");
    }
}
