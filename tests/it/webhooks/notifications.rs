//! Availability notifications: who is told, when, and what.

use super::receiver::{Received, Receiver};
use super::{claim, counted, create, report, server, worker};
use crate::harness::{DEV_TOKEN, Server};
use serde_json::{Value, json};
use std::time::Duration;

async fn subscribe(server: &Server, url: &str, more: Value) -> String {
    let mut body = json!({"callbackUrl": url, "minIntervalSeconds": 0});
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let made = server.post("/v1/codeq/workers/subscriptions", "worker", body).await;
    assert_eq!(made.status, 200, "{}", made.text);
    made.json["subscriptionId"].as_str().expect("an id").to_owned()
}

/// Fills the empty queue of `command`, waits until somebody hears of it, and empties it.
async fn fill(server: &Server, receiver: &Receiver, command: &str) -> Received {
    let before = receiver.all().len();
    create(server, json!({"command": command, "payload": 1})).await;
    let heard = receiver.count(before + 1).await.pop().expect("one came");
    empty(server, command).await;
    heard
}

async fn empty(server: &Server, command: &str) {
    let id = claim(server, command).await["id"].as_str().expect("an id").to_owned();
    report(server, &id, "result", json!({"status": "COMPLETED", "result": {}})).await;
}

fn paths(receiver: &Receiver) -> Vec<String> {
    let mut paths: Vec<String> = receiver.all().into_iter().map(|message| message.path).collect();
    paths.sort();
    paths
}

#[tokio::test]
async fn a_queue_that_fills_is_told_of_once_with_its_depth() {
    let (server, receiver) = (server(json!({})), Receiver::ok().await);
    subscribe(&server, &receiver.url, json!({"eventTypes": ["render"]})).await;
    subscribe(&server, &receiver.at("/last"), json!({"eventTypes": ["last"]})).await;
    let tasks = json!({"tasks": vec![json!({"command": "Render", "payload": 1}); 3]});
    assert_eq!(server.post("/v1/codeq/tasks/batch", DEV_TOKEN, tasks).await.status, 200);
    let message = receiver.count(1).await.remove(0);
    let body = message.json.as_object().expect("an object");
    let keys: Vec<&String> = body.keys().collect();
    assert_eq!(keys, ["available", "claimUrl", "eventType", "notificationId", "queueDepth", "sentAt"]);
    assert_eq!((&body["eventType"], &body["available"]), (&json!("Render"), &json!(true)));
    assert_eq!((&body["queueDepth"], &body["claimUrl"]), (&json!(3), &json!("/v1/codeq/tasks/claim")));
    let id = body["notificationId"].as_str().expect("an id");
    assert!(id.starts_with("ntf-") && id.len() == 40, "{id}");
    assert_eq!(message.headers["webhook-id"], id);
    assert!(message.headers.contains_key("x-codeq-signature"));
    let sent_at = body["sentAt"].as_str().expect("a text");
    assert!(sent_at.len() == 20 && sent_at.ends_with('Z'), "{sent_at}");
    create(&server, json!({"command": "render", "payload": 1})).await;
    create(&server, json!({"command": "other", "payload": 1})).await;
    fill(&server, &receiver, "last").await;
    assert_eq!(receiver.all().len(), 2, "it was not empty, and the other has no subscriber");
}

#[tokio::test]
async fn every_way_to_fill_a_queue_is_told_of() {
    let (server, receiver) = (server(json!({})), Receiver::ok().await);
    subscribe(&server, &receiver.url, json!({"eventTypes": ["*"]})).await;
    let key = json!({"command": "work", "payload": 1, "idempotencyKey": "k"});
    let id = create(&server, key.clone()).await;
    receiver.count(1).await;
    let lease = json!({"commands": ["work"], "leaseSeconds": 1});
    server.post("/v1/codeq/tasks/claim", "worker", lease.clone()).await;
    create(&server, key).await;
    receiver.count(2).await; // The lease has expired; the replay was not told of.
    claim(&server, "work").await;
    report(&server, &id, "nack", json!({"delaySeconds": 1})).await;
    receiver.count(3).await;
    claim(&server, "work").await;
    report(&server, &id, "abandon", json!({})).await;
    receiver.count(4).await;
    claim(&server, "work").await;
    create(&server, json!({"command": "work", "payload": 2, "delaySeconds": 1})).await;
    assert_eq!(receiver.all().len(), 4, "a delayed task is not ready");
    let all = receiver.count(5).await;
    assert!(all.iter().all(|message| message.json["queueDepth"] == 1));
}

