//! Tasks that wait for others, and batches, over HTTP and over a server that is killed.

use crate::harness::{Answer, DEV_TOKEN, Server};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(20);

async fn post(server: &Server, path: &str, body: Value) -> Answer {
    server.post(&format!("/v1/codeq/{path}"), DEV_TOKEN, body).await
}

async fn get(server: &Server, path: &str) -> Value {
    server.get(&format!("/v1/codeq/{path}"), DEV_TOKEN).await.json
}

fn id(answer: &Answer) -> String {
    answer.json["id"].as_str().unwrap_or_else(|| panic!("an id in {}", answer.text)).to_owned()
}

async fn create(server: &Server, more: Value) -> Answer {
    let mut task = json!({"command": "work", "payload": 1});
    for (name, value) in more.as_object().expect("an object") {
        task[name] = value.clone();
    }
    post(server, "tasks", task).await
}

async fn until(server: &Server, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let started = Instant::now();
    loop {
        let got = get(server, path).await;
        if is_so(&got) {
            return got;
        }
        assert!(started.elapsed() < SOON, "{path}: {got}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn complete(server: &Server, command: &str) -> String {
    let claim = json!({"commands": [command], "waitSeconds": 10});
    let task = id(&post(server, "tasks/claim", claim).await);
    let result = json!({"status": "COMPLETED", "result": {}});
    let done = post(server, &format!("tasks/{task}/result"), result).await;
    assert_eq!(done.status, 200, "{}", done.text);
    task
}

#[tokio::test]
async fn a_task_is_held_until_those_before_it_have_ended() {
    let server = Server::memory();
    let first = id(&create(&server, json!({"command": "first"})).await);
    let held = create(&server, json!({"after": [first], "batchId": ""})).await;
    assert_eq!((held.status, &held.json["status"]), (202, &json!("PENDING")), "{}", held.text);
    assert_eq!((&held.json["lastKnownLocation"], &held.json["waitingFor"]), (&json!("HELD_SET"), &json!(1)));
    let held = id(&held);
    let listed = get(&server, "admin/tasks?place=held").await;
    assert_eq!(listed["items"][0]["id"], json!(held), "{listed}");
    let explained = get(&server, &format!("admin/tasks/{held}/explain")).await;
    let reason = &explained["reasons"][0];
    assert_eq!((&reason["code"], &reason["count"]), (&json!("waiting_for"), &json!(1)), "{explained}");
    assert_eq!(reason["ids"], json!([first]));
    complete(&server, "first").await;
    let freed =
        until(&server, &format!("tasks/{held}"), |task| task["lastKnownLocation"] == "PENDING_LIST").await;
    assert_eq!((&freed["after"], &freed["waitingFor"]), (&json!([first]), &Value::Null));
}

#[tokio::test]
async fn what_cannot_be_is_refused() {
    let server = Server::memory();
    let nobody = "5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11";
    let first = id(&create(&server, json!({"command": "first"})).await);
    for (more, status, code) in [
        (json!({"after": [nobody]}), 400, "unknown_dependency"),
        (json!({"after": ["#0"]}), 400, "unknown_dependency"),
        (json!({"after": vec![first.clone(); 101]}), 400, "invalid_after"),
        (json!({"after": [first.clone()], "onDependencyFailure": "maybe"}), 400, "invalid_after"),
        (json!({"after": [first.clone()], "unique": {"key": "k"}}), 400, "invalid_unique"),
        (json!({"batchId": nobody}), 404, "batch_not_found"),
        (json!({"batchId": "b"}), 404, "batch_not_found"),
    ] {
        let got = create(&server, more.clone()).await;
        assert_eq!((got.status, &got.json["code"]), (status, &json!(code)), "{more}: {}", got.text);
    }
    let many = vec![json!({"command": "c", "payload": 1}); 11];
    for (body, field) in [
        (json!({"closeAfterSeconds": 0}), "closeAfterSeconds"),
        (json!({"onFailure": "maybe"}), "onFailure"),
        (json!({"then": many}), "then"),
        (json!({"then": [{"command": "c", "payload": 1, "after": [first]}]}), "then"),
    ] {
        let got = post(&server, "batches", body.clone()).await;
        assert_eq!((got.status, &got.json["field"]), (422, &json!(field)), "{body}: {}", got.text);
    }
}

#[tokio::test]
async fn items_of_a_batch_create_name_earlier_ones() {
    let server = Server::memory();
    let item = |command: &str, after: Value| json!({"command": command, "payload": 1, "after": after});
    let tasks = json!({"tasks": [
        item("a", json!([])), item("b", json!(["#0"])), item("c", json!(["#1", "#0"])), item("d", json!(["#4"])),
        item("e", json!(["#9"])), item("", json!([])), item("f", json!(["#5"])),
    ]});
    let results = post(&server, "tasks/batch", tasks).await.json["results"].clone();
    let ids: Vec<Value> = (0..3).map(|index| results[index]["task"]["id"].clone()).collect();
    assert_eq!(results[1]["task"]["after"], json!([ids[0]]), "{results}");
    assert_eq!(results[2]["task"]["after"], json!([ids[1], ids[0]]));
    assert_eq!(results[5]["code"], json!("invalid_command"));
    for index in [3, 4, 6] {
        assert_eq!(results[index]["code"], json!("unknown_dependency"), "{index}: {results}");
    }
    for (command, expected) in ["a", "b", "c"].into_iter().zip(&ids) {
        assert_eq!(json!(complete(&server, command).await), *expected);
    }
}

#[tokio::test]
async fn a_batch_is_followed_by_its_then_task_though_the_server_is_killed() {
    let mut server = Server::dev();
    let made =
        post(&server, "batches", json!({"name": "n", "then": [{"command": "then", "payload": 1}]})).await;
    assert_eq!((made.status, &made.json["state"]), (201, &json!("open")), "{}", made.text);
    let (batch, then) = (id(&made), made.json["then"][0].as_str().expect("an id").to_owned());
    for index in 0..6 {
        let member = json!({"command": format!("part{}", index % 3), "batchId": batch});
        assert_eq!(create(&server, member).await.status, 202);
    }
    complete(&server, "part0").await;
    server.kill();
    server.start_again();
    let path = format!("batches/{batch}");
    assert_eq!(get(&server, &path).await["counts"], json!({"live": 5, "completed": 1, "failed": 0}));
    let closed = post(&server, &format!("{path}/close"), json!({})).await;
    assert_eq!((closed.status, &closed.json["state"]), (200, &json!("closed")), "{}", closed.text);
    let refused = create(&server, json!({"batchId": batch})).await;
    assert_eq!((refused.status, &refused.json["code"]), (409, &json!("batch_closed")));
    for command in ["part0", "part1", "part1", "part2", "part2"] {
        complete(&server, command).await;
    }
    server.kill();
    server.start_again();
    assert_eq!(complete(&server, "then").await, then);
    let ended = until(&server, &path, |batch| batch["state"] == "completed").await;
    assert_eq!((&ended["counts"]["completed"], &ended["progress"]), (&json!(6), &json!(1.0)));
    let members = get(&server, &format!("{path}/members?limit=4")).await;
    assert_eq!(members["items"].as_array().map(Vec::len), Some(4), "{members}");
    assert!(members["next"].is_string());
}

/// The batch and the first of its tasks stayed, without the second, and their producer was told that there was nothing.
#[tokio::test]
async fn a_batch_is_made_with_all_of_its_then_tasks_or_not_at_all() {
    let server = Server::memory();
    let policy = |command: &str, policy: Value| {
        let path = format!("/v1/codeq/admin/queues/{command}/policy");
        let body = Some(policy.to_string().into_bytes());
        let server = &server;
        async move { server.send(Method::PUT, &path, Some(DEV_TOKEN), body).await.status }
    };
    assert_eq!(policy("full", json!({"maxReady": 1})).await, 200);
    assert_eq!(policy("strict", json!({"payloadSchema": {"type": "string"}})).await, 200);
    assert_eq!(create(&server, json!({"command": "full"})).await.status, 202);
    let then = |command: &str| json!({"then": [{"command": "ok", "payload": 1}, {"command": command, "payload": 1}]});
    for (command, status, code) in [("full", 429, "queue_full"), ("strict", 422, "payload_invalid")] {
        let got = post(&server, "batches", then(command)).await;
        assert_eq!((got.status, &got.json["code"]), (status, &json!(code)), "{}", got.text);
    }
    let left = get(&server, "admin/tasks?command=ok&limit=10").await;
    let is_live = |task: &&Value| task["status"] == "PENDING";
    let live: Vec<&Value> = left["items"].as_array().expect("a list").iter().filter(is_live).collect();
    assert!(live.is_empty(), "{live:?}");
}

#[tokio::test]
async fn a_cancelled_batch_fails_and_skips_what_follows() {
    let server = Server::memory();
    let body = json!({"then": [{"command": "then", "payload": 1}], "onFailure": "skip"});
    let made = post(&server, "batches", body).await;
    let (batch, then) = (id(&made), made.json["then"][0].as_str().expect("an id").to_owned());
    let member = id(&create(&server, json!({"batchId": batch})).await);
    let path = format!("/v1/codeq/batches/{batch}");
    let cancelled = server.send(Method::DELETE, &path, Some(DEV_TOKEN), None).await;
    assert_eq!(cancelled.status, 202, "{}", cancelled.text);
    until(&server, &format!("batches/{batch}"), |batch| batch["state"] == "failed").await;
    assert_eq!(get(&server, &format!("tasks/{member}")).await["error"], json!("CANCELLED"));
    let skipped = until(&server, &format!("tasks/{then}"), |task| task["status"] == "FAILED").await;
    assert_eq!(skipped["error"], json!(format!("DEPENDENCY: {batch}")));
    let result = get(&server, &format!("tasks/{then}/result")).await;
    assert_eq!(result["result"]["failureReason"], json!("DEPENDENCY"), "{result}");
}
