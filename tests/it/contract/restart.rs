//! What is acknowledged is still there after a restart: semantics §10.

use super::{ahead, call, claim, create, get, id, post, post_text, running, task};
use crate::harness::{DEV_TOKEN, Server};
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn everything_is_there_again_after_a_good_end_and_after_a_bad_one() {
    let mut server = Server::dev();
    let policy = json!({"priorityTiers": [1], "maxAttempts": 1, "deadLetterTopicRef": "d"}).to_string();
    call(&server, Method::PUT, "/admin/topics/orders", DEV_TOKEN, Some(&policy)).await;
    let text = r#"{"command":"exact","payload":{ "n" : 9007199254740993, "s":"\u00e9" },"headers":{"b":"1","a":"2"}}"#;
    let exact = post_text(&server, "/tasks", text).await.json;
    let subscribed = post(&server, "/workers/subscriptions", json!({"callbackUrl": "http://h/"})).await.json;
    let done = running(&server, "done", json!({})).await;
    let result =
        json!({"status": "COMPLETED", "result": {"n": 1}, "artifacts": [{"name": "a", "url": "http://h/"}]});
    post(&server, &format!("/tasks/{done}/result"), result).await;
    let dead = running(&server, "dead", json!({"maxAttempts": 1})).await;
    post(&server, &format!("/tasks/{dead}/nack"), json!({"reason": "boom"})).await;
    let lent = running(&server, "lent", json!({})).await;
    let returned = running(&server, "returned", json!({"maxAttempts": 2})).await;
    post(&server, &format!("/tasks/{returned}/abandon"), json!({"refund": true})).await;
    let delayed = id(&create(&server, json!({"command": "later", "payload": 1, "runAt": ahead(3600)})).await);
    let mut order = Vec::new();
    for (n, priority) in [(0, 0), (1, 5), (2, 0), (3, 5)] {
        let body =
            json!({"command": "order", "payload": n, "priority": priority, "idempotencyKey": n.to_string()});
        order.push(id(&create(&server, body).await));
    }

    let mut reads = vec!["/admin/queues".to_owned(), "/admin/topics/orders".to_owned()];
    reads.extend([&done, &dead].map(|id| format!("/tasks/{id}/result")));
    let tasks = [&id(&exact), &done, &dead, &lent, &returned, &delayed].map(|id| format!("/tasks/{id}"));
    reads.extend(tasks);
    reads.extend(order.iter().map(|id| format!("/tasks/{id}")));
    let mut before = Vec::new();
    for path in &reads {
        before.push(get(&server, path).await.text);
    }
    for is_good in [true, false] {
        match is_good {
            true => assert_eq!(server.terminate().code(), Some(0)),
            false => server.kill(),
        }
        server.start_again();
        for (path, before) in reads.iter().zip(&before) {
            assert_eq!(get(&server, path).await.text, *before, "{path}");
        }
    }

    let path =
        format!("/workers/subscriptions/{}/heartbeat", subscribed["subscriptionId"].as_str().expect("an id"));
    assert_eq!(post(&server, &path, json!({})).await.status, 200);
    let again = json!({"command": "order", "payload": 9, "idempotencyKey": "0"});
    let replay = post(&server, "/tasks", again).await;
    assert_eq!((replay.header("idempotent-replayed"), id(&replay.json)), ("true", order[0].clone()));
    for expected in [1, 3, 0, 2] {
        assert_eq!(id(&claim(&server, json!({"commands": ["order"]})).await), order[expected]);
    }
    let beat = post(&server, &format!("/tasks/{lent}/heartbeat"), json!({"attempt": 1})).await;
    assert_eq!(beat.status, 200, "still its owner: {}", beat.text);
    assert_eq!(claim(&server, json!({"commands": ["returned"]})).await["attempts"], 2);
    assert_eq!(task(&server, &id(&exact)).await, exact);
}
