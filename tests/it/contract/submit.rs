//! POST /tasks/:id/result: http.md §4.8.

use super::{get, instant, now, post, post_text, refused, running, task};
use crate::harness::{Answer, Server};
use serde_json::{Value, json};

async fn submit(server: &Server, id: &str, body: Value) -> Answer {
    post(server, &format!("/tasks/{id}/result"), body).await
}

#[tokio::test]
async fn a_completed_task_has_its_result_and_nothing_else() {
    let server = Server::memory();
    let id = running(&server, "c", json!({})).await;
    let before = now();
    let body = json!({"status": "COMPLETED", "result": {"n": 1}, "error": "ignored", "attempt": 1,
        "workerId": "ignored"});
    let done = submit(&server, &id, body).await;
    let completed_at = done.json["completedAt"].clone();
    let record =
        json!({"taskId": id, "status": "COMPLETED", "result": {"n": 1}, "completedAt": completed_at});
    assert_eq!((done.status, &done.json), (200, &record), "{}", done.text);
    assert!(before <= instant(&completed_at) && instant(&completed_at) <= now());
    let ended = task(&server, &id).await;
    let expected = json!({
        "id": id, "command": "c", "payload": "1", "status": "COMPLETED", "lastKnownLocation": "NONE",
        "attempts": 1, "maxAttempts": 5, "resultKey": format!("codeq/results/{id}"), "tenantId": "dev-tenant",
        "createdAt": ended["createdAt"], "updatedAt": completed_at,
    });
    assert_eq!(ended, expected);
    let read = get(&server, &format!("/tasks/{id}/result")).await;
    assert_eq!((read.status, read.json), (200, json!({"result": record, "task": ended})));
}

#[tokio::test]
async fn a_failed_task_has_its_error_and_the_result_if_given() {
    let server = Server::memory();
    let cut = format!("a{}", "é".repeat(4095));
    for (body, error, result) in [
        (json!({"status": "FAILED", "error": "boom"}), "boom", json!(null)),
        (json!({"status": "FAILED", "error": "boom", "result": null}), "boom", json!(null)),
        (json!({"status": "FAILED", "error": "boom", "result": {"at": 3}}), "boom", json!({"at": 3})),
        (json!({"status": "FAILED", "error": format!("a{}", "é".repeat(5000))}), &*cut, json!(null)),
    ] {
        let id = running(&server, "c", json!({})).await;
        let done = submit(&server, &id, body).await;
        let mut record = json!({"taskId": id, "status": "FAILED", "error": error,
            "completedAt": done.json["completedAt"]});
        if !result.is_null() {
            record["result"] = result;
        }
        assert_eq!((done.status, &done.json), (200, &record));
        let ended = task(&server, &id).await;
        assert_eq!((&ended["status"], &ended["error"]), (&json!("FAILED"), &json!(error)));
    }
}

