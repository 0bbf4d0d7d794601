//! Readys: held, served in order, never lost.

use super::talk::{Producer, ToProducerStream, ToWorkerStream, Worker, connect, create};
use super::{server, task, task_until};
use codeq_api::grpc::producer::CreateTask;
use codeq_api::grpc::worker::Ready;
use serde_json::json;
use std::collections::HashSet;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

#[tokio::test]
async fn an_assignment_shows_the_whole_task() {
    let server = server();
    let (mut producer, mut worker) = (Producer::of(&server).await, Worker::of(&server, "w", "w-1").await);
    let sent = CreateTask {
        payload: "[1, 2]".into(),
        priority: 4,
        webhook: "https://example.com/done".into(),
        max_attempts: 7,
        headers: [("k".to_owned(), "v".to_owned())].into(),
        ..create(1, "Render")
    };
    let id = producer.create(sent).await;
    worker.ready(&[" ", " render "], 0).await;
    let got = worker.task().await;
    assert_eq!((&*got.id, &*got.command, &got.payload[..]), (&*id, "Render", &b"[1, 2]"[..]));
    assert_eq!((got.priority, got.max_attempts, got.attempts), (4, 7, 1));
    assert_eq!((&*got.status, &*got.worker_id, &*got.tenant_id), ("IN_PROGRESS", "w-1", "acme"));
    assert_eq!((&*got.webhook, &got.headers["k"]), ("https://example.com/done", &"v".to_owned()));
    let shown = task(&server, &id).await;
    assert_eq!(shown["leaseUntil"], got.lease_until);
    assert!(got.created_at.is_some() && got.updated_at.is_some());
}

#[tokio::test]
async fn a_ready_waits_for_work_and_a_batch_takes_up_to_its_count() {
    let server = server();
    let (mut producer, mut worker) = (Producer::of(&server).await, Worker::of(&server, "w", "").await);
    worker.ready(&["c"], 2).await;
    let id = producer.create(create(1, "c")).await;
    let tasks = worker.tasks().await;
    assert_eq!(tasks.iter().map(|task| &*task.id).collect::<Vec<_>>(), [&*id]);
    for seq in 0..1005 {
        producer.send(ToProducerStream::Create(create(seq, "c"))).await;
    }
    for _ in 0..1005 {
        assert!(producer.ack().await.ok);
    }
    worker.ready(&["c"], 3).await;
    assert_eq!(worker.tasks().await.len(), 3);
    worker.ready(&["c"], i32::MAX).await;
    assert_eq!(worker.tasks().await.len(), 1000);
    worker.ready(&["c"], -1).await;
    worker.task().await;
}

#[tokio::test]
async fn readys_and_long_polls_are_served_in_the_order_of_arrival() {
    let server = server();
    let mut producer = Producer::of(&server).await;
    let (mut first, mut third) = (Worker::of(&server, "w", "a").await, Worker::of(&server, "w", "b").await);
    first.ready(&["c"], 1).await;
    server.until_claims_wait(1).await;
    let poll = server.post("/v1/codeq/tasks/claim", "w", json!({"commands": ["c"], "waitSeconds": 10}));
    let create_all = async {
        server.until_claims_wait(2).await;
        third.ready(&["c"], 1).await;
        server.until_claims_wait(3).await;
        first.ready(&["c"], 1).await;
        server.until_claims_wait(4).await;
        let mut ids = Vec::new();
        for seq in 0..4 {
            ids.push(producer.create(create(seq, "c")).await);
        }
        ids
    };
    let (polled, ids) = tokio::join!(poll, create_all);
    assert_eq!(polled.json["id"], ids[1]);
    assert_eq!((first.task().await.id, third.task().await.id), (ids[0].clone(), ids[2].clone()));
    assert_eq!(first.task().await.id, ids[3]);
}

