//! The time zone of answers: http.md §1.

use super::{call, claim, create, dev_with, id, instant, now, post};
use crate::harness::DEV_TOKEN;
use reqwest::Method;
use serde_json::{Value, json};

fn offset(time: &Value) -> &str {
    let text = time.as_str().expect("an instant");
    match text.strip_suffix('Z') {
        Some(_) => "Z",
        None => &text[text.len() - 6..],
    }
}

#[tokio::test]
async fn instants_are_shown_at_the_offset_of_the_zone_except_where_utc_is_promised() {
    let server = dev_with(json!({"timezone": "Asia/Kolkata"}));
    let before = now();
    let created = create(&server, json!({"command": "c", "payload": 1})).await;
    let claimed = claim(&server, json!({})).await;
    let path = format!("/tasks/{}/result", id(&created));
    let done = post(&server, &path, json!({"status": "COMPLETED", "result": {}})).await.json;
    let subscribed = post(&server, "/workers/subscriptions", json!({"callbackUrl": "http://h/"})).await.json;
    for shown in [
        &created["createdAt"],
        &created["updatedAt"],
        &claimed["updatedAt"],
        &done["completedAt"],
        &subscribed["expiresAt"],
    ] {
        assert_eq!(offset(shown), "+05:30", "{shown}");
        assert!(instant(shown) >= before);
    }
    let policy = json!({"priorityTiers": [1], "maxAttempts": 1, "deadLetterTopicRef": "d"}).to_string();
    let topic = call(&server, Method::PUT, "/admin/topics/t", DEV_TOKEN, Some(&policy)).await.json;
    for shown in [&claimed["leaseUntil"], &topic["createdAt"], &topic["updatedAt"]] {
        assert_eq!(offset(shown), "Z", "{shown}");
    }
}
