//! The alerts and the dashboard speak of what is there, in Prometheus' own judgement.

use crate::harness::Server;
use crate::webhooks::receiver::Receiver;
use crate::webhooks::{claim, create, report, server};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Metrics that operators are promised.
const PROMISED: [&str; 24] = [
    "codeq_task_created_total",
    "codeq_task_claimed_total",
    "codeq_task_completed_total",
    "codeq_task_processing_latency_seconds",
    "codeq_lease_expired_total",
    "codeq_task_dead_lettered_total",
    "codeq_webhook_deliveries_total",
    "codeq_webhook_outbox",
    "codeq_rate_limit_hits_total",
    "codeq_queue_depth",
    "codeq_dlq_depth",
    "codeq_failed_depth",
    "codeq_queue_limited",
    "codeq_queue_paused",
    "codeq_subscriptions_active",
    "codeq_queue_oldest_age_seconds",
    "codeq_claim_wait_seconds",
    "codeq_claims_waiting",
    "codeq_store_sync_seconds",
    "codeq_store_group_size",
    "codeq_http_request_seconds",
    "codeq_grpc_streams",
    "codeq_build_info",
    "process_resident_memory_bytes",
];

/// Only a store on several servers has these.
const OVER_KVROCKS: [&str; 2] = ["codeq_store_up", "codeq_store_replicas"];

fn deployed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

/// Something of everything that is counted.
async fn busy() -> Server {
    let receiver = Receiver::ok().await;
    let server = server(json!({"rateLimit": {"admin": {"requestsPerMinute": 1, "burstSize": 1}}}));
    let subscription = json!({"callbackUrl": receiver.url, "eventTypes": ["c"], "ttlSeconds": 60});
    server.post("/v1/codeq/workers/subscriptions", "worker", subscription).await;
    let policy = json!({"rate": {"limit": 1000, "periodSeconds": 1, "burst": 1000}});
    let path = "/v1/codeq/admin/queues/c/policy";
    let body = Some(policy.to_string().into_bytes());
    let put = server.send(reqwest::Method::PUT, path, Some(crate::harness::DEV_TOKEN), body).await;
    assert_eq!(put.status, 200, "{}", put.text);
    let id = create(&server, json!({"command": "c", "payload": 1, "webhook": receiver.url})).await;
    claim(&server, "c").await;
    report(&server, &id, "result", json!({"status": "COMPLETED", "result": {}})).await;
    create(&server, json!({"command": "c", "payload": 1, "maxAttempts": 1})).await;
    let body = json!({"commands": ["c"], "leaseSeconds": 1});
    server.post("/v1/codeq/tasks/claim", "worker", body).await;
    for _ in 0..2 {
        server.post("/v1/codeq/admin/tasks/cleanup", crate::harness::DEV_TOKEN, json!({})).await;
    }
    server.until_said("task dead-lettered").await;
    receiver.count(2).await;
    server
        .until_metric(
            "codeq_webhook_deliveries_total{command=\"c\",kind=\"task_result\",outcome=\"success\"} 1",
        )
        .await;
    server
}

/// Names of metrics in a text, without the endings that histograms add.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words =
        text.split(|c| !is_part(c)).filter(|word| word.starts_with("codeq_") || word.starts_with("process_"));
    let plain = |word: &str| {
        let ending = ["_bucket", "_sum", "_count"].iter().find_map(|ending| word.strip_suffix(ending));
        ending.unwrap_or(word).to_owned()
    };
    words.map(plain).collect()
}

fn promtool(arguments: &[&str], input: &str) {
    let mut command = Command::new("promtool");
    let command = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("promtool is there: scripts/test.sh installs it");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "promtool {arguments:?}: {said}");
}

#[tokio::test]
async fn dashboard_and_alerts_use_what_is_there_and_all_that_is_promised_is_there() {
    let server = busy().await;
    let page = server.get("/metrics", "").await.text;
    promtool(&["check", "metrics"], &page);
    let live: BTreeSet<String> = page
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(|line| names(line.split(['{', ' ']).next().unwrap_or_default()))
        .collect();
    for name in PROMISED {
        assert!(live.contains(name), "{name} is not in\n{page}");
    }
    let mut used = BTreeSet::new();
    for file in ["prometheus/alerts.yaml", "grafana/codeq.json"] {
        let text = std::fs::read_to_string(deployed(file)).expect("a file of ours");
        used.extend(names(&text));
    }
    let is_known = |name: &&String| live.contains(*name) || OVER_KVROCKS.contains(&name.as_str());
    let unknown: Vec<&String> = used.iter().filter(|name| !is_known(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?} are not in\n{page}");
    let unseen: Vec<&String> =
        live.iter().filter(|name| name.starts_with("codeq_") && !used.contains(*name)).collect();
    assert!(unseen.is_empty(), "{unseen:?} are neither in the dashboard nor in an alert");
    let docs = std::fs::read_to_string(deployed("../docs/operating/observability.md")).expect("the page");
    let is_told = |name: &&String| !name.starts_with("codeq_") || docs.contains(&format!("| `{name}` |"));
    let untold: Vec<&String> = live.iter().filter(|name| !is_told(name)).collect();
    assert!(untold.is_empty(), "{untold:?} are not explained in docs/operating/observability.md");
}

#[test]
fn rules_are_sound_and_fire_when_they_should() {
    let path = |name: &str| deployed(name).to_str().expect("a plain name").to_owned();
    promtool(&["check", "rules", &path("prometheus/alerts.yaml")], "");
    promtool(&["check", "config", &path("prometheus/prometheus.yaml")], "");
    promtool(&["test", "rules", &path("prometheus/alerts.test.yaml")], "");
}

/// What the dashboard calls a problem is what the alerts call one.
#[test]
fn the_dashboard_judges_queues_by_the_rules_of_the_alerts() {
    let alerts = std::fs::read_to_string(deployed("prometheus/alerts.yaml")).expect("a file of ours");
    let rules = std::fs::read_to_string(deployed("../dashboard/views/attention.js")).expect("a file of ours");
    let mut compared = 0;
    for (alert, numbers) in rules.lines().filter_map(|line| line.strip_prefix("  Codeq")?.split_once(": {")) {
        let rule = alerts.split("- alert: ").find(|rule| rule.starts_with(&format!("Codeq{alert}\n")));
        let expr = rule.unwrap_or_else(|| panic!("there is no alert Codeq{alert}"));
        let expr = expr.split("for:").next().expect("the expression comes first");
        let mut words = expr.split([' ', '\n']);
        for number in numbers.trim_end_matches("},").split(',').filter_map(|pair| pair.split_once(": ")) {
            let number = number.1.trim();
            assert!(words.any(|word| word == number), "Codeq{alert}: {number} is not in {expr}");
            compared += 1;
        }
    }
    assert!(compared >= 6, "{compared} numbers were compared");
}

/// The page that explains the metrics, spans and alerts leaves none out.
#[test]
fn everything_is_explained() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating/observability.md");
    let docs = std::fs::read_to_string(docs).expect("the page");
    for name in PROMISED.iter().filter(|name| name.starts_with("codeq_")) {
        assert!(docs.contains(&format!("`{name}`")), "{name} is not explained");
    }
    let alerts = std::fs::read_to_string(deployed("prometheus/alerts.yaml")).expect("a file of ours");
    for alert in alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(docs.contains(alert), "{alert} is not explained");
    }
}
