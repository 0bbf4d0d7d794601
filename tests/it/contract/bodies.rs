//! How bodies are read: http.md §1.

use super::{API, UNKNOWN_ID, call, create, id, post, post_text, refused};
use crate::harness::{DEV_TOKEN, Server, answer};
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn the_content_type_of_a_body_does_not_matter() {
    let server = Server::memory();
    for kind in ["application/json", "text/plain", "application/x-www-form-urlencoded", "", "nonsense"] {
        let request = server.request(Method::POST, "/v1/codeq/tasks").bearer_auth(DEV_TOKEN);
        let request = request.header("Content-Type", kind).body(r#"{"command":"c","payload":1}"#);
        assert_eq!(answer(request).await.status, 202, "{kind}");
    }
}

#[tokio::test]
async fn unknown_fields_are_ignored_and_null_is_absent() {
    let server = Server::memory();
    let task = create(
        &server,
        json!({
            "command": "c", "payload": 1, "Priority": 7, "surprise": {"a": [1]}, "priority": null,
            "webhook": null, "headers": null, "maxAttempts": null, "idempotencyKey": null, "runAt": null,
            "delaySeconds": null,
        }),
    )
    .await;
    assert_eq!((&task["priority"], &task["maxAttempts"]), (&json!(null), &json!(5)));
    let id = id(&task);
    let nulls = json!({"commands": null, "leaseSeconds": null, "waitSeconds": null, "surprise": 1});
    assert_eq!(post(&server, "/tasks/claim", nulls).await.json["id"], id.as_str());
    let nulls = json!({"extendSeconds": null, "attempt": null, "surprise": 1});
    assert_eq!(post(&server, &format!("/tasks/{id}/heartbeat"), nulls).await.status, 200);
    let nulls = json!({"delaySeconds": null, "reason": null, "attempt": null, "surprise": 1});
    assert_eq!(post(&server, &format!("/tasks/{id}/nack"), nulls).await.status, 200);
    let nulls = json!({"limit": null, "before": null, "surprise": 1});
    assert_eq!(post(&server, "/admin/tasks/cleanup", nulls).await.json["limit"], 0);
    let nulls = json!({"callbackUrl": "http://h/", "eventTypes": null, "deliveryMode": null,
        "groupId": null, "ttlSeconds": null, "minIntervalSeconds": null, "surprise": 1});
    assert_eq!(post(&server, "/workers/subscriptions", nulls).await.status, 200);
}

#[tokio::test]
async fn fields_of_another_route_are_unknown_fields() {
    let server = Server::memory();
    create(&server, json!({"command": "a", "payload": 1})).await;
    create(&server, json!({"command": "b", "payload": 1})).await;
    let claimed = post(&server, "/tasks/claim", json!({"commands": ["a"], "count": "many"})).await;
    assert_eq!(claimed.status, 200, "{}", claimed.text);
    let result = json!({"status": "COMPLETED", "result": {}, "taskId": 5, "workerId": 7});
    let done = post(&server, &format!("/tasks/{}/result", id(&claimed.json)), result).await;
    assert_eq!(done.status, 200, "{}", done.text);
    let batch = json!({"commands": ["b"], "count": 1, "wait": "long"});
    assert_eq!(post(&server, "/tasks/claim/batch", batch).await.status, 200);
}

/// Every route that reads a body, with the words it has for one that it cannot read.
fn readers() -> Vec<(String, &'static str)> {
    vec![
        ("/tasks".into(), "invalid body"),
        ("/tasks/batch".into(), "invalid body"),
        ("/tasks/claim".into(), "invalid body"),
        ("/tasks/claim/batch".into(), "invalid body"),
        (format!("/tasks/{UNKNOWN_ID}/heartbeat"), "invalid body"),
        (format!("/tasks/{UNKNOWN_ID}/abandon"), "invalid body"),
        (format!("/tasks/{UNKNOWN_ID}/nack"), "invalid body"),
        (format!("/tasks/{UNKNOWN_ID}/result"), "invalid request body"),
        ("/tasks/batch/results".into(), "invalid body"),
        ("/workers/subscriptions".into(), "invalid body"),
        ("/admin/tasks/cleanup".into(), "invalid body"),
    ]
}

#[tokio::test]
async fn a_body_is_one_object_without_a_key_twice() {
    let server = Server::memory();
    let deep = format!("{{\"x\":{}1{}}}", "[".repeat(128), "]".repeat(128));
    for (path, text) in readers() {
        for body in [
            "{",
            "[]",
            "1",
            "nul",
            "null null",
            "\"x\"",
            "{}x",
            "{} {}",
            "{a:1}",
            "{'a':1}",
            "{\"a\":1,}",
            "\u{feff}{}",
            "{\"x\":1,\"x\":1}",
            "{\"x\":1,\"\\u0078\":1}",
            "{\"x\":{\"y\":1,\"y\":2}}",
            &deep,
        ] {
            let got = post_text(&server, &path, body).await;
            refused(&got, 400, "invalid_body", text);
        }
        let not_utf8 = Some(b"{\"x\":\"\xff\"}".to_vec());
        let got = server.send(Method::POST, &format!("{API}{path}"), Some(DEV_TOKEN), not_utf8).await;
        refused(&got, 400, "invalid_body", text);
    }
}

#[tokio::test]
async fn an_empty_body_is_an_empty_object_where_everything_is_optional() {
    let server = Server::memory();
    for (path, status, code) in [
        ("/tasks/claim".into(), 204, ""),
        (format!("/tasks/{UNKNOWN_ID}/heartbeat"), 404, "task_not_found"),
        (format!("/tasks/{UNKNOWN_ID}/abandon"), 404, "task_not_found"),
        (format!("/tasks/{UNKNOWN_ID}/nack"), 404, "task_not_found"),
        (format!("/workers/subscriptions/{UNKNOWN_ID}/heartbeat"), 404, "subscription_not_found"),
        ("/admin/tasks/cleanup".into(), 200, ""),
        ("/tasks".into(), 400, "invalid_body"),
        ("/tasks/batch".into(), 400, "invalid_body"),
        ("/tasks/claim/batch".into(), 400, "invalid_body"),
        (format!("/tasks/{UNKNOWN_ID}/result"), 400, "invalid_body"),
        ("/tasks/batch/results".into(), 400, "invalid_body"),
        ("/workers/subscriptions".into(), 400, "invalid_body"),
    ] {
        for body in [None, Some(""), Some(" \r\n\t")] {
            let got = call(&server, Method::POST, &path, DEV_TOKEN, body).await;
            let code_given = got.json["code"].as_str().unwrap_or_default();
            assert_eq!((got.status, code_given), (status, code), "{path} {body:?}");
        }
    }
}

#[tokio::test]
async fn numbers_are_integers_and_nothing_that_looks_like_one() {
    let server = Server::memory();
    let given = |path: &str, fields: &[&str], start: &str, text: &'static str| -> Vec<_> {
        fields.iter().map(|field| (path.to_owned(), format!("{start}\"{field}\":"), text)).collect()
    };
    let report = |verb: &str| format!("/tasks/{UNKNOWN_ID}/{verb}");
    let create = r#"{"command":"c","payload":1,"#;
    let mut fields = given("/tasks", &["priority", "maxAttempts", "delaySeconds"], create, "invalid body");
    fields.extend(given("/tasks/claim", &["leaseSeconds", "waitSeconds"], "{", "invalid body"));
    fields.extend(given("/tasks/claim/batch", &["count"], "{", "invalid body"));
    fields.extend(given("/tasks/claim/batch", &["leaseSeconds"], "{\"count\":1,", "invalid body"));
    fields.extend(given(&report("heartbeat"), &["extendSeconds", "attempt"], "{", "invalid body"));
    fields.extend(given(&report("abandon"), &["attempt", "refund"], "{", "invalid body"));
    fields.extend(given(&report("nack"), &["delaySeconds", "attempt"], "{", "invalid body"));
    let result = "{\"status\":\"FAILED\",\"error\":\"e\",";
    fields.extend(given(&report("result"), &["attempt"], result, "invalid request body"));
    let subscription = "{\"callbackUrl\":\"http://h/\",";
    let numbers = ["ttlSeconds", "minIntervalSeconds"];
    fields.extend(given("/workers/subscriptions", &numbers, subscription, "invalid body"));
    fields.extend(given("/admin/tasks/cleanup", &["limit"], "{", "invalid body"));
    for (path, start, text) in fields {
        for value in ["1.5", "1.0", "1e2", "\"1\"", "[1]", "{}"] {
            let got = post_text(&server, &path, &format!("{start}{value}}}")).await;
            refused(&got, 400, "invalid_body", text);
        }
    }
}

