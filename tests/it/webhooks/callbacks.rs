//! Result callbacks: every end is told, again and again until it is taken.

use super::receiver::Receiver;
use super::{claim, complete, counted, create, report, server};
use crate::harness::{DEV_TOKEN, Server};
use aws_lc_rs::hmac;
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn a_result_is_called_back_signed_and_in_full() {
    let (server, receiver) = (server(json!({})), Receiver::ok().await);
    let id = complete(&server, &receiver.at("/done?x=1")).await;
    let message = receiver.count(1).await.remove(0);
    assert_eq!(message.path, "/done?x=1");
    let keys: Vec<&String> = message.json.as_object().unwrap().keys().collect();
    let expected = ["artifacts", "completedAt", "error", "eventType", "result", "status", "taskId"];
    assert_eq!(keys, expected);
    assert!(message.body.starts_with(&format!("{{\"taskId\":\"{id}\",\"eventType\":\"Render\",\"status\":")));
    assert_eq!((&message.json["result"], &message.json["error"]), (&json!({"ok": true}), &json!("")));
    let header = |name: &str| message.headers[name].as_str();
    assert_eq!(header("content-type"), "application/json");
    assert_eq!(header("user-agent"), format!("codeq/{}", env!("CARGO_PKG_VERSION")));
    assert!(header("webhook-id").starts_with("msg_") && header("webhook-id").len() == 36);
    assert_eq!(header("x-codeq-timestamp"), header("webhook-timestamp"));
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"s3cr3t");
    let own = hmac::sign(&key, format!("{}.{}", header("x-codeq-timestamp"), message.body).as_bytes());
    let hex: String = own.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(header("x-codeq-signature"), hex);
    assert!(header("webhook-signature").starts_with("v1,"));
}

#[tokio::test]
async fn what_fails_is_sent_again_with_the_same_bytes_and_a_wait() {
    let server = server(json!({}));
    let receiver =
        Receiver::start(|_, before| [503, 404, 302].get(before.len()).copied().unwrap_or(200)).await;
    complete(&server, &receiver.url).await;
    let all = receiver.count(4).await;
    for pair in all.windows(2) {
        assert_eq!(
            (&pair[0].body, &pair[0].headers["webhook-id"]),
            (&pair[1].body, &pair[1].headers["webhook-id"])
        );
        let wait = pair[1].at - pair[0].at;
        assert!(wait > Duration::from_millis(950) && wait < Duration::from_millis(1900), "{wait:?}");
    }
    let line =
        "codeq_webhook_deliveries_total{command=\"Render\",kind=\"task_result\",outcome=\"success\"} 1";
    counted(&server, &[line]).await;
    let gone = server.get("/v1/codeq/admin/webhooks", DEV_TOKEN).await;
    assert_eq!(gone.json["items"], json!([]), "what was taken is removed");
    assert_eq!(receiver.all().len(), 4);
}

#[tokio::test]
async fn every_way_to_end_is_called_back() {
    let (server, receiver) = (server(json!({"sweepIntervalSeconds": 1})), Receiver::ok().await);
    let mut expected = Vec::new();
    for (verb, body, error) in [
        ("result", json!({"status": "FAILED", "error": "broken"}), "broken"),
        ("nack", json!({"reason": "no"}), "no"),
        ("abandon", json!({}), "MAX_ATTEMPTS"),
        ("", json!({}), "LEASE_EXPIRED"),
    ] {
        let task = json!({"command": "work", "payload": 1, "webhook": receiver.url, "maxAttempts": 1});
        let id = create(&server, task).await;
        let asked = json!({"commands": ["work"], "leaseSeconds": 1});
        let claimed = server.post("/v1/codeq/tasks/claim", "worker", asked).await;
        assert_eq!(claimed.json["id"], id.as_str());
        if !verb.is_empty() {
            report(&server, &id, verb, body).await;
        }
        expected.push((id, "FAILED".to_owned(), error.to_owned()));
    }
    let id = create(&server, json!({"command": "batch", "payload": 1, "webhook": receiver.url})).await;
    claim(&server, "batch").await;
    let results = json!({"results": [{"taskId": id, "status": "COMPLETED", "result": {}}]});
    let done = server.post("/v1/codeq/tasks/batch/results", "worker", results).await;
    assert_eq!(done.status, 200, "{}", done.text);
    expected.push((id, "COMPLETED".to_owned(), String::new()));
    let all = receiver.count(5).await;
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let mut got: Vec<_> = all
        .iter()
        .map(|m| (text(&m.json["taskId"]), text(&m.json["status"]), text(&m.json["error"])))
        .collect();
    got.sort();
    expected.sort();
    assert_eq!(got, expected);
}

#[tokio::test]
async fn a_rate_limit_makes_callbacks_wait_without_using_attempts() {
    let server = server(json!({"rateLimit": {"webhook": {"requestsPerMinute": 60, "burstSize": 1}}}));
    let (receiver, other) = (Receiver::ok().await, Receiver::ok().await);
    for _ in 0..3 {
        complete(&server, &receiver.url).await;
    }
    complete(&server, &other.url).await;
    other.count(1).await;
    assert!(receiver.all().len() < 3, "the limit is per address");
    let all = receiver.count(3).await;
    assert!(all[2].at - all[0].at > Duration::from_millis(1900));
    let lines = [
        "codeq_rate_limit_hits_total{operation=\"task_result\",scope=\"webhook\"} 2",
        "codeq_webhook_deliveries_total{command=\"Render\",kind=\"task_result\",outcome=\"success\"}",
    ];
    counted(&server, &lines).await;
}

#[tokio::test]
async fn nothing_is_sent_or_queued_when_webhooks_are_off() {
    let mut server = server(json!({"webhooks": {"enabled": false}}));
    let receiver = Receiver::ok().await;
    let body = json!({"callbackUrl": receiver.url, "eventTypes": ["*"], "minIntervalSeconds": 0});
    assert_eq!(server.post("/v1/codeq/workers/subscriptions", "worker", body).await.status, 200);
    complete(&server, &receiver.url).await;
    assert_eq!(server.get("/v1/codeq/admin/webhooks", DEV_TOKEN).await.json["items"], json!([]));
    // Whatever was on its way is sent before the server ends.
    assert!(server.terminate().success());
    assert!(receiver.all().is_empty());
}

#[tokio::test]
async fn serve_refuses_private_addresses_unless_told_otherwise() {
    let receiver = Receiver::ok().await;
    let config = json!({"webhooks": {"allowPrivateAddresses": false}, "resultWebhookMaxAttempts": 1});
    let server: Server = server(config);
    let id = complete(&server, &receiver.url).await;
    let failed = super::outbox::failed(&server, 1).await;
    assert_eq!((&failed[0]["taskId"], &failed[0]["lastError"]), (&json!(id), &json!("refused address")));
    assert!(receiver.all().is_empty());
}
