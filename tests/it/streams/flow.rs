//! Lanes, unique keys, dependencies, holds and checkpoints over the streams.

use super::talk::{FromWorkerStream, Producer, ToProducerStream, ToWorkerStream, Worker, create};
use super::{server, task};
use codeq_api::grpc::producer::{CreateTask, Unique};
use codeq_api::grpc::worker::{Abandon, Heartbeat, Nack};
use prost_types::Timestamp;
use serde_json::json;

fn unique(key: &str) -> Option<Unique> {
    Some(Unique { key: key.into(), ..Unique::default() })
}

#[tokio::test]
async fn the_options_of_a_create_are_kept_and_come_with_the_task() {
    let server = server();
    let (mut producer, mut worker) = (Producer::of(&server).await, Worker::of(&server, "w", "").await);
    let first = producer.create(create(1, "first")).await;
    let sent = CreateTask {
        lane: "acme".into(),
        tags: vec!["a".into(), "b:1".into()],
        unique: unique("k"),
        expires_at: Some(Timestamp { seconds: 4_000_000_000, nanos: 0 }),
        max_run_seconds: 60,
        ..create(2, "c")
    };
    let refused = CreateTask { expires_at: None, ..sent.clone() };
    producer.send(ToProducerStream::Create(sent)).await;
    let ack = producer.ack().await;
    assert!(!ack.ok && ack.error_message.contains("366 days"), "{ack:?}");
    let id = producer.create(refused.clone()).await;
    producer.send(ToProducerStream::Create(refused)).await;
    let ack = producer.ack().await;
    assert_eq!((&*ack.task_id, ack.deduplicated, ack.replayed), (&*id, true, false));
    worker.ready(&["c"], 1).await;
    let lent = worker.task().await;
    assert_eq!((&*lent.id, &*lent.lane), (&*id, "acme"));
    assert_eq!(lent.tags, ["a", "b:1"]);
    let shown = task(&server, &id).await;
    assert_eq!((&shown["uniqueKey"], &shown["lane"]), (&json!("k"), &json!("acme")));
    let waits =
        CreateTask { after: vec![first.clone()], on_dependency_failure: "run".into(), ..create(4, "d") };
    let waiting = producer.create(waits).await;
    let held = task(&server, &waiting).await;
    assert_eq!((&held["lastKnownLocation"], &held["after"]), (&json!("HELD_SET"), &json!([first])));
}

/// The same texts as over HTTP, one for each fault.
#[tokio::test]
async fn options_that_cannot_be_taken_are_refused_in_words() {
    let server = server();
    let mut producer = Producer::of(&server).await;
    let nobody = "6f1f7c6e-1111-4222-8333-444455556666";
    let plain = || create(7, "c");
    let of_unique = |unique: Unique| CreateTask { unique: Some(unique), ..plain() };
    let table = [
        (CreateTask { lane: "l".repeat(129), ..plain() }, "invalid 'lane'"),
        (CreateTask { lane: "a\nb".into(), ..plain() }, "invalid 'lane'"),
        (CreateTask { tags: vec!["t".into(); 9], ..plain() }, "invalid 'tags'"),
        (CreateTask { tags: vec![String::new()], ..plain() }, "invalid 'tags'"),
        (of_unique(Unique::default()), "invalid 'unique': 'key'"),
        (of_unique(Unique { key: "k".repeat(256), ..Unique::default() }), "invalid 'unique': 'key'"),
        (of_unique(Unique { key: "k".into(), until: "later".into(), ..Unique::default() }), "'until'"),
        (of_unique(Unique { key: "k".into(), until_seconds: -1, ..Unique::default() }), "seconds must be"),
        (of_unique(Unique { key: "k".into(), on_conflict: "x".into(), ..Unique::default() }), "'onConflict'"),
        (CreateTask { expire_seconds: -1, ..plain() }, "invalid expiry"),
        (CreateTask { expire_seconds: i64::MAX, ..plain() }, "invalid expiry"),
        (CreateTask { max_run_seconds: 604_801, ..plain() }, "invalid 'maxRunSeconds'"),
        (CreateTask { max_run_seconds: -1, ..plain() }, "invalid 'maxRunSeconds'"),
        (CreateTask { after: vec!["x".into()], ..plain() }, "unknown dependency x"),
        (CreateTask { after: vec![nobody.into()], ..plain() }, "unknown dependency"),
        (CreateTask { after: vec![nobody.into(); 101], ..plain() }, "invalid 'after'"),
        (CreateTask { on_dependency_failure: "maybe".into(), ..plain() }, "invalid 'after'"),
        (CreateTask { batch_id: nobody.into(), ..plain() }, "batch not found"),
        (CreateTask { batch_id: "x".into(), ..plain() }, "batch not found"),
    ];
    for (sent, text) in table {
        producer.send(ToProducerStream::Create(sent)).await;
        let ack = producer.ack().await;
        assert_eq!((ack.ok, ack.seq), (false, 7), "{text}");
        assert!(ack.error_message.contains(text), "{text}: {}", ack.error_message);
    }
    assert_eq!(server.get("/v1/codeq/admin/queues/c", "p").await.json["ready"], json!(0));
}

async fn beat(worker: &mut Worker, beat: Heartbeat) -> (bool, String) {
    worker.send(ToWorkerStream::Heartbeat(beat)).await;
    let FromWorkerStream::HeartbeatAck(ack) = worker.next().await else { panic!("an ack") };
    (ack.ok, ack.error_message)
}

