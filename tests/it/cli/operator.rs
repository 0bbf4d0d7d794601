//! The operator's commands against a server: whatever they send, it is understood.

use super::Cli;
use crate::harness::{DEV_TOKEN, Server};
use serde_json::{Value, json};

const API: &str = "/v1/codeq";

/// Four dead letters of `demo`, of two causes.
async fn dead_letters(server: &Server, cli: &Cli) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 0..4 {
        let origin = format!("origin=run-{}", n % 2);
        ids.push(
            cli.create(
                &[
                    &["--event", "demo", "--payload", &n.to_string()][..],
                    &["--max-attempts", "1", "--header", &origin],
                ]
                .concat(),
            ),
        );
        let claimed =
            server.post(&format!("{API}/tasks/claim"), DEV_TOKEN, json!({"commands": ["demo"]})).await;
        let id = claimed.json["id"].as_str().expect("a task").to_owned();
        let reason = if n < 3 { format!("timed out after {n} ms") } else { "refused".into() };
        server.post(&format!("{API}/tasks/{id}/nack"), DEV_TOKEN, json!({"reason": reason})).await;
    }
    ids
}

fn json_of(cli: &Cli, arguments: &[&str]) -> Value {
    serde_json::from_str(&cli.ok(arguments)).expect("JSON")
}

fn ids(tasks: &Value) -> Vec<&str> {
    let mut ids: Vec<&str> =
        tasks.as_array().expect("an array").iter().filter_map(|t| t["id"].as_str()).collect();
    ids.sort_unstable();
    ids
}

#[tokio::test]
async fn tasks_are_found_by_every_filter() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    let dead = dead_letters(&server, &cli).await;
    let keyed = cli.create(&["--event", "other", "--payload", "1", "--idempotency-key", "k 1"]);
    let list = |filter: &[&str]| json_of(&cli, &[&["task", "list", "--json"], filter].concat());
    let mut all_dead: Vec<&str> = dead.iter().map(String::as_str).collect();
    all_dead.sort_unstable();
    assert_eq!(ids(&list(&["--command", "DEMO", "--status", "FAILED", "--place", "dead"])), all_dead);
    assert_eq!(ids(&list(&["--error", "REFUSED"])), [&dead[3]]);
    assert_eq!(ids(&list(&["--idempotency-key", "k 1"])), [&keyed]);
    assert_eq!(ids(&list(&["--header", "origin=run-1", "--error", "timed"])), [&dead[1]]);
    assert_eq!(list(&["--worker", "nobody"]), json!([]));
    assert_eq!(list(&["--batch", &dead[0]]), json!([]));
    assert_eq!(list(&["--created-after", "2100-01-01T00:00:00Z"]), json!([]));
    assert_eq!(
        list(&["--created-before", "2100-01-01T00:00:00Z", "--all"]).as_array().map(Vec::len),
        Some(5)
    );
    assert_eq!(list(&["--limit", "1", "--oldest"])[0]["id"], dead[0]);
    assert_eq!(ids(&json_of(&cli, &["dlq", "list", "--json"])), all_dead);
    let some = json_of(&cli, &["dlq", "list", "demo", "--filter", "error=refused", "--json"]);
    assert_eq!(ids(&some), [&dead[3]]);
    let refused = cli.fails(&["task", "list", "--place", "nowhere"]);
    assert!(refused.starts_with("[ERROR] error (400): "), "{refused}");
}

#[tokio::test]
async fn a_task_says_what_became_of_it() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    let dead = dead_letters(&server, &cli).await;
    let said = cli.ok(&["task", "explain", &dead[3]]);
    assert!(said.starts_with("dead: ") && said.matches("refused").count() == 1, "{said}");
    let explained = json_of(&cli, &["task", "explain", &dead[3], "--json"]);
    assert_eq!((&explained["taskId"], &explained["state"]), (&json!(dead[3]), &json!("dead")));
}

#[tokio::test]
async fn one_cause_is_requeued_and_the_other_deleted() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    let dead = dead_letters(&server, &cli).await;
    let groups = json_of(&cli, &["dlq", "groups", "--json"]);
    assert_eq!((&groups[0]["count"], &groups[1]["count"], &groups[2]), (&json!(3), &json!(1), &Value::Null));
    let group = |index: usize| groups[index]["group"].as_str().expect("an id").to_owned();
    let (timed_out, refused) = (group(0), group(1));
    let said =
        cli.ok(&["dlq", "requeue", "--group", &timed_out, "--filter", "header.origin=run-1", "--dry-run"]);
    assert_eq!(said, "[INFO] Would requeue 1 dead letter of demo\n");
    let said =
        cli.ok(&["dlq", "requeue", "--group", &timed_out, "--rate", "1000", "--max-attempts", "7", "-y"]);
    assert_eq!(said, "[OK] Requeued 3 dead letters of demo\n");
    assert_eq!(json_of(&cli, &["task", "get", &dead[0]])["maxAttempts"], 7);
    let said = cli.ok(&["dlq", "delete", "--group", &refused, "--dry-run"]);
    assert_eq!(said, "[INFO] Would delete 1 dead letter of demo\n");
    assert_eq!(cli.ok(&["dlq", "delete", "--group", &refused, "-y"]), "[OK] Deleted 1 dead letter of demo\n");
    assert_eq!(cli.ok(&["dlq", "groups"]), "no dead letters\n");
    assert_eq!(cli.ok(&["queue", "inspect", "demo"]), "READY: 3 | DELAYED: 0 | IN_PROGRESS: 0 | DLQ: 0\n");
    assert!(cli.fails(&["task", "get", &dead[3]]).starts_with("[ERROR] error (404): "));
}

