//! What a worker may not do.

use super::server;
use super::talk::{Producer, ToWorkerStream, Worker, create};
use codeq_api::grpc::worker::{Abandon, Heartbeat, Nack, Ready, Result as Report, ResultBatch};
use tonic::Code;

fn denied(text: &str) -> (String, String) {
    ("PermissionDenied".into(), text.into())
}

#[tokio::test]
async fn each_event_needs_its_scope() {
    let server = server();
    let mut mute = Worker::of(&server, "mute", "").await;
    let events = [
        ToWorkerStream::Ready(Ready::default()),
        ToWorkerStream::Result(Report::default()),
        ToWorkerStream::ResultBatch(ResultBatch { results: vec![Report::default()] }),
        ToWorkerStream::Nack(Nack::default()),
        ToWorkerStream::Heartbeat(Heartbeat::default()),
        ToWorkerStream::Abandon(Abandon::default()),
    ];
    for event in events {
        mute.send(event).await;
        assert_eq!(mute.error().await, denied("missing scope"));
    }
    let mut narrow = Worker::of(&server, "narrow", "").await;
    narrow.send(ToWorkerStream::Nack(Nack::default())).await;
    assert_eq!(narrow.error().await, denied("missing scope"));
}

#[tokio::test]
async fn a_ready_is_consumed_by_a_command_that_is_not_allowed_or_ill_formed() {
    let server = server();
    let mut producer = Producer::of(&server).await;
    let mut narrow = Worker::of(&server, "narrow", "").await;
    for commands in [&["other"][..], &["allowed", "other"], &["*"]] {
        narrow.ready(commands, 1).await;
        assert_eq!(narrow.error().await, denied("event type not allowed"));
    }
    for commands in [&["a b"][..], &["allowed", "é"]] {
        narrow.ready(commands, 1).await;
        assert_eq!(narrow.error().await, ("InvalidArgument".into(), "invalid command".into()));
    }
    // No command is every command of the token.
    producer.create(create(1, "other")).await;
    let id = producer.create(create(2, "Allowed")).await;
    narrow.ready(&["", " "], 1).await;
    assert_eq!(narrow.task().await.id, id);
}

#[tokio::test]
async fn a_ready_that_names_more_commands_than_a_claim_may_is_refused() {
    let server = server();
    let mut worker = Worker::of(&server, "w", "").await;
    let commands: Vec<String> = (0..257).map(|n| format!("c-{n}")).collect();
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    worker.ready(&commands, 1).await;
    assert_eq!(worker.error().await.0, "InvalidArgument");
    worker.ready(&commands[..256], 1).await;
    let mut producer = Producer::of(&server).await;
    let id = producer.create(create(1, "c-255")).await;
    assert_eq!(worker.task().await.id, id);
}

#[tokio::test]
async fn too_many_held_readys_end_the_stream() {
    let server = server();
    let mut worker = Worker::of(&server, "w", "").await;
    for _ in 0..10_000 {
        worker.ready(&["c"], 1).await;
    }
    worker.send(ToWorkerStream::Heartbeat(Heartbeat::default())).await;
    worker.next().await;
    worker.ready(&["c"], 1).await;
    assert_eq!(worker.status().await.code(), Code::ResourceExhausted);
    // Its Readys are gone: a task goes to whoever asks now.
    let (mut producer, mut other) = (Producer::of(&server).await, Worker::of(&server, "w", "").await);
    other.ready(&["c"], 1).await;
    let id = producer.create(create(1, "c")).await;
    assert_eq!(other.task().await.id, id);
}

#[tokio::test]
async fn unknown_methods_are_unimplemented() {
    let server = server();
    // The worker's service is not on the producer's address.
    let mut client = codeq_api::grpc::worker::worker_stream_client::WorkerStreamClient::new(
        super::talk::connect(&server.producer_streams).await,
    );
    let refused = client.stream(tokio_stream::empty()).await.expect_err("nothing there");
    assert_eq!(refused.code(), Code::Unimplemented);
}
