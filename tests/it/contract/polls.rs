//! Waiting claims and waiting result reads: semantics §14.

use super::{UNKNOWN_ID, claim, create, get, id, post, refused, running};
use crate::harness::{Answer, DEV_TOKEN, Server, answer};
use reqwest::Method;
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// A wake-up is a matter of milliseconds. A loaded machine may take its time, but not what the calls would wait.
const WOKEN: Duration = Duration::from_secs(10);
/// How long a wait of one second takes. The server counts in milliseconds.
const A_SECOND: std::ops::Range<Duration> = Duration::from_millis(998)..WOKEN;

/// A claim that the server holds, and when it was answered.
async fn held_claim(server: &Server, command: &str, seconds: i64) -> JoinHandle<(Answer, Instant)> {
    let body = json!({"commands": [command], "waitSeconds": seconds});
    held(server, server.request(Method::POST, "/v1/codeq/tasks/claim").body(body.to_string())).await
}

async fn held(server: &Server, request: reqwest::RequestBuilder) -> JoinHandle<(Answer, Instant)> {
    let request = request.bearer_auth(DEV_TOKEN);
    let held = tokio::spawn(async move { (answer(request).await, Instant::now()) });
    // By the time another request has been answered, this one has been sent.
    get(server, "/raft/status").await;
    held
}

#[tokio::test]
async fn a_waiting_claim_is_woken_by_a_create() {
    let server = Server::dev();
    let poll = held_claim(&server, "c", 20).await;
    let created = create(&server, json!({"command": "c", "payload": 1})).await;
    let since = Instant::now();
    let (claimed, at) = poll.await.expect("no panic");
    assert_eq!((claimed.status, &claimed.json["id"]), (200, &created["id"]), "{}", claimed.text);
    assert!(at.saturating_duration_since(since) < WOKEN);
}

#[tokio::test]
async fn a_waiting_claim_is_woken_by_a_return() {
    let server = Server::dev();
    let id = running(&server, "c", json!({})).await;
    let poll = held_claim(&server, "c", 20).await;
    let since = Instant::now();
    post(&server, &format!("/tasks/{id}/abandon"), json!({})).await;
    let (claimed, at) = poll.await.expect("no panic");
    assert_eq!((&claimed.json["id"], &claimed.json["attempts"]), (&json!(id), &json!(2)));
    assert!(at.saturating_duration_since(since) < WOKEN);
}

#[tokio::test]
async fn a_waiting_claim_ends_empty_at_its_deadline_and_not_before() {
    let server = Server::dev();
    let started = Instant::now();
    let poll = held_claim(&server, "none", 1).await;
    create(&server, json!({"command": "other", "payload": 1})).await;
    let (answer, at) = poll.await.expect("no panic");
    assert_eq!((answer.status, &*answer.text), (204, ""));
    let waited = at - started;
    assert!(A_SECOND.contains(&waited), "{waited:?}");
    for seconds in [0, -5] {
        let started = Instant::now();
        let body = json!({"commands": ["none"], "waitSeconds": seconds});
        assert_eq!(post(&server, "/tasks/claim", body).await.status, 204);
        assert!(started.elapsed() < WOKEN);
    }
}

#[tokio::test]
async fn nothing_is_lost_to_a_caller_that_hung_up() {
    let server = Server::dev();
    let poll = held_claim(&server, "c", 20).await;
    poll.abort();
    let _ = poll.await;
    let created = create(&server, json!({"command": "c", "payload": 1, "maxAttempts": 1})).await;
    let claimed = claim(&server, json!({"commands": ["c"], "waitSeconds": 5})).await;
    assert_eq!(claimed["id"], created["id"]);
    let refunds = claimed["refunds"].as_i64().unwrap_or(0);
    assert_eq!(claimed["attempts"].as_i64(), Some(refunds + 1), "no attempt was counted: {claimed}");
}

#[tokio::test]
async fn a_result_read_is_woken_by_the_end_of_the_task() {
    let server = Server::dev();
    let id = running(&server, "c", json!({})).await;
    let path = format!("/v1/codeq/tasks/{id}/result?waitSeconds=60");
    let poll = held(&server, server.request(Method::GET, &path)).await;
    let since = Instant::now();
    let done =
        post(&server, &format!("/tasks/{id}/result"), json!({"status": "COMPLETED", "result": {}})).await;
    let (read, at) = poll.await.expect("no panic");
    assert_eq!((read.status, &read.json["result"]), (200, &done.json), "{}", read.text);
    assert!(at.saturating_duration_since(since) < WOKEN);
}

#[tokio::test]
async fn a_result_read_ends_at_its_deadline_and_an_unknown_task_at_once() {
    let server = Server::dev();
    let task = create(&server, json!({"command": "c", "payload": 1})).await;
    let path = format!("/tasks/{}/result", id(&task));
    let started = Instant::now();
    let read = get(&server, &format!("{path}?waitSeconds=1")).await;
    let waited = started.elapsed();
    refused(&read, 404, "result_not_found", "result not found");
    assert!(A_SECOND.contains(&waited), "{waited:?}");
    let started = Instant::now();
    for query in
        ["", "?waitSeconds=0", "?waitSeconds=-3", "?waitSeconds=x", "?waitSeconds=1.5", "?waitSeconds="]
    {
        let read = get(&server, &format!("{path}{query}")).await;
        refused(&read, 404, "result_not_found", "result not found");
    }
    let unknown = get(&server, &format!("/tasks/{UNKNOWN_ID}/result?waitSeconds=30")).await;
    refused(&unknown, 404, "task_not_found", "task not found");
    assert!(started.elapsed() < WOKEN);
}
