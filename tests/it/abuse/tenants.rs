//! A caller of another tenant: every answer is the one to an id that never was.

use super::{NOBODY, create};
use crate::harness::{Answer, Server};
use serde_json::{Value, json};

const SCOPES: [&str; 6] =
    ["codeq:claim", "codeq:heartbeat", "codeq:abandon", "codeq:nack", "codeq:result", "codeq:subscribe"];

/// A topic and a command that nobody has, as long as `orders` is.
const NAME: &str = "absent";

/// Two tenants; the token of each is producer, admin and worker. The subjects are the same on purpose.
fn server() -> Server {
    let token = |tenant: &str| {
        json!({"type": "static", "config": {
            "token": tenant, "subject": "same", "scopes": SCOPES, "eventTypes": ["*"],
            "raw": {"tenantId": tenant, "role": "ADMIN"},
        }})
    };
    let both = json!({"providers": [token("acme"), token("evil")]});
    Server::serve(json!({
        "env": "dev",
        "producerAuthProvider": "multi", "producerAuthConfig": both,
        "workerAuthProvider": "multi", "workerAuthConfig": both,
    }))
}

/// Everything a caller can tell an answer by, the request's own id and the asked name replaced.
fn told(answer: &Answer, name: &str) -> String {
    let headers =
        answer.headers.iter().filter(|(name, _)| !["date", "x-request-id"].contains(&name.as_str()));
    let headers: Vec<String> = headers.map(|(name, value)| format!("{name}: {value:?}")).collect();
    let request_id = answer.json["requestId"].as_str().unwrap_or("no request id");
    let text = answer.text.replace(request_id, "<request>").replace(name, "<name>");
    format!("{} {headers:?} {text}", answer.status).replace(name, "<name>")
}

async fn compare(
    server: &Server,
    method: &str,
    path: &str,
    body: Option<&Value>,
    foreign: &str,
    unknown: &str,
) {
    let ask = |name: &str| {
        let body = body.map(|body| body.to_string().replace(":id", name).into_bytes());
        let method = method.parse().expect("a method");
        let path = path.replace(":id", name);
        async move { server.send(method, &path, Some("evil"), body).await }
    };
    let (of_foreign, of_unknown) = (ask(foreign).await, ask(unknown).await);
    assert_eq!(told(&of_foreign, foreign), told(&of_unknown, unknown), "{method} {path}");
}

/// Tasks of `acme` in every state: ready, delayed, running, completed.
async fn tasks(server: &Server) -> Vec<String> {
    let done = create(server, "acme", json!({"command": "work", "payload": 1, "idempotencyKey": "k"})).await;
    server.post("/v1/codeq/tasks/claim", "acme", json!({"commands": ["work"]})).await;
    let artifacts = json!([{"name": "a", "url": "http://h/a"}]);
    let result = json!({"status": "COMPLETED", "result": {}, "artifacts": artifacts});
    let ended = server.post(&format!("/v1/codeq/tasks/{done}/result"), "acme", result).await;
    assert_eq!(ended.status, 200, "{}", ended.text);
    let running = create(server, "acme", json!({"command": "work", "payload": 1})).await;
    server.post("/v1/codeq/tasks/claim", "acme", json!({"commands": ["work"]})).await;
    let ready = create(server, "acme", json!({"command": "other", "payload": 1})).await;
    let delayed =
        create(server, "acme", json!({"command": "other", "payload": 1, "delaySeconds": 600})).await;
    vec![done, running, ready, delayed]
}

