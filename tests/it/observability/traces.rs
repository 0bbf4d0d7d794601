//! One task is one trace, from the request that made it to the callback.

use super::collector::{Collector, Span, only};
use super::tracing;
use crate::harness::{DEV_TOKEN, Server, answer};
use crate::webhooks::receiver::Receiver;
use crate::webhooks::{claim, create, report, server};
use serde_json::{Value, json};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// Creates a task as part of a caller's trace.
async fn create_within(server: &Server, flags: &str, task: Value) -> Value {
    let request = server
        .request(reqwest::Method::POST, "/v1/codeq/tasks")
        .bearer_auth(DEV_TOKEN)
        .header("traceparent", format!("00-{TRACE}-{CALLER}-{flags}"))
        .header("tracestate", "vendor=opaque")
        .header("baggage", "user=7,plan=gold")
        .header("idempotency-key", "SECRET-key")
        .body(task.to_string());
    let created = answer(request).await;
    assert_eq!(created.status, 202, "{}", created.text);
    created.json
}

fn attribute<'a>(span: &'a Span, name: &str) -> &'a Value {
    span.attributes.get(name).unwrap_or_else(|| panic!("{name} in {span:#?}"))
}

fn names(span: &Span) -> Vec<&str> {
    span.attributes.keys().map(String::as_str).collect()
}

#[tokio::test]
async fn create_claim_submit_and_callback_are_one_trace() {
    let (collector, receiver) = (Collector::start().await, Receiver::ok().await);
    let server = server(tracing(&collector.address));
    let task = json!({"command": "Render", "priority": 3, "payload": {"x": "SECRET"}, "webhook": receiver.at("/SECRET?t=SECRET"), "headers": {"h": "SECRET"}});
    let task = create_within(&server, "01", task).await;
    let id = task["id"].as_str().expect("an id");
    assert_eq!(claim(&server, "render").await["id"], id);
    report(&server, id, "heartbeat", json!({"extendSeconds": 60})).await;
    report(&server, id, "result", json!({"status": "COMPLETED", "result": {"r": "SECRET"}})).await;
    let sent = receiver.count(1).await;
    let spans = collector.until(&["codeq.task.submit_result", "codeq.webhook.task_result"]).await;

    let of_caller: Vec<Span> = spans.iter().filter(|span| span.trace == TRACE).cloned().collect();
    let request = only(&of_caller, "HTTP POST /v1/codeq/tasks");
    let created = only(&of_caller, "codeq.task.create");
    assert_eq!((&*request.parent, &*request.tracer, &*request.service), (CALLER, "shop/http", "shop"));
    assert_eq!((&*request.state, request.is_error), ("vendor=opaque", false));
    assert_eq!((&*created.parent, &*created.tracer), (&*request.id, "codeq/scheduler"));
    assert_eq!(task["traceParent"], format!("00-{TRACE}-{}-01", created.id));
    assert_eq!(task["traceState"], "vendor=opaque");
    let later = [
        ("codeq.task.claim", "codeq/repository"),
        ("codeq.task.heartbeat", "codeq/repository"),
        ("codeq.task.submit_result", "codeq/results"),
        ("codeq.webhook.task_result", "codeq/result_callback"),
    ];
    for (name, tracer) in later {
        let span = only(&of_caller, name);
        assert_eq!((&*span.parent, &*span.tracer), (&*created.id, tracer), "{name}");
        assert!(span.started <= span.ended && !span.is_error, "{span:#?}");
    }
    let callback = only(&of_caller, "codeq.webhook.task_result");
    assert_eq!(sent[0].headers["traceparent"], format!("00-{TRACE}-{}-01", callback.id));
    assert_eq!(sent[0].headers["tracestate"], "vendor=opaque");
    assert_eq!(sent[0].headers["baggage"], "user=7,plan=gold");
    check_attributes(&of_caller, id, &receiver);
    let leak = spans.iter().find(|span| format!("{span:?}").contains("SECRET"));
    assert!(leak.is_none(), "{leak:#?}");
}

