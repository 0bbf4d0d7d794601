//! POST /tasks/batch/results: http.md §4.9.

use super::{UNKNOWN_ID, create, fields, get, id, post, post_text, refused, running, task};
use crate::harness::Server;
use serde_json::{Value, json};

const PATH: &str = "/tasks/batch/results";

fn done(id: &str) -> Value {
    json!({"taskId": id, "status": "COMPLETED", "result": {"of": id}})
}

#[tokio::test]
async fn every_item_has_its_answer_in_its_place() {
    let server = Server::memory();
    let pending = id(&create(&server, json!({"command": "pending", "payload": 1})).await);
    let mut lent = Vec::new();
    for _ in 0..3 {
        lent.push(running(&server, "c", json!({})).await);
    }
    let [first, second, third] = [&*lent[0], &*lent[1], &*lent[2]];
    let items = json!([
        done(first),
        done(UNKNOWN_ID),
        {"taskId": second, "status": "FAILED", "error": "boom", "attempt": 1},
        done(first),
        done(&pending),
        {"taskId": third, "status": "COMPLETED", "result": {}, "attempt": 7},
        {"taskId": third, "status": "NONSENSE"},
        {"taskId": third, "status": "COMPLETED"},
        {"taskId": third, "status": "FAILED"},
        {"taskId": third, "status": 5},
        {"taskId": third},
        {"taskId": third, "status": "COMPLETED", "result": []},
        {"taskId": "nope", "status": "COMPLETED", "result": {}},
        {"taskId": third, "status": "COMPLETED", "result": {}, "artifacts": [{"name": "..", "url": "u"}]},
    ]);
    let answer = post(&server, PATH, json!({"results": items})).await;
    assert_eq!((answer.status, fields(&answer.json)), (200, vec!["results"]), "{}", answer.text);
    let results = answer.json["results"].as_array().expect("a list");
    assert_eq!(results.len(), 14);
    for (place, id) in [(0, first), (2, second)] {
        let read = get(&server, &format!("/tasks/{id}/result")).await;
        assert_eq!(results[place], json!({"taskId": id, "result": read.json["result"]}));
    }
    let refusal = |id: &str, code: &str, text: &str| json!({"taskId": id, "error": text, "code": code});
    for (place, expected) in [
        (1, refusal(UNKNOWN_ID, "task_not_found", "task not found")),
        (3, refusal(first, "not_in_progress", "not-in-progress")),
        (4, refusal(&pending, "not_in_progress", "not-in-progress")),
        (5, refusal(third, "lease_lost", "lease-lost")),
        (6, refusal(third, "invalid_status", "invalid status")),
        (7, refusal(third, "result_required", "result required when status=COMPLETED")),
        (8, refusal(third, "error_required", "error required when status=FAILED")),
        (9, refusal(third, "invalid_body", "invalid request body")),
        (10, refusal(third, "invalid_body", "invalid request body")),
        (11, refusal(third, "invalid_body", "invalid request body")),
        (12, refusal("nope", "task_not_found", "task not found")),
        (13, refusal(third, "invalid_artifact", "invalid artifact name: ..")),
    ] {
        assert_eq!(results[place], expected, "{place}");
    }
    assert_eq!(task(&server, third).await["status"], "IN_PROGRESS");
}

#[tokio::test]
async fn items_that_are_no_objects_or_name_no_task_are_refused_one_by_one() {
    let server = Server::memory();
    let id = running(&server, "c", json!({})).await;
    let nameless = json!({"status": "COMPLETED", "result": {}});
    let items =
        json!([5, null, [], "x", nameless, {"taskId": 5, "status": "COMPLETED", "result": {}}, done(&id)]);
    let answer = post(&server, PATH, json!({"results": items})).await;
    let results = answer.json["results"].as_array().expect("a list");
    for item in &results[..6] {
        let expected = json!({"taskId": "", "error": "invalid request body", "code": "invalid_body"});
        assert_eq!(*item, expected);
    }
    assert_eq!(results[6]["result"]["status"], "COMPLETED", "{}", answer.text);
}

#[tokio::test]
async fn a_batch_has_1_to_100_items() {
    let server = Server::memory();
    let results = |count: usize| json!({"results": vec![done(UNKNOWN_ID); count]});
    let most = post(&server, PATH, results(100)).await;
    assert_eq!((most.status, most.json["results"].as_array().map(Vec::len)), (200, Some(100)));
    let text = "batch size exceeds maximum of 100";
    refused(&post(&server, PATH, results(101)).await, 400, "batch_too_large", text);
    for body in ["{}", r#"{"results":[]}"#, r#"{"results":null}"#, r#"{"results":{}}"#] {
        refused(&post_text(&server, PATH, body).await, 400, "invalid_body", "invalid body");
    }
}
