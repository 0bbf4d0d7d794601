//! Clients that ask for too much: the server keeps its size.

use super::talk::{Producer, ToProducerStream, ToWorkerStream, Worker, create};
use super::{config, server, task_until};
use crate::harness::Server;
use codeq_api::grpc::producer::{CreateTask, CreateTaskBatch};
use codeq_api::grpc::worker::{Heartbeat, Ready, WorkerEvent};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::Code;

fn resident_megabytes(server: &Server) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("a process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it has a size");
    let kilobytes: usize = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number");
    kilobytes / 1024
}

#[tokio::test]
async fn a_message_over_sixteen_megabytes_ends_the_stream() {
    let server = server();
    let mut producer = Producer::of(&server).await;
    let payload = vec![b'x'; 17 << 20].into();
    producer.send(ToProducerStream::Create(CreateTask { payload, ..create(1, "c") })).await;
    assert_eq!(producer.status().await.code(), Code::ResourceExhausted);
}

#[tokio::test]
async fn a_producer_that_never_reads_is_not_read_for_ever() {
    let server = server();
    let before = resident_megabytes(&server);
    let mut producer = Producer::of(&server).await;
    let mut sent = 0;
    let sending = async {
        while sent < 50_000 {
            let refused = CreateTask { payload: vec![b'x'; 2000].into(), ..create(sent, "a b") };
            producer.send(ToProducerStream::Create(refused)).await;
            sent += 1;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(3), sending).await.is_err(), "all {sent} were taken");
    let grown = resident_megabytes(&server).saturating_sub(before);
    assert!(grown < 64, "{grown} MB for {sent} events");
    // What it sent is answered when it reads at last.
    for _ in 0..sent.min(10_000) {
        assert_eq!(producer.ack().await.error_message, "invalid command");
    }
}

#[tokio::test]
async fn a_worker_that_never_reads_is_not_read_for_ever() {
    let server = server();
    let before = resident_megabytes(&server);
    let worker = Worker::of(&server, "w", "").await;
    let sending = async {
        for _ in 0..200_000 {
            let beat = Heartbeat { task_id: "x".repeat(1000), ..Heartbeat::default() };
            worker.send_event(WorkerEvent { event: Some(ToWorkerStream::Heartbeat(beat)) }).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(3), sending).await.is_err());
    let grown = resident_megabytes(&server).saturating_sub(before);
    assert!(grown < 96, "{grown} MB");
}

#[tokio::test]
async fn a_worker_that_never_reads_is_not_lent_everything() {
    const TASKS: u64 = 120;
    let server = server();
    let mut producer = Producer::of(&server).await;
    let mut last = String::new();
    for seq in 0..TASKS {
        let payload = format!("\"{}\"", "x".repeat(500_000)).into();
        last = producer.create(CreateTask { payload, ..create(seq, "c") }).await;
    }
    let mut worker = Worker::of(&server, "w", "").await;
    for _ in 0..TASKS {
        worker.ready(&["c"], 1).await;
    }
    // Sixteen megabytes wait for it, and the rest for someone who reads.
    let mut other = Worker::of(&server, "w", "b").await;
    other.ready(&["c"], 1).await;
    let taken = other.task().await.id;
    for _ in 1..TASKS {
        assert_ne!(worker.task().await.id, taken);
    }
    task_until(&server, &last, |task| task["status"] == "IN_PROGRESS").await;
}

#[tokio::test]
async fn a_batch_of_a_million_nothings_is_not_unpacked() {
    let server = server();
    let mut producer = Producer::of(&server).await;
    let before = resident_megabytes(&server);
    let tasks = vec![CreateTask::default(); 1_000_000];
    producer.send(ToProducerStream::CreateBatch(CreateTaskBatch { tasks })).await;
    assert_eq!(producer.status().await.code(), Code::ResourceExhausted);
    let grown = resident_megabytes(&server).saturating_sub(before);
    assert!(grown < 64, "{grown} MB");
}

fn ready(commands: Vec<String>) -> WorkerEvent {
    let ready = Ready { commands, count: 1, ..Ready::default() };
    WorkerEvent { event: Some(ToWorkerStream::Ready(ready)) }
}

/// Names of this length; as many as a Ready may have.
fn names(first: usize, bytes: usize) -> Vec<String> {
    (first * 256..(first + 1) * 256).map(|n| format!("{n:0bytes$}")).collect()
}