fn check_attributes(spans: &[Span], id: &str, receiver: &Receiver) {
    let request = only(spans, "HTTP POST /v1/codeq/tasks");
    assert_eq!(names(request), ["http.host", "http.method", "http.path", "http.route", "http.status_code"]);
    assert_eq!(attribute(request, "http.route"), "/v1/codeq/tasks");
    assert_eq!(attribute(request, "http.status_code"), 202);
    let created = only(spans, "codeq.task.create");
    let expected = [
        ("codeq.command", json!("Render")),
        ("codeq.has_idempotency_key", json!(true)),
        ("codeq.has_webhook", json!(true)),
        ("codeq.priority", json!(3)),
        ("codeq.task_id", json!(id)),
        ("codeq.tenant_id", json!("acme")),
    ];
    assert!(created.attributes.iter().map(|(k, v)| (k.as_str(), v.clone())).eq(expected), "{created:#?}");
    let own = [
        ("codeq.task.claim", "codeq.lease_seconds", json!(30)),
        ("codeq.task.heartbeat", "codeq.extend_seconds", json!(60)),
        ("codeq.task.submit_result", "codeq.submit.status", json!("COMPLETED")),
    ];
    for (name, key, value) in own {
        let span = only(spans, name);
        assert_eq!(span.attributes.len(), 5, "{span:#?}");
        assert_eq!(*attribute(span, key), value);
        assert_eq!(
            (attribute(span, "codeq.task_id"), attribute(span, "codeq.command")),
            (&json!(id), &json!("Render"))
        );
        assert_eq!(attribute(span, "codeq.tenant_id"), "acme");
        assert!(!attribute(span, "codeq.worker_id").as_str().expect("a text").is_empty());
    }
    let callback = only(spans, "codeq.webhook.task_result");
    let host = receiver.url.trim_start_matches("http://").trim_end_matches("/hook");
    assert_eq!(attribute(callback, "codeq.webhook.host"), host);
    assert_eq!((attribute(callback, "codeq.webhook.attempt"), callback.attributes.len()), (&json!(1), 4));
    assert_eq!(attribute(callback, "codeq.webhook.kind"), "task_result");
}

#[tokio::test]
async fn every_attempt_of_a_callback_and_every_way_back_has_a_span() {
    let collector = Collector::start().await;
    let receiver = Receiver::start(|_, before| if before.is_empty() { 500 } else { 204 }).await;
    let server = server(tracing(&collector.address));
    let task = json!({"command": "work", "payload": 1, "webhook": receiver.url});
    let id = create(&server, task).await;
    claim(&server, "work").await;
    report(&server, &id, "nack", json!({"delaySeconds": 1, "reason": "busy"})).await;
    claim(&server, "work").await;
    report(&server, &id, "abandon", json!({})).await;
    claim(&server, "work").await;
    report(&server, &id, "result", json!({"status": "FAILED", "error": "no"})).await;
    receiver.count(2).await;
    let attempts = |all: &[Span]| all.iter().filter(|span| span.name == "codeq.webhook.task_result").count();
    let spans = collector.wait(|all| attempts(all) == 2).await;
    let nack = only(&spans, "codeq.task.nack");
    assert_eq!(
        (attribute(nack, "codeq.delay_seconds"), attribute(nack, "codeq.reason")),
        (&json!(1), &json!("busy"))
    );
    only(&spans, "codeq.task.abandon");
    let mut attempts: Vec<&Span> =
        spans.iter().filter(|span| span.name == "codeq.webhook.task_result").collect();
    attempts.sort_by_key(|span| span.started);
    let numbers: Vec<&Value> = attempts.iter().map(|span| attribute(span, "codeq.webhook.attempt")).collect();
    assert_eq!(numbers, [&json!(1), &json!(2)]);
    assert_eq!(attempts.iter().map(|span| span.is_error).collect::<Vec<_>>(), [true, false]);
    let created = only(&spans, "codeq.task.create");
    let of_task = |span: &&Span| span.name.starts_with("codeq.") && span.name != "codeq.task.create";
    assert!(
        spans.iter().filter(of_task).all(|span| span.parent == created.id && span.trace == created.trace)
    );
}

