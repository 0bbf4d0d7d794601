//! Queue policies and lanes over HTTP.

use super::{ADMIN, create, delete, get, post, refused};
use crate::harness::{Answer, DEV_TOKEN, Server};
use reqwest::Method;
use serde_json::{Value, json};

async fn put(server: &Server, command: &str, policy: Value) -> Answer {
    let path = format!("{ADMIN}/queues/{command}/policy");
    server.send(Method::PUT, &path, Some(DEV_TOKEN), Some(policy.to_string().into_bytes())).await
}

async fn claim(server: &Server, count: u32) -> Vec<Value> {
    let body = json!({"commands": ["mail"], "count": count});
    let claimed = server.post("/v1/codeq/tasks/claim/batch", DEV_TOKEN, body).await;
    match claimed.status {
        204 => Vec::new(),
        _ => claimed.json["tasks"].as_array().expect("tasks").clone(),
    }
}

#[tokio::test]
async fn a_policy_is_put_read_and_deleted() {
    let server = Server::memory();
    refused(&get(&server, "/queues/mail/policy").await, 404, "policy_not_found");
    let first = put(&server, "mail", json!({"concurrency": 2, "maxAttempts": 9})).await;
    assert_eq!(first.status, 200, "{}", first.text);
    assert_eq!((&first.json["version"], &first.json["command"]), (&json!(1), &json!("mail")));
    assert_eq!(first.json["policy"], json!({"concurrency": 2, "maxAttempts": 9}));
    assert_eq!(
        put(&server, "mail", json!({"concurrency": 2, "maxAttempts": 9})).await.json["version"],
        json!(1)
    );
    assert_eq!(put(&server, "Mail", json!({"concurrency": 3})).await.json["version"], json!(2));
    let queues = get(&server, "/queues?view=stats").await;
    assert_eq!(queues.json["queues"][0]["policy"]["concurrency"], json!(3), "{}", queues.text);
    let path = "/queues/mail/policy";
    assert_eq!(delete(&server, path).await.status, 204);
    refused(&delete(&server, path).await, 404, "policy_not_found");
}

#[tokio::test]
async fn faults_of_a_policy_are_named() {
    let server = Server::memory();
    for (policy, field) in [
        (json!({"concurency": 1}), "concurency"),
        (json!({"concurrency": 0}), "concurrency"),
        (json!({"rate": {"limit": -1, "periodSeconds": 1}}), "rate.limit"),
        (json!({"lanes": {"overrides": {"a": {"weight": 101}}}}), "lanes.overrides.a.weight"),
        (json!({"payloadSchema": {"type": "nothing"}}), "payloadSchema"),
        (json!({"payloadSchema": {"$ref": "https://example.com/schema.json"}}), "payloadSchema"),
    ] {
        let answer = put(&server, "mail", policy.clone()).await;
        refused(&answer, 422, "invalid_policy");
        assert_eq!(answer.json["field"], json!(field), "{policy}");
    }
    refused(&put(&server, "no%20command", json!({})).await, 400, "invalid_command");
}

/// A schema and a payload that lead each other ever deeper ended the process, or kept it busy for ever, for all tenants.
#[tokio::test]
async fn a_schema_that_refers_to_itself_costs_its_queue_a_refusal_and_nobody_else_anything() {
    let server = Server::memory();
    let endless = put(&server, "mail", json!({"payloadSchema": {"allOf": [{"$ref": "#"}]}})).await;
    refused(&endless, 422, "invalid_policy");
    let doubling = json!({"items": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}});
    assert_eq!(put(&server, "mail", json!({"payloadSchema": doubling})).await.status, 200);
    let deep = (0..60).fold(json!(1), |inner, _| json!([inner]));
    let answer = server.post("/v1/codeq/tasks", DEV_TOKEN, json!({"command": "mail", "payload": deep})).await;
    refused(&answer, 422, "payload_invalid");
    assert!(answer.text.contains("too many steps"), "{}", answer.text);
    create(&server, json!({"command": "mail", "payload": [[1], [2]]})).await;
    create(&server, json!({"command": "other", "payload": 1})).await;
}

