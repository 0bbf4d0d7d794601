//! What a handler can say while it runs, and what can be said to it.

use crate::server::{PATIENCE, Server, TOKEN};
use crate::transport::{BOTH, Transport, run};
use codeq_client::testing::InlineQueue;
use codeq_client::{Hold, Job, NewSchedule, NewTask, Outcome, Stop, Unique, Worker};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;

/// Over HTTP with the next heartbeat, over a stream at once.
#[tokio::test]
async fn a_requested_cancel_reaches_the_handler_and_what_it_returns_counts() {
    let server = Server::start();
    for (transport, lease) in [(Transport::Http, 3), (Transport::Stream, 3600)] {
        let (told, mut started) = mpsc::channel(1);
        let handler = move |job: Job<()>| {
            let told = told.clone();
            async move {
                told.send(()).await.unwrap();
                job.cancelled().await;
                job.checkpoint(&7).await.unwrap();
                let Some(Stop::Requested { reason, deadline }) = job.stop() else {
                    panic!("{:?}", job.stop())
                };
                Outcome::complete(json!({"reason": reason, "hasDeadline": deadline.is_some()}))
            }
        };
        let worker = transport.worker(&server).lease(Duration::from_secs(lease));
        let worker = run(worker.handle("heed", handler));
        let producer = transport.producer(&server);
        let created = producer.create(NewTask::new("heed", &())).await.unwrap();
        started.recv().await.unwrap();
        producer.cancel(&created.id, Duration::from_secs(30), "enough").await.unwrap();
        let finished = producer.wait_for_result(&created.id, PATIENCE).await.unwrap();
        let told: Value = finished.json().unwrap();
        assert_eq!(told, json!({"reason": "enough", "hasDeadline": true}), "{transport:?}");
        worker.end().await.unwrap();
    }
}

#[tokio::test]
async fn a_job_that_ends_with_an_error_after_a_cancel_is_cancelled() {
    let server = Server::start();
    for (transport, lease) in [(Transport::Http, 3), (Transport::Stream, 3600)] {
        let (told, mut started) = mpsc::channel(1);
        let handler = move |job: Job<()>| {
            let told = told.clone();
            async move {
                told.send(()).await.unwrap();
                job.cancelled().await;
                Err::<(), _>("stopped half way")
            }
        };
        let worker = transport.worker(&server).lease(Duration::from_secs(lease));
        let worker = run(worker.handle("give-up", handler));
        let producer = transport.producer(&server);
        let created = producer.create(NewTask::new("give-up", &())).await.unwrap();
        started.recv().await.unwrap();
        producer.cancel(&created.id, Duration::from_secs(30), "").await.unwrap();
        let finished = producer.wait_for_result(&created.id, PATIENCE).await.unwrap();
        assert_eq!(finished.failure_reason.as_deref(), Some("CANCELLED"), "{transport:?}");
        assert_eq!(finished.task.attempts, 1);
        worker.end().await.unwrap();
    }
}

#[tokio::test]
async fn the_next_attempt_finds_what_the_last_one_saved_and_files_come_with_the_result() {
    let server = Server::start();
    for transport in BOTH {
        let handler = |job: Job<()>| async move {
            job.progress(&json!({"attempt": job.attempt})).await.unwrap();
            let Some(saved) = job.saved::<u64>().unwrap() else {
                job.checkpoint(&9_007_199_254_740_993_u64).await.unwrap();
                return Outcome::nack("once more").after(Duration::from_secs(1));
            };
            assert!(job.deadline() > Duration::from_secs(30));
            job.attach("häufig.txt", "grüße", "text/plain").unwrap();
            job.attach_link("page", "https://example.com/").unwrap();
            Outcome::complete(json!({"from": saved, "lane": job.lane, "tags": job.tags}))
        };
        let worker = run(transport.worker(&server).handle("resume", handler));
        let producer = transport.producer(&server);
        let task = NewTask::new("resume", &()).lane("customer-1").tag("a").max_run(Duration::from_secs(600));
        let created = producer.create(task).await.unwrap();
        let finished = producer.wait_for_result(&created.id, PATIENCE).await.unwrap();
        let text = r#"{"from":9007199254740993,"lane":"customer-1","tags":["a"]}"#;
        assert_eq!(finished.result.unwrap().get(), text, "{transport:?}");
        assert_eq!(finished.artifacts.len(), 2);
        assert_eq!(producer.artifact(&created.id, "häufig.txt").await.unwrap(), "grüße".as_bytes());
        worker.end().await.unwrap();
    }
}