#[tokio::test]
async fn results_keep_their_numbers() {
    let server = Server::memory();
    let id = running(&server, "c", json!({})).await;
    let result = r#"{"n":9007199254740993,"x":1.10,"huge":1e999,"s":"\u00e9"}"#;
    let body = format!(r#"{{"status":"COMPLETED","result":{result}}}"#);
    let done = post_text(&server, &format!("/tasks/{id}/result"), &body).await;
    assert!(done.text.contains(&format!(r#""result":{result},"#)), "{}", done.text);
    let read = get(&server, &format!("/tasks/{id}/result")).await;
    assert!(read.text.contains(&format!(r#""result":{result},"#)), "{}", read.text);
}

#[tokio::test]
async fn what_breaks_a_rule_is_refused_and_the_task_stays_with_its_worker() {
    let server = Server::memory();
    let id = running(&server, "c", json!({})).await;
    let before = task(&server, &id).await;
    let body = ("invalid_body", "invalid request body");
    let status = ("invalid_status", "invalid status");
    let result = ("result_required", "result required when status=COMPLETED");
    let error = ("error_required", "error required when status=FAILED");
    for (given, (code, text)) in [
        (json!({}), body),
        (json!({"status": null}), body),
        (json!({"status": 5}), body),
        (json!({"result": {}}), body),
        (json!({"status": "COMPLETED", "result": []}), body),
        (json!({"status": "COMPLETED", "result": "x"}), body),
        (json!({"status": "COMPLETED", "result": 1}), body),
        (json!({"status": "FAILED", "error": "e", "result": false}), body),
        (json!({"status": "FAILED", "error": 5}), body),
        (json!({"status": "COMPLETED", "result": {}, "artifacts": {}}), body),
        (json!({"status": "COMPLETED", "result": {}, "artifacts": [5]}), body),
        (json!({"status": "COMPLETED", "result": {}, "artifacts": [["n", "http://h/", null, null]]}), body),
        (json!({"status": "COMPLETED", "result": {}, "artifacts": [{"url": "http://h/"}]}), body),
        (json!({"status": "COMPLETED", "result": {}, "artifacts": [{"name": 1}]}), body),
        (json!({"status": "", "result": {}}), status),
        (json!({"status": "completed", "result": {}}), status),
        (json!({"status": "DONE", "result": {}}), status),
        (json!({"status": "PENDING"}), status),
        (json!({"status": "COMPLETED"}), result),
        (json!({"status": "COMPLETED", "result": null}), result),
        (json!({"status": "FAILED"}), error),
        (json!({"status": "FAILED", "error": null}), error),
        (json!({"status": "FAILED", "error": " \n"}), error),
        (json!({"status": "FAILED", "result": {}}), error),
    ] {
        refused(&submit(&server, &id, given).await, 400, code, text);
    }
    assert_eq!(task(&server, &id).await, before);
    let submitted = submit(&server, &id, json!({"status": "COMPLETED", "result": {}})).await;
    assert_eq!((submitted.status, submitted.json.get("result")), (200, None), "{}", submitted.text);
}

#[tokio::test]
async fn links_pass_through_unchanged_and_in_order() {
    let server = Server::memory();
    let link = |name: &str| json!({"name": name, "url": format!("s3://bucket/{name}?x=%20")});
    let names: Vec<String> = (0..16).rev().map(|n| format!("part {n} é.txt")).collect();
    let links: Vec<Value> = names.iter().map(|name| link(name)).collect();
    let id = running(&server, "c", json!({})).await;
    let done = submit(&server, &id, json!({"status": "FAILED", "error": "e", "artifacts": links})).await;
    assert_eq!((done.status, &done.json["artifacts"]), (200, &json!(links)), "{}", done.text);
    let read = get(&server, &format!("/tasks/{id}/result")).await;
    assert_eq!(read.json["result"], done.json);
    let download = get(&server, &format!("/tasks/{id}/artifacts/part%200%20%C3%A9.txt")).await;
    refused(&download, 404, "artifact_not_found", "artifact not found");
}

#[tokio::test]
async fn artifacts_have_distinct_plain_names_and_are_at_most_16() {
    let server = Server::memory();
    let id = running(&server, "c", json!({})).await;
    let link = |name: &str| json!({"name": name, "url": "http://h/"});
    let long = "n".repeat(256);
    let many: Vec<Value> = (0..17).map(|n| link(&n.to_string())).collect();
    let mut table = vec![
        (json!(many), "too many artifacts (max 16)".to_owned()),
        (json!([link("a"), link("b"), link("a")]), "duplicate artifact name: a".to_owned()),
    ];
    for bad in ["", "a/b", "a\\b", "..", "a..b", "a\nb", "\u{7f}", &long] {
        table.push((json!([link("ok"), link(bad)]), format!("invalid artifact name: {bad}")));
    }
    for (artifacts, text) in table {
        let body = json!({"status": "COMPLETED", "result": {}, "artifacts": artifacts});
        refused(&submit(&server, &id, body).await, 400, "invalid_artifact", &text);
    }
    let artifacts = json!([link(&"n".repeat(255)), link(".a"), link("A"), link("a")]);
    let done =
        submit(&server, &id, json!({"status": "COMPLETED", "result": {}, "artifacts": artifacts})).await;
    assert_eq!(done.status, 200, "{}", done.text);
}

#[tokio::test]
async fn a_result_is_written_once() {
    let server = Server::memory();
    let id = running(&server, "c", json!({})).await;
    let first = submit(&server, &id, json!({"status": "COMPLETED", "result": {"n": 1}})).await;
    for body in
        [json!({"status": "COMPLETED", "result": {"n": 2}}), json!({"status": "FAILED", "error": "e"})]
    {
        refused(&submit(&server, &id, body).await, 409, "not_in_progress", "not-in-progress");
    }
    assert_eq!(get(&server, &format!("/tasks/{id}/result")).await.json["result"], first.json);
    let other = super::create(&server, json!({"command": "c", "payload": 1})).await;
    let got = submit(&server, &super::id(&other), json!({"status": "COMPLETED", "result": {}})).await;
    refused(&got, 409, "not_in_progress", "not-in-progress");
}
