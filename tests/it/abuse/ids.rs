//! Ids of every shape in every path: all of them are simply unknown.

use super::wire::Wire;
use super::{assert_serves, create, request};
use crate::harness::{DEV_TOKEN, Server};
use serde_json::json;

fn shapes() -> Vec<String> {
    let shapes = [
        "%20",
        "%20%20",
        "a%20b",
        "%C3%BC",
        "%E2%98%83",
        "%F0%9F%A6%80",
        "..%2F..%2Fetc%2Fpasswd",
        "%2e%2e",
        "..",
        ".",
        "...",
        "%2F",
        "%2f%2F",
        "%5C..%5C",
        "%00",
        "a%00b",
        "%ff",
        "%C3%28",
        "%ED%A0%80",
        "%",
        "%z",
        "%zz",
        "%0d%0aX-Evil:1",
        "0",
        "-1",
        "null",
        "*",
        "{id}",
        "~",
        "a:b",
        "a;b=c",
        "a,b",
        "a@b",
        "'",
        "(x)",
        "$(x)",
        "5F0C1A52-6B1E-4C0E-9D3A-2F6F0E9B7A11",
        "5f0c1a526b1e4c0e9d3a2f6f0e9b7a11",
        "%7B5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11%7D",
        "5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11%20",
        "%205f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11",
        "5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a1",
        "5f0c1a52",
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "urn:uuid:5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11",
        "5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11",
    ];
    let long =
        ["a".repeat(10 * 1024), "%C3%BC".repeat(1024), "5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11".repeat(100)];
    shapes.iter().map(|shape| shape.to_string()).chain(long).collect()
}

/// Routes that name a task or a subscription, with the documented answer to an unknown one.
const BY_ID: &[(&str, &str, &str, &str)] = &[
    ("GET", "/v1/codeq/tasks/:id", "task_not_found", "not found"),
    ("GET", "/v1/codeq/tasks/:id/result", "task_not_found", "task not found"),
    ("GET", "/v1/codeq/tasks/:id/result?waitSeconds=60", "task_not_found", "task not found"),
    ("GET", "/v1/codeq/tasks/:id/artifacts/a", "task_not_found", "task not found"),
    ("POST", "/v1/codeq/tasks/:id/heartbeat", "task_not_found", "not-found"),
    ("POST", "/v1/codeq/tasks/:id/abandon", "task_not_found", "not-found"),
    ("POST", "/v1/codeq/tasks/:id/nack", "task_not_found", "not-found"),
    ("POST", "/v1/codeq/tasks/:id/result", "task_not_found", "task not found"),
    ("POST", "/v1/codeq/workers/subscriptions/:id/heartbeat", "subscription_not_found", "not-found"),
];

const RESULT: &str = r#"{"status":"COMPLETED","result":{}}"#;

#[tokio::test]
async fn an_id_of_any_shape_is_unknown() {
    let server = Server::dev();
    let mut wire = Wire::open(&server).await;
    for shape in shapes() {
        for (method, path, code, text) in BY_ID {
            let body = if *method == "POST" { RESULT } else { "" };
            wire.send(&request(method, &path.replace(":id", &shape), body)).await;
            let reply = wire.reply().await.expect("the connection stays");
            let what = format!("{method} {path} {shape:.60}");
            reply.assert_error(404, code, &what);
            assert_eq!(reply.json()["error"], *text, "{what}");
        }
    }
    assert_serves(&server).await;
}

#[tokio::test]
async fn an_artifact_of_any_name_is_not_there() {
    let server = Server::dev();
    let id = create(&server, DEV_TOKEN, json!({"command": "named", "payload": 1})).await;
    let mut wire = Wire::open(&server).await;
    for shape in shapes() {
        wire.send(&request("GET", &format!("/v1/codeq/tasks/{id}/artifacts/{shape}"), "")).await;
        let reply = wire.reply().await.expect("an answer");
        reply.assert_error(404, "artifact_not_found", &shape);
    }
}

#[tokio::test]
async fn a_path_without_its_id_is_no_route_or_names_nothing() {
    let server = Server::dev();
    let mut wire = Wire::open(&server).await;
    for (method, path, ..) in BY_ID {
        wire.send(&request(method, &path.replace(":id", ""), RESULT)).await;
        let reply = wire.reply().await.expect("an answer");
        assert!(matches!(reply.status, 404 | 405), "{method} {path}: {reply:?}");
    }
}

#[tokio::test]
async fn a_command_or_topic_of_any_shape_is_answered() {
    let server = Server::dev();
    let mut wire = Wire::open(&server).await;
    let policy = r#"{"priorityTiers":[1],"maxAttempts":1,"deadLetterTopicRef":"d"}"#;
    for shape in shapes() {
        wire.send(&request("GET", &format!("/v1/codeq/admin/queues/{shape}"), "")).await;
        let reply = wire.reply().await.expect("an answer");
        assert_eq!((reply.status, &reply.json()["ready"]), (200, &json!(0)), "{shape}: {reply:?}");
        let is_label = shape.len() <= 63
            && shape.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-')
            && !shape.starts_with('-');
        let expected = [("PUT", "", 201), ("GET", "", 200), ("DELETE", "?deletionPolicy=Delete", 204)];
        for (method, query, status) in expected {
            let body = if method == "PUT" { policy } else { "" };
            let target = format!("/v1/codeq/admin/topics/{shape}{query}");
            wire.send(&request(method, &target, body)).await;
            let reply = wire.reply().await.expect("an answer");
            match is_label {
                true => assert_eq!(reply.status, status, "{method} {shape}: {reply:?}"),
                false => reply.assert_error(422, "invalid_topic", &shape),
            }
        }
    }
}

#[tokio::test]
async fn queries_of_any_shape_are_read_or_ignored() {
    let server = Server::dev();
    let id = create(&server, DEV_TOKEN, json!({"command": "asked", "payload": 1})).await;
    let mut wire = Wire::open(&server).await;
    let values =
        ["", "x", "1.5", "-1", "-9223372036854775809", "99999999999999999999", "%ff", "%", "1e3", "0x1", "+"];
    for value in values {
        wire.send(&request("GET", &format!("/v1/codeq/tasks/{id}/result?waitSeconds={value}"), "")).await;
        wire.reply().await.expect("an answer").assert_error(404, "result_not_found", value);
    }
    for query in [
        "view",
        "view=",
        "view=STATS",
        "view=stats&view=x",
        "&&&===",
        "view=%ff",
        "?view=stats",
        "tenant=dev-tenant",
    ] {
        wire.send(&request("GET", &format!("/v1/codeq/admin/queues?{query}"), "")).await;
        assert_eq!(wire.reply().await.expect("an answer").status, 200, "{query}");
    }
    for query in ["", "deletionPolicy=delete", "deletionPolicy=", "deletionpolicy=Delete", "x=Delete"] {
        wire.send(&request("DELETE", &format!("/v1/codeq/admin/topics/t?{query}"), "")).await;
        wire.reply().await.expect("an answer").assert_error(400, "deletion_policy_required", query);
    }
}
