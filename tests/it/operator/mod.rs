//! The operator's routes, against a real process.

mod audit;
mod bulk;
mod dashboard;
mod explain;
mod listing;
mod payloads;
mod policies;
mod repair;
mod run_now;
mod tenants;
mod transfer;

use crate::harness::{Answer, DEV_TOKEN, Server};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

const ADMIN: &str = "/v1/codeq/admin";

async fn get(server: &Server, path: &str) -> Answer {
    server.get(&format!("{ADMIN}{path}"), DEV_TOKEN).await
}

async fn post(server: &Server, path: &str, body: Value) -> Answer {
    server.post(&format!("{ADMIN}{path}"), DEV_TOKEN, body).await
}

async fn delete(server: &Server, path: &str) -> Answer {
    server.send(Method::DELETE, &format!("{ADMIN}{path}"), Some(DEV_TOKEN), None).await
}

async fn create(server: &Server, body: Value) -> String {
    let made = server.post("/v1/codeq/tasks", DEV_TOKEN, body).await;
    assert_eq!(made.status, 202, "{}", made.text);
    made.json["id"].as_str().expect("a task has an id").to_owned()
}

/// Creates a batch of tasks; every one dies of its only attempt, with the error that `error` gives it.
async fn kill(server: &Server, command: &str, count: usize, error: impl Fn(usize) -> String) -> Vec<String> {
    let mut ids = Vec::new();
    while ids.len() < count {
        let size = (count - ids.len()).min(100);
        let task = json!({"command": command, "payload": ids.len(), "maxAttempts": 1});
        let made = server.post("/v1/codeq/tasks/batch", DEV_TOKEN, json!({"tasks": vec![task; size]})).await;
        assert_eq!(made.status, 200, "{}", made.text);
        let claim = json!({"commands": [command], "count": size});
        let claimed = server.post("/v1/codeq/tasks/claim/batch", DEV_TOKEN, claim).await;
        for task in claimed.json["tasks"].as_array().expect("tasks were claimed") {
            let id = task["id"].as_str().expect("a task has an id").to_owned();
            let nack = json!({"reason": error(ids.len())});
            let nacked = server.post(&format!("/v1/codeq/tasks/{id}/nack"), DEV_TOKEN, nack).await;
            assert_eq!(nacked.json["status"], "dlq", "{}", nacked.text);
            ids.push(id);
        }
    }
    ids
}

/// The operation once it is not running any more.
async fn ended(server: &Server, id: &str) -> Value {
    let ends = async {
        loop {
            let operation = get(server, &format!("/operations/{id}")).await;
            assert_eq!(operation.status, 200, "{}", operation.text);
            if operation.json["state"] != "running" {
                return operation.json;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), ends).await.expect("an operation ends")
}

fn ids(page: &Answer) -> Vec<String> {
    let items = page.json["items"].as_array().unwrap_or_else(|| panic!("a page: {}", page.text));
    items.iter().map(|task| task["id"].as_str().expect("a task has an id").to_owned()).collect()
}

fn refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.json["code"].as_str()), (status, Some(code)), "{}", answer.text);
}
