//! `codeq worker run`: programs as workers.

use super::{Cli, Running, missing};
use crate::harness::{DEV_TOKEN, Server};
use serde_json::{Value, json};
use std::path::Path;

fn worker(cli: &Cli, exec: &str, more: &[&str]) -> Running {
    let mut worker = cli.start(&[&["worker", "run", "--events", "demo", "--exec", exec], more].concat());
    worker.until("[INFO] Worker connected.");
    worker
}

/// The result of a task, once there is one.
async fn result(server: &Server, id: &str) -> Value {
    let wait = format!("/v1/codeq/tasks/{id}/result?waitSeconds=30");
    let answer = server.get(&wait, DEV_TOKEN).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json
}

fn task(cli: &Cli, id: &str) -> Value {
    serde_json::from_str(&cli.ok(&["task", "get", id])).expect("raw JSON")
}

#[tokio::test]
async fn what_a_program_prints_is_the_result() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    let exec = r#"if [ "$CODEQ_ATTEMPT" = 1 ]; then
        case $(cat) in
          '"json"') printf '{"id":"%s","command":"%s"}' "$CODEQ_TASK_ID" "$CODEQ_COMMAND" ;;
          '"list"') echo '[1,2]' ;;
          *) echo plain; echo text ;;
        esac
      fi"#;
    let _worker = worker(&cli, exec, &["--concurrency", "3"]);
    let create = |payload: &str| cli.create(&["--event", "Demo", "--payload", payload]);
    let ids = [create(r#""json""#), create(r#""list""#), create(r#""other""#)];
    let wanted = [
        json!({"id": ids[0], "command": "Demo"}),
        json!({"value": [1, 2]}),
        json!({"stdout": "plain\ntext"}),
    ];
    for (id, wanted) in ids.iter().zip(wanted) {
        assert_eq!(result(&server, id).await["result"]["result"], wanted);
    }
}

#[tokio::test]
async fn a_failed_run_is_tried_again_and_stays_replayable_unless_its_code_is_final() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    let exec = "read code; echo first >&2; echo \"cause $code\" >&2; exit $code";
    let _worker = worker(&cli, exec, &["--fail-exit", "65,3"]);
    let create =
        |payload: &str| cli.create(&["--event", "demo", "--payload", payload, "--max-attempts", "1"]);
    for code in ["75", "1"] {
        let id = create(code);
        let again = result(&server, &id).await;
        let error = json!(format!("first\ncause {code}"));
        assert_eq!(
            (&again["result"]["error"], &again["result"]["failureReason"]),
            (&error, &json!("MAX_ATTEMPTS"))
        );
        assert_eq!(cli.ok(&["task", "replay", &id]), format!("[OK] Task replayed: {id}\n"));
        result(&server, &id).await;
    }
    let failed = result(&server, &create("3")).await;
    assert_eq!(failed["result"]["error"], "first\ncause 3");
    assert_eq!(failed["result"]["failureReason"], Value::Null);
}

#[tokio::test]
async fn errors_are_bounded_and_never_empty() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    let _worker = worker(&cli, "if [ $(cat) = 1 ]; then seq 100000 >&2; fi; exit 1", &["--fail-exit", "1"]);
    let create = |payload: &str| cli.create(&["--event", "demo", "--payload", payload]);
    let long = result(&server, &create("1")).await;
    let error = long["result"]["error"].as_str().expect("a text");
    assert!(error.len() <= 4096 && error.ends_with("\n100000"), "{} bytes", error.len());
    assert_eq!(result(&server, &create("2")).await["result"]["error"], "exit code 1");
}

#[tokio::test]
async fn a_lease_is_kept_as_long_as_the_program_runs() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    // Three leases long.
    let _worker = worker(&cli, "sleep 3; echo '{\"slow\":true}'", &["--lease-seconds", "1"]);
    let id = cli.create(&["--event", "demo", "--payload", "1"]);
    assert_eq!(result(&server, &id).await["result"]["result"], json!({"slow": true}));
    assert_eq!(task(&cli, &id)["attempts"], 1);
}