#[tokio::test]
async fn a_thousand_idle_streams_all_get_their_task() {
    const STREAMS: usize = 1000;
    let server = server();
    let mut channels = Vec::new();
    for _ in 0..20 {
        channels.push(connect(&server.worker_streams).await);
    }
    let mut opening = JoinSet::new();
    for at in 0..STREAMS {
        let channel = channels[at % channels.len()].clone();
        opening.spawn(async move {
            let mut worker = Worker::on(channel).await;
            worker.hello("w", &format!("w-{at}")).await;
            worker.greeted().await;
            worker.ready(&["c"], 1).await;
            worker
        });
    }
    let workers = opening.join_all().await;
    server.until_claims_wait(STREAMS).await;
    let producer = Producer::of(&server).await;
    let started = Instant::now();
    for seq in 0..STREAMS {
        producer.send(ToProducerStream::Create(create(seq as u64, "c"))).await;
    }
    let mut taking = JoinSet::new();
    for mut worker in workers {
        taking.spawn(async move { worker.task().await.id });
    }
    let ids: HashSet<String> = taking.join_all().await.into_iter().collect();
    assert_eq!(ids.len(), STREAMS);
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

#[tokio::test]
async fn tasks_of_a_dead_connection_go_to_others() {
    let server = server();
    let (mut producer, mut other) = (Producer::of(&server).await, Worker::of(&server, "w", "b").await);
    let dead = Worker::of(&server, "w", "a").await;
    for _ in 0..3 {
        dead.ready(&["c"], 1).await;
    }
    server.until_claims_wait(3).await;
    for _ in 0..3 {
        other.ready(&["c"], 1).await;
    }
    server.until_claims_wait(6).await;
    drop(dead);
    let mut ids = HashSet::new();
    for seq in 0..3 {
        ids.insert(producer.create(create(seq, "c")).await);
    }
    for _ in 0..3 {
        assert!(ids.remove(&other.task().await.id));
    }
}

#[tokio::test]
async fn a_task_that_the_client_never_took_is_given_back() {
    let server = server();
    let mut producer = Producer::of(&server).await;
    let worker = Worker::of(&server, "w", "").await;
    for _ in 0..8 {
        worker.ready(&["c"], 1).await;
    }
    server.until_claims_wait(8).await;
    let mut last = String::new();
    for seq in 0..8 {
        let payload = format!("\"{}\"", "x".repeat(400_000)).into();
        last = producer.create(CreateTask { payload, ..create(seq, "c") }).await;
    }
    task_until(&server, &last, |task| task["status"] == "IN_PROGRESS").await;
    // It has not read anything: what fits neither its window nor the transport's buffer is still ours.
    drop(worker);
    let task = task_until(&server, &last, |task| task["status"] == "PENDING").await;
    assert_eq!((&task["attempts"], &task["refunds"]), (&json!(1), &json!(1)));
    let mut other = Worker::of(&server, "w", "b").await;
    other.ready(&["c"], 1).await;
    let again = other.task().await;
    assert_eq!(again.attempts, 2);
}

/// Clients of other languages take messages of 4 MiB unless they are told otherwise: a larger batch ended the stream
/// of a worker that had done nothing wrong.
#[tokio::test]
async fn a_batch_of_large_tasks_fits_what_every_client_takes() {
    let server = server();
    let (mut producer, mut worker) = (Producer::of(&server).await, Worker::of(&server, "w", "").await);
    for seq in 0..20 {
        let payload = format!("\"{}\"", "x".repeat(1_000_000)).into();
        producer.create(CreateTask { payload, ..create(seq, "c") }).await;
    }
    let mut seen = HashSet::new();
    worker.ready(&["c"], 1000).await;
    let tasks = worker.tasks().await;
    assert!((2..=4).contains(&tasks.len()), "{}", tasks.len());
    seen.extend(tasks.into_iter().map(|task| task.id));
    while seen.len() < 20 {
        worker.ready(&["c"], 1000).await;
        let tasks = worker.tasks().await;
        assert!(tasks.len() <= 4, "{}", tasks.len());
        for task in tasks {
            // Those that did not fit the first batch were given back, once.
            assert!(task.attempts <= 2, "{}", task.attempts);
            assert!(seen.insert(task.id));
        }
    }
}

#[tokio::test]
async fn fair_readys_share_out_and_bad_orders_are_told() {
    let server = server();
    let (mut producer, mut worker) = (Producer::of(&server).await, Worker::of(&server, "w", "").await);
    for (seq, command) in (0..200).zip(["a", "b"].into_iter().cycle()) {
        producer.create(create(seq, command)).await;
    }
    let ready = |order: &str, weight: i32| Ready {
        commands: vec!["a".into(), "b".into()],
        order: order.into(),
        weights: [("b".to_owned(), weight)].into(),
        ..Ready::default()
    };
    for (order, weight) in [("random", 1), ("fair", 0), ("listed", 1)] {
        worker.send(ToWorkerStream::Ready(ready(order, weight))).await;
        let (code, message) = worker.error().await;
        assert_eq!(code, "InvalidArgument", "{message}");
    }
    // Sent together: each draws for itself.
    for _ in 0..80 {
        worker.send(ToWorkerStream::Ready(ready("fair", 3))).await;
    }
    let mut of_b = 0;
    for _ in 0..80 {
        of_b += u32::from(worker.task().await.command == "b");
    }
    assert!((40..80).contains(&of_b), "60 of 80 on average: {of_b}");
}