#[tokio::test]
async fn a_unique_create_is_answered_with_the_holder() {
    let server = Server::start();
    for transport in BOTH {
        let producer = transport.producer(&server);
        let task =
            |n: u32| NewTask::new("unique", &n).unique(Unique::new(format!("{transport:?}")).replace());
        let first = producer.create(task(1).expires_in(Duration::from_secs(600))).await.unwrap();
        let second = producer.create(task(2)).await.unwrap();
        assert_eq!((&second.id, first.deduplicated, second.deduplicated), (&first.id, false, true));
        assert_eq!(producer.get(&first.id).await.unwrap().payload, "2", "{transport:?}");
    }
}

#[tokio::test]
async fn layers_run_around_the_handler_in_their_order() {
    let server = Server::start();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let layer = |name: &'static str| {
        let seen = seen.clone();
        move |job: Job<()>, next: futures_util::future::BoxFuture<'static, Outcome>| {
            let seen = seen.clone();
            async move {
                seen.lock().unwrap().push(format!("{name} {}", job.command));
                let outcome = next.await;
                seen.lock().unwrap().push(format!("{name} {}", outcome.name()));
                outcome
            }
        }
    };
    let worker = Worker::http(&server.base, TOKEN).around(layer("outer")).around(layer("inner"));
    let worker = run(worker.handle("layers", |_: Job<()>| async { Ok::<_, String>(()) }));
    let producer = Transport::Http.producer(&server);
    let created = producer.create(NewTask::new("layers", &())).await.unwrap();
    producer.wait_for_result(&created.id, PATIENCE).await.unwrap();
    worker.end().await.unwrap();
    let wanted = ["outer layers", "inner layers", "inner completed", "outer completed"];
    assert_eq!(*seen.lock().unwrap(), wanted);
}

#[tokio::test]
async fn a_schedule_can_be_put_and_triggered() {
    let server = Server::start();
    let producer = Transport::Http.producer(&server);
    let plan = NewSchedule::every(Duration::from_secs(3600), NewTask::new("tick", &1));
    let made = producer.put_schedule("hourly", &plan).await.unwrap();
    assert!(made.name == "hourly" && made.next_at.is_some());
    assert_eq!(producer.trigger_schedule("hourly").await.unwrap().command, "tick");
    assert_eq!(producer.schedules().await.unwrap().len(), 1);
    producer.delete_schedule("hourly").await.unwrap();
}

#[tokio::test]
async fn handlers_run_without_a_server() {
    let worker = Worker::http("http://inline.invalid", "none").handle("step", |job: Job<u32>| async move {
        job.progress(&job.attempt).await.unwrap();
        match (job.payload, job.attempt) {
            (0, _) => Outcome::fail("never"),
            (1, 1) => Outcome::nack("busy").after(Duration::from_secs(60)).hold(Hold::Queue),
            (1, _) => Outcome::complete(job.saved::<u32>().unwrap()),
            _ => {
                job.checkpoint(&job.attempt).await.unwrap();
                Outcome::nack("again")
            }
        }
    });
    let mut queue = InlineQueue::new(worker);
    for payload in 0..3 {
        queue
            .create(NewTask::new("step", &payload).max_attempts(2).idempotency_key(payload.to_string()))
            .unwrap();
    }
    assert_eq!(queue.create(NewTask::new("step", &9).idempotency_key("0")).unwrap(), "inline-1");
    assert_eq!(queue.drain().await, 4);
    assert_eq!(queue.pending("step").len(), 1);
    assert_eq!(queue.advance(Duration::from_secs(59)).await, 0);
    assert_eq!(queue.advance(Duration::from_secs(1)).await, 1);
    let done = queue.completed("step")[0];
    assert_eq!((done.attempts, done.refunds, done.result.as_deref()), (2, 1, Some("{}")));
    let failed = queue.failed("");
    assert_eq!((&*failed[0].error, failed[0].failure_reason), ("never", None));
    assert_eq!(
        (failed[1].failure_reason, failed[1].checkpoint.as_deref()),
        (Some("MAX_ATTEMPTS"), Some("2"))
    );
    assert_eq!(failed[1].progress, ["1", "2"]);
    assert!(queue.create(NewTask::new("other", &1)).is_err());
}
