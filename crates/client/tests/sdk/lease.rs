//! Leases: kept while a job runs, and what happens when one is lost.

use crate::server::{PATIENCE, Server};
use crate::transport::{BOTH, run};
use codeq_client::{Job, NewTask};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

const LEASE: Duration = Duration::from_secs(1);

#[tokio::test]
async fn heartbeats_keep_the_lease_of_a_long_job() {
    let server = Server::start();
    for transport in BOTH {
        let handler = |_: Job<()>| async {
            tokio::time::sleep(LEASE * 3).await;
            Ok::<_, String>(())
        };
        let worker = run(transport.worker(&server).lease(LEASE).handle("long", handler));
        let producer = transport.producer(&server);
        let created = producer.create(NewTask::new("long", &())).await.unwrap();
        let finished = producer.wait_for_result(&created.id, PATIENCE).await.unwrap();
        assert_eq!((finished.is_completed, finished.task.attempts), (true, 1), "{transport:?}");
        worker.end().await.unwrap();
    }
}

/// The runtime of this test has one thread, which the handler holds.
#[tokio::test]
async fn heartbeats_keep_the_lease_of_a_job_that_blocks_its_thread() {
    let server = Server::start();
    for transport in BOTH {
        let handler = |_: Job<()>| async {
            std::thread::sleep(LEASE * 3);
            Ok::<_, String>(())
        };
        let worker = run(transport.worker(&server).lease(LEASE).handle("blocking", handler));
        let producer = transport.producer(&server);
        let created = producer.create(NewTask::new("blocking", &())).await.unwrap();
        let finished = producer.wait_for_result(&created.id, PATIENCE).await.unwrap();
        assert_eq!((finished.is_completed, finished.task.attempts), (true, 1), "{transport:?}");
        worker.end().await.unwrap();
    }
}

/// The first attempt waits to be cancelled and tells so; the second completes.
#[tokio::test]
async fn a_lost_lease_cancels_the_job_and_its_result_is_dropped() {
    let server = Server::start();
    for transport in BOTH {
        let (told, mut cancelled) = mpsc::channel(1);
        let handler = move |job: Job<()>| {
            let told = told.clone();
            async move {
                if job.attempt == 1 {
                    job.cancelled().await;
                    told.send(job.is_cancelled()).await.unwrap();
                }
                Ok::<_, String>(json!({"attempt": job.attempt}))
            }
        };
        let worker = run(transport.worker(&server).lease(LEASE).handle("lost", handler));
        let producer = transport.producer(&server);
        let created = producer.create(NewTask::new("lost", &())).await.unwrap();
        take_away(&server, &created.id).await;
        assert_eq!(cancelled.recv().await, Some(true), "{transport:?}");
        let finished = producer.wait_for_result(&created.id, PATIENCE).await.unwrap();
        assert_eq!(finished.result.unwrap().get(), r#"{"attempt":2}"#, "{transport:?}");
        worker.end().await.unwrap();
    }
}

#[tokio::test]
async fn a_result_that_comes_too_late_is_refused_without_a_noise() {
    let server = Server::start();
    for transport in BOTH {
        let go = Arc::new(Notify::new());
        let gate = go.clone();
        let handler = move |job: Job<()>| {
            let gate = gate.clone();
            async move {
                if job.attempt == 1 {
                    gate.notified().await;
                }
                Ok::<_, String>(json!({"attempt": job.attempt}))
            }
        };
        // Nobody else takes the task meanwhile: there is one slot, and the lease is long.
        let worker = transport.worker(&server).concurrency(1).lease(Duration::from_secs(60));
        let worker = run(worker.handle("late", handler));
        let producer = transport.producer(&server);
        let created = producer.create(NewTask::new("late", &())).await.unwrap();
        take_away(&server, &created.id).await;
        go.notify_one();
        let finished = producer.wait_for_result(&created.id, PATIENCE).await.unwrap();
        assert_eq!(finished.result.unwrap().get(), r#"{"attempt":2}"#, "{transport:?}");
        worker.end().await.unwrap();
    }
}

#[tokio::test]
async fn a_lease_that_cannot_be_extended_ends_by_our_own_clock() {
    for transport in BOTH {
        let mut server = Server::start();
        let (told, mut events) = mpsc::channel(2);
        let handler = move |job: Job<()>| {
            let told = told.clone();
            async move {
                told.send("started").await.unwrap();
                job.cancelled().await;
                told.send("cancelled").await.unwrap();
                Ok::<_, String>(())
            }
        };
        let worker =
            run(transport.worker(&server).lease(LEASE).grace(Duration::ZERO).handle("dark", handler));
        transport.producer(&server).create(NewTask::new("dark", &())).await.unwrap();
        assert_eq!(events.recv().await, Some("started"));
        server.kill();
        let cancelled = tokio::time::timeout(PATIENCE, events.recv()).await.unwrap();
        assert_eq!(cancelled, Some("cancelled"), "{transport:?}");
        worker.end().await.unwrap();
    }
}

/// Ends the first attempt in the name of the worker that has it.
async fn take_away(server: &Server, id: &str) {
    let task = server.task_until(id, |task| task["status"] == "IN_PROGRESS").await;
    let worker = task["workerId"].as_str().expect("a running task has a worker");
    let status = server.post_as(worker, &format!("/tasks/{id}/abandon"), json!({"attempt": 1})).await;
    assert_eq!(status, 200, "the owner is the subject and the name, whatever the transport");
}