/// Waits until a program has written this file.
fn until_there(path: &Path) {
    let begun = std::time::Instant::now();
    while !path.exists() {
        assert!(begun.elapsed().as_secs() < 30, "{} does not appear", path.display());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

fn is_running(pid: &str) -> bool {
    Path::new("/proc").join(pid.trim()).exists()
}

#[tokio::test]
async fn the_program_is_killed_when_the_lease_is_lost() {
    let mut server = Server::memory();
    let cli = Cli::of(&server);
    // Writes its name in one step, and starts something that would outlive it.
    let exec = "sleep 600 & echo $! > pid.part; mv pid.part pid; wait";
    let mut worker = worker(&cli, exec, &["--lease-seconds", "1"]);
    cli.create(&["--event", "demo", "--payload", "1"]);
    until_there(&cli.path("pid"));
    let pid = std::fs::read_to_string(cli.path("pid")).expect("it is there");
    assert!(is_running(&pid));
    // No heartbeat gets through any more, so the lease runs out.
    server.kill();
    worker.until("the lease was lost or the task was cancelled");
    let begun = std::time::Instant::now();
    while is_running(&pid) {
        assert!(begun.elapsed().as_secs() < 10, "{pid} still runs");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[tokio::test]
async fn the_program_is_killed_when_the_task_is_cancelled() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    let mut worker =
        worker(&cli, "echo $$ > pid.part; mv pid.part pid; sleep 600", &["--lease-seconds", "1"]);
    let id = cli.create(&["--event", "demo", "--payload", "1"]);
    until_there(&cli.path("pid"));
    let pid = std::fs::read_to_string(cli.path("pid")).expect("it is there");
    assert_eq!(cli.ok(&["task", "cancel", &id]), format!("[OK] Task cancelled: {id}\n"));
    worker.until("the lease was lost or the task was cancelled");
    assert!(!is_running(&pid), "the shell is gone before the worker says so");
    assert_eq!(task(&cli, &id)["error"], "CANCELLED");
}

#[tokio::test]
async fn a_signal_lets_the_program_finish() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    let exec = "touch begun; while [ ! -e go ]; do sleep 0.02; done; echo '{\"done\":true}'";
    let mut worker = worker(&cli, exec, &[]);
    let id = cli.create(&["--event", "demo", "--payload", "1"]);
    until_there(&cli.path("begun"));
    worker.signal("INT");
    worker.until("[WARN] Stopping...");
    super::write(&cli.path("go"), "");
    assert_eq!(result(&server, &id).await["result"]["result"], json!({"done": true}));
    worker.until("Task completed");
    assert_eq!(worker.child.wait().expect("it was ours").code(), Some(0));
}

#[tokio::test]
async fn what_is_not_done_when_the_grace_is_over_goes_back_without_counting() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    let worker = worker(&cli, "touch begun; sleep 600", &["--grace-seconds", "0"]);
    let id = cli.create(&["--event", "demo", "--payload", "1", "--max-attempts", "1"]);
    until_there(&cli.path("begun"));
    assert_eq!(worker.interrupt().0, Some(0));
    let task = task(&cli, &id);
    assert_eq!((&task["status"], &task["refunds"]), (&json!("PENDING"), &json!(1)));
}

#[tokio::test]
async fn a_second_signal_ends_the_grace() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    let mut worker = worker(&cli, "touch begun; sleep 600", &["--grace-seconds", "600"]);
    let id = cli.create(&["--event", "demo", "--payload", "1", "--max-attempts", "1"]);
    until_there(&cli.path("begun"));
    worker.signal("TERM");
    worker.until("[WARN] Stopping...");
    worker.signal("INT");
    assert_eq!(worker.child.wait().expect("it was ours").code(), Some(1));
    assert_eq!(task(&cli, &id)["refunds"], 1);
}

/// Two hundred tasks and a mistyped path: all of them had failed for good within eight seconds.
#[tokio::test]
async fn a_program_that_cannot_be_started_stops_the_worker_and_no_task_is_lost() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    let id = cli.create(&["--command", "demo", "--payload", "1"]);
    let run = cli.run(&["worker", "run", "--command", "demo", "--exec", "./mistyped.sh"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stderr.contains("[ERROR] the program cannot be started: correct --exec"), "{run:?}");
    let task = task(&cli, &id);
    assert_eq!((&task["status"], &task["refunds"]), (&json!("PENDING"), &json!(1)));
}

#[test]
fn a_worker_without_a_right_says_so_at_once() {
    let server = super::stand_in::StandIn::start(|_| (401, r#"{"error":"token is malformed"}"#.into()));
    let said = Cli::at(&server.base).fails(&["worker", "run", "--command", "demo", "--exec", "true"]);
    assert!(said.starts_with(r#"[ERROR] error (401): {"error":"token is malformed"}"#), "{said}");
    assert!(said.contains("no token was given, so `dev-token` was sent"), "{said}");
}

#[test]
fn what_a_worker_needs_is_asked_for() {
    let cli = Cli::new();
    assert_eq!(
        cli.fails(&["worker", "run", "--exec", "true"]),
        missing("events are required", "--command LIST")
    );
    assert_eq!(cli.fails(&["worker", "run", "--events", "x"]), missing("exec is required", "--exec PROGRAM"));
}
