//! Storage that is not there yet, goes away, comes back, or is going for good.

use super::double::{SECRET, Switched};
use super::keys::free_address;
use super::wire::{Reply, Wire};
use super::{NOBODY, request};
use codeq_queue::{Failure, Store};
use codeq_server::config::{self, Config, Mode, Sources};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A server in this process.
struct Local {
    address: String,
    /// Gives the server its store.
    open: Option<oneshot::Sender<Arc<dyn Store>>>,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<Result<(), codeq_server::ServeError>>,
}

fn config(address: &str) -> Config {
    let port = address.rsplit(':').next().expect("a port").to_owned();
    let flags = vec![("port", port), ("persistenceProvider", "memory".to_owned())];
    config::load(Sources { mode: Mode::Dev, file: None, env: Vec::new(), flags })
        .expect("a configuration")
        .config
}

impl Local {
    /// A server whose store is still being opened.
    async fn starting() -> Local {
        let address = free_address().to_string();
        let (open, store) = oneshot::channel::<Arc<dyn Store>>();
        let (stop, stopped) = oneshot::channel::<()>();
        let store = async { store.await.map_err(|_| "the test has ended".to_owned()) };
        let shutdown = async {
            let _ = stopped.await;
            "the test"
        };
        let served = tokio::spawn(codeq_server::run(config(&address), |_| store, |_| (), shutdown));
        while tokio::net::TcpStream::connect(&address).await.is_err() {
            tokio::task::yield_now().await;
        }
        Local { address, open: Some(open), stop: Some(stop), served }
    }

    async fn with(store: Arc<dyn Store>) -> Local {
        let mut local = Local::starting().await;
        local.open(store).await;
        local
    }

    async fn open(&mut self, store: Arc<dyn Store>) {
        let open = self.open.take().expect("a store is opened once");
        assert!(open.send(store).is_ok(), "the server waits for its store");
        while self.ask("GET", "/readyz", "").await.json()["reason"] == "starting" {
            tokio::task::yield_now().await;
        }
    }

    async fn ask(&self, method: &str, target: &str, body: &str) -> Reply {
        let mut wire = Wire::to(&self.address).await;
        wire.send(&request(method, target, body)).await;
        wire.reply().await.expect("an answer")
    }

    async fn stop(mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
        self.served.await.expect("no panic").expect("a clean end");
    }
}

