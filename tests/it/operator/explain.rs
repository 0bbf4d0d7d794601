use super::{create, get, kill, post};
use crate::harness::{DEV_TOKEN, Server};
use serde_json::{Value, json};

/// State, codes of the reasons, and the whole explanation.
async fn explain(server: &Server, id: &str) -> (String, Vec<String>, Value) {
    let told = get(server, &format!("/tasks/{id}/explain")).await;
    assert_eq!((told.status, &told.json["taskId"]), (200, &json!(id)), "{}", told.text);
    assert!(told.json["summary"].as_str().is_some_and(|text| text.ends_with('.')), "{}", told.text);
    let reasons = told.json["reasons"].as_array().expect("reasons");
    let codes = reasons.iter().map(|reason| reason["code"].as_str().expect("a code").to_owned()).collect();
    (told.json["state"].as_str().expect("a state").to_owned(), codes, told.json)
}

#[tokio::test]
async fn every_state_is_explained() {
    let server = Server::memory();
    let first = create(&server, json!({"command": "c", "payload": 1})).await;
    let second = create(&server, json!({"command": "c", "payload": 2})).await;
    create(&server, json!({"command": "c", "payload": 3, "priority": 5})).await;
    let (state, codes, told) = explain(&server, &second).await;
    assert_eq!((state.as_str(), codes), ("ready", vec!["queued".into(), "no_recent_claimer".into()]));
    assert_eq!(told["reasons"][0]["position"], 3);
    assert_eq!(told["reasons"][0]["aheadAtHigherPriority"], 1);
    assert!(told["reasons"][1].get("lastClaimAt").is_none());

    let paused = post(&server, "/queues/c/pause", json!({})).await;
    assert_eq!(
        (paused.status, &paused.json["paused"], &paused.json["ready"]),
        (200, &json!(true), &json!(3))
    );
    let (_, codes, told) = explain(&server, &first).await;
    assert!(codes.contains(&"queue_paused".into()));
    assert!(told["summary"].as_str().expect("text").contains("paused"));
    assert_eq!(server.post("/v1/codeq/tasks/claim", DEV_TOKEN, json!({"commands": ["c"]})).await.status, 204);
    assert_eq!(post(&server, "/queues/c/resume", json!({})).await.json["paused"], false);

    let claimed = server.post("/v1/codeq/tasks/claim", DEV_TOKEN, json!({"commands": ["c"]})).await;
    let running = claimed.json["id"].as_str().expect("a task").to_owned();
    let (state, codes, told) = explain(&server, &running).await;
    assert_eq!((state.as_str(), codes), ("running", vec!["running".into()]));
    let reason = &told["reasons"][0];
    assert_eq!((&reason["attempt"], reason["workerId"].is_string()), (&json!(1), true));
    assert_eq!(told["nextChangeAt"], reason["leaseUntil"]);

    let nack = json!({"delaySeconds": 60, "reason": "later"});
    server.post(&format!("/v1/codeq/tasks/{running}/nack"), DEV_TOKEN, nack).await;
    let (state, _, told) = explain(&server, &running).await;
    assert_eq!((state.as_str(), &told["reasons"][0]["because"]), ("delayed", &json!("retry")));
    let scheduled = create(&server, json!({"command": "s", "payload": 1, "delaySeconds": 60})).await;
    let (_, _, told) = explain(&server, &scheduled).await;
    assert_eq!(told["reasons"][0]["because"], "scheduled");

    let dead = kill(&server, "die", 1, |_| "boom".into()).await.remove(0);
    let (state, _, told) = explain(&server, &dead).await;
    assert_eq!((state.as_str(), &told["reasons"][0]["failureReason"]), ("dead", &json!("MAX_ATTEMPTS")));
    assert_eq!(told["reasons"][0]["error"], "boom");

    let cancelled = post(&server, &format!("/tasks/{first}/cancel"), json!({})).await;
    assert_eq!(
        (cancelled.status, &cancelled.json["error"]),
        (200, &json!("CANCELLED")),
        "{}",
        cancelled.text
    );
    let (state, codes, _) = explain(&server, &first).await;
    assert_eq!((state.as_str(), codes), ("failed", vec!["cancelled".into()]));
}
