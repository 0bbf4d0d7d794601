//! A collector that is away disturbs nobody.

use super::collector::Collector;
use super::tracing;
use crate::webhooks::{claim, create, report, server};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Runs tasks through a server with these settings, whose spans cannot arrive, and ends it.
async fn work(settings: Value) {
    let mut server = server(settings);
    let started = Instant::now();
    for _ in 0..50 {
        let id = create(&server, json!({"command": "c", "payload": 1})).await;
        claim(&server, "c").await;
        report(&server, &id, "result", json!({"status": "COMPLETED", "result": {}})).await;
    }
    assert!(started.elapsed() < Duration::from_secs(15), "nobody waits for the collector");
    let line = server.until_said("trace export failed").await;
    assert_eq!((&line["level"], line["spans"].is_number()), (&json!("warn"), true), "{line}");
    let ending = Instant::now();
    assert!(server.terminate().success());
    assert!(
        ending.elapsed() < Duration::from_secs(12),
        "the end waits a little for the collector, not for long"
    );
}

#[tokio::test]
async fn a_collector_that_refuses_disturbs_nobody() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    drop(listener);
    work(tracing(&address)).await;
}

#[tokio::test]
async fn a_collector_that_says_nothing_disturbs_nobody() {
    // The kernel accepts; nobody ever reads.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    work(tracing(&listener.local_addr().expect("bound").to_string())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_without_tls_gets_nothing_where_tls_is_asked_for() {
    let collector = Collector::start().await;
    let mut settings = tracing(&collector.address);
    settings["tracingOtlpInsecure"] = json!(false);
    work(settings).await;
    assert!(collector.all().is_empty());
}