/// After a restart nothing is remembered: reports and callbacks find their trace through the task.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_keeps_its_trace_across_a_restart() {
    let (collector, receiver) = (Collector::start().await, Receiver::ok().await);
    let mut server = server(tracing(&collector.address));
    let task =
        create_within(&server, "01", json!({"command": "c", "payload": 1, "webhook": receiver.url})).await;
    let id = task["id"].as_str().expect("an id");
    claim(&server, "c").await;
    assert!(server.terminate().success());
    assert!(collector.all().iter().any(|span| span.name == "codeq.task.claim"), "flushed at the end");
    server.start_again();
    report(&server, id, "result", json!({"status": "COMPLETED", "result": {}})).await;
    let spans = collector.until(&["codeq.task.submit_result", "codeq.webhook.task_result"]).await;
    let created = only(&spans, "codeq.task.create");
    for name in ["codeq.task.submit_result", "codeq.webhook.task_result"] {
        let span = only(&spans, name);
        assert_eq!((&*span.trace, &*span.parent), (TRACE, &*created.id), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_does_not_sample_is_respected() {
    let (collector, receiver) = (Collector::start().await, Receiver::ok().await);
    let mut server = server(tracing(&collector.address));
    let task =
        create_within(&server, "00", json!({"command": "c", "payload": 1, "webhook": receiver.url})).await;
    let id = task["id"].as_str().expect("an id");
    let context = task["traceParent"].as_str().expect("a context");
    assert!(context.starts_with(&format!("00-{TRACE}-")) && context.ends_with("-00"), "{context}");
    claim(&server, "c").await;
    report(&server, id, "result", json!({"status": "COMPLETED", "result": {}})).await;
    let sent = receiver.count(1).await;
    assert!(sent[0].headers["traceparent"].ends_with("-00"), "{:?}", sent[0].headers);
    assert!(server.terminate().success());
    let spans = collector.all();
    assert!(!spans.is_empty(), "requests without a caller's trace are kept");
    let kept: Vec<&Span> =
        spans.iter().filter(|span| span.trace == TRACE || span.name.starts_with("codeq.")).collect();
    assert!(kept.is_empty(), "{kept:#?}");
}

#[tokio::test]
async fn notifications_have_spans_of_their_own() {
    let (collector, receiver) = (Collector::start().await, Receiver::ok().await);
    let server = server(tracing(&collector.address));
    let subscription = json!({"callbackUrl": receiver.url, "eventTypes": ["work"], "ttlSeconds": 60});
    let made = server.post("/v1/codeq/workers/subscriptions", "worker", subscription).await;
    create(&server, json!({"command": "work", "payload": 1})).await;
    receiver.count(1).await;
    let spans = collector.until(&["codeq.webhook.queue_ready"]).await;
    let told = only(&spans, "codeq.webhook.queue_ready");
    assert_eq!((&*told.tracer, &*told.parent), ("codeq/notifier", ""));
    let keys = ["codeq.command", "codeq.subscription.id", "codeq.webhook.host", "codeq.webhook.kind"];
    assert_eq!(names(told), keys);
    assert_eq!(*attribute(told, "codeq.subscription.id"), made.json["subscriptionId"], "{}", made.text);
}

/// The provider of keys is away: the request fails through no fault of the caller.
#[tokio::test]
async fn faults_of_the_server_are_errors_and_those_of_callers_are_not() {
    let collector = Collector::start().await;
    let mut config = tracing(&collector.address);
    let keys = json!({"jwksUrl": "http://127.0.0.1:9/", "issuer": "i", "audience": "a"});
    config["workerAuthProvider"] = json!("jwks");
    config["workerAuthConfig"] = keys;
    let server = server(config);
    let token = "eyJhbGciOiJSUzI1NiIsImtpZCI6ImsifQ.eyJpc3MiOiJpIiwiYXVkIjoiYSIsInN1YiI6InMiLCJleHAiOjk5OTk5OTk5OTl9.AAAA";
    assert_eq!(server.post("/v1/codeq/tasks/claim", token, json!({})).await.status, 503);
    assert_eq!(server.post("/v1/codeq/tasks", "wrong", json!({})).await.status, 401);
    let (failed, refused) = ("HTTP POST /v1/codeq/tasks/claim", "HTTP POST /v1/codeq/tasks");
    let spans = collector.until(&[failed, refused]).await;
    let (failed, refused) = (only(&spans, failed), only(&spans, refused));
    assert_eq!((failed.is_error, attribute(failed, "http.status_code")), (true, &json!(503)));
    assert_eq!((refused.is_error, attribute(refused, "http.status_code")), (false, &json!(401)));
}

#[tokio::test]
async fn without_tracing_tasks_have_no_context_and_webhooks_no_header() {
    let receiver = Receiver::ok().await;
    let server = server(json!({}));
    let task =
        create_within(&server, "01", json!({"command": "c", "payload": 1, "webhook": receiver.url})).await;
    assert!(task.get("traceParent").is_none() && task.get("traceState").is_none(), "{task}");
    claim(&server, "c").await;
    report(
        &server,
        task["id"].as_str().expect("an id"),
        "result",
        json!({"status": "COMPLETED", "result": {}}),
    )
    .await;
    let sent = receiver.count(1).await;
    assert!(["traceparent", "tracestate", "baggage"].iter().all(|name| !sent[0].headers.contains_key(*name)));
}
