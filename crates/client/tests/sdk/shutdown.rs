//! The end of a worker: what is in hand is finished or given back.

use crate::server::{Server, until};
use crate::transport::{BOTH, run};
use codeq_client::{Job, NewTask};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

#[tokio::test]
async fn a_running_job_is_finished_within_the_grace() {
    let server = Server::start();
    for transport in BOTH {
        let (started, mut starts) = mpsc::channel(1);
        let go = Arc::new(Notify::new());
        let gate = go.clone();
        let handler = move |_: Job<()>| {
            let (started, gate) = (started.clone(), gate.clone());
            async move {
                started.send(()).await.unwrap();
                gate.notified().await;
                Ok::<_, String>(())
            }
        };
        let command = format!("finish-{transport:?}");
        let worker = run(transport.worker(&server).handle(&command, handler));
        let producer = transport.producer(&server);
        let first = producer.create(NewTask::new(&command, &())).await.unwrap();
        starts.recv().await.unwrap();
        worker.signal();
        go.notify_one();
        worker.ended().await.unwrap();
        assert_eq!(server.task(&first.id).await["status"], "COMPLETED", "{transport:?}");
        let second = producer.create(NewTask::new(&command, &())).await.unwrap();
        let untouched = server.task(&second.id).await;
        assert_eq!((&untouched["status"], &untouched["attempts"]), (&"PENDING".into(), &Value::Null));
    }
}

#[tokio::test]
async fn a_job_that_does_not_end_is_cancelled_and_given_back_without_counting_the_attempt() {
    let server = Server::start();
    for transport in BOTH {
        for listens in [true, false] {
            let (told, mut events) = mpsc::channel(2);
            let handler = move |job: Job<()>| {
                let told = told.clone();
                async move {
                    told.send("started").await.unwrap();
                    job.cancelled().await;
                    told.send("cancelled").await.unwrap();
                    if !listens {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, String>(())
                }
            };
            let command = format!("stuck-{transport:?}-{listens}");
            let worker = transport.worker(&server).grace(Duration::from_millis(100));
            let worker = run(worker.handle(&command, handler));
            let created = transport.producer(&server).create(NewTask::new(&command, &())).await.unwrap();
            assert_eq!(events.recv().await, Some("started"));
            worker.end().await.unwrap();
            assert_eq!(events.recv().await, Some("cancelled"));
            let task = server.task(&created.id).await;
            let counts = (&task["status"], &task["attempts"], &task["refunds"]);
            assert_eq!(counts, (&"PENDING".into(), &1.into(), &1.into()), "{transport:?} {listens}");
        }
    }
}

#[tokio::test]
async fn a_worker_that_ends_in_the_middle_of_a_queue_leaves_nothing_in_progress() {
    let server = Server::start();
    for transport in BOTH {
        let command = format!("middle-{transport:?}");
        let producer = transport.producer(&server);
        let created = producer.create_all((0..300).map(|n| NewTask::new(&command, &n))).await;
        let done = Arc::new(AtomicUsize::new(0));
        let count = done.clone();
        let handler = move |_: Job<u32>| {
            count.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, String>(()) }
        };
        // No lease ends while the test runs.
        let worker = transport.worker(&server).concurrency(16).batch_size(4).lease(Duration::from_secs(600));
        let worker = run(worker.handle(&command, handler));
        until(async || done.load(Ordering::SeqCst) >= 50).await;
        worker.end().await.unwrap();
        // What the server had claimed for a stream and not written it gives back itself, a moment later.
        until(async || server.stats(&command).await["inProgress"] == 0).await;
        let stats = server.stats(&command).await;
        assert_eq!((&stats["delayed"], &stats["dlq"]), (&0.into(), &0.into()), "{transport:?}");
        let mut used = 0;
        for created in created {
            let task = server.task(&created.unwrap().id).await;
            let number = |field: &str| task[field].as_u64().unwrap_or_default();
            used += number("attempts") - number("refunds");
        }
        assert_eq!(used, done.load(Ordering::SeqCst) as u64, "what was not started was refunded");
        assert_eq!(stats["ready"], 300 - used);
    }
}
