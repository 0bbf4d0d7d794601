//! One receiver's trouble is not another's.

use super::receiver::{Receiver, SILENCE};
use super::{complete, server};
use crate::harness::{DEV_TOKEN, Server};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Creates and completes so many tasks with a webhook; when each had ended at the latest.
async fn complete_many(server: &Server, urls: &[String], count: usize) -> HashMap<String, Instant> {
    let mut ended = HashMap::new();
    while ended.len() < count {
        let size = (count - ended.len()).min(100);
        let task = |n: usize| json!({"command": "many", "payload": 1, "webhook": urls[n % urls.len()]});
        let tasks: Vec<Value> = (ended.len()..ended.len() + size).map(task).collect();
        let made = server.post("/v1/codeq/tasks/batch", DEV_TOKEN, json!({"tasks": tasks})).await;
        assert_eq!(made.status, 200, "{}", made.text);
        let lent = json!({"commands": ["many"], "count": size});
        let lent = server.post("/v1/codeq/tasks/claim/batch", "worker", lent).await;
        let tasks = lent.json["tasks"].as_array().expect("a list").clone();
        assert_eq!(tasks.len(), size);
        let results: Vec<Value> =
            tasks.iter().map(|t| json!({"taskId": t["id"], "status": "COMPLETED", "result": {}})).collect();
        let done = server.post("/v1/codeq/tasks/batch/results", "worker", json!({"results": results})).await;
        assert_eq!(done.status, 200, "{}", done.text);
        let now = Instant::now();
        ended.extend(tasks.iter().map(|task| (task["id"].as_str().expect("an id").to_owned(), now)));
    }
    ended
}

/// So many callbacks to a receiver that is well: all but one in a hundred arrive within a second.
async fn arrive_in_time(server: &Server, receiver: &Receiver, count: usize) {
    let before = receiver.all().len();
    let ended = complete_many(server, std::slice::from_ref(&receiver.url), count).await;
    let all = receiver.count(before + count).await;
    let wait = |id: &Value, at: Instant| at.saturating_duration_since(ended[id.as_str().expect("an id")]);
    let mut waits: Vec<Duration> = all[before..].iter().map(|m| wait(&m.json["taskId"], m.at)).collect();
    waits.sort();
    let p99 = waits[(count * 99 / 100).max(1) - 1];
    println!("median {:?}, p99 {p99:?}", waits[count / 2]);
    assert!(p99 < Duration::from_secs(1), "p99 is {p99:?}");
}

#[tokio::test]
async fn a_receiver_that_never_answers_delays_nobody_else() {
    let server = server(json!({"webhooks": {"timeoutSeconds": 15}}));
    let (dead, receiver) = (Receiver::start(|_, _| SILENCE).await, Receiver::ok().await);
    complete_many(&server, std::slice::from_ref(&dead.url), 1000).await;
    dead.count(1).await;
    arrive_in_time(&server, &receiver, 1000).await;
    assert!(dead.all().len() <= 8, "{} attempts at once", dead.all().len());
}

#[tokio::test]
async fn many_dead_hosts_do_not_take_all_slots() {
    let server = server(json!({"webhooks": {"timeoutSeconds": 15}}));
    let (dead, receiver) = (Receiver::start(|_, _| SILENCE).await, Receiver::ok().await);
    arrive_in_time(&server, &receiver, 1).await;
    // Every address of 127/8 is this machine.
    let host = |n: usize| dead.url.replace("127.0.0.1", &format!("127.1.{}.{}", n / 200, n % 200 + 1));
    let urls: Vec<String> = (0..400).map(host).collect();
    complete_many(&server, &urls, 1600).await;
    dead.count(128).await;
    arrive_in_time(&server, &receiver, 200).await;
    assert_eq!(dead.all().len(), 128, "half of the slots are for hosts of which nothing is known");
}

// The receiver answers while this test waits for the process to end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_ends_sends_nothing_twice_and_forgets_nothing() {
    let mut server = server(json!({}));
    let receiver = Receiver::ok().await;
    let ended = complete_many(&server, std::slice::from_ref(&receiver.url), 200).await;
    assert!(server.terminate().success());
    server.start_again();
    let all = receiver
        .until(|all| {
            let ids: std::collections::HashSet<_> = all.iter().map(|m| m.json["taskId"].as_str()).collect();
            ids.len() == ended.len()
        })
        .await;
    assert_eq!(all.len(), ended.len(), "attempts in flight were let end");
    complete(&server, &receiver.url).await;
    receiver.count(201).await;
}
