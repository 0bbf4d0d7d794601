//! One task, several replicas; and what is left when replicas and the server are killed.

use super::{Redis, ok};
use crate::harness::{DEV_TOKEN, Server};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn a_task_travels_between_replicas() {
    let redis = Redis::start().await;
    let (one, two) = (redis.replica(), redis.replica());
    // A claim that waits at one replica is woken by a create at the other.
    let waiting = ok(&two, "/tasks/claim", json!({"commands": ["render"], "waitSeconds": 20}));
    let created = async {
        two.until_claims_wait(1).await;
        ok(&one, "/tasks", json!({"command": "Render", "payload": {"n": 1.50}, "priority": 3})).await
    };
    let (claimed, created) = tokio::join!(waiting, created);
    assert_eq!((&claimed["id"], &claimed["payload"]), (&created["id"], &json!(r#"{"n":1.5}"#)));
    let id = created["id"].as_str().expect("an id").to_owned();
    let body = json!({"status": "COMPLETED", "result": {"done": true}});
    ok(&one, &format!("/tasks/{id}/result"), body).await;
    let read = two.get(&format!("/v1/codeq/tasks/{id}/result"), DEV_TOKEN).await;
    assert_eq!(
        (&read.json["result"]["status"], &read.json["task"]["resultKey"]),
        (&json!("COMPLETED"), &json!("codeq:results"))
    );
    let listed = one.get("/v1/codeq/admin/tasks?status=COMPLETED", DEV_TOKEN).await;
    assert_eq!(listed.json["items"][0]["id"], json!(id), "{}", listed.text);
    let refused = one.get("/v1/codeq/admin/backup", DEV_TOKEN).await;
    assert_eq!(refused.status, 403, "{}", refused.text);
}

/// Creates a task as a careful producer does: with a key, and again while nobody knows.
async fn created(server: &Server, n: usize) -> Value {
    let body = json!({"command": "c", "payload": n, "idempotencyKey": n.to_string()});
    let known = async {
        loop {
            let answer = server.post("/v1/codeq/tasks", DEV_TOKEN, body.clone()).await;
            match answer.status {
                202 => return answer.json["id"].clone(),
                status => assert_eq!(status, 503, "{}", answer.text),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), known).await.expect("the replica recovers")
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_when_replicas_and_redis_are_killed() {
    let mut redis = Redis::start().await;
    let (mut one, mut two) = (redis.replica(), redis.replica());
    let mut made = Vec::new();
    for n in 0..60 {
        let server = if n % 2 == 0 { &one } else { &two };
        made.push(created(server, n).await);
        match n {
            20 => {
                one.kill();
                one.start_again();
            }
            40 => {
                two.kill();
                redis.kill_and_start().await;
                two.start_again();
            }
            _ => {}
        }
    }
    let mut lent = Vec::new();
    loop {
        let claimed = one.post("/v1/codeq/tasks/claim/batch", DEV_TOKEN, json!({"count": 10})).await;
        let tasks = claimed.json["tasks"].as_array().cloned().unwrap_or_default();
        if tasks.is_empty() {
            break;
        }
        lent.extend(tasks.iter().map(|task| task["id"].clone()));
    }
    assert_eq!(lent, made, "every task once, in the order of its creation");
}