#[tokio::test]
async fn a_foreign_task_is_answered_like_an_unknown_one() {
    let server = server();
    let ids = tasks(&server).await;
    let submit = json!({"status": "COMPLETED", "result": {}, "attempt": 1});
    let routes: Vec<(&str, &str, Option<Value>)> = vec![
        ("GET", "/v1/codeq/tasks/:id", None),
        ("HEAD", "/v1/codeq/tasks/:id", None),
        ("GET", "/v1/codeq/tasks/:id/result", None),
        ("GET", "/v1/codeq/tasks/:id/result?waitSeconds=60", None),
        ("GET", "/v1/codeq/tasks/:id/artifacts/a", None),
        ("POST", "/v1/codeq/tasks/:id/heartbeat", Some(json!({}))),
        ("POST", "/v1/codeq/tasks/:id/heartbeat", Some(json!({"attempt": 1}))),
        ("POST", "/v1/codeq/tasks/:id/abandon", Some(json!({"attempt": 9, "refund": true}))),
        ("POST", "/v1/codeq/tasks/:id/nack", Some(json!({"reason": "r"}))),
        ("POST", "/v1/codeq/tasks/:id/result", Some(submit)),
        ("POST", "/v1/codeq/tasks/:id/result", Some(json!({"status": "COMPLETED"}))),
        ("POST", "/v1/codeq/tasks/:id/result", Some(json!({"status": "nonsense"}))),
        (
            "POST",
            "/v1/codeq/tasks/batch/results",
            Some(json!({"results": [{"taskId": ":id", "status": "FAILED"}]})),
        ),
    ];
    let before = states(&server, &ids).await;
    for id in &ids {
        for (method, path, body) in &routes {
            compare(&server, method, path, body.as_ref(), id, NOBODY).await;
        }
    }
    assert_eq!(states(&server, &ids).await, before, "a stranger changed something");
}

async fn states(server: &Server, ids: &[String]) -> Vec<String> {
    let mut states = Vec::new();
    for id in ids {
        states.push(server.get(&format!("/v1/codeq/tasks/{id}"), "acme").await.text);
    }
    states
}

#[tokio::test]
async fn foreign_subscriptions_topics_and_queues_are_not_there() {
    let server = server();
    tasks(&server).await;
    let made = json!({"callbackUrl": "http://127.0.0.1:9/"});
    let made = server.post("/v1/codeq/workers/subscriptions", "acme", made).await;
    let subscription = made.json["subscriptionId"].as_str().expect("an id").to_owned();
    let renew = "/v1/codeq/workers/subscriptions/:id/heartbeat";
    compare(&server, "POST", renew, Some(&json!({"ttlSeconds": 1})), &subscription, NOBODY).await;
    let policy = json!({"priorityTiers": [1], "maxAttempts": 1, "deadLetterTopicRef": "dead"});
    let put = server.send(
        reqwest::Method::PUT,
        "/v1/codeq/admin/topics/orders",
        Some("acme"),
        Some(policy.to_string().into_bytes()),
    );
    assert_eq!(put.await.status, 201);
    compare(&server, "GET", "/v1/codeq/admin/topics/:id", None, "orders", NAME).await;
    let delete = "/v1/codeq/admin/topics/:id?deletionPolicy=Delete";
    compare(&server, "DELETE", delete, None, "orders", NAME).await;
    assert_eq!(server.get("/v1/codeq/admin/topics/orders", "acme").await.status, 200);
    compare(&server, "GET", "/v1/codeq/admin/queues/:id", None, "other", "never").await;
    assert_eq!(server.get("/v1/codeq/admin/queues", "evil").await.json, json!({}));
    for tenant in ["acme", "*", ""] {
        let refused = server.get(&format!("/v1/codeq/admin/queues?tenant={tenant}"), "evil").await;
        assert_eq!((refused.status, refused.json["code"].as_str()), (403, Some("admin_only")), "{tenant}");
    }
}

#[tokio::test]
async fn keys_claims_and_cleanups_stay_within_their_tenant() {
    let server = server();
    let ids = tasks(&server).await;
    let mine = create(&server, "evil", json!({"command": "work", "payload": 1, "idempotencyKey": "k"})).await;
    assert!(!ids.contains(&mine), "another tenant's key replays its task");
    let claimed = server.post("/v1/codeq/tasks/claim/batch", "evil", json!({"count": 100})).await;
    let tasks = claimed.json["tasks"].as_array().expect("a list");
    assert_eq!((tasks.len(), tasks[0]["id"].as_str()), (1, Some(&*mine)));
    let all = json!({"before": "9999-01-01T00:00:00Z", "limit": 1000});
    let cleaned = server.post("/v1/codeq/admin/tasks/cleanup", "evil", all).await;
    assert_eq!((cleaned.status, &cleaned.json["deleted"]), (200, &json!(0)));
    assert_eq!(server.get(&format!("/v1/codeq/tasks/{}/result", ids[0]), "acme").await.status, 200);
}
