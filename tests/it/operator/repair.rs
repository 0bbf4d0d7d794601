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

/// Fails one task of a command for good; its id.
async fn fail(server: &Server, command: &str, error: &str) -> String {
    super::create(server, json!({"command": command, "payload": 1})).await;
    let claim = json!({"commands": [command]});
    let claimed = server.post("/v1/codeq/tasks/claim", DEV_TOKEN, claim).await;
    let id = claimed.json["id"].as_str().expect("a task").to_owned();
    let result = json!({"status": "FAILED", "error": error});
    assert_eq!(server.post(&format!("/v1/codeq/tasks/{id}/result"), DEV_TOKEN, result).await.status, 200);
    id
}

/// An operator could not replay what a worker had failed by mistake: only dead letters came back.
#[tokio::test]
async fn failed_and_cancelled_tasks_are_requeued_by_id_cause_and_filter_and_survive_a_kill() {
    let mut server = Server::dev();
    let one = fail(&server, "bill", "card 17 declined").await;
    let two = fail(&server, "bill", "card 99 declined").await;
    let three = fail(&server, "bill", "no such order").await;
    let stopped = super::create(&server, json!({"command": "bill", "payload": 1})).await;
    assert_eq!(post(&server, &format!("/tasks/{stopped}/cancel"), json!({})).await.status, 200);
    let mut expected = vec![one, two, three.clone()];
    expected.sort();
    for (place, ids) in [("failed", expected), ("cancelled", vec![stopped.clone()])] {
        let mut found = super::ids(&get(&server, &format!("/tasks?place={place}")).await);
        found.sort();
        assert_eq!(found, ids, "{place}");
    }
    assert_eq!(super::ids(&get(&server, "/tasks?place=done").await).len(), 4);
    assert_eq!(super::ids(&get(&server, "/failed/bill").await).len(), 3);
    let groups = get(&server, "/failed/*/groups").await.json["groups"].clone();
    assert_eq!((&groups[0]["count"], &groups[0]["error"]), (&json!(2), &json!("card <n> declined")));
    let dry = json!({"dryRun": true});
    assert_eq!(post(&server, "/failed/bill/requeue", dry.clone()).await.json["matched"], 3);
    assert_eq!(post(&server, "/dlq/bill/requeue", dry).await.json["matched"], 0);
    let dry = json!({"filter": {"place": "cancelled"}, "dryRun": true});
    assert_eq!(post(&server, "/dlq/bill/requeue", dry).await.json["matched"], 1);
    let asked = post(&server, "/failed/bill/requeue", json!({"group": groups[0]["group"]})).await;
    assert_eq!(asked.status, 202, "{}", asked.text);
    let done = super::ended(&server, asked.json["id"].as_str().expect("an id")).await;
    assert_eq!((&done["processed"], &done["failed"]), (&json!(2), &json!(0)));
    for (route, id) in [("failed", &three), ("dlq", &stopped)] {
        let again = post(&server, &format!("/{route}/bill/{id}/requeue"), json!({"maxAttempts": 7})).await;
        assert_eq!((again.status, &again.json["maxAttempts"]), (200, &json!(7)), "{}", again.text);
    }
    server.kill();
    server.start_again();
    assert_eq!(get(&server, "/queues/bill").await.json["ready"], 4);
    let claimed = server.post("/v1/codeq/tasks/claim", DEV_TOKEN, json!({"commands": ["bill"]})).await;
    let id = claimed.json["id"].as_str().expect("a task");
    let result = json!({"status": "COMPLETED", "result": {}});
    assert_eq!(server.post(&format!("/v1/codeq/tasks/{id}/result"), DEV_TOKEN, result).await.status, 200);
    refused(&post(&server, &format!("/dlq/bill/{id}/requeue"), json!({})).await, 409, "not_dead");
}
