//! `codeq export`, `import`, `events`, `webhook` and `operation`.

use super::Cli;
use crate::harness::{DEV_TOKEN, Server};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

#[test]
fn tasks_move_from_one_server_to_another() {
    let (from, to) = (Server::memory(), Server::memory());
    let (here, there) = (Cli::of(&from), Cli::of(&to));
    let ids: Vec<String> =
        (0..3).map(|n| here.create(&["--command", "demo", "--payload", &n.to_string()])).collect();
    here.create(&["--command", "other", "--payload", "1"]);
    let file = here.path("tasks.jsonl");
    let name = file.to_str().expect("plain");
    let said = here.ok(&["export", "--command", "demo", "--to", name]);
    assert_eq!(said, format!("[OK] Exported 3 tasks to {name}\n"));
    let mode = std::fs::metadata(&file).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "payloads are in it");
    assert!(!here.path("tasks.jsonl.part").exists());
    let said = there.ok(&["import", "--from", name]);
    assert_eq!(said, "[OK] Imported 3 tasks; 0 were there already\n");
    let again: Value = serde_json::from_str(&there.ok(&["import", "--from", name, "--json"])).expect("JSON");
    assert_eq!(again["existing"], 3);
    for id in &ids {
        there.ok(&["task", "get", id]);
    }
    let lines = here.ok(&["export", "--to", "-"]);
    assert_eq!(lines.lines().count(), 5, "{lines}");
    let cut: String = lines.lines().take(2).map(|line| format!("{line}\n")).collect();
    super::write(&file, &cut);
    assert!(!there.fails(&["import", "--from", name]).is_empty());
}

#[test]
fn events_are_told_as_they_happen() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    let mut all = cli.start(&["events", "--json", "--type", "created", "--command", "demo", "--count", "1"]);
    let mut text = cli.start(&["events", "--count", "1"]);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Nobody says when somebody listens, so tasks are created until it was heard.
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                cli.create(&["--command", "demo", "--payload", "1"]);
            }
        });
        let event: Value = serde_json::from_str(&all.until("created")).expect("JSON");
        assert_eq!((&event["type"], &event["command"]), (&json!("created"), &json!("demo")));
        assert!(event["taskId"].is_string(), "{event}");
        assert!(text.until("created").contains("  demo  "));
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(all.child.wait().expect("it was ours").success(), "one event was asked for");
    assert!(cli.fails(&["events", "--type", "nonsense"]).contains("unknown event type"));
}

#[tokio::test]
async fn callbacks_are_listed_and_redelivered() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    assert_eq!(cli.ok(&["webhook", "list", "--state", "failed"]), "no failed callbacks\n");
    let id = cli.create(&["--command", "demo", "--payload", "1", "--webhook", "http://127.0.0.1:9/done"]);
    server.post("/v1/codeq/tasks/claim", DEV_TOKEN, json!({"commands": ["demo"]})).await;
    let result = json!({"status": "COMPLETED", "result": {"ok": true}});
    server.post(&format!("/v1/codeq/tasks/{id}/result"), DEV_TOKEN, result).await;
    let listed: Value = serde_json::from_str(&cli.ok(&["webhook", "list", "--json"])).expect("JSON");
    assert_eq!(listed[0]["taskId"], json!(id));
    assert!(cli.ok(&["webhook", "list", "--task", &id]).contains("http://127.0.0.1:9/done"));
    let delivery = listed[0]["id"].as_str().expect("an id");
    let said = cli.fails(&["webhook", "redeliver", delivery]);
    assert!(said.contains("only failed callbacks can be delivered again"), "{said}");
    assert_eq!(cli.ok(&["webhook", "redeliver", "--all-failed"]), "[OK] Redelivering 0 callbacks\n");
    assert_eq!(cli.fails(&["webhook", "redeliver"]), "[ERROR] give the id of a callback, or --all-failed");
}

#[test]
fn all_failed_callbacks_are_redelivered_at_once() {
    let server = super::stand_in::StandIn::start(|asked| match &*asked.method {
        "GET" => (200, json!({"items": [{"id": "a"}, {"id": "b"}], "next": null}).to_string()),
        _ => (202, json!({"redelivered": 2, "hasMore": false}).to_string()),
    });
    let cli = Cli::at(&server.base);
    assert!(cli.fails(&["webhook", "redeliver", "--all-failed"]).contains("pass --yes"));
    let said = cli.ok(&["webhook", "redeliver", "--all-failed", "--task", "t", "--yes"]);
    assert_eq!(said, "[OK] Redelivering 2 callbacks\n");
    let asked: Vec<String> = server.asked().iter().map(|asked| asked.path.clone()).collect();
    assert!(asked[1].contains("state=failed&taskId=t"), "{asked:?}");
    assert!(asked[2].ends_with("/admin/webhooks/redeliver") && asked.len() == 3, "{asked:?}");
}

#[test]
fn bulk_operations_are_listed_and_stopped() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    assert_eq!(cli.ok(&["operation", "list"]), "no operations\n");
    for n in 0..20 {
        cli.create(&["--command", "demo", "--payload", &n.to_string()]);
    }
    let mut slow = cli.start(&["task", "cancel", "--command", "demo", "--rate", "1", "--yes"]);
    let id = loop {
        let listed: Value = serde_json::from_str(&cli.ok(&["operation", "list", "--json"])).expect("JSON");
        if let Some(id) = listed[0]["id"].as_str() {
            break id.to_owned();
        }
    };
    assert!(cli.ok(&["operation", "list"]).contains("running"));
    let said = cli.ok(&["operation", "cancel", &id]);
    assert_eq!(said, format!("[OK] Operation {id} is cancelled\n"));
    assert!(!slow.child.wait().expect("it was ours").success());
}
