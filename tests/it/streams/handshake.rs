//! The first event, row by row, and the health service.

use super::issuing::Keys;
use super::talk::{FromProducerStream, Producer, ToProducerStream, ToWorkerStream, Worker, connect, create};
use super::{SCOPES, config, server, token};
use crate::harness::Server;
use codeq_api::grpc::producer::ProducerEvent;
use codeq_api::grpc::worker::WorkerEvent;
use serde_json::json;
use std::time::{Duration, Instant};
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

async fn refused_producer(server: &Server, token: &str) -> (Code, String) {
    let mut producer = Producer::open(&server.producer_streams).await;
    producer.hello(token).await;
    let status = producer.status().await;
    (status.code(), status.message().to_owned())
}

async fn refused_worker(server: &Server, token: &str, id: &str) -> (Code, String) {
    let mut worker = Worker::open(&server.worker_streams).await;
    worker.hello(token, id).await;
    let status = worker.status().await;
    (status.code(), status.message().to_owned())
}

fn no(code: Code, text: &str) -> (Code, String) {
    (code, text.to_owned())
}

#[tokio::test]
async fn a_token_is_needed_and_has_to_be_good() {
    let mut config = config();
    config["workerAuthConfig"] = json!({"providers": [
        token("no-events", "w", "acme", &SCOPES, &[]),
        token("no-scopes", "w", "acme", &[], &["*"]),
        token("bad-tenant", "w", "Not A Tenant", &SCOPES, &["*"]),
    ]});
    config["producerAuthProvider"] = "multi".into();
    config["producerAuthConfig"] = json!({"providers": [
        token("p", "producer", "acme", &[], &[]), token("bad-tenant", "p", "NO", &[], &[]),
    ]});
    let server = Server::serve(config);
    assert_eq!(refused_producer(&server, "").await, no(Code::Unauthenticated, "missing token"));
    assert_eq!(refused_worker(&server, " ", "").await, no(Code::Unauthenticated, "missing token"));
    let (code, text) = refused_producer(&server, "wrong").await;
    assert_eq!(code, Code::Unauthenticated);
    assert!(text.starts_with("auth failed: ") && text.contains("invalid token"), "{text}");
    let refused = refused_worker(&server, "no-events", "").await;
    assert_eq!(refused, no(Code::Unauthenticated, "auth failed: missing eventTypes"));
    let refused = refused_worker(&server, "no-scopes", "").await;
    assert_eq!(refused, no(Code::Unauthenticated, "auth failed: missing scope"));
    let bad_tenant = no(Code::PermissionDenied, "invalid tenant claims");
    assert_eq!(refused_worker(&server, "bad-tenant", "").await, bad_tenant);
    assert_eq!(refused_producer(&server, "bad-tenant").await, bad_tenant);
}

#[tokio::test]
async fn keys_that_cannot_be_had_are_an_outage_and_not_a_refusal() {
    let keys = Keys::unreachable().await;
    let mut config = config();
    config["producerAuthProvider"] = "jwks".into();
    config["producerAuthConfig"] = keys.provider();
    let server = Server::serve(config);
    let (code, text) = refused_producer(&server, &keys.token(60, json!({"sub": "p"}))).await;
    assert_eq!(code, Code::Unavailable, "{text}");
    assert!(text.starts_with("auth failed: "), "{text}");
}

#[tokio::test]
async fn the_first_event_is_a_hello() {
    let server = server();
    let hello_first = no(Code::FailedPrecondition, "first event must be Hello");
    for event in [Some(ToProducerStream::Create(create(1, "c"))), None] {
        let mut producer = Producer::open(&server.producer_streams).await;
        producer.send_event(ProducerEvent { event }).await;
        let status = producer.status().await;
        assert_eq!((status.code(), status.message().to_owned()), hello_first);
    }
    for event in [Some(ToWorkerStream::Ready(Default::default())), None] {
        let mut worker = Worker::open(&server.worker_streams).await;
        worker.send_event(WorkerEvent { event }).await;
        let status = worker.status().await;
        assert_eq!((status.code(), status.message().to_owned()), hello_first);
    }
}

