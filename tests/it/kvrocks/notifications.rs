//! Notifications of several replicas: their subscribers see one sender.

use super::{Redis, ok};
use crate::harness::Server;
use crate::webhooks::receiver::Receiver;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The id, as keys have it.
async fn subscribe(server: &Server, url: &str, more: Value) -> String {
    let mut body = json!({"callbackUrl": url, "minIntervalSeconds": 0});
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let made = ok(server, "/workers/subscriptions", body).await;
    made["subscriptionId"].as_str().expect("an id").replace('-', "")
}

/// Fills the empty queue, waits until somebody hears of it, and empties it.
async fn fill(server: &Server, receiver: &Receiver, command: &str) -> String {
    let before = receiver.all().len();
    let made = ok(server, "/tasks", json!({"command": command, "payload": 1})).await;
    let heard = receiver.count(before + 1).await.remove(before).path;
    let id = made["id"].as_str().expect("an id");
    ok(server, "/tasks/claim", json!({"commands": [command]})).await;
    ok(server, &format!("/tasks/{id}/result"), json!({"status": "COMPLETED", "result": {}})).await;
    heard
}

#[tokio::test]
async fn a_group_takes_turns_whichever_replica_notifies() {
    let redis = Redis::start().await;
    let (one, two, receiver) = (redis.replica(), redis.replica(), Receiver::ok().await);
    for name in ["/a", "/b", "/c"] {
        let group = json!({"eventTypes": ["Render:Hd"], "deliveryMode": "group", "groupId": "g"});
        subscribe(&one, &receiver.at(name), group).await;
    }
    let mut turns = Vec::new();
    for server in [&one, &two, &two, &one, &one, &two] {
        turns.push(fill(server, &receiver, "render:hd").await);
    }
    assert_eq!(turns, ["/a", "/b", "/c", "/a", "/b", "/c"]);
    assert_eq!(redis.ask(&["GET", "codeq:subs:rr:render%3ahd:dev-tenant:g"]), ["6"]);
}

#[tokio::test]
async fn a_subscriber_is_left_alone_by_every_replica_for_its_interval() {
    let redis = Redis::start().await;
    let (one, two, receiver) = (redis.replica(), redis.replica(), Receiver::ok().await);
    let work = json!({"eventTypes": ["work"]});
    subscribe(&one, &receiver.at("/eager"), work.clone()).await;
    let quiet = json!({"eventTypes": ["work"], "minIntervalSeconds": 2});
    let id = subscribe(&two, &receiver.at("/quiet"), quiet).await;
    let is_quiet = |path: &str| path == "/quiet";
    fill(&one, &receiver, "work").await;
    receiver.until(|all| all.iter().any(|message| is_quiet(&message.path))).await;
    let last = format!("codeq:subs:last:{id}");
    assert!((1..=2000).contains(&redis.number(&["PTTL", &last])), "it rests for its interval");
    assert_eq!(redis.ask(&["GET", &last]), ["1"]);
    let started = Instant::now();
    for server in [&two, &one].into_iter().cycle() {
        fill(server, &receiver, "work").await;
        if receiver.all().iter().filter(|message| is_quiet(&message.path)).count() > 1 {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "the rest ends");
    }
    let told: Vec<_> = receiver.all().into_iter().filter(|message| is_quiet(&message.path)).collect();
    assert!(told[1].at - told[0].at > Duration::from_millis(1900), "{:?}", told[1].at - told[0].at);
    assert!(receiver.all().len() > 4, "the other one heard of it meanwhile, from both replicas");
}
