//! Queues and cleanup: http.md §4.12.

use super::{ahead, create, fields, get, id, instant, now, post, refused, running};
use crate::harness::Server;
use serde_json::{Value, json};

/// Two ready, two running, one delayed and one dead task of `Mail:Send`, one ready of `other`.
async fn busy() -> Server {
    let server = Server::memory();
    let dead = running(&server, "Mail:Send", json!({"maxAttempts": 1})).await;
    post(&server, &format!("/tasks/{dead}/nack"), json!({})).await;
    running(&server, "mail:send", json!({})).await;
    running(&server, "MAIL:SEND", json!({"priority": 9})).await;
    for fields in [json!({"priority": 5}), json!({}), json!({"delaySeconds": 60})] {
        let mut body = fields;
        body["command"] = json!("Mail:Send");
        body["payload"] = json!(1);
        create(&server, body).await;
    }
    create(&server, json!({"command": "other", "payload": 1})).await;
    server
}

#[tokio::test]
async fn queues_are_listed_by_place_under_their_labels() {
    let server = busy().await;
    let expected = json!({
        "codeq:q:mail%3asend:dev-tenant:pending:0": 1,
        "codeq:q:mail%3asend:dev-tenant:pending:5": 1,
        "codeq:q:mail%3asend:dev-tenant:inprog": 2,
        "codeq:q:mail%3asend:dev-tenant:delayed": 1,
        "codeq:q:mail%3asend:dev-tenant:dlq": 1,
        "codeq:q:other:dev-tenant:pending:0": 1,
    });
    for query in ["", "?view=", "?view=places", "?VIEW=stats"] {
        let listed = get(&server, &format!("/admin/queues{query}")).await;
        assert_eq!((listed.status, listed.json), (200, expected.clone()), "{query}");
    }
}

