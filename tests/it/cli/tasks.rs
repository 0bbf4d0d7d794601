//! `codeq task create`, `get` and `result`.

use super::{Cli, missing};
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
    assert_eq!(
        cli.fails(&["task", "create", "--payload", "1"]),
        missing("event is required", "--command NAME")
    );
    assert_eq!(
        cli.fails(&["task", "create", "--event", "x"]),
        missing("payload is required", "--payload JSON")
    );
    let invalid = cli.fails(&["task", "create", "--event", "x", "--payload", "{"]);
    assert!(invalid.starts_with("[ERROR] invalid payload JSON: "), "{invalid}");
    assert!(invalid.contains("next: quote it for the shell"), "{invalid}");
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
fn a_server_that_is_away_is_named_with_the_next_step() {
    let server = Server::memory();
    let (cli, base) = (Cli::of(&server), server.base.clone());
    drop(server);
    let said = cli.fails(&["task", "get", "x"]);
    assert!(said.starts_with(&format!("[ERROR] cannot reach {base}/v1/codeq/tasks/x: ")), "{said}");
    assert!(said.contains("next: start a server with `codeq dev`"), "{said}");
}

#[test]
fn a_refusal_names_the_server_and_the_next_step() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    let id = cli.create(&["--command", "demo", "--payload", "1"]);
    let said = cli.fails(&["task", "result", &id]);
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("[ERROR] error (404): {"), "{said}");
    assert_eq!(lines[1], format!("  server: {}/v1/codeq/tasks/{id}/result", server.base));
    assert!(lines[2].starts_with("  next: ") && lines[2].contains("--wait 30"), "{said}");
    let said = cli.with("CODEQ_PRODUCER_TOKEN", "wrong").fails(&["task", "get", &id]);
    assert!(said.contains("(401)") && said.contains("run `codeq auth login`"), "{said}");
}

#[test]
fn a_payload_comes_from_a_file_or_a_pipe() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    super::write(&cli.path("p.json"), "{\"from\":\"file\"}\n");
    let id = cli.create(&["--command", "demo", "--payload", "@p.json"]);
    let payload = |id: &str| -> Value {
        let task: Value = serde_json::from_str(&cli.ok(&["task", "get", id])).expect("raw JSON");
        task["payload"].clone()
    };
    assert_eq!(payload(&id), "{\"from\":\"file\"}");
    let mut command = cli.command(&["task", "create", "--command", "demo", "--payload", "-", "--json"]);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("piped");
    std::io::Write::write_all(&mut stdin, b"[\"pipe\"]").expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it was ours");
    let made: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(payload(made["id"].as_str().expect("an id")), "[\"pipe\"]");
    assert!(
        cli.fails(&["task", "create", "--command", "x", "--payload", "@none"]).contains("cannot read none")
    );
}

#[test]
fn a_priority_that_the_server_would_change_is_told() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    let run = cli.run(&["task", "create", "--command", "demo", "--payload", "1", "--priority", "99"]);
    assert_eq!(run.code, Some(0));
    assert_eq!(run.stderr, "[WARN] priority 99 is outside 0 to 9 and counts as 9\n");
}

#[tokio::test]
async fn a_result_can_be_waited_for() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    let id = cli.create(&["--command", "demo", "--payload", "1"]);
    let mut waiting = cli.start(&["task", "result", &id, "--wait", "20"]);
    server.post("/v1/codeq/tasks/claim", DEV_TOKEN, json!({"commands": ["demo"]})).await;
    let result = json!({"status": "COMPLETED", "result": {"ok": true}});
    server.post(&format!("/v1/codeq/tasks/{id}/result"), DEV_TOKEN, result).await;
    let said = waiting.until("COMPLETED");
    assert!(said.contains(&id), "{said}");
    let other = cli.create(&["--command", "demo", "--payload", "1"]);
    assert!(cli.fails(&["task", "result", &other, "--wait", "1"]).contains("result not found"));
}

#[tokio::test]
async fn one_dead_letter_is_looked_at_and_replayed() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    let id = cli.create(&["--command", "demo", "--payload", "1", "--max-attempts", "1"]);
    let refused = cli.fails(&["task", "replay", &id]);
    assert!(refused.contains("has not failed"), "{refused}");
    server.post("/v1/codeq/tasks/claim", DEV_TOKEN, json!({"commands": ["demo"]})).await;
    server.post(&format!("/v1/codeq/tasks/{id}/nack"), DEV_TOKEN, json!({"reason": "no room"})).await;
    let attempts = cli.ok(&["task", "attempts", &id]);
    let row: Vec<&str> = attempts.lines().nth(1).expect("a row").split_whitespace().collect();
    assert_eq!((row[0], row[1], row[4]), ("1", "worker-dev", "nack"), "{attempts}");
    assert!(attempts.contains("no room"), "{attempts}");
    cli.ok(&["task", "replay", &id, "--max-attempts", "3"]);
    assert!(cli.ok(&["task", "list"]).contains("0/3"));
    assert_eq!(cli.ok(&["task", "list", "--limit", "0"]), "");
    assert_eq!(cli.ok(&["task", "list", "--limit", "0", "--json"]), "[]\n");
}
