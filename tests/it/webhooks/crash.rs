//! `kill -9` while callbacks are made: at least once, the right bytes, and never without an end.

use super::receiver::Receiver;
use super::server;
use crate::harness::{DEV_TOKEN, Server};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

const TASKS: usize = 10_000;
const BATCH: usize = 100;

async fn post(server: &Server, path: &str, token: &str, body: Value) -> Value {
    let answer = server.post(path, token, body).await;
    assert!((200..300).contains(&answer.status), "{}", answer.text);
    answer.json
}

/// Claims a batch and ends most of it; the results by task.
async fn work(server: &Server, results: &mut HashMap<String, Value>) -> usize {
    let asked = json!({"commands": ["job"], "count": BATCH, "leaseSeconds": 600});
    let lent = post(server, "/v1/codeq/tasks/claim/batch", "worker", asked).await;
    let tasks = lent["tasks"].as_array().cloned().unwrap_or_default();
    // Every tenth is held on to: nothing may be told of it.
    let ended: Vec<Value> = tasks
        .iter()
        .filter(|task| task["payload"].as_str().is_some_and(|n| !n.ends_with('7')))
        .map(|task| json!({"taskId": task["id"], "status": "COMPLETED", "result": {"n": task["payload"]}}))
        .collect();
    if !ended.is_empty() {
        post(server, "/v1/codeq/tasks/batch/results", "worker", json!({"results": ended})).await;
    }
    results.extend(
        ended.into_iter().map(|r| (r["taskId"].as_str().expect("an id").to_owned(), r["result"].clone())),
    );
    tasks.len()
}

#[tokio::test]
async fn killed_three_times_every_end_is_told_and_nothing_else() {
    let mut server = server(json!({"resultWebhookMaxAttempts": 50}));
    // A third of all attempts fail.
    let receiver = Receiver::start(|_, before| if before.len() % 3 == 2 { 500 } else { 200 }).await;
    for batch in 0..TASKS / BATCH {
        let task = |n| json!({"command": "job", "payload": n, "webhook": receiver.url});
        let tasks: Vec<Value> = (batch * BATCH..(batch + 1) * BATCH).map(task).collect();
        post(&server, "/v1/codeq/tasks/batch", DEV_TOKEN, json!({"tasks": tasks})).await;
    }
    let (mut results, mut batches) = (HashMap::new(), 0);
    while work(&server, &mut results).await > 0 {
        batches += 1;
        if batches % 30 == 0 {
            server.kill();
            server.start_again();
        }
    }
    assert_eq!((batches, results.len()), (TASKS / BATCH, TASKS / 10 * 9));
    let told = |all: &[super::receiver::Received]| {
        let taken = all.iter().filter(|m| m.status == 200);
        taken.map(|m| m.json["taskId"].as_str().expect("an id").to_owned()).collect::<HashSet<_>>()
    };
    let is_enough = |all: &[super::receiver::Received]| {
        let taken = all.iter().filter(|message| message.status == 200).count();
        taken >= results.len() && told(all).len() >= results.len()
    };
    let all = receiver.until(is_enough).await;
    let mut ids: HashMap<String, String> = HashMap::new();
    for message in &all {
        let id = message.json["taskId"].as_str().expect("an id");
        let result = results.get(id).unwrap_or_else(|| panic!("{id} has not ended"));
        assert_eq!((&message.json["result"], &message.json["status"]), (result, &json!("COMPLETED")));
        let webhook = message.headers["webhook-id"].clone();
        assert_eq!(*ids.entry(id.to_owned()).or_insert_with(|| webhook.clone()), webhook);
    }
    println!("{} ends, {} attempts", results.len(), all.len());
}