/// Every route that needs the store, with the words of its failures: 503 and 500.
fn routes() -> Vec<(&'static str, String, &'static str, &'static str, &'static str)> {
    let task = |rest: &str| format!("/v1/codeq/tasks/{NOBODY}{rest}");
    let (gone, broken) = ("storage unavailable", "internal error");
    let policy = r#"{"priorityTiers":[1],"maxAttempts":1,"deadLetterTopicRef":"d"}"#;
    let result = r#"{"status":"COMPLETED","result":{}}"#;
    let results =
        r#"{"results":[{"taskId":"5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11","status":"COMPLETED","result":{}}]}"#;
    vec![
        ("POST", "/v1/codeq/tasks".into(), r#"{"command":"c","payload":1}"#, gone, broken),
        (
            "POST",
            "/v1/codeq/tasks/batch".into(),
            r#"{"tasks":[{"command":"c"},{"command":"d"}]}"#,
            gone,
            broken,
        ),
        ("POST", "/v1/codeq/tasks/claim".into(), "", gone, broken),
        ("POST", "/v1/codeq/tasks/claim".into(), r#"{"waitSeconds":5}"#, gone, broken),
        ("POST", "/v1/codeq/tasks/claim/batch".into(), r#"{"count":3}"#, gone, broken),
        ("POST", task("/heartbeat"), "", gone, broken),
        ("POST", task("/abandon"), "", gone, broken),
        ("POST", task("/nack"), "", gone, broken),
        ("POST", task("/result"), result, gone, broken),
        ("POST", "/v1/codeq/tasks/batch/results".into(), results, "batch submit failed", broken),
        ("GET", task(""), "", gone, broken),
        ("GET", task("/result"), "", gone, broken),
        ("GET", task("/result?waitSeconds=5"), "", gone, broken),
        ("GET", task("/artifacts/a"), "", gone, broken),
        ("POST", "/v1/codeq/workers/subscriptions".into(), r#"{"callbackUrl":"http://h/"}"#, gone, broken),
        ("POST", format!("/v1/codeq/workers/subscriptions/{NOBODY}/heartbeat"), "", gone, broken),
        ("GET", "/v1/codeq/admin/queues".into(), "", gone, broken),
        ("GET", "/v1/codeq/admin/queues?view=stats".into(), "", gone, broken),
        ("GET", "/v1/codeq/admin/queues/c".into(), "", gone, broken),
        ("POST", "/v1/codeq/admin/tasks/cleanup".into(), "", gone, broken),
        ("PUT", "/v1/codeq/admin/topics/t".into(), policy, gone, "queue topic operation failed"),
        ("GET", "/v1/codeq/admin/topics/t".into(), "", gone, "queue topic operation failed"),
        (
            "DELETE",
            "/v1/codeq/admin/topics/t?deletionPolicy=Delete".into(),
            "",
            gone,
            "queue topic operation failed",
        ),
    ]
}

fn assert_retryable(reply: &Reply, what: &str) {
    let seconds = reply.header("retry-after").and_then(|text| text.parse::<u64>().ok());
    assert!(seconds.is_some_and(|seconds| seconds >= 1), "{what}: {reply:?}");
}

async fn assert_all_unavailable(local: &Local) {
    for (method, target, body, gone, _) in routes() {
        let reply = local.ask(method, &target, body).await;
        let what = format!("{method} {target}");
        reply.assert_error(503, "storage_unavailable", &what);
        assert_eq!(reply.json()["error"], gone, "{what}");
        assert_retryable(&reply, &what);
        assert!(!reply.body.contains("secret") && !reply.head.contains("secret"), "{what} leaks {reply:?}");
    }
}

async fn assert_ready(local: &Local, reason: Option<&str>) {
    let ready = local.ask("GET", "/readyz", "").await;
    let expected: Value = match reason {
        Some(reason) => json!({"status": "unavailable", "reason": reason}),
        None => json!({"status": "ok"}),
    };
    assert_eq!(ready.json(), expected);
    assert_eq!(ready.status, if reason.is_some() { 503 } else { 200 });
    for path in ["/livez", "/healthz"] {
        let live = local.ask("GET", path, "").await;
        assert_eq!((live.status, live.json()), (200, json!({"status": "ok"})));
    }
}

async fn assert_works(local: &Local) {
    assert_ready(local, None).await;
    let created = local.ask("POST", "/v1/codeq/tasks", r#"{"command":"works","payload":1}"#).await;
    assert_eq!(created.status, 202);
    let claimed = local.ask("POST", "/v1/codeq/tasks/claim", r#"{"commands":["works"]}"#).await;
    assert_eq!((claimed.status, &claimed.json()["id"]), (200, &created.json()["id"]));
}

#[tokio::test]
async fn storage_that_goes_away_is_told_on_every_route_and_forgotten_when_it_is_back() {
    let store = Switched::open();
    let local = Local::with(store.clone()).await;
    assert_works(&local).await;
    for failure in [Failure::unavailable(SECRET), Failure::unknown(SECRET)] {
        store.set(Some(failure));
        assert_all_unavailable(&local).await;
        assert_ready(&local, Some("store")).await;
        store.set(None);
        assert_works(&local).await;
    }
    local.stop().await;
}

#[tokio::test]
async fn a_broken_store_is_an_internal_error_and_nothing_of_it_is_told() {
    let store = Switched::open();
    let local = Local::with(store.clone()).await;
    store.set(Some(Failure::Internal(SECRET.into())));
    for (method, target, body, _, broken) in routes() {
        let reply = local.ask(method, &target, body).await;
        reply.assert_error(500, "internal", &target);
        assert_eq!(reply.json()["error"], broken, "{method} {target}");
        assert!(!reply.body.contains("secret") && !reply.head.contains("secret"), "{target} leaks {reply:?}");
    }
    store.set(Some(Failure::Closed));
    for (method, target, body, ..) in routes() {
        let reply = local.ask(method, &target, body).await;
        reply.assert_error(503, "shutting_down", &target);
        assert_retryable(&reply, &target);
    }
    store.set(None);
    assert_works(&local).await;
    local.stop().await;
}

#[tokio::test]
async fn a_batch_with_a_bad_item_is_answered_item_by_item_while_the_store_is_away() {
    let store = Switched::open();
    let local = Local::with(store.clone()).await;
    store.set(Some(Failure::unavailable(SECRET)));
    let tasks = r#"{"tasks":[{"command":"not a command"},{"command":"c"}]}"#;
    let created = local.ask("POST", "/v1/codeq/tasks/batch", tasks).await;
    let expected = json!({"results": [
        {"error": "invalid command", "code": "invalid_command"},
        {"error": "storage unavailable", "code": "storage_unavailable"},
    ]});
    assert_eq!((created.status, created.json()), (200, expected));
    let results = format!(
        r#"{{"results":[{{"taskId":"x","status":"FAILED","error":"e"}},{{"taskId":"{NOBODY}","status":"FAILED","error":"e"}}]}}"#
    );
    let submitted = local.ask("POST", "/v1/codeq/tasks/batch/results", &results).await;
    let expected = json!({"results": [
        {"taskId": "x", "error": "task not found", "code": "task_not_found"},
        {"taskId": NOBODY, "error": "storage unavailable", "code": "storage_unavailable"},
    ]});
    assert_eq!((submitted.status, submitted.json()), (200, expected));
    let refused =
        local.ask("POST", "/v1/codeq/tasks/batch", r#"{"tasks":[{"command":"not a command"}]}"#).await;
    assert_eq!(refused.status, 200, "nothing of it reached the store");
    local.stop().await;
}

#[tokio::test]
async fn a_server_that_is_starting_lives_and_is_not_ready() {
    let mut local = Local::starting().await;
    assert_ready(&local, Some("starting")).await;
    for (method, target, body, ..) in routes() {
        let reply = local.ask(method, &target, body).await;
        reply.assert_error(503, "storage_unavailable", &target);
        assert_retryable(&reply, &target);
    }
    local.open(Switched::open()).await;
    assert_works(&local).await;
    local.stop().await;
}

/// A balancer that asks over a connection it had already begun to use.
#[tokio::test]
async fn a_server_that_shuts_down_says_so_and_ends_its_waits() {
    let mut local = Local::with(Switched::open()).await;
    let created = local.ask("POST", "/v1/codeq/tasks", r#"{"command":"waited-for","payload":1}"#).await;
    let id = created.json()["id"].as_str().expect("an id").to_owned();
    let mut asking = Wire::to(&local.address).await;
    asking.send(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n").await;
    let mut claiming = Wire::to(&local.address).await;
    claiming
        .send(&request("POST", "/v1/codeq/tasks/claim", r#"{"commands":["none"],"waitSeconds":30}"#))
        .await;
    let mut reading = Wire::to(&local.address).await;
    reading.send(&request("GET", &format!("/v1/codeq/tasks/{id}/result?waitSeconds=60"), "")).await;
    // Whoever is answered now, the others have been read before.
    for _ in 0..20 {
        assert_ready(&local, None).await;
    }
    let _ = local.stop.take().map(|stop| stop.send(()));
    assert_eq!(claiming.reply().await.expect("a held claim is ended").status, 204);
    reading.reply().await.expect("a held read is ended").assert_error(404, "result_not_found", "shutdown");
    asking.send(b"\r\n").await;
    let ready = asking.reply().await.expect("a request begun before is answered");
    assert_eq!((ready.status, ready.json()), (503, json!({"status": "unavailable", "reason": "shutdown"})));
    local.served.await.expect("no panic").expect("a clean end");
    assert!(tokio::net::TcpStream::connect(&local.address).await.is_err(), "it still listens");
}
