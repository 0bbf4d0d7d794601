//! The lines that tell what the server did on its own.

use crate::webhooks::{claim, create, report, server};
use serde_json::{Value, json};

fn has(line: &Value, fields: Value) {
    for (name, value) in fields.as_object().expect("an object") {
        assert_eq!(&line[name], value, "{name} in {line}");
    }
    for name in ["time", "level", "msg", "service", "env"] {
        assert!(line[name].is_string(), "{name} in {line}");
    }
}

#[tokio::test]
async fn a_lease_that_runs_out_and_a_task_that_dies_are_told() {
    let server = server(json!({}));
    let id = create(&server, json!({"command": "Frail", "payload": "SECRET", "maxAttempts": 1})).await;
    let body = json!({"commands": ["frail"], "leaseSeconds": 1});
    assert_eq!(server.post("/v1/codeq/tasks/claim", "worker", body).await.status, 200);
    let expired = server.until_said("lease expired").await;
    has(
        &expired,
        json!({"level": "info", "taskId": id, "command": "Frail", "attempts": 1, "tenantId": "acme"}),
    );
    assert!(expired["workerId"].is_string(), "{expired}");
    let dead = server.until_said("task dead-lettered").await;
    has(
        &dead,
        json!({"level": "warn", "taskId": id, "command": "Frail", "attempts": 1, "reason": "lease_expired"}),
    );
}

#[tokio::test]
async fn the_reason_of_a_dead_letter_is_told() {
    let server = server(json!({}));
    let id = create(&server, json!({"command": "c", "payload": 1, "maxAttempts": 1})).await;
    claim(&server, "c").await;
    report(&server, &id, "nack", json!({"reason": "SECRET"})).await;
    let dead = server.until_said("task dead-lettered").await;
    has(&dead, json!({"taskId": id, "reason": "nack"}));
    assert!(!dead.to_string().contains("SECRET"), "{dead}");
}

#[tokio::test]
async fn requests_are_told_with_their_id_and_tenant() {
    let server = server(json!({"logLevel": "debug"}));
    create(&server, json!({"command": "c", "payload": 1})).await;
    let line = server.until_said("request").await;
    has(
        &line,
        json!({"level": "debug", "tenantId": "acme", "method": "POST", "route": "/v1/codeq/tasks", "status": 202}),
    );
    assert!(line["requestId"].is_string() && line["durationMs"].is_number(), "{line}");
}

#[tokio::test]
async fn what_is_removed_with_time_is_told() {
    let server = server(json!({
        "logLevel": "debug",
        "dlqRetentionSeconds": 1,
        "cleanupIntervalSeconds": 1,
        "subscriptionCleanupIntervalSeconds": 1,
    }));
    let subscription = json!({"callbackUrl": "http://127.0.0.1:9/", "eventTypes": ["c"], "ttlSeconds": 1});
    let made = server.post("/v1/codeq/workers/subscriptions", "worker", subscription).await;
    assert!(made.status < 300, "{}", made.text);
    let id = create(&server, json!({"command": "d", "payload": 1, "maxAttempts": 1})).await;
    claim(&server, "d").await;
    report(&server, &id, "nack", json!({})).await;
    has(&server.until_said("subscription cleanup removed").await, json!({"level": "info", "count": 1}));
    has(&server.until_said("retention removed").await, json!({"level": "debug", "count": 1}));
}
