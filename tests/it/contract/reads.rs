//! GET of tasks, results and artifacts: http.md §4.10. Waiting is in `polls`.

use super::{UNKNOWN_ID, create, get, id, refused, running, task};
use crate::harness::Server;
use serde_json::json;

#[tokio::test]
async fn what_is_not_there_is_not_found_in_the_words_of_the_route() {
    let server = Server::memory();
    let created = id(&create(&server, json!({"command": "c", "payload": 1})).await);
    let upper = created.to_uppercase();
    let bare = created.replace('-', "");
    for unknown in [UNKNOWN_ID, &upper, &bare, "nope", "%00", "%ff", "%2F"] {
        let of_task = get(&server, &format!("/tasks/{unknown}")).await;
        refused(&of_task, 404, "task_not_found", "not found");
        let of_result = get(&server, &format!("/tasks/{unknown}/result")).await;
        refused(&of_result, 404, "task_not_found", "task not found");
        let of_artifact = get(&server, &format!("/tasks/{unknown}/artifacts/a")).await;
        refused(&of_artifact, 404, "task_not_found", "task not found");
    }
    let of_result = get(&server, &format!("/tasks/{created}/result")).await;
    refused(&of_result, 404, "result_not_found", "result not found");
    for name in ["a", "a%2Fb"] {
        let of_artifact = get(&server, &format!("/tasks/{created}/artifacts/{name}")).await;
        refused(&of_artifact, 404, "artifact_not_found", "artifact not found");
    }
}

#[tokio::test]
async fn a_running_task_has_no_result_yet() {
    let server = Server::memory();
    let id = running(&server, "c", json!({})).await;
    let read = get(&server, &format!("/tasks/{id}/result")).await;
    refused(&read, 404, "result_not_found", "result not found");
    assert_eq!(task(&server, &id).await["status"], "IN_PROGRESS");
}
