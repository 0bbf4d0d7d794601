//! Workers of several replicas: each is told to stop at once, and seen by all.

use super::{Redis, ok};
use crate::harness::{DEV_TOKEN, Server};
use crate::streams::talk::{FromWorkerStream, ToWorkerStream, Worker};
use codeq_api::grpc::worker::Hello;
use serde_json::{Value, json};
use std::time::Duration;

fn replicas(redis: &Redis) -> (Server, Server) {
    let streams = || json!({"workerStreamAddr": "127.0.0.1:0"});
    (redis.replica_with(streams()), redis.replica_with(streams()))
}

async fn worker_at(server: &Server, name: &str) -> Worker {
    let mut worker = Worker::open(&server.worker_streams).await;
    let (token, worker_id) = (DEV_TOKEN.into(), name.into());
    let hello = Hello { token, worker_id, accepts_cancel: true, ..Hello::default() };
    worker.send(ToWorkerStream::Hello(hello)).await;
    worker.greeted().await;
    worker
}

/// The stream of a worker may lead to any replica, and so may the request of whoever cancels. Only the heartbeat told it, which
/// may be half a lease away.
#[tokio::test]
async fn a_worker_hears_at_once_of_a_cancel_at_another_replica() {
    let redis = Redis::start().await;
    let (first, second) = replicas(&redis);
    let mut worker = worker_at(&first, "w-1").await;
    let mut sibling = worker_at(&second, "w-2").await;
    let made = ok(&first, "/tasks", json!({"command": "render", "payload": 1})).await;
    worker.ready(&["render"], 1).await;
    let task = worker.task().await;
    let id = made["id"].as_str().expect("an id");
    let cancel = json!({"graceSeconds": 30, "reason": "withdrawn"});
    ok(&second, &format!("/tasks/{id}/cancel"), cancel).await;
    let FromWorkerStream::Cancel(told) = worker.next().await else { panic!("no cancel") };
    assert_eq!((&*told.task_id, told.attempt, &*told.reason), (id, task.attempts, "withdrawn"));
    assert!(told.deadline.is_some());
    // Once, and nobody else: what comes next is the next task.
    let next = ok(&second, "/tasks", json!({"command": "render", "payload": 2})).await;
    sibling.ready(&["render"], 1).await;
    assert_eq!(json!(sibling.task().await.id), next["id"]);
    ok(&first, "/tasks", json!({"command": "render", "payload": 3})).await;
    worker.ready(&["render"], 1).await;
    assert_ne!(worker.task().await.id, id);
}

#[tokio::test]
async fn every_replica_lists_the_workers_of_all() {
    let redis = Redis::start().await;
    let (first, second) = replicas(&redis);
    for (server, worker) in [(&first, "w-1"), (&second, "w-2")] {
        ok(server, "/tasks", json!({"command": "render", "payload": 1})).await;
        let mut stream = worker_at(server, worker).await;
        stream.ready(&["render"], 1).await;
        stream.task().await;
    }
    for server in [&first, &second] {
        let listed = async {
            loop {
                let listed = server.get("/v1/codeq/admin/workers", DEV_TOKEN).await.json;
                let items = listed["items"].as_array().expect("a list");
                let told: Vec<(&Value, &Value)> =
                    items.iter().map(|item| (&item["worker"], &item["runningCount"])).collect();
                if told == [(&json!("w-1"), &json!(1)), (&json!("w-2"), &json!(1))] {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), listed).await.expect("both workers are listed");
    }
}