#[tokio::test]
async fn limits_and_lanes_are_seen_and_explained() {
    let server = Server::memory();
    let policy = json!({"concurrency": 2, "lanes": {"concurrency": 1, "overrides": {"acme": {"weight": 3}}}});
    assert_eq!(put(&server, "mail", policy).await.status, 200);
    let mut tasks = Vec::new();
    for lane in ["acme", "acme", "umbrella", "umbrella"] {
        tasks.push(create(&server, json!({"command": "mail", "payload": 1, "lane": lane})).await);
    }
    let running = claim(&server, 4).await;
    assert_eq!(running.len(), 2);
    let lanes = get(&server, "/queues/mail/lanes").await;
    let acme = &lanes.json["items"][0];
    let expected =
        json!({"lane": "acme", "ready": 1, "running": 1, "weight": 3, "blockedBy": "lane_at_concurrency"});
    assert_eq!(*acme, expected);
    let explained = get(&server, &format!("/tasks/{}/explain", tasks[1])).await;
    let codes: Vec<&str> = explained.json["reasons"]
        .as_array()
        .expect("reasons")
        .iter()
        .filter_map(|r| r["code"].as_str())
        .collect();
    assert!(codes.contains(&"queue_at_concurrency") && codes.contains(&"lane_at_concurrency"), "{codes:?}");
    let stats = get(&server, "/queues?view=stats").await;
    let queue = &stats.json["queues"][0];
    assert_eq!((&queue["limited"], &queue["lanes"]), (&json!(2), &json!(2)));
    let metrics = server.get("/metrics", DEV_TOKEN).await.text;
    assert!(metrics.contains("codeq_queue_limited{command=\"mail\"} 2"), "{metrics}");
    assert!(metrics.contains("codeq_queue_running_limit{command=\"mail\"} 2"), "{metrics}");
}

#[tokio::test]
async fn a_full_queue_and_a_payload_that_does_not_match_are_refused() {
    let server = Server::memory();
    let schema = json!({"type": "object", "required": ["to"], "properties": {"to": {"type": "string"}}});
    assert_eq!(
        put(&server, "mail", json!({"maxReady": 1, "payloadSchema": schema, "maxAttempts": 7})).await.status,
        200
    );
    let bad = json!({"command": "mail", "payload": {"to": 5}});
    let answer = server.post("/v1/codeq/tasks", DEV_TOKEN, bad).await;
    refused(&answer, 422, "payload_invalid");
    assert_eq!(answer.json["field"], json!("/to"));
    let path = "/v1/codeq/schedules/nightly";
    let schedule = |to: Value| {
        let body = json!({"everySeconds": 86_400, "task": {"command": "mail", "payload": {"to": to}}});
        server.send(Method::PUT, path, Some(DEV_TOKEN), Some(body.to_string().into_bytes()))
    };
    refused(&schedule(json!(5)).await, 422, "payload_invalid");
    assert_eq!(schedule(json!("a")).await.status, 201);
    let good = json!({"command": "mail", "payload": {"to": "a"}});
    let made = server.post("/v1/codeq/tasks", DEV_TOKEN, good.clone()).await;
    assert_eq!((made.status, &made.json["maxAttempts"]), (202, &json!(7)));
    let full = server.post("/v1/codeq/tasks", DEV_TOKEN, good).await;
    refused(&full, 429, "queue_full");
    assert_eq!(full.header("retry-after"), "1");
}

#[tokio::test]
async fn a_nack_holds_back_its_queue_until_a_resume() {
    let server = Server::memory();
    for _ in 0..2 {
        create(&server, json!({"command": "mail", "payload": 1})).await;
    }
    let task = claim(&server, 1).await.remove(0);
    let path = format!("/v1/codeq/tasks/{}/nack", task["id"].as_str().expect("an id"));
    let without = json!({"hold": "queue"});
    refused(&server.post(&path, DEV_TOKEN, without).await, 400, "invalid_hold");
    let held = server.post(&path, DEV_TOKEN, json!({"hold": "queue", "delaySeconds": 3600})).await;
    assert_eq!((held.status, &held.json["delaySeconds"]), (200, &json!(3600)));
    assert!(claim(&server, 5).await.is_empty());
    post(&server, "/queues/mail/resume", json!({})).await;
    assert_eq!(claim(&server, 5).await.len(), 1);
}
