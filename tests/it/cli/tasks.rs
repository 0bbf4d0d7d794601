//! `codeq task create`, `get` and `result`.

use super::Cli;
use crate::harness::{DEV_TOKEN, Server};
use serde_json::{Value, json};

#[tokio::test]
async fn a_task_goes_from_create_to_result() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    let payload = r#"{"n" : 9007199254740993}"#;
    let said = cli.ok(&["task", "create", "--event", "demo", "--payload", payload, "--priority", "5"]);
    let id = said.trim_end().strip_prefix("[OK] Task created: ").expect("it says so").to_owned();
    let task: Value = serde_json::from_str(&cli.ok(&["task", "get", &id])).expect("raw JSON");
    assert_eq!((&task["payload"], &task["priority"]), (&json!(payload), &json!(5)));
    let missing = cli.fails(&["task", "result", &id]);
    assert!(missing.starts_with(r#"[ERROR] error (404): {"error":"result not found""#), "{missing}");
    server.post("/v1/codeq/tasks/claim", DEV_TOKEN, json!({"commands": ["demo"]})).await;
    let result = json!({"status": "COMPLETED", "result": {"ok": true}});
    server.post(&format!("/v1/codeq/tasks/{id}/result"), DEV_TOKEN, result).await;
    let read: Value = serde_json::from_str(&cli.ok(&["task", "result", &id])).expect("raw JSON");
    assert_eq!(read["result"]["result"], json!({"ok": true}));
}

#[test]
fn what_a_task_needs_is_asked_for() {
    let cli = Cli::new();
    assert_eq!(cli.fails(&["task", "create", "--payload", "1"]), "[ERROR] event is required");
    assert_eq!(cli.fails(&["task", "create", "--event", "x"]), "[ERROR] payload is required");
    let invalid = cli.fails(&["task", "create", "--event", "x", "--payload", "{"]);
    assert!(invalid.starts_with("[ERROR] invalid payload JSON: "), "{invalid}");
}

#[test]
fn all_that_a_create_can_say_can_be_said() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    let all = [
        &["--event", "demo", "--payload", "0", "--max-attempts", "2", "--idempotency-key", "k"][..],
        &["--delay-seconds", "60", "--webhook", "http://127.0.0.1:9/x", "--header", "origin=a=b"],
    ]
    .concat();
    let id = cli.create(&all);
    let task: Value = serde_json::from_str(&cli.ok(&["task", "get", &id])).expect("raw JSON");
    assert_eq!(task["lastKnownLocation"], "DELAYED_ZSET");
    assert_eq!((&task["maxAttempts"], &task["headers"]), (&json!(2), &json!({"origin": "a=b"})));
    assert_eq!(cli.create(&all), id, "the key makes it one task");
    let later = cli.create(&["--event", "demo", "--payload", "1", "--run-at", "2020-01-01T00:00:00Z"]);
    assert_ne!(later, id);
    let refused = cli.fails(&["task", "create", "--event", "a b", "--payload", "1"]);
    assert!(refused.starts_with(r#"[ERROR] error (400): {"error":"invalid command""#), "{refused}");
}

#[test]
fn a_server_that_is_away_is_an_error() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    drop(server);
    cli.fails(&["task", "get", "x"]);
}
