//! Webhooks, received by real servers on this machine.

mod callbacks;
mod crash;
mod isolation;
mod notifications;
mod outbox;
pub mod receiver;

use crate::harness::{Answer, DEV_TOKEN, Server};
use serde_json::{Value, json};
use std::time::Duration;

/// `codeq serve` with the tokens of `codeq dev`, private addresses allowed, quick to give up.
pub fn server(more: Value) -> Server {
    Server::serve(with(more))
}

fn with(more: Value) -> Value {
    let mut config = json!({
        "env": "dev",
        "webhooks": {"timeoutSeconds": 1},
        "webhookHmacSecret": "s3cr3t",
        "resultWebhookBaseBackoffSeconds": 1,
        "resultWebhookMaxBackoffSeconds": 1,
        "producerAuthProvider": "static",
        "producerAuthConfig": {"token": DEV_TOKEN, "raw": {"role": "ADMIN", "tenantId": "acme"}},
        "workerAuthProvider": "static",
        "workerAuthConfig": worker(json!({"tenantId": "acme"}), json!(["*"])),
    });
    let keys = config.as_object_mut().expect("an object");
    keys.extend(more.as_object().expect("an object").clone());
    config
}

fn worker(raw: Value, events: Value) -> Value {
    let scopes = ["claim", "heartbeat", "abandon", "nack", "result", "subscribe"];
    let scopes: Vec<String> = scopes.iter().map(|scope| format!("codeq:{scope}")).collect();
    json!({"token": "worker", "raw": raw, "scopes": scopes, "eventTypes": events})
}

pub async fn create(server: &Server, task: Value) -> String {
    let made = server.post("/v1/codeq/tasks", DEV_TOKEN, task).await;
    assert_eq!(made.status, 202, "{}", made.text);
    made.json["id"].as_str().expect("an id").to_owned()
}

pub async fn claim(server: &Server, command: &str) -> Value {
    let body = json!({"commands": [command], "waitSeconds": 10, "leaseSeconds": 30});
    let claimed = server.post("/v1/codeq/tasks/claim", "worker", body).await;
    assert_eq!(claimed.status, 200, "{}", claimed.text);
    claimed.json
}

pub async fn report(server: &Server, id: &str, verb: &str, body: Value) -> Answer {
    let answer = server.post(&format!("/v1/codeq/tasks/{id}/{verb}"), "worker", body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer
}

/// Waits until `/metrics` has these lines: what is counted is counted after it has arrived.
async fn counted(server: &Server, lines: &[&str]) {
    let mut text = String::new();
    for _ in 0..400 {
        text = server.get("/metrics", DEV_TOKEN).await.text;
        if lines.iter().all(|line| text.contains(line)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{lines:?} are not all in\n{text}");
}

/// Creates a task with a webhook, and completes it.
async fn complete(server: &Server, url: &str) -> String {
    let id = create(server, json!({"command": "Render", "payload": 1, "webhook": url})).await;
    let claimed = claim(server, "render").await;
    assert_eq!(claimed["id"], id.as_str());
    report(server, &id, "result", json!({"status": "COMPLETED", "result": {"ok": true}})).await;
    id
}
