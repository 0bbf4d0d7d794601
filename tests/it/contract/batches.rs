//! POST /tasks/batch: http.md §4.2.

use super::{fields, get, id, post, post_text, refused};
use crate::harness::{DEV_TOKEN, Server, answer};
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn a_bad_item_does_not_stop_the_others() {
    let server = Server::memory();
    let good = json!({"command": "c", "payload": 1});
    let tasks = json!([
        good,
        {"command": "a b", "payload": 1},
        5,
        null,
        [good],
        {"payload": 1},
        {"command": "c", "payload": 1, "priority": "x"},
        {"command": "c", "payload": 1, "delaySeconds": -1},
        {"command": "c", "payload": 1, "webhook": "x"},
        {"command": "c", "payload": 1, "runAt": "x"},
        {"command": "c", "payload": 1, "headers": {"": ""}},
        {"command": "c", "payload": 1, "idempotencyKey": "k".repeat(256)},
        {"command": "c", "payload": "x".repeat(1024 * 1024)},
        {"command": "c"},
    ]);
    let answer = post(&server, "/tasks/batch", json!({"tasks": tasks})).await;
    assert_eq!((answer.status, fields(&answer.json)), (200, vec!["results"]), "{}", answer.text);
    let error = |code: &str, text: &str| json!({"error": text, "code": code});
    let results = answer.json["results"].as_array().expect("a list");
    let expected = [
        error("invalid_command", "invalid command"),
        error("invalid_body", "invalid body"),
        error("invalid_body", "invalid body"),
        error("invalid_body", "invalid body"),
        error("invalid_body", "invalid body"),
        error("invalid_body", "invalid body"),
        error("invalid_delay", "invalid 'delaySeconds' (must be >= 0)"),
        error("invalid_webhook_url", "invalid webhook url"),
        error("invalid_run_at", "invalid 'runAt' (use RFC3339)"),
        error("invalid_headers", "invalid headers"),
        error("invalid_idempotency_key", "invalid idempotencyKey (max 255 bytes)"),
        error("payload_too_large", "payload too large"),
    ];
    assert_eq!(results[1..13], expected);
    for (place, payload) in [(0, "1"), (13, "null")] {
        assert_eq!(fields(&results[place]), ["task"]);
        let task = &results[place]["task"];
        assert_eq!((&task["payload"], &task["maxAttempts"]), (&json!(payload), &json!(5)));
        assert_eq!(super::task(&server, &id(task)).await, *task);
    }
    assert_eq!(get(&server, "/admin/queues/c").await.json["ready"], 2);
}

#[tokio::test]
async fn a_batch_has_1_to_100_items() {
    let server = Server::memory();
    let tasks = |count: usize| json!({"tasks": vec![json!({"command": "c", "payload": 1}); count]});
    for (count, status) in [(1, 200), (100, 200)] {
        let answer = post(&server, "/tasks/batch", tasks(count)).await;
        assert_eq!((answer.status, answer.json["results"].as_array().map(Vec::len)), (status, Some(count)));
    }
    let text = "batch size exceeds maximum of 100";
    refused(&post(&server, "/tasks/batch", tasks(101)).await, 400, "batch_too_large", text);
    for body in ["{}", r#"{"tasks":[]}"#, r#"{"tasks":null}"#, r#"{"tasks":{}}"#, r#"{"tasks":5}"#] {
        refused(&post_text(&server, "/tasks/batch", body).await, 400, "invalid_body", "invalid body");
    }
    assert_eq!(get(&server, "/admin/queues/c").await.json["ready"], 101);
}

#[tokio::test]
async fn items_with_one_key_are_one_task_and_the_header_is_not_read() {
    let server = Server::memory();
    let item = |key: Value| json!({"command": "c", "payload": 1, "idempotencyKey": key});
    let body = json!({"tasks": [item(json!("k")), item(json!("k")), item(json!(null)), item(json!(" "))]});
    let request = server.request(Method::POST, "/v1/codeq/tasks/batch").bearer_auth(DEV_TOKEN);
    let batch = answer(request.header("Idempotency-Key", "other").body(body.to_string())).await;
    let results = batch.json["results"].as_array().expect("a list");
    assert_eq!((batch.status, batch.header("idempotent-replayed")), (200, ""), "{}", batch.text);
    let replayed: Vec<_> = results.iter().map(|item| item.get("replayed").cloned()).collect();
    assert_eq!(replayed, [None, Some(json!(true)), None, None]);
    assert_eq!(results[0]["task"], results[1]["task"]);
    assert_eq!(get(&server, "/admin/queues/c").await.json["ready"], 3);
    let later = post(&server, "/tasks", item(json!("k"))).await;
    assert_eq!((later.header("idempotent-replayed"), &later.json), ("true", &results[0]["task"]));
}

#[tokio::test]
async fn tasks_of_a_batch_are_delivered_in_its_order() {
    let server = Server::memory();
    let tasks: Vec<_> = (0..30).map(|n| json!({"command": "c", "payload": n})).collect();
    post(&server, "/tasks/batch", json!({"tasks": tasks})).await;
    let claimed = post(&server, "/tasks/claim/batch", json!({"count": 100})).await;
    let payloads: Vec<_> =
        claimed.json["tasks"].as_array().into_iter().flatten().map(|t| &t["payload"]).collect();
    assert_eq!(json!(payloads), (0..30).map(|n| json!(n.to_string())).collect::<Value>());
}
