//! Schedules, unique keys and cancels over several replicas.

use super::{Redis, ok};
use crate::harness::{DEV_TOKEN, Server};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

async fn get(server: &Server, path: &str) -> Value {
    let got = server.send(Method::GET, &format!("/v1/codeq{path}"), Some(DEV_TOKEN), None).await;
    assert_eq!(got.status, 200, "{path}: {}", got.text);
    got.json
}

#[tokio::test]
async fn every_tick_makes_one_task_whatever_replica_is_there() {
    let redis = Redis::start().await;
    let more = || json!({"sweepIntervalSeconds": 1});
    let (first, second) = (redis.replica_with(more()), redis.replica_with(more()));
    let task = json!({"command": "report", "payload": {"kind": "poll"}});
    let schedule = json!({"everySeconds": 1, "overlap": "allow", "catchUp": "all", "task": task});
    let path = "/v1/codeq/schedules/poll";
    let body = || Some(schedule.to_string().into_bytes());
    let put = first.send(Method::PUT, path, Some(DEV_TOKEN), body()).await;
    assert_eq!(put.status, 201, "{}", put.text);
    let again = second.send(Method::PUT, path, Some(DEV_TOKEN), body()).await;
    assert_eq!((again.status, &again.json["createdAt"]), (200, &put.json["createdAt"]), "{}", again.text);
    // Its time may be in the second of a tick.
    let triggered = ok(&second, "/schedules/poll/trigger", json!({})).await;
    let ticks = async || {
        let tasks = get(&second, "/admin/tasks?command=report&limit=100").await;
        let tick = |task: &Value| task["headers"]["codeq-scheduled-for"].as_str().unwrap_or("").to_owned();
        let tasks = tasks["items"].as_array().expect("a list");
        tasks.iter().filter(|task| task["id"] != triggered["id"]).map(tick).collect::<Vec<String>>()
    };
    let waits = async {
        while ticks().await.len() < 4 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waits).await.expect("the schedule ticks");
    drop(first);
    let waits = async {
        while ticks().await.len() < 7 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(40), waits).await.expect("another replica goes on");
    let all = ticks().await;
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "one task for each tick: {all:?}");
    let listed = get(&second, "/schedules").await;
    assert_eq!(listed["items"][0]["name"], "poll", "{listed}");
}

#[tokio::test]
async fn unique_keys_and_cancels_are_seen_by_every_replica() {
    let redis = Redis::start().await;
    let (first, second) = (redis.replica(), redis.replica());
    let create = json!({"command": "index", "payload": 1, "unique": {"key": "doc-7"}, "maxRunSeconds": 900});
    let made = ok(&first, "/tasks", create.clone()).await;
    let other = ok(&second, "/tasks", create).await;
    assert_eq!(made["id"], other["id"]);
    let id = made["id"].as_str().expect("an id").to_owned();
    ok(&second, "/tasks/claim", json!({"commands": ["index"]})).await;
    let cancel = json!({"graceSeconds": 30, "reason": "withdrawn"});
    ok(&first, &format!("/tasks/{id}/cancel"), cancel).await;
    let beat = json!({"progress": {"done": 1}, "checkpoint": [1]});
    let beat = ok(&second, &format!("/tasks/{id}/heartbeat"), beat).await;
    assert_eq!(beat["cancel"]["reason"], "withdrawn", "{beat}");
    let shown = get(&first, &format!("/tasks/{id}")).await;
    assert_eq!((&shown["progress"], &shown["checkpoint"]), (&json!({"done": 1}), &json!([1])), "{shown}");
    ok(&second, &format!("/tasks/{id}/nack"), json!({})).await;
    let ended = get(&first, &format!("/tasks/{id}")).await;
    assert_eq!((&ended["status"], &ended["error"]), (&json!("FAILED"), &json!("CANCELLED: withdrawn")));
}
