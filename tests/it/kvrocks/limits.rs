//! Rate limits that replicas share: together they allow what one allows.

use super::Redis;
use crate::harness::{DEV_TOKEN, Server};
use crate::webhooks::receiver::Receiver;
use serde_json::{Value, json};
use std::time::Duration;

/// The SHA-256 of the token.
const DEV_BUCKET: &str = "codeq:rl:producer:c91cbbedf8c712e8e2b7517ddeca8fe4fde839ebd8339e0b2001363002b37712";

fn limited(scope: &str, per_minute: u32, burst: u32) -> Value {
    json!({"rateLimit": {scope: {"requestsPerMinute": per_minute, "burstSize": burst}}})
}

async fn create(server: &Server) -> u16 {
    server.post("/v1/codeq/tasks", DEV_TOKEN, json!({"command": "c", "payload": 1})).await.status
}

async fn six(server: &Server) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..6 {
        statuses.push(create(server).await);
    }
    statuses
}

#[tokio::test]
async fn two_replicas_together_allow_what_one_allows() {
    let redis = Redis::start().await;
    let [one, two] = [(); 2].map(|()| redis.replica_with(limited("producer", 1, 5)));
    let (mut statuses, others) = tokio::join!(six(&one), six(&two));
    statuses.extend(others);
    assert_eq!(statuses.iter().filter(|status| **status == 202).count(), 5, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 7, "{statuses:?}");
    for server in [&one, &two] {
        let body = json!({"command": "c", "payload": 1});
        let refused = server.post("/v1/codeq/tasks", DEV_TOKEN, body).await;
        let seconds = refused.json["retryAfterSeconds"].as_u64().expect("whole seconds");
        assert!((30..=60).contains(&seconds), "one a minute: {seconds}");
        assert_eq!((refused.status, refused.header("retry-after")), (429, seconds.to_string().as_str()));
    }
    assert_eq!(redis.ask(&["KEYS", "codeq:rl:*"]), [DEV_BUCKET]);
    let mut fields = redis.ask(&["HKEYS", DEV_BUCKET]);
    fields.sort();
    assert_eq!(fields, ["tokens", "ts"]);
    let life = redis.number(&["PTTL", DEV_BUCKET]);
    assert!((240_000..=300_000).contains(&life), "five minutes fill it: {life} ms");
    let claimed = one.post("/v1/codeq/tasks/claim/batch", DEV_TOKEN, json!({"count": 9})).await;
    assert_eq!(claimed.json["tasks"].as_array().map(Vec::len), Some(5), "what was refused was not done");
}

#[tokio::test]
async fn a_limiter_that_cannot_ask_allows_and_says_so() {
    let mut redis = Redis::start().await;
    let server = redis.replica_with(limited("producer", 1, 1));
    assert_eq!([create(&server).await, create(&server).await], [202, 429]);
    redis.child.kill().expect("it runs");
    redis.child.wait().expect("it was ours");
    assert_eq!(create(&server).await, 503, "the store is away; the limit does not refuse");
    let line = server.until_said("rate limit check failed").await;
    assert_eq!((&line["scope"], &line["op"]), (&json!("producer"), &json!("create_task")));
    assert!(line["err"].as_str().is_some_and(|text| !text.is_empty()), "{line}");
}

#[tokio::test]
async fn callbacks_of_all_replicas_keep_to_the_limit_of_their_address() {
    let redis = Redis::start().await;
    let [one, two] = [(); 2].map(|()| redis.replica_with(limited("webhook", 60, 2)));
    let receiver = Receiver::ok().await;
    for n in 0..4 {
        let server = if n % 2 == 0 { &one } else { &two };
        let task = json!({"command": format!("c{n}"), "payload": 1, "webhook": receiver.url});
        let id = super::ok(server, "/tasks", task).await["id"].as_str().expect("an id").to_owned();
        super::ok(server, "/tasks/claim", json!({"commands": [format!("c{n}")]})).await;
        super::ok(server, &format!("/tasks/{id}/result"), json!({"status": "COMPLETED", "result": {}})).await;
    }
    let all = receiver.count(4).await;
    let took = all[3].at - all[0].at;
    assert!(took > Duration::from_millis(1500), "two at once and then one a second: {took:?}");
    assert_eq!(redis.ask(&["KEYS", "codeq:rl:webhook:*"]).len(), 1);
}
