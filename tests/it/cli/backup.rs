//! A backup taken under load, restored, and compared with what was acknowledged.

use super::Cli;
use crate::harness::{DEV_TOKEN, Server};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

async fn create(server: &Server, n: usize) -> Option<String> {
    let body = json!({"command": format!("c{}", n % 3), "payload": {"n": n}});
    let made = server.post("/v1/codeq/tasks", DEV_TOKEN, body).await;
    made.json["id"].as_str().map(str::to_owned)
}

/// Claims a task and finishes it, or leaves it dead.
async fn work(server: &Server, n: usize) {
    let claimed = server.post("/v1/codeq/tasks/claim", DEV_TOKEN, json!({})).await;
    let Some(id) = claimed.json["id"].as_str() else { return };
    let result = match n % 2 {
        0 => json!({"status": "COMPLETED", "result": {"n": n}}),
        _ => json!({"status": "FAILED", "error": "no"}),
    };
    server.post(&format!("/v1/codeq/tasks/{id}/result"), DEV_TOKEN, result).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_holds_all_that_was_acknowledged_before() {
    let server = Arc::new(Server::dev());
    let mut before = HashSet::new();
    for n in 0..300 {
        before.insert(create(&server, n).await.expect("a task"));
        if n % 3 == 0 {
            work(&server, n).await;
        }
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = (0..4)
        .map(|lane| {
            let (server, is_over) = (server.clone(), is_over.clone());
            tokio::spawn(async move {
                let mut made = 0;
                while !is_over.load(Ordering::Relaxed) {
                    made += usize::from(create(&server, lane).await.is_some());
                    work(&server, made).await;
                }
                made
            })
        })
        .collect();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (file, data) = (directory.path().join("b.backup"), directory.path().join("restored"));
    let base = server.base.clone();
    let (to, from) = (file.clone(), file.clone());
    let backed_up = tokio::task::spawn_blocking(move || {
        let to = to.to_str().expect("a plain name");
        Cli::new().ok(&["--base-url", &base, "backup", "--to", to, "--json"])
    });
    let said: Value = serde_json::from_str(&backed_up.await.expect("it ran")).expect("JSON");
    assert!(said["bytes"].as_u64().is_some_and(|bytes| bytes > 10_000), "{said}");
    is_over.store(true, Ordering::Relaxed);
    let mut made = 0;
    for lane in load {
        made += lane.await.expect("the load ran");
    }
    assert!(made > 0, "there was load");

    let into = data.to_str().expect("a plain name").to_owned();
    let cli = Cli::new();
    cli.ok(&["restore", "--from", from.to_str().expect("a plain name"), "--data-dir", &into]);
    cli.ok(&["verify", "--data-dir", &into]);
    let restored = Server::dev_on(directory, &into);
    for id in &before {
        let path = format!("/v1/codeq/tasks/{id}");
        let (old, new) = (server.get(&path, DEV_TOKEN).await, restored.get(&path, DEV_TOKEN).await);
        assert_eq!((new.status, &new.json["payload"]), (200, &old.json["payload"]), "{id}: {}", new.text);
    }
    // It goes on as a store: new ids, new work.
    let fresh = create(&restored, 1).await.expect("a task");
    assert!(!before.contains(&fresh));
    work(&restored, 0).await;
}

/// A byte that changed on the way is found wherever it is, and what was restored up to there is no store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_with_one_wrong_byte_is_not_restored() {
    let server = Server::memory();
    for n in 0..20 {
        create(&server, n).await.expect("a task");
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("b.backup");
    let from = file.to_str().expect("a plain name");
    Cli::of(&server).ok(&["backup", "--to", from]);
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(&file).expect("it is there").permissions(),
    );
    assert_eq!(mode & 0o777, 0o600, "payloads are in it");
    let whole = std::fs::read(&file).expect("the backup");
    for at in [9, 40, whole.len() / 3, whole.len() / 2, whole.len() - 20, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        std::fs::write(&file, &damaged).expect("written");
        let into = directory.path().join(format!("d{at}"));
        let into = into.to_str().expect("a plain name");
        let cli = Cli::new();
        let said = cli.fails(&["restore", "--from", from, "--data-dir", into]);
        assert!(said.contains("the backup is damaged at offset"), "byte {at}: {said}");
        assert!(!std::path::Path::new(into).exists(), "byte {at}: nothing is left behind");
    }
}

#[test]
fn a_damaged_backup_is_not_restored() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (file, data) = (directory.path().join("b.backup"), directory.path().join("d"));
    let (from, into) = (file.to_str().expect("plain"), data.to_str().expect("plain"));
    let cli = Cli::new();
    for (bytes, told) in
        [(&b"something else"[..], "not a backup of codeQ"), (b"codeqbk1", "it ends too soon")]
    {
        std::fs::write(&file, bytes).expect("written");
        let said = cli.fails(&["restore", "--from", from, "--data-dir", into]);
        assert!(said.contains(told), "{said}");
        assert!(!data.exists(), "nothing is left behind");
    }
    std::fs::create_dir(&data).expect("a directory");
    std::fs::write(data.join("mine"), "x").expect("written");
    let said = cli.fails(&["restore", "--from", from, "--data-dir", into]);
    assert!(said.contains("the directory is not empty"), "{said}");
    assert!(data.join("mine").exists(), "what was there stays");
}
