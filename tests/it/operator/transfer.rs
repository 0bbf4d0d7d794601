use super::{create, get, kill, post, refused};
use crate::harness::{Answer, DEV_TOKEN, Server};
use reqwest::Method;
use serde_json::{Value, json};

async fn import(server: &Server, lines: &str) -> Answer {
    let path = "/v1/codeq/admin/import";
    server.send(Method::POST, path, Some(DEV_TOKEN), Some(lines.as_bytes().to_vec())).await
}

fn without_times(mut task: Value) -> Value {
    let fields = task.as_object_mut().expect("a task");
    fields.remove("updatedAt");
    task
}

#[tokio::test]
async fn tasks_move_from_one_server_to_another_with_their_ids() {
    let old = Server::dev();
    let payload = r#"{"n": 9007199254740993}"#;
    let body = format!(
        r#"{{"command":"Render","payload":{payload},"priority":4,"idempotencyKey":"k","headers":{{"a":"b"}}}}"#
    );
    let ready = old.send(Method::POST, "/v1/codeq/tasks", Some(DEV_TOKEN), Some(body.into_bytes())).await;
    let ready = ready.json["id"].as_str().expect("an id").to_owned();
    let delayed = create(&old, json!({"command": "d", "payload": 1, "delaySeconds": 600})).await;
    let running = create(&old, json!({"command": "r", "payload": 1})).await;
    old.post("/v1/codeq/tasks/claim", DEV_TOKEN, json!({"commands": ["r"]})).await;
    let beat = format!("/v1/codeq/tasks/{running}/heartbeat");
    let left = json!({"page": 7});
    assert_eq!(old.post(&beat, DEV_TOKEN, json!({"checkpoint": left})).await.status, 200);
    let dead = kill(&old, "die", 1, |_| "boom".into()).await.remove(0);

    let live = get(&old, "/export").await;
    assert_eq!(live.header("content-type"), "application/x-ndjson");
    assert_eq!(live.text.lines().count(), 4, "{}", live.text);
    let letters = get(&old, "/export?place=dead").await;
    assert_eq!(letters.text.lines().count(), 2, "{}", letters.text);

    let mut new = Server::dev();
    let answer = import(&new, &live.text).await;
    assert_eq!(&*answer.text, r#"{"created":3,"existing":0,"refused":[]}"#);
    assert_eq!(&*import(&new, &live.text).await.text, r#"{"created":0,"existing":3,"refused":[]}"#);
    assert_eq!(import(&new, &letters.text).await.json["created"], 1);
    new.kill();
    new.start_again();
    for id in [&ready, &delayed, &dead] {
        let path = format!("/v1/codeq/tasks/{id}");
        let (before, after) = (old.get(&path, DEV_TOKEN).await, new.get(&path, DEV_TOKEN).await);
        assert_eq!(without_times(before.json), without_times(after.json));
    }
    let result = new.get(&format!("/v1/codeq/tasks/{dead}/result"), DEV_TOKEN).await;
    assert_eq!(result.json["result"]["failureReason"], "MAX_ATTEMPTS", "{}", result.text);
    // What ran there is ready here, its attempts counted.
    let claimed = new.post("/v1/codeq/tasks/claim", DEV_TOKEN, json!({"commands": ["r"]})).await;
    assert_eq!((&claimed.json["id"], &claimed.json["attempts"]), (&json!(running), &json!(2)));
    assert_eq!(claimed.json["checkpoint"], left, "what it left for its next attempt: {}", claimed.text);
    // The key still names its task.
    let again = json!({"command": "render", "payload": 0, "idempotencyKey": "k"});
    assert_eq!(new.post("/v1/codeq/tasks", DEV_TOKEN, again).await.json["id"], json!(ready));
    let requeued = post(&new, &format!("/dlq/die/{dead}/requeue"), json!({})).await;
    assert_eq!(requeued.status, 200, "{}", requeued.text);
}

#[tokio::test]
async fn a_file_that_is_not_whole_says_so() {
    let old = Server::memory();
    let id = create(&old, json!({"command": "c", "payload": 1})).await;
    let lines = get(&old, "/export").await.text;
    let (task, end) = lines.trim_end().rsplit_once('\n').expect("two lines");
    let new = Server::memory();
    for (file, code) in [
        (format!("{task}\n"), "incomplete_file"),
        (format!("{task}\n{task}\n{end}\n"), "checksum_mismatch"),
        (format!("{}\n{end}\n", task.replace(r#""command":"c""#, r#""command":"d""#)), "checksum_mismatch"),
        (format!("{task}\n{end}\n{task}\n"), "invalid_body"),
        (format!("{{\"id\":\n{end}\n"), "invalid_body"),
        (String::new(), "incomplete_file"),
    ] {
        let answer = import(&new, &file).await;
        let refused = answer.json["refused"].as_array().expect("a list");
        assert!(refused.iter().any(|line| line["code"] == code), "{code}: {}", answer.text);
    }
    assert_eq!(new.get(&format!("/v1/codeq/tasks/{id}"), DEV_TOKEN).await.status, 200);
    let twin = task
        .replace(&id, "11111111-2222-4333-8444-555555555555")
        .replace(r#""payload":"1""#, r#""payload":"{""#);
    let answer = import(&new, &format!("{twin}\n")).await;
    assert_eq!(
        answer.json["refused"][0],
        json!({"line": 1, "error": "invalid body", "code": "invalid_body"})
    );
    refused(&get(&new, "/export?staus=FAILED").await, 400, "invalid_filter");
}

/// A hundred lines used to be one group, and larger than a segment of the journal.
#[tokio::test]
async fn what_a_server_has_exported_it_takes_in_however_much_it_is() {
    let old = Server::memory();
    for _ in 0..110 {
        create(&old, json!({"command": "large", "payload": "x".repeat(900_000)})).await;
    }
    let lines = get(&old, "/export").await.text;
    let new = Server::dev();
    assert_eq!(&*import(&new, &lines).await.text, r#"{"created":110,"existing":0,"refused":[]}"#);
    assert_eq!(new.get("/readyz", "").await.status, 200);
}

/// Lines that were made by hand: each is checked like a create, and none of them stops anything.
#[tokio::test]
async fn a_line_beyond_the_bounds_is_refused_and_everyone_else_goes_on() {
    let old = Server::memory();
    let id = create(&old, json!({"command": "c", "payload": 1, "idempotencyKey": "k"})).await;
    let lines = get(&old, "/export").await.text;
    let (line, _) = lines.split_once('\n').expect("a line");
    let new = Server::dev();
    let changed = |name: &str, value: Value| {
        let mut line: Value = serde_json::from_str(line).expect("a task");
        line[name] = value;
        format!("{line}\n")
    };
    for (name, value) in [
        ("idempotencyKey", json!("k".repeat(70_000))),
        ("attempts", json!(4_294_967_295_u32)),
        ("webhook", json!(format!("http://h/{}", "x".repeat(3000)))),
    ] {
        for _ in 0..3 {
            let answer = import(&new, &changed(name, value.clone())).await;
            let refused = answer.json["refused"].as_array().expect("a list");
            assert!(refused.iter().any(|refused| refused["line"] == 1), "{name}: {}", answer.text);
            assert_eq!(answer.json["created"], 0, "{name}: {}", answer.text);
        }
    }
    let long = changed("error", json!("e".repeat(20_000_000)));
    assert_eq!(import(&new, &long).await.json["created"], 1, "an error is cut");
    let kept = new.get(&format!("/v1/codeq/tasks/{id}"), DEV_TOKEN).await;
    assert_eq!(kept.status, 200, "{}", kept.text);
    assert!(kept.text.len() < 100_000, "{} bytes", kept.text.len());
    // Lookups go on: what a key names is looked up in the tables.
    let again = json!({"command": "c", "payload": 1, "idempotencyKey": "k"});
    assert_eq!(new.post("/v1/codeq/tasks", DEV_TOKEN, again).await.json["id"], json!(id));
    assert_eq!(new.get("/readyz", "").await.status, 200);
}