async fn nack(worker: &mut Worker, nack: Nack) -> (bool, String) {
    worker.send(ToWorkerStream::Nack(nack)).await;
    let FromWorkerStream::NackAck(ack) = worker.next().await else { panic!("an ack") };
    (ack.ok, ack.error_message)
}

fn refused(text: &str) -> (bool, String) {
    (false, text.to_owned())
}

/// A checkpoint that was no JSON was left out, and its worker was told that it is kept.
#[tokio::test]
async fn what_comes_beside_a_report_is_json_or_the_report_is_refused() {
    let server = server();
    let (mut producer, mut worker) = (Producer::of(&server).await, Worker::of(&server, "w", "").await);
    let id = producer.create(create(1, "c")).await;
    worker.ready(&["c"], 1).await;
    worker.task().await;
    let task_id = || id.clone();
    let plain = || Heartbeat { task_id: task_id(), ..Heartbeat::default() };
    for bad in [&b"{"[..], b"{}{}", b"\xff", b"nothing"] {
        let progress = Heartbeat { progress: bad.to_vec().into(), ..plain() };
        assert_eq!(beat(&mut worker, progress).await, refused("invalid progress"));
        let checkpoint = Heartbeat { checkpoint: bad.to_vec().into(), ..plain() };
        assert_eq!(beat(&mut worker, checkpoint).await, refused("invalid checkpoint"));
        let back = Nack { task_id: task_id(), checkpoint: bad.to_vec().into(), ..Nack::default() };
        assert_eq!(nack(&mut worker, back).await, refused("invalid checkpoint"));
        let back = Abandon { task_id: task_id(), checkpoint: bad.to_vec().into(), ..Abandon::default() };
        worker.send(ToWorkerStream::Abandon(back)).await;
        let FromWorkerStream::AbandonAck(ack) = worker.next().await else { panic!("an ack") };
        assert_eq!((ack.ok, ack.error_message), refused("invalid checkpoint"));
    }
    let large = |bytes: usize| format!("\"{}\"", "x".repeat(bytes)).into_bytes();
    let progress = Heartbeat { progress: large(4096).into(), ..plain() };
    assert_eq!(beat(&mut worker, progress).await, refused("progress too large (max 4096 bytes)"));
    let checkpoint = Heartbeat { checkpoint: large(65_536).into(), ..plain() };
    assert_eq!(beat(&mut worker, checkpoint).await, refused("checkpoint too large (max 65536 bytes)"));
    // The answers to a good one and a bad one that come together do not change places.
    let good =
        Heartbeat { progress: b"1".to_vec().into(), checkpoint: b"{\"page\":7}".to_vec().into(), ..plain() };
    let bad = Heartbeat { task_id: "?".into(), progress: b"{".to_vec().into(), ..Heartbeat::default() };
    worker.send(ToWorkerStream::Heartbeat(bad)).await;
    worker.send(ToWorkerStream::Heartbeat(good)).await;
    let mut acks = Vec::new();
    for _ in 0..2 {
        let FromWorkerStream::HeartbeatAck(ack) = worker.next().await else { panic!("an ack") };
        acks.push((ack.task_id, ack.ok));
    }
    acks.sort();
    assert_eq!(acks, [("?".to_owned(), false), (id.clone(), true)]);
    let shown = task(&server, &id).await;
    assert_eq!((&shown["progress"], &shown["checkpoint"]), (&json!(1), &json!({"page": 7})));
}

#[tokio::test]
async fn a_nack_holds_back_its_lane_and_brings_its_checkpoint() {
    let server = server();
    let (mut producer, mut worker) = (Producer::of(&server).await, Worker::of(&server, "w", "").await);
    let in_lane = |seq, lane: &str| CreateTask { lane: lane.into(), ..create(seq, "c") };
    let id = producer.create(in_lane(1, "a")).await;
    worker.ready(&["c"], 1).await;
    worker.task().await;
    producer.create(in_lane(2, "a")).await;
    let other = producer.create(in_lane(3, "b")).await;
    let back = || Nack { task_id: id.clone(), ..Nack::default() };
    for (bad, text) in [
        (Nack { hold: "all".into(), delay_seconds: 5, ..back() }, "invalid 'hold'"),
        (Nack { hold: "lane".into(), ..back() }, "invalid 'hold'"),
        (Nack { hold: "lane".into(), delay_seconds: 86_401, ..back() }, "invalid 'hold'"),
        (Nack { refund: true, ..back() }, "refund needs 'delaySeconds'"),
    ] {
        let (ok, said) = nack(&mut worker, bad).await;
        assert!(!ok && said.contains(text), "{text}: {said}");
    }
    let held =
        Nack { hold: "lane".into(), delay_seconds: 3600, checkpoint: b"[1]".to_vec().into(), ..back() };
    assert_eq!(nack(&mut worker, held).await, (true, String::new()));
    worker.ready(&["c"], 2).await;
    let lent: Vec<String> = worker.tasks().await.into_iter().map(|task| task.id).collect();
    assert_eq!(lent, [other], "the rest of lane a waits");
    let shown = task(&server, &id).await;
    assert_eq!(
        (&shown["attempts"], &shown["refunds"], &shown["checkpoint"]),
        (&json!(1), &json!(1), &json!([1]))
    );
}
