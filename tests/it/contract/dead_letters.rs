//! Attempts, refunds, expiry and the end they lead to: semantics §4.

use super::{claim, create, fields, get, id, instant, now, post, running, task};
use crate::harness::Server;
use serde_json::{Value, json};

/// The task and its result, as every dead letter shows them.
async fn is_dead(server: &Server, id: &str, error: &str, attempts: i64) {
    let dead = task(server, id).await;
    let shown = json!([dead["status"], dead["lastKnownLocation"], dead["error"], dead["attempts"]]);
    assert_eq!(shown, json!(["FAILED", "DLQ_SET", error, attempts]));
    assert_eq!(dead["resultKey"], format!("codeq/results/{id}"));
    assert!(dead.get("workerId").is_none() && dead.get("leaseUntil").is_none(), "{dead}");
    let read = get(server, &format!("/tasks/{id}/result")).await;
    assert_eq!((read.status, &read.json["task"]), (200, &dead), "{}", read.text);
    let record = &read.json["result"];
    let expected = json!({"taskId": id, "status": "FAILED", "error": error, "failureReason": "MAX_ATTEMPTS",
        "completedAt": record["completedAt"]});
    assert_eq!(*record, expected);
    assert!(instant(&record["completedAt"]) <= now());
}

async fn report(server: &Server, id: &str, verb: &str, body: Value) -> String {
    post(server, &format!("/tasks/{id}/{verb}"), body).await.text
}

#[tokio::test]
async fn the_last_nack_is_the_end() {
    let server = Server::dev();
    for (reason, error) in
        [(json!("boom"), "boom"), (json!(" "), "MAX_ATTEMPTS"), (json!(null), "MAX_ATTEMPTS")]
    {
        let id = running(&server, "c", json!({"maxAttempts": 1})).await;
        let told = report(&server, &id, "nack", json!({"reason": reason, "delaySeconds": 7})).await;
        assert_eq!(told, r#"{"status":"dlq","delaySeconds":0}"#);
        is_dead(&server, &id, error, 1).await;
    }
    assert_eq!(get(&server, "/admin/queues/c").await.json["dlq"], 3);
    assert_eq!(post(&server, "/tasks/claim", json!({})).await.status, 204);
}

#[tokio::test]
async fn the_third_abandon_of_three_attempts_is_the_end() {
    let server = Server::dev();
    let id = running(&server, "c", json!({"maxAttempts": 3})).await;
    for _ in 0..2 {
        assert_eq!(report(&server, &id, "abandon", json!({})).await, r#"{"status":"requeued"}"#);
        claim(&server, json!({"commands": ["c"]})).await;
    }
    assert_eq!(report(&server, &id, "abandon", json!({"attempt": 3})).await, r#"{"status":"dlq"}"#);
    is_dead(&server, &id, "MAX_ATTEMPTS", 3).await;
}

#[tokio::test]
async fn a_refunded_attempt_is_not_counted_but_still_numbered() {
    let server = Server::dev();
    let id = running(&server, "c", json!({"maxAttempts": 1})).await;
    for attempts in 1..4 {
        let told = report(&server, &id, "abandon", json!({"refund": true, "attempt": attempts})).await;
        assert_eq!(told, r#"{"status":"requeued"}"#);
        let back = task(&server, &id).await;
        let shown = (&back["attempts"], &back["refunds"], &back["lastKnownLocation"]);
        assert_eq!(shown, (&json!(attempts), &json!(attempts), &json!("PENDING_LIST")));
        let again = claim(&server, json!({"commands": ["c"]})).await;
        assert_eq!(again["attempts"], attempts + 1);
    }
    assert_eq!(report(&server, &id, "abandon", json!({"refund": false})).await, r#"{"status":"dlq"}"#);
    is_dead(&server, &id, "MAX_ATTEMPTS", 4).await;
}

#[tokio::test]
async fn an_expired_lease_is_an_attempt() {
    let server = super::dev_with(json!({"backoffPolicy": "fixed", "backoffBaseSeconds": 60}));
    let last = id(&create(&server, json!({"command": "c", "payload": 1, "maxAttempts": 1})).await);
    let first = id(&create(&server, json!({"command": "c", "payload": 2, "maxAttempts": 2})).await);
    let count = json!({"count": 2, "leaseSeconds": 1});
    let claimed_at = now();
    assert_eq!(
        post(&server, "/tasks/claim/batch", count).await.json["tasks"].as_array().map(Vec::len),
        Some(2)
    );
    let read = get(&server, &format!("/tasks/{last}/result?waitSeconds=10")).await;
    assert_eq!(fields(&read.json), ["result", "task"], "{}", read.text);
    let took = instant(&read.json["result"]["completedAt"]).millis() - claimed_at.millis();
    assert!((1000..2500).contains(&took), "{took} ms");
    is_dead(&server, &last, "LEASE_EXPIRED", 1).await;
    let back = task(&server, &first).await;
    let shown = json!([back["status"], back["lastKnownLocation"], back["error"], back["attempts"]]);
    assert_eq!(shown, json!(["PENDING", "DELAYED_ZSET", "LEASE_EXPIRED", 1]));
    let late = post(&server, &format!("/tasks/{first}/heartbeat"), json!({"attempt": 1})).await;
    super::refused(&late, 409, "not_in_progress", "not-in-progress");
}

#[tokio::test]
async fn a_failure_told_by_the_worker_is_final_and_no_dead_letter() {
    let server = Server::dev();
    let id = running(&server, "c", json!({"maxAttempts": 5})).await;
    post(&server, &format!("/tasks/{id}/result"), json!({"status": "FAILED", "error": "no"})).await;
    let failed = task(&server, &id).await;
    assert_eq!((&failed["status"], &failed["lastKnownLocation"]), (&json!("FAILED"), &json!("NONE")));
    assert_eq!(get(&server, "/admin/queues/c").await.json["dlq"], 0);
}
