//! Run now, and requeues that a unique key stands against.

use super::{create, ended, get, post, refused};
use crate::harness::{DEV_TOKEN, Server};
use serde_json::json;

#[tokio::test]
async fn a_delayed_task_runs_now_and_stays_ready_over_a_kill() {
    let mut server = Server::dev();
    let id = create(&server, json!({"command": "later", "payload": 1, "delaySeconds": 3600})).await;
    let claim = json!({"commands": ["later"]});
    assert_eq!(server.post("/v1/codeq/tasks/claim", DEV_TOKEN, claim.clone()).await.status, 204);
    let made = post(&server, &format!("/tasks/{id}/run-now"), json!({})).await;
    assert_eq!(
        (made.status, &made.json["lastKnownLocation"]),
        (200, &json!("PENDING_LIST")),
        "{}",
        made.text
    );
    server.kill();
    server.start_again();
    let again = post(&server, &format!("/tasks/{id}/run-now"), json!({})).await;
    assert_eq!(again.status, 200, "a ready task stays as it is: {}", again.text);
    let claimed = server.post("/v1/codeq/tasks/claim", DEV_TOKEN, claim.clone()).await;
    assert_eq!(claimed.json["id"], json!(id));
    refused(&post(&server, &format!("/tasks/{id}/run-now"), json!({})).await, 409, "not_delayed");
    let nack = json!({"delaySeconds": 600, "reason": "busy"});
    server.post(&format!("/v1/codeq/tasks/{id}/nack"), DEV_TOKEN, nack).await;
    assert_eq!(post(&server, &format!("/tasks/{id}/run-now"), json!({})).await.status, 200);
    let retried = server.post("/v1/codeq/tasks/claim", DEV_TOKEN, claim).await;
    assert_eq!((&retried.json["id"], &retried.json["attempts"]), (&json!(id), &json!(2)));
    refused(&post(&server, "/tasks/nothing/run-now", json!({})).await, 404, "task_not_found");
    let audit = get(&server, "/audit?verb=run-now").await;
    let items = audit.json["items"].as_array().expect("records");
    assert_eq!(items.len(), 3, "{}", audit.text);
    assert_eq!(items[0]["target"], json!(format!("tasks/{id}")));
}

#[tokio::test]
async fn a_requeue_against_a_unique_key_that_is_taken_is_refused_and_told() {
    let server = Server::memory();
    let wish = json!({"command": "sync", "payload": 1, "unique": {"key": "k"}});
    let failed = create(&server, wish.clone()).await;
    let claim = json!({"commands": ["sync"]});
    server.post("/v1/codeq/tasks/claim", DEV_TOKEN, claim.clone()).await;
    let result = json!({"status": "FAILED", "error": "no"});
    server.post(&format!("/v1/codeq/tasks/{failed}/result"), DEV_TOKEN, result).await;
    let holder = create(&server, wish).await;
    refused(
        &post(&server, &format!("/failed/sync/{failed}/requeue"), json!({})).await,
        409,
        "unique_conflict",
    );
    let asked = post(&server, "/failed/sync/requeue", json!({})).await;
    let done = ended(&server, asked.json["id"].as_str().expect("an operation")).await;
    assert_eq!((&done["state"], &done["processed"], &done["failed"]), (&json!("done"), &json!(0), &json!(1)));
    assert_eq!(done["error"], "refused: another task has the unique key (unique_conflict)");
    let claimed = server.post("/v1/codeq/tasks/claim", DEV_TOKEN, claim).await;
    assert_eq!(claimed.json["id"], json!(holder));
    let result = json!({"status": "COMPLETED", "result": {}});
    server.post(&format!("/v1/codeq/tasks/{holder}/result"), DEV_TOKEN, result).await;
    let requeued = post(&server, &format!("/failed/sync/{failed}/requeue"), json!({})).await;
    assert_eq!(requeued.status, 200, "{}", requeued.text);
}