/// It was kept until it was its turn, however long it was: a message of 16 MB became four hundred, and ten thousand of them
/// could wait.
#[tokio::test]
async fn a_ready_that_names_too_much_is_refused_at_once() {
    let server = server();
    let mut worker = Worker::of(&server, "w", "").await;
    let refused = ("InvalidArgument".to_owned(), "invalid body".to_owned());
    worker.send_event(ready(vec!["c".into(); 257])).await;
    assert_eq!(worker.error().await, refused);
    worker.send_event(ready(vec!["c".repeat(1 << 20)])).await;
    assert_eq!(worker.error().await, ("InvalidArgument".to_owned(), "invalid command".to_owned()));
    let before = resident_megabytes(&server);
    worker.send_event(ready(vec![String::new(); 4_000_000])).await;
    assert_eq!(worker.status().await.code(), Code::ResourceExhausted);
    let grown = resident_megabytes(&server).saturating_sub(before);
    assert!(grown < 64, "{grown} MB");
}

/// Ten thousand Readys with 256 names each were 400 MB that nobody counted.
#[tokio::test]
async fn held_readys_take_from_the_budget_of_their_token() {
    let mut config = config();
    config["limits"] = json!({"maxInFlightBytes": 4_000_000});
    let server = Server::serve(config);
    let mut worker = Worker::of(&server, "w", "").await;
    for first in 0..100 {
        if worker.try_send(ready(names(first, 100))).await.is_err() {
            break;
        }
    }
    let status = worker.status().await;
    assert_eq!((status.code(), status.message()), (Code::ResourceExhausted, "too many bytes in flight"));
    // What it held has been given back.
    let mut again = Worker::of(&server, "w", "").await;
    again.ready(&["c"], 1).await;
    Producer::of(&server).await.create(create(1, "c")).await;
    again.task().await;
}

/// A waiting claim was one, whether it named one command or 256: a tenant could wait for 25 million queues.
#[tokio::test]
async fn waits_are_counted_by_the_queues_that_they_wait_for() {
    const READYS: usize = 200_000 / 256;
    let server = server();
    let before = resident_megabytes(&server);
    let worker = Worker::of(&server, "w", "").await;
    for first in 0..READYS {
        worker.send_event(ready(names(first, 8))).await;
    }
    server.until_claims_wait(READYS).await;
    let claim = |names: Vec<String>| json!({"commands": names, "waitSeconds": 1});
    let path = "/v1/codeq/tasks/claim";
    let refused = server.post(path, "w", claim(names(READYS, 8))).await;
    assert_eq!(
        (refused.status, &refused.json["code"]),
        (429, &json!("too_many_waiting")),
        "{}",
        refused.text
    );
    assert_eq!(server.post(path, "w", claim(vec!["one".into()])).await.status, 204);
    assert_eq!(server.post(path, "foreign", claim(names(READYS, 8))).await.status, 204);
    let grown = resident_megabytes(&server).saturating_sub(before);
    assert!(grown < 400, "{grown} MB");
}

/// Opens a connection, sends this much and nothing more; how long the server bears it.
async fn silence(address: &str, begin: &[u8]) -> Duration {
    let address = address.strip_prefix("http://").expect("plain HTTP");
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("the server listens");
    stream.write_all(begin).await.expect("the server reads");
    let started = Instant::now();
    let mut buffer = [0; 1024];
    let closed = async { while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {} };
    tokio::time::timeout(Duration::from_secs(30), closed).await.expect("silence is cut off");
    started.elapsed()
}

#[tokio::test]
async fn connections_that_open_no_stream_are_cut_off_and_held_streams_are_not() {
    let server = server();
    let mut held = Worker::of(&server, "w", "").await;
    held.ready(&["c"], 1).await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let addresses = (server.worker_streams.clone(), server.producer_streams.clone());
    let (nothing, half, greeted) = tokio::join!(
        silence(&addresses.0, b""),
        silence(&addresses.1, b"PRI * HTT"),
        silence(&addresses.0, preface),
    );
    for took in [nothing, half, greeted] {
        assert!((8.0..15.0).contains(&took.as_secs_f64()), "a silent connection was cut after {took:?}");
    }
    let mut producer = Producer::of(&server).await;
    producer.create(create(0, "c")).await;
    held.task().await;
}