#[tokio::test]
async fn tasks_are_cancelled_by_filter_and_not_twice() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    let create = |payload: &str| cli.create(&["--event", "demo", "--payload", payload]);
    let (one, _two) = (create("1"), create("2"));
    cli.create(&["--event", "other", "--payload", "3"]);
    let said = cli.ok(&["task", "cancel", "--command", "demo", "--place", "ready", "--dry-run"]);
    assert_eq!(said, "[INFO] Would cancel 2 tasks\n");
    assert_eq!(cli.ok(&["task", "cancel", "--command", "demo", "--yes"]), "[OK] Cancelled 2 tasks\n");
    assert_eq!(json_of(&cli, &["task", "get", &one])["error"], "CANCELLED");
    let before = json_of(&cli, &["task", "get", &one]);
    cli.ok(&["task", "cancel", &one]);
    assert_eq!(json_of(&cli, &["task", "get", &one]), before, "a cancelled task stays as it is");
    assert_eq!(cli.ok(&["queue", "inspect", "other"]), "READY: 1 | DELAYED: 0 | IN_PROGRESS: 0 | DLQ: 0\n");
}

#[tokio::test]
async fn a_paused_queue_hands_out_nothing_until_it_is_resumed() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    cli.create(&["--event", "demo", "--payload", "1"]);
    assert_eq!(cli.ok(&["queue", "pause", "demo"]), "[OK] Paused demo: 1 ready\n");
    let claim = || server.post("/v1/codeq/tasks/claim", DEV_TOKEN, json!({"commands": ["demo"]}));
    assert_eq!(claim().await.status, 204);
    assert!(cli.ok(&["queue", "list"]).trim_end().ends_with("paused"));
    assert!(cli.ok(&["queue", "watch", "--count", "1"]).trim_end().ends_with("paused"));
    assert_eq!(cli.ok(&["queue", "resume", "demo"]), "[OK] Resumed demo: 1 ready\n");
    assert_eq!(claim().await.status, 200);
}

/// Whoever sits at a terminal is asked, and sees how far it is.
#[tokio::test]
async fn at_a_terminal_one_is_asked() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    dead_letters(&server, &cli).await;
    let requeue = format!("{} dlq requeue demo", env!("CARGO_BIN_EXE_codeq"));
    let answered = |answer: &str| {
        let mut command = std::process::Command::new("script");
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", cli.home.path()).env("CODEQ_BASE_URL", &server.base);
        let mut child = command
            .args(["-qec", &requeue, "/dev/null"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("script is there");
        // The terminal keeps what is typed until it is asked for.
        let mut stdin = child.stdin.take().expect("piped");
        std::io::Write::write_all(&mut stdin, answer.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("it was ours");
        drop(stdin);
        (output.status.success(), String::from_utf8(output.stdout).expect("UTF-8"))
    };
    let (is_done, text) = answered("n\n");
    assert!(!is_done && text.contains("requeue 4 dead letters of demo? (y/N)"), "{text}");
    assert!(text.contains("nothing was changed"), "{text}");
    let (is_done, text) = answered("y\n");
    assert!(is_done && text.contains("Requeued 4 dead letters of demo"), "{text}");
}

/// Work that a worker gave up for good was counted nowhere and found by nobody.
#[tokio::test]
async fn failed_tasks_are_counted_grouped_and_replayed() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    for n in 0..3 {
        cli.create(&["--command", "demo", "--payload", &n.to_string()]);
        let claimed =
            server.post(&format!("{API}/tasks/claim"), DEV_TOKEN, json!({"commands": ["demo"]})).await;
        let id = claimed.json["id"].as_str().expect("a task").to_owned();
        let error = if n < 2 { format!("no such order {n}") } else { "card declined".into() };
        let result = json!({"status": "FAILED", "error": error});
        server.post(&format!("{API}/tasks/{id}/result"), DEV_TOKEN, result).await;
    }
    assert_eq!(cli.ok(&["dlq", "groups"]), "no dead letters\n");
    assert_eq!(json_of(&cli, &["queue", "list", "--json"])[0]["failed"], 3);
    assert!(cli.ok(&["queue", "watch", "--count", "1"]).contains("dead=0 failed=3"));
    server.until_metric("codeq_failed_depth{command=\"demo\"} 3").await;
    let groups = json_of(&cli, &["failed", "groups", "--json"]);
    assert_eq!((&groups[0]["count"], &groups[1]["count"]), (&json!(2), &json!(1)));
    let group = groups[0]["group"].as_str().expect("an id");
    assert_eq!(json_of(&cli, &["failed", "list", "demo", "--json"]).as_array().map(Vec::len), Some(3));
    assert_eq!(json_of(&cli, &["failed", "list", "--json"]).as_array().map(Vec::len), Some(3));
    let said = cli.ok(&["failed", "requeue", "--group", group, "--dry-run"]);
    assert_eq!(said, "[INFO] Would requeue 2 failed tasks of demo\n");
    assert_eq!(
        cli.ok(&["failed", "requeue", "--group", group, "-y"]),
        "[OK] Requeued 2 failed tasks of demo\n"
    );
    let said = cli.ok(&["failed", "requeue", "demo", "--filter", "error=declined", "-y"]);
    assert_eq!(said, "[OK] Requeued 1 failed task of demo\n");
    assert_eq!(cli.ok(&["failed", "groups"]), "no failed tasks\n");
    assert_eq!(cli.ok(&["queue", "inspect", "demo"]), "READY: 3 | DELAYED: 0 | IN_PROGRESS: 0 | DLQ: 0\n");
}
