//! Schedules, which this store does not keep yet.

use super::Redis;
use crate::harness::DEV_TOKEN;
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn schedules_are_refused_in_words() {
    let redis = Redis::start().await;
    let server = redis.replica();
    let schedule = json!({"cron": "@daily", "task": {"command": "c", "payload": 1}}).to_string();
    for (method, path, body) in [
        (Method::PUT, "/v1/codeq/schedules/n", Some(schedule.into_bytes())),
        (Method::GET, "/v1/codeq/schedules/n", None),
        (Method::GET, "/v1/codeq/schedules", None),
        (Method::DELETE, "/v1/codeq/schedules/n", None),
        (Method::POST, "/v1/codeq/schedules/n/trigger", None),
    ] {
        let got = server.send(method, path, Some(DEV_TOKEN), body).await;
        assert_eq!((got.status, &got.json["code"]), (501, &json!("not_supported")), "{path}: {}", got.text);
        assert_eq!(got.json["error"], "schedules are not supported by this store", "{path}");
    }
}