#[tokio::test]
async fn fanout_tells_all_a_group_takes_turns_and_hash_picks_one() {
    let (server, receiver) = (server(json!({})), Receiver::ok().await);
    for name in ["/a", "/b", "/c"] {
        subscribe(&server, &receiver.at(name), json!({"eventTypes": ["all"], "deliveryMode": "broadcast"}))
            .await;
        let group = json!({"eventTypes": ["turns"], "deliveryMode": "group", "groupId": "g"});
        subscribe(&server, &receiver.at(name), group).await;
        subscribe(&server, &receiver.at(name), json!({"eventTypes": ["one"], "deliveryMode": "hash"})).await;
    }
    create(&server, json!({"command": "all", "payload": 1})).await;
    receiver.count(3).await;
    assert_eq!(paths(&receiver), ["/a", "/b", "/c"]);
    let mut turns = Vec::new();
    for _ in 0..4 {
        turns.push(fill(&server, &receiver, "turns").await.path);
    }
    assert_eq!(turns, ["/a", "/b", "/c", "/a"]);
    let now = || std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs() / 60 % 3;
    let before = now();
    let path = fill(&server, &receiver, "one").await.path;
    let expected = ["/a", "/b", "/c"];
    assert!([before, now()].iter().any(|turn| path == expected[*turn as usize]), "{path}");
    subscribe(&server, &receiver.at("/last"), json!({"eventTypes": ["last"]})).await;
    fill(&server, &receiver, "last").await;
    assert_eq!(receiver.all().len(), 9);
}

#[tokio::test]
async fn a_subscriber_is_left_alone_for_its_interval() {
    let (server, receiver) = (server(json!({})), Receiver::ok().await);
    let quiet = json!({"eventTypes": ["work"], "minIntervalSeconds": 2});
    subscribe(&server, &receiver.at("/quiet"), quiet).await;
    subscribe(&server, &receiver.at("/eager"), json!({"eventTypes": ["work"]})).await;
    create(&server, json!({"command": "work", "payload": 1})).await;
    receiver.count(2).await;
    empty(&server, "work").await;
    let started = std::time::Instant::now();
    while receiver.all().iter().filter(|m| m.path == "/quiet").count() < 2 {
        fill(&server, &receiver, "work").await;
        assert!(started.elapsed() < Duration::from_secs(10));
    }
    let quiet: Vec<_> = receiver.all().into_iter().filter(|m| m.path == "/quiet").collect();
    assert!(quiet[1].at - quiet[0].at > Duration::from_millis(1900));
}

#[tokio::test]
async fn subscriptions_end_unless_they_are_renewed() {
    let server = server(json!({"subscriptionCleanupIntervalSeconds": 1}));
    let receiver = Receiver::ok().await;
    let short = json!({"eventTypes": ["*"], "ttlSeconds": 2});
    let kept = subscribe(&server, &receiver.at("/kept"), short.clone()).await;
    let over = subscribe(&server, &receiver.at("/over"), short).await;
    let renew = async |id: &str, ttl: i64| {
        let path = format!("/v1/codeq/workers/subscriptions/{id}/heartbeat");
        server.post(&path, "worker", json!({"ttlSeconds": ttl})).await
    };
    assert_eq!(renew(&kept, 60).await.status, 200);
    server.until_metric("codeq_subscriptions_active{command=\"*\"} 1").await;
    fill(&server, &receiver, "work").await;
    assert_eq!(paths(&receiver), ["/kept"]);
    let refused = renew(&over, 60).await;
    assert_eq!((refused.status, &refused.json["error"]), (404, &json!("not-found")));
    assert_eq!(renew("nonsense", 60).await.status, 404);
    counted(
        &server,
        &["codeq_webhook_deliveries_total{command=\"work\",kind=\"queue_ready\",outcome=\"success\"} 1"],
    )
    .await;
}

#[tokio::test]
async fn a_token_with_a_group_subscribes_for_its_group_and_its_events_only() {
    let raw = json!({"tenantId": "acme", "workerGroup": "gpu"});
    let server = server(json!({"workerAuthConfig": worker(raw, json!(["render"]))}));
    let receiver = Receiver::ok().await;
    subscribe(&server, &receiver.at("/a"), json!({})).await;
    subscribe(&server, &receiver.at("/b"), json!({"groupId": "gpu"})).await;
    let refused = async |more: Value| {
        let mut body = json!({"callbackUrl": receiver.url});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let answer = server.post("/v1/codeq/workers/subscriptions", "worker", body).await;
        (answer.status, answer.json["error"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(refused(json!({"groupId": "cpu"})).await, (403, "groupId not allowed".into()));
    assert_eq!(refused(json!({"eventTypes": ["encode"]})).await, (403, "event type not allowed".into()));
    assert_eq!(refused(json!({"eventTypes": ["*"]})).await, (403, "event type not allowed".into()));
    assert_eq!(refused(json!({"minIntervalSeconds": -1})).await.0, 400);
    let turns =
        [fill(&server, &receiver, "render").await.path, fill(&server, &receiver, "render").await.path];
    assert_eq!(turns, ["/a", "/b"]);
}

#[tokio::test]
async fn notifications_beyond_the_rate_limit_are_dropped_and_failures_are_not_repeated() {
    let limits = json!({"rateLimit": {"webhook": {"requestsPerMinute": 1, "burstSize": 1}}});
    let server = server(limits);
    let receiver = Receiver::start(|_, _| 500).await;
    subscribe(&server, &receiver.url, json!({"eventTypes": ["*"]})).await;
    fill(&server, &receiver, "work").await;
    create(&server, json!({"command": "work", "payload": 1})).await;
    let lines = [
        "codeq_rate_limit_hits_total{operation=\"queue_ready\",scope=\"webhook\"} 1",
        "codeq_webhook_deliveries_total{command=\"work\",kind=\"queue_ready\",outcome=\"failure\"} 1",
    ];
    counted(&server, &lines).await;
    assert_eq!(receiver.all().len(), 1);
}
