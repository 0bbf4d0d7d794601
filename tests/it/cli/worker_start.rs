//! `codeq worker start`.

use super::stand_in::StandIn;
use super::{Cli, missing};
use crate::harness::Server;
use serde_json::{Value, json};

fn task(cli: &Cli, id: &str) -> Value {
    serde_json::from_str(&cli.ok(&["task", "get", id])).expect("raw JSON")
}

#[test]
fn a_task_is_completed_and_the_worker_stops_when_told() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    let mut worker = cli.start(&["worker", "start", "--events", "Demo, other", "--ack", "complete"]);
    worker.until("[INFO] Worker connected. Listening... (token: worker)");
    let id = cli.create(&["--event", "demo", "--payload", "1"]);
    assert_eq!(worker.until("Task claimed"), format!("[OK] Task claimed: {id} (demo)"));
    let wait = format!("/v1/codeq/tasks/{id}/result?waitSeconds=20");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let answer = runtime.block_on(server.get(&wait, crate::harness::DEV_TOKEN));
    let result = &answer.json["result"]["result"];
    assert_eq!(result["handledBy"], "codeq");
    assert!(codeq_server::stamp::parse(result["ts"].as_str().expect("a text")).is_some());
    let (code, rest) = worker.interrupt();
    assert_eq!((code, rest.as_str()), (Some(0), "[WARN] Stopping...\n"));
}

#[test]
fn an_abandoned_task_comes_back_without_counting() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    let id = cli.create(&["--event", "demo", "--payload", "1", "--max-attempts", "1"]);
    let mut worker = cli.start(&["worker", "start", "--events", "demo"]);
    for _ in 0..3 {
        assert_eq!(worker.until("Task claimed"), format!("[OK] Task claimed: {id} (demo)"));
    }
    assert_eq!(worker.interrupt().0, Some(0));
    assert!(task(&cli, &id)["refunds"].as_u64() >= Some(2));
}

/// Two tasks that were given back made 1,239 lines in three seconds.
#[test]
fn a_task_that_comes_back_is_given_back_ever_more_slowly() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    cli.create(&["--command", "demo", "--payload", "1"]);
    cli.create(&["--command", "demo", "--payload", "2"]);
    let mut worker = cli.start(&["worker", "start", "--command", "demo"]);
    worker.until("Task claimed");
    std::thread::sleep(std::time::Duration::from_secs(3));
    let (code, said) = worker.interrupt();
    assert_eq!(code, Some(0));
    assert!(said.matches("Task claimed").count() < 15, "{said}");
}

#[test]
fn a_worker_speaks_json() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    let id = cli.create(&["--command", "demo", "--payload", "1"]);
    let mut worker = cli.start(&["worker", "start", "--command", "demo", "--ack", "complete", "--json"]);
    let mut next = || serde_json::from_str::<Value>(&worker.until("")).expect("JSON");
    assert_eq!([next()["event"].clone(), next()["event"].clone()], ["connecting", "connected"]);
    assert_eq!(next(), json!({"event": "claimed", "taskId": id, "command": "demo"}));
}

#[test]
fn a_nack_has_a_reason_and_a_delay() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    let id = cli.create(&["--event", "demo", "--payload", "1", "--max-attempts", "1"]);
    let mut worker =
        cli.start(&["worker", "start", "--events", "demo", "--ack", "nack", "--concurrency", "2"]);
    worker.until("Task claimed");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let wait = format!("/v1/codeq/tasks/{id}/result?waitSeconds=20");
    let answer = runtime.block_on(server.get(&wait, crate::harness::DEV_TOKEN));
    assert_eq!(answer.json["result"]["error"], "codeq");
}

#[test]
fn nothing_is_said_about_a_task_with_ack_none() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    let id = cli.create(&["--event", "demo", "--payload", "1"]);
    let mut worker = cli.start(&["worker", "start", "--events", "demo", "--ack", "none"]);
    worker.until("Task claimed");
    assert_eq!(worker.interrupt().0, Some(0));
    assert_eq!(task(&cli, &id)["status"], "IN_PROGRESS");
}

#[test]
fn refusals_are_told_and_the_worker_goes_on() {
    let server = StandIn::start(|_| (403, r#"{"error":"missing scope"}"#.into()));
    let cli = Cli::at(&server.base).with("CODEQ_PRODUCER_TOKEN", "p");
    let mut worker = cli.start(&["worker", "start", "--events", "demo", "--wait-seconds", "3"]);
    let first = worker.until("(token: producer)");
    assert_eq!(first, format!("[INFO] Connecting to {} (token: producer)", server.base));
    assert_eq!(worker.until("denied"), r#"[WARN] claim denied (403): {"error":"missing scope"}"#);
    let again = worker.until("");
    assert!(again.contains("denied"), "it is not connected: {again}");
    let asked = server.asked();
    assert!(asked.len() >= 3, "it asks every second and complains every three");
    assert_eq!(asked[0].json(), json!({"commands": ["demo"], "leaseSeconds": 60, "waitSeconds": 0}));
    assert_eq!(worker.interrupt().0, Some(0));
}

#[test]
fn a_server_that_is_away_is_waited_for() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    drop(server);
    let mut worker = cli.start(&["worker", "start", "--command", "demo"]);
    worker.until("[INFO] Connecting to ");
    let said = worker.until("");
    assert!(said.starts_with("[WARN] claim error: cannot reach http://127.0.0.1:"), "{said}");
    assert_eq!(worker.interrupt().0, Some(0));
}

#[test]
fn what_a_worker_needs_is_asked_for() {
    let cli = Cli::new();
    assert_eq!(cli.fails(&["worker", "start"]), missing("events are required", "--command LIST"));
    assert_eq!(
        cli.fails(&["worker", "start", "--events", " , "]),
        missing("events are required", "--command LIST")
    );
    let wrong = cli.fails(&["worker", "start", "--events", "x", "--ack", "maybe"]);
    assert_eq!(wrong, "[ERROR] ack must be one of: complete, abandon, nack, none");
}
