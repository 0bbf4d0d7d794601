//! A first session, as the README tells it.

use crate::harness::{DEV_TOKEN, Server};
use serde_json::json;

#[tokio::test]
async fn a_task_goes_from_create_to_result_and_survives_a_kill_on_the_way() {
    let mut server = Server::dev();
    let task =
        server.post("/v1/codeq/tasks", DEV_TOKEN, json!({"command": "demo", "payload": {"n": 1}})).await;
    assert_eq!(task.status, 202);
    let id = task.json["id"].as_str().expect("an id").to_owned();
    server.kill();
    server.start_again();
    let claimed = server.post("/v1/codeq/tasks/claim", DEV_TOKEN, json!({"commands": ["demo"]})).await;
    assert_eq!((claimed.status, claimed.json["id"].as_str()), (200, Some(&*id)));
    server.kill();
    server.start_again();
    let result = json!({"status": "COMPLETED", "result": {"ok": true}, "attempt": 1});
    let done = server.post(&format!("/v1/codeq/tasks/{id}/result"), DEV_TOKEN, result).await;
    assert_eq!(done.status, 200, "{}", done.text);
    server.kill();
    server.start_again();
    let read = server.get(&format!("/v1/codeq/tasks/{id}/result"), DEV_TOKEN).await;
    assert_eq!((read.status, &read.json["result"]["result"]), (200, &json!({"ok": true})));
}