#[tokio::test]
async fn without_tasks_there_are_no_queues() {
    let server = Server::memory();
    assert_eq!(get(&server, "/admin/queues").await.text, "{}");
    assert_eq!(get(&server, "/admin/queues?view=stats").await.text, r#"{"queues":[]}"#);
}

#[tokio::test]
async fn the_stats_view_tells_more_of_every_queue() {
    let server = busy().await;
    let answer = get(&server, "/admin/queues?view=stats").await;
    assert_eq!((answer.status, fields(&answer.json)), (200, vec!["queues"]));
    let queues = answer.json["queues"].as_array().expect("a list");
    let age = queues[0]["oldestReadyAgeSeconds"].as_u64().expect("an age in whole seconds");
    assert!(age < 30, "{age}");
    let mail = json!({"command": "Mail:Send", "ready": 2, "delayed": 1, "inProgress": 2, "dlq": 1,
        "tenantId": "dev-tenant", "oldestReadyAgeSeconds": age, "paused": false, "lanes": 0, "limited": 0,
        "held": 0, "failed": 0});
    let other = json!({"command": "other", "ready": 1, "delayed": 0, "inProgress": 0, "dlq": 0,
        "tenantId": "dev-tenant", "oldestReadyAgeSeconds": queues[1]["oldestReadyAgeSeconds"], "paused": false,
        "lanes": 0, "limited": 0, "held": 0, "failed": 0});
    assert_eq!(*queues, [mail, other]);
}

#[tokio::test]
async fn one_queue_is_counted_in_whatever_case_it_is_asked_for() {
    let server = busy().await;
    for command in ["Mail:Send", "mail:send", "MAIL:SEND"] {
        let stats = get(&server, &format!("/admin/queues/{command}")).await;
        let expected = json!({"command": command, "ready": 2, "delayed": 1, "inProgress": 2, "dlq": 1});
        assert_eq!((stats.status, stats.json), (200, expected));
    }
    for command in ["unknown", "a%20b"] {
        let stats = get(&server, &format!("/admin/queues/{command}")).await;
        let counts =
            json!([stats.json["ready"], stats.json["delayed"], stats.json["inProgress"], stats.json["dlq"]]);
        assert_eq!((stats.status, counts), (200, json!([0, 0, 0, 0])));
    }
}

#[tokio::test]
async fn a_cleanup_tells_what_it_was_asked_for() {
    let server = Server::memory();
    let path = "/admin/tasks/cleanup";
    for (body, before, limit) in [
        (json!({"before": "2026-03-01T09:00:05.999-03:00"}), "2026-03-01T09:00:05-03:00", 0),
        (json!({"before": "2026-03-01T12:00:05Z", "limit": 7}), "2026-03-01T12:00:05Z", 7),
        (json!({"before": "2026-03-01T12:00:05.5+05:30", "limit": -3}), "2026-03-01T12:00:05+05:30", -3),
        (json!({"before": "1969-12-31T23:59:59.5Z"}), "1969-12-31T23:59:59Z", 0),
    ] {
        let answer = post(&server, path, body).await;
        assert_eq!(answer.json, json!({"before": before, "deleted": 0, "limit": limit}), "{}", answer.text);
    }
    let asked = now();
    let answer = post(&server, path, json!({})).await;
    assert_eq!(fields(&answer.json), ["before", "deleted", "limit"]);
    super::lies_ahead(instant(&answer.json["before"]), 0, asked);
    assert_eq!(answer.json["before"].as_str().map(str::len), Some(20), "whole seconds");
    for bad in ["now", "2026-03-01", "2026-03-01T12:00:05", "2026-02-30T12:00:05Z"] {
        let got = post(&server, path, json!({"before": bad})).await;
        refused(&got, 400, "invalid_before", "invalid 'before' (use RFC3339)");
    }
    refused(&post(&server, path, json!({"before": 5})).await, 400, "invalid_body", "invalid body");
}

#[tokio::test]
async fn a_cleanup_removes_ended_tasks_and_nothing_else() {
    let server = Server::memory();
    let mut ended = Vec::new();
    for n in 0..3 {
        let id = running(&server, "c", json!({"idempotencyKey": format!("k{n}")})).await;
        let result = match n {
            0 => json!({"status": "FAILED", "error": "e"}),
            _ => json!({"status": "COMPLETED", "result": {}}),
        };
        post(&server, &format!("/tasks/{id}/result"), result).await;
        ended.push(id);
    }
    let dead = running(&server, "c", json!({"maxAttempts": 1})).await;
    post(&server, &format!("/tasks/{dead}/nack"), json!({})).await;
    let lent = running(&server, "c", json!({})).await;
    let ready = id(&create(&server, json!({"command": "c", "payload": 1})).await);
    let cleanup = |body: Value| post(&server, "/admin/tasks/cleanup", body);
    assert_eq!(cleanup(json!({})).await.json["deleted"], 0, "a day has not passed");
    assert_eq!(cleanup(json!({"before": ahead(86_390)})).await.json["deleted"], 0);
    assert_eq!(cleanup(json!({"before": ahead(90_000), "limit": 1})).await.json["deleted"], 1);
    assert_eq!(cleanup(json!({"before": ahead(90_000), "limit": -1})).await.json["deleted"], 1);
    assert_eq!(cleanup(json!({"before": ahead(90_000)})).await.json["deleted"], 0, "failed ones stay a week");
    assert_eq!(cleanup(json!({"before": ahead(605_000)})).await.json["deleted"], 1);
    for gone in &ended {
        refused(&get(&server, &format!("/tasks/{gone}")).await, 404, "task_not_found", "not found");
        let result = get(&server, &format!("/tasks/{gone}/result")).await;
        refused(&result, 404, "task_not_found", "task not found");
    }
    for kept in [&dead, &lent, &ready] {
        assert_eq!(get(&server, &format!("/tasks/{kept}")).await.status, 200);
    }
    let again = post(&server, "/tasks", json!({"command": "c", "payload": 1, "idempotencyKey": "k0"})).await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (202, ""), "its key is free");
}
