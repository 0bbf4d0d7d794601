//! Tenants do not see each other: semantics §12.

use super::{API, UNKNOWN_ID, fixed, get_as, id, post_as, serve_with, worker_scopes};
use crate::harness::{Answer, Server, answer};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Tenants `acme` and `globex`; each has a producer, who is an admin, and a worker of the same subject.
fn two_tenants() -> Server {
    let producer =
        |tenant: &str| fixed(&format!("{tenant}-p"), json!({"raw": {"tid": tenant, "role": "ADMIN"}}));
    let worker = |tenant: &str| {
        let raw = json!({"tid": tenant});
        let config = json!({"subject": "w", "scopes": worker_scopes(), "eventTypes": ["*"], "raw": raw});
        fixed(&format!("{tenant}-w"), config)
    };
    let both = ["acme", "globex"];
    serve_with(both.map(producer).to_vec(), both.map(worker).to_vec(), json!({}))
}

/// Everything about an answer except when it was given.
async fn whole(server: &Server, method: Method, path: &str, body: &Value) -> (u16, Vec<String>, String) {
    let token = match path.contains("/artifacts/") || method == Method::GET {
        true => "globex-p",
        false => "globex-w",
    };
    let request = server.request(method, &format!("{API}{path}")).bearer_auth(token);
    let Answer { status, headers, text, .. } =
        answer(request.header("X-Request-Id", "same").body(body.to_string())).await;
    let headers = headers.iter().filter(|(name, _)| *name != "date");
    let mut headers: Vec<String> = headers.map(|(name, value)| format!("{name}: {value:?}")).collect();
    headers.sort();
    (status, headers, text)
}

#[tokio::test]
async fn what_belongs_to_another_tenant_is_answered_like_what_does_not_exist() {
    let server = two_tenants();
    let body = json!({"command": "c", "payload": 1, "idempotencyKey": "k"});
    let ready = id(&post_as(&server, "acme-p", "/tasks", body.clone()).await.json);
    let mut ids = vec![ready];
    for state in ["running", "completed", "dead"] {
        let fields = json!({"command": state, "payload": 1, "maxAttempts": 1});
        let task = id(&post_as(&server, "acme-p", "/tasks", fields).await.json);
        post_as(&server, "acme-w", "/tasks/claim", json!({"commands": [state]})).await;
        let (verb, report) = match state {
            "completed" => (
                "result",
                json!({"status": "COMPLETED", "result": {},
                "artifacts": [{"name": "a", "url": "http://h/"}]}),
            ),
            "dead" => ("nack", json!({})),
            _ => ("heartbeat", json!({})),
        };
        assert_eq!(post_as(&server, "acme-w", &format!("/tasks/{task}/{verb}"), report).await.status, 200);
        ids.push(task);
    }
    let result = json!({"status": "COMPLETED", "result": {}});
    let started = Instant::now();
    for foreign in &ids {
        for (method, route, body) in [
            (Method::GET, "/tasks/ID", json!({})),
            (Method::GET, "/tasks/ID/result", json!({})),
            (Method::GET, "/tasks/ID/result?waitSeconds=30", json!({})),
            (Method::GET, "/tasks/ID/artifacts/a", json!({})),
            (Method::HEAD, "/tasks/ID", json!({})),
            (Method::POST, "/tasks/ID/heartbeat", json!({})),
            (Method::POST, "/tasks/ID/heartbeat", json!({"attempt": 1})),
            (Method::POST, "/tasks/ID/abandon", json!({})),
            (Method::POST, "/tasks/ID/abandon", json!({"attempt": 0, "refund": true})),
            (Method::POST, "/tasks/ID/nack", json!({})),
            (Method::POST, "/tasks/ID/nack", json!({"attempt": 1})),
            (Method::POST, "/tasks/ID/result", result.clone()),
            (Method::POST, "/tasks/ID/result", json!({"status": "NONSENSE", "attempt": 9})),
        ] {
            let theirs = whole(&server, method.clone(), &route.replace("ID", foreign), &body).await;
            let nobodys = whole(&server, method.clone(), &route.replace("ID", UNKNOWN_ID), &body).await;
            assert_eq!(theirs, nobodys, "{method} {route}");
            assert_eq!(theirs.0, 404);
        }
        let batch = |id: &str| json!({"results": [{"taskId": id, "status": "COMPLETED", "result": {}}]});
        let theirs = whole(&server, Method::POST, "/tasks/batch/results", &batch(foreign)).await;
        let nobodys = whole(&server, Method::POST, "/tasks/batch/results", &batch(UNKNOWN_ID)).await;
        assert_eq!((theirs.0, theirs.2.replace(foreign, UNKNOWN_ID)), (nobodys.0, nobodys.2));
    }
    assert!(started.elapsed() < Duration::from_secs(20), "nothing waits for a foreign task");
    let subscription =
        post_as(&server, "acme-w", "/workers/subscriptions", json!({"callbackUrl": "http://h/"})).await;
    let foreign = subscription.json["subscriptionId"].as_str().expect("an id");
    let path = |id: &str| format!("/workers/subscriptions/{id}/heartbeat");
    let theirs = whole(&server, Method::POST, &path(foreign), &json!({})).await;
    assert_eq!(theirs, whole(&server, Method::POST, &path(UNKNOWN_ID), &json!({})).await);
    assert_eq!(post_as(&server, "acme-w", &path(foreign), json!({})).await.status, 200);
}

