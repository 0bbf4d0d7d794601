//! The page that is scraped.

use crate::harness::DEV_TOKEN;
use crate::webhooks::{claim, create, report, server};
use serde_json::json;
use std::time::{Duration, Instant};

/// The value of a series on the page.
fn value(page: &str, series: &str) -> f64 {
    let line =
        page.lines().find(|line| line.starts_with(series)).unwrap_or_else(|| panic!("{series} in\n{page}"));
    line.rsplit_once(' ').and_then(|(_, value)| value.parse().ok()).expect("a number")
}

#[tokio::test]
async fn waits_syncs_requests_and_the_build_are_measured() {
    let server = server(json!({}));
    let id = create(&server, json!({"command": "c", "payload": 1})).await;
    tokio::time::sleep(Duration::from_millis(60)).await;
    let page = server.get("/metrics", "").await.text;
    assert!(value(&page, "codeq_queue_oldest_age_seconds{command=\"c\"}") >= 0.05);
    claim(&server, "c").await;
    report(&server, &id, "result", json!({"status": "COMPLETED", "result": {}})).await;
    server.until_metric("codeq_claim_wait_seconds_count 1").await;
    let page = server.get("/metrics", "").await.text;
    assert!(value(&page, "codeq_claim_wait_seconds_sum") >= 0.05);
    assert_eq!(value(&page, "codeq_queue_oldest_age_seconds{command=\"c\"}"), 0.0);
    assert!(value(&page, "codeq_store_sync_seconds_count") >= 3.0);
    assert!(value(&page, "codeq_store_group_size_sum") >= 3.0);
    let created = "codeq_http_request_seconds_count{route=\"/v1/codeq/tasks\",status=\"202\"}";
    assert_eq!(value(&page, created), 1.0);
    assert_eq!(
        value(
            &page,
            "codeq_http_request_seconds_count{route=\"/v1/codeq/tasks/{id}/result\",status=\"200\"}"
        ),
        1.0
    );
    let version = env!("CARGO_PKG_VERSION");
    assert!(page.contains(&format!("version=\"{version}\"}} 1")), "{page}");
}

/// More commands than there may be series, and every one of them asked for at once.
#[tokio::test]
async fn a_thousand_commands_are_shown_quickly_and_no_more_than_that() {
    let server = server(json!({}));
    for hundred in 0..12 {
        let tasks: Vec<_> =
            (0..100).map(|one| json!({"command": format!("c{hundred}-{one}"), "payload": 1})).collect();
        let made = server.post("/v1/codeq/tasks/batch", DEV_TOKEN, json!({"tasks": tasks})).await;
        assert_eq!(made.status, 200, "{}", made.text);
    }
    server.until_metric("codeq_task_created_total{command=\"_other\"} 200").await;
    let mut fastest = Duration::MAX;
    for _ in 0..5 {
        let started = Instant::now();
        let page = server.get("/metrics", "").await.text;
        fastest = fastest.min(started.elapsed());
        let count = |name: &str| page.lines().filter(|line| line.starts_with(name)).count();
        assert_eq!(count("codeq_task_created_total{"), 1001);
        assert_eq!(count("codeq_queue_oldest_age_seconds{"), 1001);
        assert_eq!(count("codeq_queue_depth{"), 4004);
    }
    // The best of a few: a busy machine must not fail this.
    assert!(fastest < Duration::from_millis(100), "{fastest:?}");
}

/// A subscription can name anything, and everything that was named had a series of its own: one page had 585 MB.
#[tokio::test]
async fn what_subscriptions_name_makes_no_series() {
    let server = server(json!({}));
    create(&server, json!({"command": "seen", "payload": 1})).await;
    let mut types: Vec<String> = (0..50).map(|number| format!("never-{number}")).collect();
    types.extend(["seen".to_owned(), "*".to_owned()]);
    let body = json!({"callbackUrl": "http://127.0.0.1:1/", "eventTypes": types});
    let subscribed = server.post("/v1/codeq/workers/subscriptions", "worker", body).await;
    assert_eq!(subscribed.status, 200, "{}", subscribed.text);
    server.until_metric("codeq_subscriptions_active{command=\"_other\"} 50").await;
    let page = server.get("/metrics", "").await.text;
    assert_eq!(value(&page, "codeq_subscriptions_active{command=\"seen\"}"), 1.0);
    assert!(!page.contains("never-"));
}
