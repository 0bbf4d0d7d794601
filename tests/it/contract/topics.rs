//! Topics: http.md §4.13.

use super::{call, fields, get, instant, lawful, now, refused};
use crate::harness::{Answer, DEV_TOKEN, Server};
use reqwest::Method;
use serde_json::{Value, json};

async fn put(server: &Server, name: &str, policy: &str) -> Answer {
    call(server, Method::PUT, &format!("/admin/topics/{name}"), DEV_TOKEN, Some(policy)).await
}

async fn delete(server: &Server, path: &str) -> Answer {
    call(server, Method::DELETE, &format!("/admin/topics/{path}"), DEV_TOKEN, None).await
}

fn policy() -> Value {
    json!({"priorityTiers": [9, 0, 5], "maxAttempts": 3, "deadLetterTopicRef": "dead"})
}

fn with(field: &str, value: Value) -> String {
    let mut policy = policy();
    policy[field] = value;
    policy.to_string()
}

#[tokio::test]
async fn a_put_creates_changes_or_leaves_a_topic() {
    let server = Server::memory();
    let before = now();
    let created = put(&server, "orders", &policy().to_string()).await;
    let at = created.json["createdAt"].clone();
    let expected = json!({
        "topicId": "dev-tenant.orders", "tenantId": "dev-tenant", "topicName": "orders",
        "policy": {"priorityTiers": [0, 5, 9], "maxAttempts": 3, "deadLetterTopicRef": "dead"},
        "version": 1, "createdAt": at, "updatedAt": at,
    });
    assert_eq!((created.status, &created.json), (201, &expected), "{}", created.text);
    assert!(before <= instant(&at) && instant(&at) <= now());
    let same = put(&server, "orders", &with("priorityTiers", json!([5, 9, 0]))).await;
    assert_eq!((same.status, &same.text), (200, &created.text), "nothing changed");
    let full = json!({"priorityTiers": [10], "maxAttempts": 100, "deadLetterTopicRef": "d",
        "retentionSeconds": 2_147_483_647, "maxConsumers": 10_000});
    let changed = put(&server, "orders", &full.to_string()).await;
    assert_eq!((changed.status, &changed.json["policy"], &changed.json["version"]), (200, &full, &json!(2)));
    assert_eq!(changed.json["createdAt"], at);
    assert!(instant(&changed.json["updatedAt"]) >= instant(&at));
    let read = get(&server, "/admin/topics/orders").await;
    assert_eq!((read.status, read.text), (200, changed.text));
}

#[tokio::test]
async fn optional_numbers_may_be_absent_null_or_zero() {
    let server = Server::memory();
    for (n, value) in [json!(null), json!(0)].into_iter().enumerate() {
        let mut policy = policy();
        policy["retentionSeconds"] = value.clone();
        policy["maxConsumers"] = value;
        let made = put(&server, &format!("t{n}"), &policy.to_string()).await;
        assert_eq!(made.status, 201, "{}", made.text);
        assert_eq!(fields(&made.json["policy"]), ["deadLetterTopicRef", "maxAttempts", "priorityTiers"]);
    }
}

#[tokio::test]
async fn a_policy_that_breaks_a_rule_is_unprocessable() {
    let server = Server::memory();
    let between = "must contain between 1 and 10 priorities";
    let range = "priorities must be integers from 0 through 10";
    let label = "must be a DNS label with at most 63 characters";
    let retention = "must be between 0 and 2147483647";
    for (field, value, message) in [
        ("priorityTiers", json!(null), between),
        ("priorityTiers", json!([]), between),
        ("priorityTiers", json!([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]), between),
        ("priorityTiers", json!([11]), range),
        ("priorityTiers", json!([-1]), range),
        ("priorityTiers", json!([3, 4, 3]), "priorities must be unique"),
        ("maxAttempts", json!(null), "must be between 1 and 100"),
        ("maxAttempts", json!(0), "must be between 1 and 100"),
        ("maxAttempts", json!(101), "must be between 1 and 100"),
        ("deadLetterTopicRef", json!(null), label),
        ("deadLetterTopicRef", json!(""), label),
        ("deadLetterTopicRef", json!("Dead"), label),
        ("deadLetterTopicRef", json!("-dead"), label),
        ("deadLetterTopicRef", json!("dead-"), label),
        ("deadLetterTopicRef", json!("de.ad"), label),
        ("deadLetterTopicRef", json!("d".repeat(64)), label),
        ("deadLetterTopicRef", json!("orders"), "must differ from topicName"),
        ("retentionSeconds", json!(-1), retention),
        ("retentionSeconds", json!(2_147_483_648_i64), retention),
        ("maxConsumers", json!(-1), "must be between 0 and 10000"),
        ("maxConsumers", json!(10_001), "must be between 0 and 10000"),
    ] {
        let got = put(&server, "orders", &with(field, value)).await;
        unprocessable(&got, field, message);
    }
    assert_eq!(get(&server, "/admin/topics/orders").await.status, 404, "nothing was stored");
    assert_eq!(
        put(&server, &"n".repeat(63), &with("deadLetterTopicRef", json!("d".repeat(63)))).await.status,
        201
    );
}

