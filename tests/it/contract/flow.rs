//! Options of a create, progress and checkpoints, cancels with grace: what goes beyond the original.

use super::{create, id, post, refused, running, task};
use crate::harness::Server;
use serde_json::json;

#[tokio::test]
async fn options_are_shown_and_bad_ones_refused() {
    let server = Server::dev();
    let made = create(
        &server,
        json!({"command": "c", "payload": 1, "lane": "customer 7", "tags": ["eu", "vip"],
               "unique": {"key": "k"}, "expireSeconds": 60, "maxRunSeconds": 5}),
    )
    .await;
    let shown = task(&server, &id(&made)).await;
    assert_eq!(shown["lane"], "customer 7");
    assert_eq!(shown["tags"], json!(["eu", "vip"]));
    assert_eq!(shown["uniqueKey"], "k");
    assert!(shown["expiresAt"].is_string(), "{shown}");
    for (bad, code) in [
        (json!({"lane": "l".repeat(129)}), "invalid_lane"),
        (json!({"lane": "a\nb"}), "invalid_lane"),
        (json!({"tags": ["a b"]}), "invalid_tags"),
        (json!({"unique": {"key": ""}}), "invalid_unique"),
        (json!({"unique": {"key": "k", "until": "later"}}), "invalid_unique"),
        (json!({"unique": {"key": "k", "until": 0}}), "invalid_unique"),
        (json!({"expireSeconds": 0}), "invalid_expiry"),
        (json!({"expiresAt": "2999-01-01T00:00:00Z"}), "invalid_expiry"),
        (json!({"maxRunSeconds": 604_801}), "invalid_max_run"),
    ] {
        let mut body = json!({"command": "c", "payload": 1});
        body.as_object_mut().expect("an object").extend(bad.as_object().expect("an object").clone());
        let got = post(&server, "/tasks", body).await;
        assert_eq!((got.status, got.json["code"].as_str()), (400, Some(code)), "{}", got.text);
    }
}

/// Repeated with its key after it has expired, a create still means the task that it made.
#[tokio::test]
async fn a_create_whose_expiry_has_passed_is_taken_and_replayed() {
    let server = Server::dev();
    let body =
        json!({"command": "c", "payload": 1, "idempotencyKey": "k", "expiresAt": "2020-01-01T00:00:00Z"});
    let first = post(&server, "/tasks", body.clone()).await;
    assert_eq!(first.status, 202, "{}", first.text);
    let second = post(&server, "/tasks", body).await;
    assert_eq!((second.status, &second.json["id"]), (first.status, &first.json["id"]), "{}", second.text);
    let shown = task(&server, &id(&first.json)).await;
    assert_eq!((&shown["status"], &shown["error"]), (&json!("FAILED"), &json!("EXPIRED")));
}

#[tokio::test]
async fn a_taken_unique_key_answers_with_its_holder() {
    let server = Server::dev();
    let body = json!({"command": "c", "payload": 1, "unique": {"key": "k", "until": 60}});
    let first = post(&server, "/tasks", body.clone()).await;
    assert_eq!(first.header("codeq-deduplicated"), "");
    let second = post(&server, "/tasks", body.clone()).await;
    assert_eq!((second.status, second.header("codeq-deduplicated")), (202, "true"));
    assert_eq!(second.json["id"], first.json["id"]);
    let batch = post(&server, "/tasks/batch", json!({"tasks": [body]})).await;
    assert_eq!(batch.json["results"][0]["deduplicated"], true, "{}", batch.text);
}

