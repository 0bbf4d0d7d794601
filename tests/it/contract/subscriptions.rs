//! Subscriptions: http.md §4.11.

use super::{UNKNOWN_ID, create, fields, fixed, id, instant, lies_ahead, now, post, post_as, post_text};
use super::{refused, serve_with, worker_scopes};
use crate::harness::{DEV_TOKEN, Server};
use serde_json::{Value, json};

const PATH: &str = "/workers/subscriptions";

fn with(field: &str, value: Value) -> Value {
    let mut body = json!({"callbackUrl": "https://w.example/hook"});
    body[field] = value;
    body
}

#[tokio::test]
async fn a_subscription_lives_for_its_time_and_is_renewed_from_now() {
    let server = Server::memory();
    for (ttl, seconds) in
        [(json!(null), 300), (json!(0), 300), (json!(-4), 300), (json!(60), 60), (json!(9000), 9000)]
    {
        let before = now();
        let made = post(&server, PATH, with("ttlSeconds", ttl.clone())).await;
        assert_eq!((made.status, fields(&made.json)), (200, vec!["expiresAt", "subscriptionId"]));
        lies_ahead(instant(&made.json["expiresAt"]), seconds, before);
        let heartbeat = format!("{PATH}/{}/heartbeat", made.json["subscriptionId"].as_str().expect("an id"));
        let before = now();
        let renewed = post(&server, &heartbeat, json!({"ttlSeconds": ttl})).await;
        assert_eq!((renewed.status, fields(&renewed.json)), (200, vec!["expiresAt", "subscriptionId"]));
        assert_eq!(renewed.json["subscriptionId"], made.json["subscriptionId"]);
        lies_ahead(instant(&renewed.json["expiresAt"]), seconds, before);
        for malformed in ["", "{", "[]", "5", "{\"ttlSeconds\":\"x\"}", "{\"ttlSeconds\":1.5}"] {
            let before = now();
            let renewed = post_text(&server, &heartbeat, malformed).await;
            assert_eq!(renewed.status, 200, "{malformed}: {}", renewed.text);
            lies_ahead(instant(&renewed.json["expiresAt"]), 300, before);
        }
    }
}

#[tokio::test]
async fn what_is_optional_may_take_these_values() {
    let server = Server::memory();
    for body in [
        with("eventTypes", json!(["*"])),
        with("eventTypes", json!([])),
        with("eventTypes", json!(["a", "B"])),
        with("deliveryMode", json!("fanout")),
        with("deliveryMode", json!("broadcast")),
        with("deliveryMode", json!("hash")),
        with("minIntervalSeconds", json!(0)),
        with("minIntervalSeconds", json!(3600)),
        with("groupId", json!("g")),
        with("callbackUrl", json!("http://localhost:9/x?y=1")),
        json!({"callbackUrl": "http://h/", "deliveryMode": "group", "groupId": "g"}),
    ] {
        let made = post(&server, PATH, body.clone()).await;
        assert_eq!(made.status, 200, "{body}: {}", made.text);
    }
}

#[tokio::test]
async fn what_breaks_a_rule_is_refused_in_its_words() {
    let server = Server::memory();
    let required = "callbackUrl is required";
    let url = "invalid callback url";
    for (body, text) in [
        (json!({}), required),
        (with("callbackUrl", json!(null)), required),
        (with("callbackUrl", json!(" ")), required),
        (with("callbackUrl", json!("ftp://h/")), url),
        (with("callbackUrl", json!("/hook")), url),
        (with("callbackUrl", json!("https://")), url),
        (with("deliveryMode", json!("multi")), "invalid deliveryMode"),
        (with("deliveryMode", json!("FANOUT")), "invalid deliveryMode"),
        (with("deliveryMode", json!("group")), "groupId is required"),
        (json!({"callbackUrl": "http://h/", "deliveryMode": "group", "groupId": " "}), "groupId is required"),
        (with("minIntervalSeconds", json!(-1)), "invalid 'minIntervalSeconds' (must be >= 0)"),
    ] {
        refused(&post(&server, PATH, body).await, 400, "invalid_subscription", text);
    }
    for body in [with("eventTypes", json!("a")), with("eventTypes", json!([1])), with("groupId", json!(1))] {
        refused(&post(&server, PATH, body).await, 400, "invalid_body", "invalid body");
    }
}

#[tokio::test]
async fn an_unknown_or_expired_subscription_is_not_renewed() {
    let server = Server::memory();
    let task = id(&create(&server, json!({"command": "c", "payload": 1})).await);
    post(&server, PATH, with("ttlSeconds", json!(60))).await;
    let made = post(&server, PATH, with("ttlSeconds", json!(1))).await;
    let mine = made.json["subscriptionId"].as_str().expect("an id").to_owned();
    for unknown in [UNKNOWN_ID, &task, "nope", "%ff", &mine.to_uppercase()] {
        let got = post(&server, &format!("{PATH}/{unknown}/heartbeat"), json!({})).await;
        refused(&got, 404, "subscription_not_found", "not-found");
    }
    server.until_metric("codeq_subscriptions_active{command=\"*\"} 1").await;
    let got = post(&server, &format!("{PATH}/{mine}/heartbeat"), json!({})).await;
    refused(&got, 404, "subscription_not_found", "not-found");
}

#[tokio::test]
async fn a_token_subscribes_to_its_own_commands_in_its_own_group() {
    let raw = json!({"tenantId": "dev-tenant"});
    let bound = json!({"tenantId": "dev-tenant", "workerGroup": "gpu"});
    let worker = |token: &str, events: Value, raw: &Value| {
        fixed(token, json!({"scopes": worker_scopes(), "eventTypes": events, "raw": raw}))
    };
    let producers = vec![fixed(DEV_TOKEN, json!({"raw": raw})), fixed("unused", json!({"raw": raw}))];
    let workers = vec![worker("mail", json!(["Mail", "sms"]), &raw), worker("gpu", json!(["*"]), &bound)];
    let server = serve_with(producers, workers, json!({}));
    for (events, is_allowed) in [
        (json!(["mail"]), true),
        (json!(["SMS", " Mail "]), true),
        (json!(null), true),
        (json!(["mail", "render"]), false),
        (json!(["*"]), false),
        (json!([""]), false),
    ] {
        let got = post_as(&server, "mail", PATH, with("eventTypes", events.clone())).await;
        match is_allowed {
            true => assert_eq!(got.status, 200, "{events}: {}", got.text),
            false => refused(&got, 403, "event_type_not_allowed", "event type not allowed"),
        }
    }
    for body in [
        json!({}),
        json!({"groupId": "gpu"}),
        json!({"deliveryMode": "group"}),
        json!({"deliveryMode": "hash"}),
    ] {
        let mut body = body;
        body["callbackUrl"] = json!("http://h/");
        let got = post_as(&server, "gpu", PATH, body.clone()).await;
        assert_eq!(got.status, 200, "{body}: {}", got.text);
    }
    for group in ["cpu", "GPU"] {
        let got = post_as(&server, "gpu", PATH, with("groupId", json!(group))).await;
        refused(&got, 403, "group_not_allowed", "groupId not allowed");
    }
}