#[tokio::test]
async fn strangers_cannot_send_much() {
    let server = server();
    let mut producer = Producer::open(&server.producer_streams).await;
    producer.hello(&"x".repeat(1 << 20)).await;
    assert_eq!(producer.status().await.code(), Code::FailedPrecondition);
}

#[tokio::test]
async fn a_stream_without_a_hello_ends_after_ten_seconds() {
    let server = server();
    let started = Instant::now();
    let mut producer = Producer::open(&server.producer_streams).await;
    let mut worker = Worker::open(&server.worker_streams).await;
    let (first, second) = tokio::join!(producer.status(), worker.status());
    assert_eq!((first.code(), second.code()), (Code::DeadlineExceeded, Code::DeadlineExceeded));
    assert!(started.elapsed() >= Duration::from_secs(9), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_second_hello_and_an_empty_event_are_told_and_the_stream_goes_on() {
    let server = server();
    let mut producer = Producer::of(&server).await;
    producer.hello("p").await;
    producer.send_event(ProducerEvent { event: None }).await;
    for (code, message) in
        [("FailedPrecondition", "already-authenticated"), ("InvalidArgument", "unknown-event")]
    {
        let FromProducerStream::Error(error) = producer.next().await else { panic!("no error") };
        assert_eq!((&*error.code, &*error.message), (code, message));
    }
    producer.create(create(1, "c")).await;

    let mut worker = Worker::of(&server, "w", "").await;
    worker.hello("w", "").await;
    worker.send_event(WorkerEvent { event: None }).await;
    assert_eq!(worker.error().await, ("FailedPrecondition".into(), "already-authenticated".into()));
    assert_eq!(worker.error().await, ("InvalidArgument".into(), "unknown-event".into()));
    worker.ready(&["c"], 1).await;
    assert_eq!(worker.task().await.command, "c");
}

#[tokio::test]
async fn a_worker_id_is_trimmed_bounded_and_defaults_to_the_subject() {
    let keys = Keys::served().await;
    let mut config = config();
    config["workerAuthProvider"] = "jwks".into();
    config["workerAuthConfig"] = keys.provider();
    let server = Server::serve(config);
    let rights = json!({"sub": "subject", "scope": "codeq:claim", "eventTypes": ["*"]});
    let named = keys.token(60, rights);
    for (given, told) in
        [("", "subject"), ("  ", "subject"), (" w-1 ", "w-1"), (&"x".repeat(255), &"x".repeat(255))]
    {
        let mut worker = Worker::open(&server.worker_streams).await;
        worker.hello(&named, given).await;
        let ack = worker.greeted().await;
        assert_eq!((&*ack.worker_id, &*ack.tenant_id), (told, "acme"));
    }
    assert_eq!(refused_worker(&server, &named, &"x".repeat(256)).await.0, Code::InvalidArgument);
    let nameless = keys.token(60, json!({"scope": "codeq:claim", "eventTypes": ["*"]}));
    let refused = refused_worker(&server, &nameless, " ").await;
    assert_eq!(refused, no(Code::InvalidArgument, "workerId is required"));
}

#[tokio::test]
async fn both_addresses_say_that_they_serve() {
    let server = server();
    let services = [
        (&server.worker_streams, "workerpb.WorkerStream"),
        (&server.producer_streams, "producerpb.ProducerStream"),
    ];
    for (address, service) in services {
        let mut health = HealthClient::new(connect(address).await);
        for name in ["", service] {
            let asked = HealthCheckRequest { service: name.into() };
            let answer = health.check(asked).await.expect("an answer").into_inner();
            assert_eq!(answer.status(), ServingStatus::Serving, "{service} {name:?}");
        }
    }
}

#[tokio::test]
async fn who_only_observes_has_no_stream() {
    let mut config = config();
    let observer = |token: &str| {
        let scopes = json!(["codeq:observe", "codeq:claim"]);
        json!({"token": token, "scopes": scopes, "eventTypes": ["*"], "raw": {"tenantId": "acme"}})
    };
    config["producerAuthConfig"] = observer("p");
    (config["workerAuthProvider"], config["workerAuthConfig"]) = ("static".into(), observer("w"));
    let server = Server::serve(config);
    let missing = no(Code::PermissionDenied, "missing scope");
    assert_eq!(refused_producer(&server, "p").await, missing);
    assert_eq!(refused_worker(&server, "w", "").await, missing);
}
