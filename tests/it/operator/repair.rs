use super::{delete, get, kill, post, refused};
use crate::harness::{DEV_TOKEN, Server};
use serde_json::json;

#[tokio::test]
async fn a_dead_letter_is_requeued_or_deleted_by_its_id() {
    let server = Server::dev();
    let dead = kill(&server, "die", 2, |_| "boom".into()).await;
    refused(
        &post(&server, &format!("/dlq/other/{}/requeue", dead[0]), json!({})).await,
        404,
        "task_not_found",
    );
    refused(&delete(&server, &format!("/dlq/other/{}", dead[0])).await, 404, "task_not_found");
    let path = format!("/dlq/die/{}/requeue", dead[0]);
    let requeued = post(&server, &path, json!({"maxAttempts": 3})).await;
    assert_eq!((requeued.status, &requeued.json["status"]), (200, &json!("PENDING")), "{}", requeued.text);
    assert_eq!((&requeued.json["maxAttempts"], &requeued.json["attempts"]), (&json!(3), &json!(1)));
    refused(&post(&server, &path, json!({})).await, 409, "not_dead");
    refused(&delete(&server, &format!("/dlq/die/{}", dead[0])).await, 409, "not_dead");
    assert_eq!(delete(&server, &format!("/dlq/DIE/{}", dead[1])).await.status, 204);
    refused(&delete(&server, &format!("/dlq/die/{}", dead[1])).await, 404, "task_not_found");
    assert_eq!(get(&server, "/queues/die").await.json["dlq"], 0);
}

#[tokio::test]
async fn what_has_ended_cannot_be_cancelled() {
    let server = Server::memory();
    let dead = kill(&server, "die", 1, |_| "boom".into()).await.remove(0);
    let late = post(&server, &format!("/tasks/{dead}/cancel"), json!({})).await;
    refused(&late, 409, "already_terminal");
    assert_eq!(late.json["error"], "not-in-progress");
    refused(&post(&server, "/tasks/nothing/cancel", json!({})).await, 404, "task_not_found");
}

#[tokio::test]
async fn a_pause_survives_a_kill() {
    let mut server = Server::dev();
    super::create(&server, json!({"command": "c", "payload": 1})).await;
    assert_eq!(post(&server, "/queues/C/pause", json!({})).await.json["paused"], true);
    server.kill();
    server.start_again();
    let claim = json!({"commands": ["c"]});
    assert_eq!(server.post("/v1/codeq/tasks/claim", DEV_TOKEN, claim.clone()).await.status, 204);
    let waiting =
        server.post("/v1/codeq/tasks/claim", DEV_TOKEN, json!({"commands": ["c"], "waitSeconds": 20}));
    let resumed = async {
        server.until_claims_wait(1).await;
        post(&server, "/queues/c/resume", json!({})).await
    };
    let (claimed, resumed) = tokio::join!(waiting, resumed);
    assert_eq!((claimed.status, resumed.status), (200, 200), "a waiting claim is woken by the resumption");
    refused(&post(&server, "/queues/a%20b/pause", json!({})).await, 400, "invalid_command");
}