#[tokio::test]
async fn heartbeats_carry_progress_and_checkpoints_one_by_one_and_in_batches() {
    let server = Server::dev();
    let id = running(&server, "c", json!({})).await;
    let beat = json!({"progress": {"percent": 40}, "checkpoint": [7], "extendSeconds": 60});
    let kept = post(&server, &format!("/tasks/{id}/heartbeat"), beat).await;
    assert_eq!((kept.status, &kept.json["ok"]), (200, &json!(true)));
    assert!(kept.json["leaseUntil"].is_string() && kept.json.get("cancel").is_none(), "{}", kept.text);
    let shown = task(&server, &id).await;
    assert_eq!((&shown["progress"], &shown["checkpoint"]), (&json!({"percent": 40}), &json!([7])));
    for (field, bytes, code) in
        [("progress", 4_097, "progress_too_large"), ("checkpoint", 65_537, "checkpoint_too_large")]
    {
        let large = json!({field: "x".repeat(bytes)});
        let got = post(&server, &format!("/tasks/{id}/heartbeat"), large).await;
        assert_eq!((got.status, got.json["code"].as_str()), (413, Some(code)), "{}", got.text);
    }
    let batch =
        json!({"heartbeats": [{"taskId": id, "progress": 2}, {"taskId": "none"}, {"extendSeconds": 1}]});
    let got = post(&server, "/tasks/batch/heartbeat", batch).await.json;
    assert_eq!((&got["results"][0]["ok"], &got["results"][0]["taskId"]), (&json!(true), &json!(id)));
    assert_eq!(got["results"][1]["code"], "task_not_found");
    assert_eq!(got["results"][2]["code"], "invalid_body");
    assert_eq!(task(&server, &id).await["progress"], 2);
    refused(&post(&server, "/tasks/batch/heartbeat", json!({})).await, 400, "invalid_body", "invalid body");
}

#[tokio::test]
async fn producers_cancel_with_grace_and_owners_are_told() {
    let server = Server::dev();
    let id = running(&server, "c", json!({})).await;
    let asked =
        post(&server, &format!("/tasks/{id}/cancel"), json!({"graceSeconds": 60, "reason": "gone"})).await;
    assert_eq!((asked.status, &asked.json["status"]), (200, &json!("IN_PROGRESS")), "{}", asked.text);
    let kept = post(&server, &format!("/tasks/{id}/heartbeat"), json!({})).await.json;
    assert_eq!(kept["cancel"]["reason"], "gone");
    assert!(kept["cancel"]["deadline"].is_string());
    let back = post(&server, &format!("/tasks/{id}/nack"), json!({})).await;
    assert_eq!(back.json["status"], "cancelled");
    let ended = task(&server, &id).await;
    assert_eq!((&ended["status"], &ended["error"]), (&json!("FAILED"), &json!("CANCELLED: gone")));
    let again = post(&server, &format!("/tasks/{id}/cancel"), json!({})).await;
    assert_eq!((again.status, &again.json["id"]), (200, &json!(id)));
    let got = post(&server, &format!("/tasks/{id}/cancel"), json!({"graceSeconds": 3601})).await;
    assert_eq!((got.status, got.json["code"].as_str()), (400, Some("invalid_grace")));
}

#[tokio::test]
async fn what_nobody_claims_in_time_fails() {
    let server = Server::dev();
    let made = create(&server, json!({"command": "c", "payload": 1, "expireSeconds": 1})).await;
    let got = server
        .get(&format!("/v1/codeq/tasks/{}/result?waitSeconds=20", id(&made)), crate::harness::DEV_TOKEN)
        .await
        .json;
    assert_eq!(got["result"]["failureReason"], "EXPIRED", "{got}");
}

#[tokio::test]
async fn a_nack_with_a_refund_uses_no_attempt_and_says_when() {
    let server = Server::dev();
    let id = running(&server, "c", json!({"maxAttempts": 1})).await;
    for asked in [json!({"refund": true}), json!({"refund": true, "delaySeconds": -1})] {
        let got = post(&server, &format!("/tasks/{id}/nack"), asked).await;
        refused(&got, 400, "invalid_delay", "refund needs 'delaySeconds' of at least 1");
    }
    let back = post(&server, &format!("/tasks/{id}/nack"), json!({"refund": true, "delaySeconds": 60})).await;
    assert_eq!(back.text, r#"{"status":"requeued","delaySeconds":60}"#);
    let waiting = task(&server, &id).await;
    assert_eq!((&waiting["attempts"], &waiting["refunds"]), (&json!(1), &json!(1)), "{waiting}");
}
