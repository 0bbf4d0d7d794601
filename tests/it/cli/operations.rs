//! The operator's commands: what they send, and how they show what comes back.

use super::Cli;
use super::stand_in::{Asked, StandIn};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

fn task(n: u64) -> Value {
    json!({
        "id": format!("00000000-0000-4000-8000-{n:012}"), "command": "demo", "status": "FAILED",
        "lastKnownLocation": "DLQ_SET", "attempts": 3, "maxAttempts": 3, "error": format!("cause\n{n}"),
        "createdAt": "2026-03-01T12:00:00.5Z", "updatedAt": "2026-03-01T12:00:00.5Z",
    })
}

fn operation(state: &str, processed: u64, failed: u64) -> String {
    json!({
        "id": "op-1", "kind": "dlq_requeue", "state": state, "matched": 5, "processed": processed,
        "failed": failed, "createdAt": "2026-03-01T12:00:00Z", "updatedAt": "2026-03-01T12:00:00Z",
    })
    .to_string()
}

/// Dead letters of two causes, and operations that take three looks to end.
fn server() -> StandIn {
    let looks = AtomicU64::new(0);
    StandIn::start(move |asked: &Asked| {
        let path = asked.path.trim_start_matches("/v1/codeq/admin/");
        let is_dry = asked.json()["dryRun"] == true;
        match (&*asked.method, path.split('?').next().unwrap_or_default()) {
            ("GET", "dlq/*/groups" | "dlq/demo/groups") => {
                let group = |name: &str, count: u64| {
                    json!({
                        "group": name, "command": "demo", "count": count, "error": format!("{name} of <n>"),
                        "examples": ["id-1"], "firstSeen": "2026-03-01T12:00:00Z", "lastSeen": "2026-03-01T12:00:00Z",
                    })
                };
                let groups =
                    json!({"groups": [group("timeout", 3), group("refused", 2)], "truncated": false});
                (200, groups.to_string())
            }
            ("POST", "dlq/demo/requeue" | "tasks/cancel") if is_dry => (200, r#"{"matched":5}"#.into()),
            ("POST", "dlq/demo/requeue" | "tasks/cancel") | ("DELETE", "dlq/demo") => {
                (202, operation("running", 0, 0))
            }
            ("GET", "operations/op-1") => match looks.fetch_add(1, Ordering::Relaxed) {
                // The server is away for a moment; the operation goes on.
                0 => (503, r#"{"error":"storage unavailable"}"#.into()),
                1 => (200, operation("running", 3, 0)),
                _ => (200, operation("done", 5, 0)),
            },
            ("GET", "tasks" | "dlq/demo") => page(asked),
            ("POST", "queues/demo/pause" | "queues/demo/resume") => (
                200,
                r#"{"command":"demo","ready":4,"delayed":0,"inProgress":0,"dlq":0,"paused":true}"#.into(),
            ),
            _ => (404, r#"{"error":"404 page not found"}"#.into()),
        }
    })
}

/// Seven tasks in pages: three, none, four.
fn page(asked: &Asked) -> (u16, String) {
    let (items, next): (Vec<Value>, _) = match asked.path.split_once("cursor=") {
        None => ((0..3).map(task).collect(), Some("one two")),
        Some((_, "one%20two")) => (Vec::new(), Some("three")),
        Some(_) => ((3..7).map(task).collect(), None),
    };
    (200, json!({"items": items, "next": next}).to_string())
}

/// What was asked since, without the answers to the looks.
fn sent(server: &StandIn) -> Vec<(String, String, Value)> {
    let asked = server.asked();
    let asked = asked.iter().filter(|asked| !asked.path.contains("/operations/"));
    let path = |asked: &Asked| asked.path.trim_start_matches("/v1/codeq/admin/").to_owned();
    asked.map(|asked| (asked.method.clone(), path(asked), asked.json())).collect()
}

#[test]
fn tasks_are_listed_by_filter_over_all_pages() {
    let server = server();
    let cli = Cli::at(&server.base);
    let table =
        cli.ok(&[
            &[
                "task",
                "list",
                "--command",
                "demo",
                "--status",
                "FAILED",
                "--place",
                "dead",
                "--worker",
                "w 1",
            ][..],
            &["--error", "a&b", "--created-after", "2026-01-01T00:00:00Z", "--created-before", "x"],
            &["--idempotency-key", "k", "--header", "origin=up", "--all"],
        ]
        .concat());
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows.len(), 8, "{table}");
    assert!(rows[0].starts_with("ID ") && rows[1].contains("demo") && rows[1].contains("dead"), "{table}");
    assert!(rows[1].contains("3/3") && rows[1].ends_with("cause 0"), "one line each: {table}");
    let asked = sent(&server);
    let filter = "tasks?command=demo&status=FAILED&place=dead&workerId=w%201&error=a%26b\
        &createdAfter=2026-01-01T00%3A00%3A00Z&createdBefore=x&idempotencyKey=k&header.origin=up&limit=500";
    assert_eq!(asked[0].1, filter);
    assert_eq!(asked[1].1, format!("{filter}&cursor=one%20two"));
}

#[test]
fn a_list_has_a_limit_and_says_when_there_is_more() {
    let server = server();
    let cli = Cli::at(&server.base);
    let run = cli.run(&["task", "list", "--limit", "2"]);
    assert_eq!((run.code, run.stdout.lines().count()), (Some(0), 3));
    assert!(run.stderr.contains("there are more"), "{run:?}");
    let listed: Value = serde_json::from_str(&cli.ok(&["task", "list", "--all", "--json"])).expect("JSON");
    assert_eq!(listed.as_array().map(Vec::len), Some(7));
    let dead: Value = serde_json::from_str(&cli.ok(&["dlq", "list", "--json"])).expect("JSON");
    assert_eq!(dead.as_array().map(Vec::len), Some(7));
    cli.ok(&["dlq", "list", "demo", "--filter", "error=x", "--tenant", "*"]);
    let asked = sent(&server);
    assert!(asked.iter().any(|asked| asked.1 == "tasks?place=dead&limit=50"), "{asked:?}");
    assert!(asked.iter().any(|asked| asked.1 == "dlq/demo?error=x&tenant=*&limit=50"), "{asked:?}");
}

#[test]
fn a_task_is_explained_in_words() {
    let server = StandIn::start(|_| {
        let explained = json!({
            "taskId": "t", "state": "delayed", "summary": "The task waits for its next try.",
            "reasons": [{"code": "delayed", "text": "It was given back.", "until": "x", "because": "retry"}],
            "nextChangeAt": "2026-03-01T12:00:00Z",
        });
        (200, explained.to_string())
    });
    let cli = Cli::at(&server.base);
    let said = cli.ok(&["task", "explain", "t"]);
    let wanted = "delayed: The task waits for its next try.\n  It was given back.\n  \
        next change: 2026-03-01T12:00:00Z\n";
    assert_eq!(said, wanted);
    let raw: Value = serde_json::from_str(&cli.ok(&["task", "explain", "t", "--json"])).expect("JSON");
    assert_eq!(raw["reasons"][0]["because"], "retry");
    assert_eq!(server.asked()[0].path, "/v1/codeq/admin/tasks/t/explain");
}

#[test]
fn causes_are_shown_as_a_table_and_as_an_array() {
    let server = server();
    let cli = Cli::at(&server.base);
    let table = cli.ok(&["dlq", "groups"]);
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 3, "{table}");
    assert_eq!((rows[1][0], rows[1][1], rows[1][2]), ("timeout", "3", "demo"));
    assert!(table.contains("refused of <n>"), "{table}");
    let groups: Value = serde_json::from_str(&cli.ok(&["dlq", "groups", "demo", "--json"])).expect("JSON");
    for field in ["group", "command", "count", "error", "examples"] {
        assert!(!groups[0][field].is_null() && !groups[1][field].is_null(), "{field}: {groups}");
    }
}

#[test]
fn nothing_is_touched_without_a_yes() {
    let server = server();
    let cli = Cli::at(&server.base);
    let said = cli.ok(&["dlq", "requeue", "demo", "--dry-run"]);
    assert_eq!(said, "[INFO] Would requeue 5 dead letters of demo\n");
    for arguments in
        [&["dlq", "requeue", "demo"][..], &["dlq", "delete", "demo"], &["task", "cancel", "--error", "x"]]
    {
        let refused = cli.fails(arguments);
        assert!(refused.contains("pass --yes"), "{refused}");
    }
    assert!(sent(&server).iter().all(|(_, _, body)| body["dryRun"] == true), "{:?}", sent(&server));
}

#[test]
fn a_group_is_requeued_and_followed_to_its_end() {
    let server = server();
    let cli = Cli::at(&server.base);
    let said = cli.ok(&[
        &["dlq", "requeue", "--group", "timeout", "--filter", "header.origin=up", "--rate", "50"][..],
        &["--max-attempts", "9", "--yes"],
    ]
    .concat());
    assert_eq!(said, "[OK] Requeued 5 dead letters of demo\n");
    let asked = sent(&server);
    assert_eq!((&*asked[0].0, &*asked[0].1), ("GET", "dlq/*/groups"));
    let wanted = json!({
        "filter": {"header.origin": "up"}, "group": "timeout", "maxAttempts": 9, "ratePerSecond": 50,
    });
    assert_eq!((&*asked[2].1, &asked[2].2), ("dlq/demo/requeue", &wanted));
    let ended: Value =
        serde_json::from_str(&cli.ok(&["dlq", "requeue", "demo", "--yes", "--json"])).expect("JSON");
    assert_eq!((&ended["state"], &ended["processed"]), (&json!("done"), &json!(5)));
    let unknown = cli.fails(&["dlq", "requeue", "--group", "nothing", "--yes"]);
    assert!(unknown.contains("there is no group"), "{unknown}");
    assert!(cli.fails(&["dlq", "requeue", "--yes"]).contains("give a command or --group"));
    assert!(cli.fails(&["dlq", "requeue", "demo", "--filter", "eror=x", "--yes"]).contains("unknown filter"));
}

#[test]
fn dead_letters_are_deleted_by_group_and_filter() {
    let server = server();
    let cli = Cli::at(&server.base);
    let said = cli.ok(&["dlq", "delete", "--group", "refused", "--filter", "error=a b", "--yes"]);
    assert_eq!(said, "[OK] Deleted 5 dead letters of demo\n");
    let asked = sent(&server);
    let last = asked.last().expect("it was asked");
    assert_eq!((&*last.0, &*last.1), ("DELETE", "dlq/demo?error=a%20b&group=refused&confirm=true"));
}

#[test]
fn tasks_are_cancelled_one_by_one_or_by_filter() {
    let server = StandIn::start(|asked| match &*asked.path {
        "/v1/codeq/admin/tasks/t/cancel" => (200, task(1).to_string()),
        "/v1/codeq/admin/tasks/done/cancel" => {
            (409, r#"{"error":"not-in-progress","code":"already_terminal"}"#.into())
        }
        _ if asked.json()["dryRun"] == true => (200, r#"{"matched":2}"#.into()),
        _ => (202, operation("done", 2, 0)),
    });
    let cli = Cli::at(&server.base);
    assert_eq!(cli.ok(&["task", "cancel", "t"]), "[OK] Task cancelled: t\n");
    let late = cli.fails(&["task", "cancel", "done"]);
    let first = r#"[ERROR] error (409): {"error":"not-in-progress","code":"already_terminal"}"#;
    assert_eq!(late.lines().next(), Some(first));
    let said = cli.ok(&["task", "cancel", "--command", "demo", "--place", "ready", "--rate", "9", "--yes"]);
    assert_eq!(said, "[OK] Cancelled 2 tasks\n");
    let wanted =
        json!({"filter": {"command": "demo", "place": "ready"}, "dryRun": false, "ratePerSecond": 9});
    assert_eq!(server.asked().last().expect("it was asked").json(), wanted);
    assert!(cli.fails(&["task", "cancel"]).contains("give the id of a task or a filter"));
    assert!(cli.fails(&["task", "cancel", "t", "--command", "x"]).contains("either"));
}

#[test]
fn an_operation_that_fails_is_an_error() {
    let server = StandIn::start(|asked| match asked.json()["dryRun"] == true {
        true => (200, r#"{"matched":5}"#.into()),
        false => (202, operation("done", 4, 1)),
    });
    let said = Cli::at(&server.base).fails(&["dlq", "requeue", "demo", "--yes"]);
    assert_eq!(said, "[ERROR] 1 could not be changed (operation op-1)");
    let server = StandIn::start(|asked| match asked.json()["dryRun"] == true {
        true => (200, r#"{"matched":5}"#.into()),
        false => (202, operation("cancelled", 4, 0)),
    });
    let said = Cli::at(&server.base).fails(&["dlq", "requeue", "demo", "--yes"]);
    assert!(said.starts_with("[ERROR] operation op-1 cancelled"), "{said}");
}

#[test]
fn queues_are_paused_and_resumed() {
    let server = server();
    let cli = Cli::at(&server.base);
    assert_eq!(cli.ok(&["queue", "pause", "demo"]), "[OK] Paused demo: 4 ready\n");
    assert_eq!(cli.ok(&["queue", "resume", "demo"]), "[OK] Resumed demo: 4 ready\n");
    let asked: Vec<String> =
        sent(&server).into_iter().map(|(method, path, _)| format!("{method} {path}")).collect();
    assert_eq!(asked, ["POST queues/demo/pause", "POST queues/demo/resume"]);
}
