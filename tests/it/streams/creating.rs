//! The producer's stream after the handshake.

use super::talk::{FromProducerStream, Producer, ToProducerStream, create};
use super::{config, server, task};
use crate::harness::Server;
use codeq_api::grpc::producer::{CreateAck, CreateTask, CreateTaskBatch};
use prost_types::Timestamp;
use serde_json::json;
use std::collections::HashSet;
use std::time::{SystemTime, UNIX_EPOCH};

async fn batch(producer: &mut Producer, tasks: Vec<CreateTask>) -> Vec<CreateAck> {
    producer.send(ToProducerStream::CreateBatch(CreateTaskBatch { tasks })).await;
    match producer.next().await {
        FromProducerStream::CreateAckBatch(batch) => batch.acks,
        other => panic!("not a batch: {other:?}"),
    }
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as i64
}

#[tokio::test]
async fn what_was_created_is_kept_as_it_was_sent() {
    let server = server();
    let mut producer = Producer::of(&server).await;
    let headers = [("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())];
    let sent = CreateTask {
        command: " Render ".into(),
        payload: r#"{"n": 1.0, "n": 2}"#.into(),
        priority: 77,
        webhook: "https://example.com/done".into(),
        max_attempts: -3,
        headers: headers.into(),
        ..create(9, "")
    };
    let id = producer.create(sent).await;
    let task = task(&server, &id).await;
    assert_eq!(task["payload"], r#"{"n": 1.0, "n": 2}"#);
    assert_eq!(
        (&task["command"], &task["priority"], &task["maxAttempts"]),
        (&json!("Render"), &json!(9), &json!(5))
    );
    assert_eq!(task["headers"], json!({"a": "1", "b": "2"}));
    assert_eq!(task["webhook"], "https://example.com/done");

    let id = producer.create(CreateTask { payload: Default::default(), ..create(10, "c") }).await;
    assert_eq!(self::task(&server, &id).await["payload"], "null");
}

#[tokio::test]
async fn run_at_wins_over_the_delay() {
    let server = server();
    let mut producer = Producer::of(&server).await;
    let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
    let late = CreateTask { run_at: at(now() + 3600), delay_seconds: 1, ..create(1, "c") };
    let id = producer.create(late).await;
    assert_eq!(task(&server, &id).await["lastKnownLocation"], "DELAYED_ZSET");
    let past = CreateTask { run_at: at(-5), delay_seconds: 500, ..create(2, "c") };
    let id = producer.create(past).await;
    assert_eq!(task(&server, &id).await["lastKnownLocation"], "PENDING_LIST");
    let id = producer.create(CreateTask { delay_seconds: 500, ..create(3, "c") }).await;
    assert_eq!(task(&server, &id).await["lastKnownLocation"], "DELAYED_ZSET");
}

/// Every way to be refused, and its text.
fn refusals() -> Vec<(CreateTask, &'static str)> {
    let c = || create(1, "c");
    let far = Some(Timestamp { seconds: now() + 31_622_400 + 60, nanos: 0 });
    vec![
        (create(1, ""), "command is required"),
        (create(1, "  "), "command is required"),
        (create(1, "a b"), "invalid command"),
        (create(1, &"x".repeat(129)), "invalid command"),
        (CreateTask { delay_seconds: -1, ..c() }, "delaySeconds must be >= 0"),
        (CreateTask { delay_seconds: 31_622_401, ..c() }, "invalid 'delaySeconds' (must be <= 31622400)"),
        (CreateTask { run_at: far, ..c() }, "invalid 'runAt' (at most 366 days ahead)"),
        (
            CreateTask { run_at: Some(Timestamp { seconds: i64::MAX, nanos: i32::MAX }), ..c() },
            "invalid 'runAt' (at most 366 days ahead)",
        ),
        (CreateTask { webhook: "ftp://x".into(), ..c() }, "invalid webhook url"),
        (CreateTask { idempotency_key: "k".repeat(256), ..c() }, "invalid idempotencyKey (max 255 bytes)"),
        (CreateTask { payload: vec![0xff].into(), ..c() }, "invalid payload"),
        (CreateTask { payload: vec![b'1'; 1025].into(), ..c() }, "payload too large"),
        (CreateTask { headers: [("a b".to_owned(), String::new())].into(), ..c() }, "invalid headers"),
    ]
}

#[tokio::test]
async fn a_refused_create_is_an_ack_alone_and_in_a_batch() {
    let mut config = config();
    config["limits"] = json!({"maxPayloadBytes": 1024});
    let server = Server::serve(config);
    let mut producer = Producer::of(&server).await;
    let mut all = Vec::new();
    for (seq, (refused, text)) in refusals().into_iter().enumerate() {
        let refused = CreateTask { seq: seq as u64, ..refused };
        producer.send(ToProducerStream::Create(refused.clone())).await;
        let expected = CreateAck { seq: seq as u64, error_message: text.into(), ..CreateAck::default() };
        assert_eq!(producer.ack().await, expected);
        all.push((refused, expected));
    }
    all.insert(3, (create(99, "c"), CreateAck { seq: 99, ok: true, ..CreateAck::default() }));
    let acks = batch(&mut producer, all.iter().map(|(task, _)| task.clone()).collect()).await;
    assert_eq!(acks.len(), all.len());
    for (ack, (_, expected)) in acks.into_iter().zip(all) {
        let task_id = ack.task_id.clone();
        assert_eq!(ack, CreateAck { task_id: task_id.clone(), ..expected });
        assert_eq!(ack.ok, !task_id.is_empty());
    }
}

#[tokio::test]
async fn batches_are_answered_in_order_and_bounded() {
    let server = server();
    let mut producer = Producer::of(&server).await;
    // An empty batch has no answer: the next one is the answer to what follows.
    producer.send(ToProducerStream::CreateBatch(CreateTaskBatch::default())).await;
    let acks = batch(&mut producer, (0..1000).rev().map(|seq| create(seq, "c")).collect()).await;
    assert!(acks.iter().map(|ack| ack.seq).eq((0..1000).rev()) && acks.iter().all(|ack| ack.ok));
    let ids: HashSet<&str> = acks.iter().map(|ack| &*ack.task_id).collect();
    assert_eq!(ids.len(), 1000);
    let acks = batch(&mut producer, (0..1001).map(|seq| create(seq, "c")).collect()).await;
    assert_eq!(acks.len(), 1001);
    for (seq, ack) in acks.into_iter().enumerate() {
        let text = "batch size exceeds maximum of 1000".to_owned();
        assert_eq!(ack, CreateAck { seq: seq as u64, error_message: text, ..CreateAck::default() });
    }
}

#[tokio::test]
async fn a_key_makes_one_task_and_seq_is_only_echoed() {
    let server = server();
    let mut producer = Producer::of(&server).await;
    let keyed = |seq| CreateTask { idempotency_key: "order-7".into(), ..create(seq, "c") };
    let acks = batch(&mut producer, vec![keyed(5), keyed(5), create(5, "c")]).await;
    assert_eq!(acks[0].task_id, acks[1].task_id);
    assert_ne!(acks[0].task_id, acks[2].task_id);
    assert_eq!(
        acks.iter().map(|ack| (ack.seq, ack.replayed)).collect::<Vec<_>>(),
        [(5, false), (5, true), (5, false)]
    );
    producer.send(ToProducerStream::Create(keyed(u64::MAX))).await;
    let ack = producer.ack().await;
    assert_eq!((ack.seq, ack.replayed, ack.task_id == acks[0].task_id), (u64::MAX, true, true));
}

#[tokio::test]
async fn every_pipelined_create_gets_exactly_one_ack() {
    const CREATES: u64 = 20_000;
    let server = server();
    let mut producer = Producer::of(&server).await;
    let mut acked = HashSet::new();
    let mut sent = 0;
    while (acked.len() as u64) < CREATES {
        // Up to 5000 under way.
        while sent < CREATES && sent - (acked.len() as u64) < 5000 {
            producer.send(ToProducerStream::Create(create(sent, "c"))).await;
            sent += 1;
        }
        let ack = producer.ack().await;
        assert!(ack.ok, "{}", ack.error_message);
        assert!(acked.insert(ack.seq), "{} twice", ack.seq);
    }
    producer.half_close();
    assert_eq!(producer.status().await.code(), tonic::Code::Ok);
    let queue = server.get("/v1/codeq/admin/queues/c", "p").await.json;
    assert_eq!(queue["ready"], CREATES);
}