#[tokio::test]
async fn claims_keys_counts_cleanups_and_topics_are_of_one_tenant() {
    let server = two_tenants();
    let body = json!({"command": "c", "payload": 1, "idempotencyKey": "k"});
    let task = post_as(&server, "acme-p", "/tasks", body.clone()).await;
    assert_eq!(post_as(&server, "globex-w", "/tasks/claim", json!({"commands": ["c"]})).await.status, 204);
    assert_eq!(post_as(&server, "globex-w", "/tasks/claim/batch", json!({"count": 9})).await.status, 204);
    assert_eq!(get_as(&server, "globex-p", "/admin/queues").await.text, "{}");
    assert_eq!(get_as(&server, "globex-p", "/admin/queues/c").await.json["ready"], 0);
    let own = post_as(&server, "globex-p", "/tasks", body).await;
    assert_eq!((own.header("idempotent-replayed"), &own.json["tenantId"]), ("", &json!("globex")));
    assert_ne!(own.json["id"], task.json["id"]);
    let claimed = post_as(&server, "acme-w", "/tasks/claim", json!({})).await;
    assert_eq!((&claimed.json["id"], &claimed.json["tenantId"]), (&task.json["id"], &json!("acme")));
    let path = format!("/tasks/{}/result", id(&task.json));
    post_as(&server, "acme-w", &path, json!({"status": "COMPLETED", "result": {}})).await;
    let all = json!({"before": super::ahead(200_000)});
    assert_eq!(post_as(&server, "globex-p", "/admin/tasks/cleanup", all.clone()).await.json["deleted"], 0);
    assert_eq!(post_as(&server, "acme-p", "/admin/tasks/cleanup", all).await.json["deleted"], 1);

    let policy = json!({"priorityTiers": [1], "maxAttempts": 1, "deadLetterTopicRef": "d"}).to_string();
    let topic = "/admin/topics/orders";
    super::call(&server, Method::PUT, topic, "acme-p", Some(&policy)).await;
    let got = get_as(&server, "globex-p", topic).await;
    super::refused(&got, 404, "topic_not_found", "queue topic \"globex.orders\" not found");
    let delete = format!("{topic}?deletionPolicy=Delete");
    assert_eq!(super::call(&server, Method::DELETE, &delete, "globex-p", None).await.status, 204);
    assert_eq!(get_as(&server, "acme-p", topic).await.json["topicId"], "acme.orders");
}
