//! Tasks that wait for others, and batches, over several replicas.

use super::{Redis, ok};
use crate::harness::{DEV_TOKEN, Server};
use serde_json::{Value, json};
use std::time::Duration;

async fn get(server: &Server, path: &str) -> Value {
    let got = server.get(&format!("/v1/codeq{path}"), DEV_TOKEN).await;
    assert_eq!(got.status, 200, "{path}: {}", got.text);
    got.json
}

async fn work(server: &Server, command: &str) -> Value {
    let claim = json!({"commands": [command], "leaseSeconds": 30, "waitSeconds": 20});
    let task = ok(server, "/tasks/claim", claim).await;
    let id = task["id"].as_str().expect("an id");
    ok(server, &format!("/tasks/{id}/result"), json!({"status": "COMPLETED", "result": {}})).await;
    task
}

#[tokio::test]
async fn a_batch_is_filled_worked_and_followed_by_any_replica() {
    let redis = Redis::start().await;
    let replica = || redis.replica_with(json!({"sweepIntervalSeconds": 1}));
    let (first, second) = (replica(), replica());
    let then = json!({"command": "merge", "payload": 1});
    let body = json!({"name": "nightly", "then": [then]});
    let made = first.post("/v1/codeq/batches", DEV_TOKEN, body).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let batch = made.json["id"].as_str().expect("an id").to_owned();
    for server in [&first, &second] {
        ok(server, "/tasks", json!({"command": "part", "payload": 1, "batchId": batch})).await;
    }
    ok(&second, &format!("/batches/{batch}/close"), json!({})).await;
    let late = json!({"command": "part", "payload": 1, "batchId": batch});
    let late = first.post("/v1/codeq/tasks", DEV_TOKEN, late).await;
    assert_eq!((late.status, &late.json["code"]), (409, &json!("batch_closed")), "{}", late.text);
    let merge = get(&first, "/admin/tasks?place=held").await;
    assert_eq!(
        (&merge["items"][0]["command"], &merge["items"][0]["waitingFor"]),
        (&json!("merge"), &json!(1))
    );
    work(&first, "part").await;
    work(&second, "part").await;
    // Whatever it did not carry, the other does.
    drop(second);
    assert_eq!(work(&first, "merge").await["id"], merge["items"][0]["id"]);
    let shown = get(&first, &format!("/batches/{batch}")).await;
    assert_eq!((&shown["state"], &shown["progress"]), (&json!("completed"), &json!(1.0)), "{shown}");
    let members = get(&first, &format!("/batches/{batch}/members")).await;
    assert_eq!(members["items"].as_array().map(Vec::len), Some(2), "{members}");
}

#[tokio::test]
async fn a_failure_cascades_whatever_replica_is_there() {
    let redis = Redis::start().await;
    let (first, second) = (redis.replica(), redis.replica());
    let made = ok(&first, "/tasks", json!({"command": "extract", "payload": 1})).await;
    let unknown = json!({"command": "x", "payload": 1, "after": ["0190a0aa-0000-4000-8000-000000000000"]});
    let unknown = second.post("/v1/codeq/tasks", DEV_TOKEN, unknown).await;
    assert_eq!((unknown.status, &unknown.json["code"]), (400, &json!("unknown_dependency")));
    let next = ok(&second, "/tasks", json!({"command": "load", "payload": 1, "after": [made["id"]]})).await;
    let last = ok(&first, "/tasks", json!({"command": "tell", "payload": 1, "after": [next["id"]]})).await;
    ok(&first, &format!("/tasks/{}/cancel", made["id"].as_str().expect("an id")), json!({})).await;
    let path = format!("/tasks/{}", last["id"].as_str().expect("an id"));
    let fails = async {
        while get(&second, &path).await["status"] != "FAILED" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), fails).await.expect("it fails with what it waited for");
}
