//! Rate limits: config.md §4.

use super::{dev_with, post};
use crate::harness::{Answer, DEV_TOKEN};
use serde_json::json;

#[track_caller]
fn limited(answer: &Answer, scope: &str, operation: &str) {
    let seconds = answer.json["retryAfterSeconds"].as_u64().expect("whole seconds");
    assert!((20..=30).contains(&seconds), "two a minute is one in 30 s: {seconds}");
    let body = json!({"error": "rate limit exceeded", "code": "rate_limited", "scope": scope,
        "requestId": answer.header("x-request-id"), "operation": operation, "retryAfterSeconds": seconds});
    assert_eq!((answer.status, &answer.json), (429, &body));
    assert_eq!(answer.header("retry-after"), seconds.to_string());
}

#[tokio::test]
async fn whoever_asks_too_often_is_told_when_to_come_back() {
    let slow = json!({"requestsPerMinute": 2, "burstSize": 2});
    let server = dev_with(json!({"rateLimit": {"producer": slow, "worker": slow, "admin": slow}}));
    let one = json!({"command": "c", "payload": 1});
    let batch = json!({"tasks": [one, one, one]});
    let count = json!({"count": 1});
    for (scope, operation, calls) in [
        ("producer", "create_task", [("/tasks", &one), ("/tasks/batch", &batch)]),
        ("worker", "claim", [("/tasks/claim", &json!({})), ("/tasks/claim/batch", &count)]),
        ("admin", "cleanup", [("/admin/tasks/cleanup", &json!({})), ("/admin/tasks/cleanup", &json!({}))]),
    ] {
        for (path, body) in calls {
            assert!(post(&server, path, body.clone()).await.status < 300, "{path}");
        }
        for (path, body) in calls {
            limited(&post(&server, path, body.clone()).await, scope, operation);
            limited(&super::post_text(&server, path, "no body").await, scope, operation);
        }
    }
    // Everything else is not limited.
    for path in ["/admin/queues", "/raft/status"] {
        assert_eq!(super::get(&server, path).await.status, 200);
    }
    assert_eq!(
        post(&server, "/workers/subscriptions", json!({"callbackUrl": "http://h/"})).await.status,
        200
    );
    let wrong = super::post_as(&server, "wrong", "/tasks", one).await;
    assert_eq!(wrong.status, 401, "who asks is found out first");
}

#[tokio::test]
async fn every_token_has_a_bucket_of_its_own() {
    let tenant = |token: &str| super::fixed(token, json!({"raw": {"tid": "acme"}}));
    let limit = json!({"producer": {"requestsPerMinute": 2, "burstSize": 1}});
    let producers = vec![tenant(DEV_TOKEN), tenant("second")];
    let workers = vec![tenant("unused-1"), tenant("unused-2")];
    let server = super::serve_with(producers, workers, json!({"rateLimit": limit}));
    for token in [DEV_TOKEN, "second"] {
        let body = json!({"command": "c", "payload": 1});
        assert_eq!(super::post_as(&server, token, "/tasks", body.clone()).await.status, 202);
        limited(&super::post_as(&server, token, "/tasks", body).await, "producer", "create_task");
    }
}

#[tokio::test]
async fn half_a_limit_is_none() {
    let half = json!({"producer": {"requestsPerMinute": 1}, "worker": {"burstSize": 1}});
    let server = dev_with(json!({"rateLimit": half}));
    for _ in 0..3 {
        assert_eq!(post(&server, "/tasks", json!({"command": "c", "payload": 1})).await.status, 202);
        assert_eq!(post(&server, "/tasks/claim", json!({})).await.status, 200);
    }
}