/// A client of the original sends `null` where it has nothing to say, and was answered 400.
#[tokio::test]
async fn null_counts_as_an_empty_body_where_everything_is_optional() {
    let server = Server::memory();
    let null = || Some(b" null ".to_vec());
    let post = Method::POST;
    let created = server.post("/v1/codeq/tasks", DEV_TOKEN, json!({"command": "c", "payload": 1})).await;
    let id = created.json["id"].as_str().expect("an id").to_owned();
    for (path, status) in [
        ("/v1/codeq/tasks/claim".to_owned(), 200),
        (format!("/v1/codeq/tasks/{id}/heartbeat"), 200),
        (format!("/v1/codeq/tasks/{id}/abandon"), 200),
        (format!("/v1/codeq/tasks/{id}/nack"), 409),
        ("/v1/codeq/admin/tasks/cleanup".to_owned(), 200),
        ("/v1/codeq/tasks".to_owned(), 400),
        ("/v1/codeq/tasks/claim/batch".to_owned(), 400),
    ] {
        let answer = server.send(post.clone(), &path, Some(DEV_TOKEN), null()).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text);
    }
}

/// `{}` is a result, and an empty object is not told.
#[tokio::test]
async fn an_empty_result_is_left_out() {
    let server = Server::memory();
    for (result, told) in [(json!({}), false), (json!({"a": {}}), true)] {
        let created = server.post("/v1/codeq/tasks", DEV_TOKEN, json!({"command": "c", "payload": 1})).await;
        let id = created.json["id"].as_str().expect("an id").to_owned();
        server.post("/v1/codeq/tasks/claim", DEV_TOKEN, json!({})).await;
        let path = format!("/v1/codeq/tasks/{id}/result");
        let body = json!({"status": "COMPLETED", "result": result});
        let submitted = server.post(&path, DEV_TOKEN, body).await;
        assert_eq!(submitted.status, 200, "{}", submitted.text);
        let read = server.get(&path, DEV_TOKEN).await;
        for record in [&submitted.json, &read.json["result"]] {
            assert_eq!(record.get("result").is_some(), told, "{record}");
        }
    }
}