#[track_caller]
fn unprocessable(answer: &Answer, field: &str, message: &str) {
    let request_id = answer.header("x-request-id");
    let body = json!({"error": format!("invalid {field}: {message}"), "code": "invalid_topic",
        "requestId": request_id, "field": field});
    assert_eq!((answer.status, &answer.json), (422, &body));
}

#[tokio::test]
async fn a_name_is_a_dns_label_for_every_method() {
    let server = Server::memory();
    let long = "n".repeat(64);
    for bad in ["Orders", "a.b", "-a", "a-", "a_b", "%20", "%C3%A9", &long] {
        let message = "must be a DNS label with at most 63 characters";
        unprocessable(&put(&server, bad, &policy().to_string()).await, "topicName", message);
        unprocessable(&get(&server, &format!("/admin/topics/{bad}")).await, "topicName", message);
    }
}

#[tokio::test]
async fn a_body_that_is_no_policy_is_refused_with_the_reason() {
    let server = Server::memory();
    let twice = r#"{"maxAttempts":1,"maxAttempts":1}"#;
    let good = policy().to_string();
    for body in ["", "{", "[]", "null", "5", twice, &format!("{good}{good}"), &format!("{good}x")] {
        is_no_policy(&put(&server, "orders", body).await);
    }
    for (field, value) in [
        ("surprise", json!(1)),
        ("PriorityTiers", json!([1])),
        ("maxAttempts", json!("3")),
        ("maxAttempts", json!(3.0)),
        ("priorityTiers", json!([1.5])),
        ("priorityTiers", json!(1)),
        ("deadLetterTopicRef", json!(1)),
    ] {
        is_no_policy(&put(&server, "orders", &with(field, value)).await);
    }
    let bytes = Some(b"\xff".to_vec());
    let got = server.send(Method::PUT, "/v1/codeq/admin/topics/orders", Some(DEV_TOKEN), bytes).await;
    lawful(&got);
    is_no_policy(&got);
}

#[track_caller]
fn is_no_policy(answer: &Answer) {
    assert_eq!((answer.status, &answer.json["code"]), (400, &json!("invalid_body")), "{}", answer.text);
    assert_eq!(fields(&answer.json), ["code", "error", "requestId"]);
    let text = answer.json["error"].as_str().unwrap_or_default();
    assert!(text.strip_prefix("invalid request body: ").is_some_and(|reason| !reason.is_empty()), "{text}");
}

#[tokio::test]
async fn a_topic_is_deleted_only_on_purpose_and_as_often_as_one_likes() {
    let server = Server::memory();
    put(&server, "orders", &policy().to_string()).await;
    for query in ["", "?deletionPolicy=", "?deletionPolicy=delete", "?deletionPolicy=Retain", "?x=Delete"] {
        let got = delete(&server, &format!("orders{query}")).await;
        refused(&got, 400, "deletion_policy_required", "deletionPolicy=Delete is required");
    }
    assert_eq!(get(&server, "/admin/topics/orders").await.status, 200);
    for _ in 0..2 {
        assert_eq!(delete(&server, "orders?deletionPolicy=Delete").await.status, 204);
        let got = get(&server, "/admin/topics/orders").await;
        refused(&got, 404, "topic_not_found", "queue topic \"dev-tenant.orders\" not found");
    }
    let again = put(&server, "orders", &policy().to_string()).await;
    assert_eq!((again.status, &again.json["version"]), (201, &json!(1)));
}
