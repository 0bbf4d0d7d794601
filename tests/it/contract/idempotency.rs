//! Idempotency keys: semantics §8.

use super::{claim, create, get, id, lawful, post, refused};
use crate::harness::{Answer, DEV_TOKEN, Server, answer};
use reqwest::Method;
use serde_json::{Value, json};

async fn keyed(server: &Server, header: &str, body: Value) -> Answer {
    let request = server.request(Method::POST, "/v1/codeq/tasks").bearer_auth(DEV_TOKEN);
    let answer = answer(request.header("Idempotency-Key", header.as_bytes()).body(body.to_string())).await;
    lawful(&answer);
    answer
}

fn body(command: &str) -> Value {
    json!({"command": command, "payload": 1})
}

fn body_with(command: &str, key: &str) -> Value {
    json!({"command": command, "payload": 2, "priority": 3, "idempotencyKey": key})
}

#[tokio::test]
async fn the_key_may_come_in_the_header_bare_or_quoted_or_in_the_body() {
    let server = Server::memory();
    let first = keyed(&server, "order-77", body("c")).await;
    assert_eq!((first.status, first.header("idempotent-replayed")), (202, ""));
    for again in [
        keyed(&server, "order-77", body("c")).await,
        keyed(&server, "\"order-77\"", body("c")).await,
        keyed(&server, " order-77 ", body("C")).await,
        keyed(&server, "order-77", body_with("c", "order-77")).await,
        keyed(&server, "\"order-77\"", body_with("c", "order-77")).await,
        post(&server, "/tasks", body_with("c", "order-77")).await,
    ] {
        assert_eq!((again.status, again.header("idempotent-replayed")), (202, "true"), "{}", again.text);
        assert_eq!(again.text, first.text, "the task that is there, whatever was sent");
    }
    assert_eq!(get(&server, "/admin/queues/c").await.json["ready"], 1);
}

#[tokio::test]
async fn another_key_or_another_command_is_another_task() {
    let server = Server::memory();
    let first = keyed(&server, "k", body("c")).await;
    for other in [
        keyed(&server, "K", body("c")).await,
        keyed(&server, "k", body("d")).await,
        keyed(&server, "\"k", body("c")).await,
        keyed(&server, "", body("c")).await,
        keyed(&server, "\"\"", body("c")).await,
        keyed(&server, "\" \"", body("c")).await,
        post(&server, "/tasks", body("c")).await,
    ] {
        assert_eq!((other.status, other.header("idempotent-replayed")), (202, ""), "{}", other.text);
        assert_ne!(other.json["id"], first.json["id"]);
    }
}

#[tokio::test]
async fn keys_that_differ_or_are_too_long_are_refused() {
    let server = Server::memory();
    let differ = "idempotencyKey and Idempotency-Key differ";
    for (header, own) in [("a", "b"), ("\"a\"", "\"a\""), ("a", "A")] {
        let got = keyed(&server, header, body_with("c", own)).await;
        refused(&got, 400, "invalid_idempotency_key", differ);
    }
    let too_long = "invalid idempotencyKey (max 255 bytes)";
    for header in ["k".repeat(256), format!("\"{}\"", "k".repeat(256))] {
        refused(&keyed(&server, &header, body("c")).await, 400, "invalid_idempotency_key", too_long);
    }
    assert_eq!(keyed(&server, &format!("\"{}\"", "k".repeat(255)), body("c")).await.status, 202);
    assert_eq!(keyed(&server, "", body_with("c", "b")).await.status, 202, "a blank header is none");
}

/// A key that is not ASCII used to be read as no key at all, so a retry made a second task.
#[tokio::test]
async fn a_key_in_the_header_is_read_as_utf8() {
    let server = Server::memory();
    let first = keyed(&server, "pedido-é", body("c")).await;
    let again = post(&server, "/tasks", body_with("c", "pedido-é")).await;
    assert_eq!((again.header("idempotent-replayed"), &again.text), ("true", &first.text));
    let request = server.request(Method::POST, "/v1/codeq/tasks").bearer_auth(DEV_TOKEN);
    let latin = reqwest::header::HeaderValue::from_bytes(b"pedido-\xe9").expect("a header");
    let got = answer(request.header("Idempotency-Key", latin).body(body("c").to_string())).await;
    refused(&got, 400, "invalid_idempotency_key", "invalid idempotencyKey (max 255 bytes)");
}

#[tokio::test]
async fn a_replay_shows_the_task_as_it_is_now() {
    let server = Server::memory();
    let task = create(&server, body_with("c", "k")).await;
    let claimed = claim(&server, json!({"commands": ["c"]})).await;
    let replay = keyed(&server, "k", body("c")).await;
    assert_eq!((replay.header("idempotent-replayed"), &replay.json), ("true", &claimed));
    let path = format!("/tasks/{}/result", id(&task));
    post(&server, &path, json!({"status": "COMPLETED", "result": {}})).await;
    let replay = keyed(&server, "k", body("c")).await;
    assert_eq!((&replay.json["id"], &replay.json["status"]), (&task["id"], &json!("COMPLETED")));
    let empty = post(&server, "/tasks/claim", json!({"commands": ["c"]})).await;
    assert_eq!(empty.status, 204, "a replay queues nothing");
}

#[tokio::test]
async fn of_many_creates_at_once_with_one_key_one_task_results() {
    let server = Server::memory();
    let creates: Vec<_> = (0..20)
        .map(|n| {
            let request = server.request(Method::POST, "/v1/codeq/tasks").bearer_auth(DEV_TOKEN);
            let body = json!({"command": "race", "payload": n, "idempotencyKey": "k"});
            tokio::spawn(answer(request.body(body.to_string())))
        })
        .collect();
    let mut ids = std::collections::HashSet::new();
    let mut replays = 0;
    for created in creates {
        let created = created.await.expect("no panic");
        replays += usize::from(created.header("idempotent-replayed") == "true");
        ids.insert(id(&created.json));
    }
    assert_eq!((ids.len(), replays), (1, 19));
    assert_eq!(get(&server, "/admin/queues/race").await.json["ready"], 1);
}
