//! Workers: typed payloads, and every way a job can end.

use crate::server::{PATIENCE, Server};
use crate::transport::{BOTH, Transport, run};
use codeq_client::{Finished, Job, NewTask, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

#[derive(Serialize, Deserialize, Clone)]
struct Render {
    video: u64,
    tags: Vec<String>,
}

#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Rendered {
    frames: u64,
    tag: String,
}

async fn render(job: Job<Render>) -> Result<Rendered, String> {
    let tag = job.payload.tags.first().ok_or("no tag")?;
    Ok(Rendered { frames: job.payload.video * 240, tag: format!("{tag} {}", job.headers["origin"]) })
}

#[tokio::test]
async fn a_task_goes_from_a_producer_to_a_worker_and_back_over_every_pair_of_transports() {
    let server = Server::start();
    for producing in BOTH {
        for working in BOTH {
            let producer = producing.producer(&server);
            let worker = run(working.worker(&server).handle("Render_Video", render));
            let payload = Render { video: 7, tags: vec!["a".into()] };
            let task = NewTask::new("render_video", &payload).header("origin", "test");
            let created = producer.create(task).await.unwrap();
            let finished = producer.wait_for_result(&created.id, PATIENCE).await.unwrap();
            assert!(finished.is_completed, "{producing:?} {working:?}");
            let rendered: Rendered = finished.json().unwrap();
            assert_eq!(rendered, Rendered { frames: 1680, tag: "a test".into() });
            worker.end().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_job_ends_as_its_handler_says() {
    let server = Server::start();
    for transport in BOTH {
        let handler = |job: Job<String>| async move {
            match job.payload.as_str() {
                "complete" => Outcome::complete(json!({"ok": true})),
                "fail" => Outcome::fail("broken for good"),
                "abandon" => Outcome::abandon(),
                "panic" => panic!("boom"),
                _ => Outcome::nack("not now"),
            }
        };
        let worker = run(transport.worker(&server).handle("ends", handler));
        let producer = transport.producer(&server);
        let end = async |payload: &str| -> Finished {
            let created = producer.create(NewTask::new("ends", payload).max_attempts(1)).await.unwrap();
            producer.wait_for_result(&created.id, PATIENCE).await.unwrap()
        };
        assert_eq!(end("complete").await.result.unwrap().get(), r#"{"ok":true}"#, "{transport:?}");
        let failed = end("fail").await;
        assert_eq!((failed.error.as_deref(), failed.failure_reason), (Some("broken for good"), None));
        assert_eq!(end("abandon").await.error.unwrap(), "MAX_ATTEMPTS");
        assert_eq!(end("panic").await.error.unwrap(), "handler panicked: boom");
        let nacked = end("nack").await;
        assert_eq!(nacked.error.as_deref(), Some("not now"));
        assert_eq!(nacked.failure_reason.as_deref(), Some("MAX_ATTEMPTS"));
        worker.end().await.unwrap();
    }
}

#[tokio::test]
async fn a_nacked_task_comes_back_after_its_delay_with_the_next_attempt() {
    let server = Server::start();
    for transport in BOTH {
        let handler = |job: Job<()>| async move {
            match job.attempt {
                1 => Outcome::nack("once more").after(Duration::from_secs(2)),
                attempt => Outcome::complete(json!({"attempt": attempt})),
            }
        };
        let worker = run(transport.worker(&server).handle("again", handler));
        let producer = transport.producer(&server);
        let created = producer.create(NewTask::new("again", &())).await.unwrap();
        let delayed =
            server.task_until(&created.id, |task| task["lastKnownLocation"] == "DELAYED_ZSET").await;
        assert_eq!(delayed["error"], "once more");
        let finished = producer.wait_for_result(&created.id, PATIENCE).await.unwrap();
        assert_eq!(finished.result.unwrap().get(), r#"{"attempt":2}"#, "{transport:?}");
        worker.end().await.unwrap();
    }
}

#[tokio::test]
async fn a_payload_of_another_type_is_tried_again_unless_the_worker_fails_it() {
    let server = Server::start();
    for transport in BOTH {
        for (is_final, most, reason) in [(false, 1, Some("MAX_ATTEMPTS")), (true, 2, None)] {
            let worker = transport.worker(&server).handle("typed", render);
            let worker = run(if is_final { worker.fail_unreadable() } else { worker });
            let producer = transport.producer(&server);
            let task = NewTask::new("typed", &json!({"video": "x"})).max_attempts(most);
            let created = producer.create(task).await.unwrap();
            let finished = producer.wait_for_result(&created.id, PATIENCE).await.unwrap();
            let error = finished.error.unwrap();
            assert!(error.starts_with("the payload cannot be read: invalid type: string \"x\""), "{error}");
            assert_eq!((finished.task.attempts, finished.failure_reason.as_deref()), (1, reason));
            worker.end().await.unwrap();
        }
    }
}

/// One result that the server could not read made the whole batch fail, and with it the tasks of the others.
#[tokio::test]
async fn a_result_that_is_never_taken_takes_no_other_with_it() {
    let server = Server::start();
    let all_done = Arc::new(tokio::sync::Barrier::new(3));
    let worker = Transport::Http.worker(&server).handle("deep", move |job: Job<usize>| {
        let all_done = all_done.clone();
        async move {
            all_done.wait().await;
            let nested = (0..job.payload).fold(json!(1), |inner, _| json!([inner]));
            Ok::<_, String>(nested)
        }
    });
    let (worker, producer) = (run(worker), Transport::Http.producer(&server));
    let tasks = [200, 1, 2].map(|depth: usize| NewTask::new("deep", &depth));
    let mut ended = Vec::new();
    for created in producer.create_all(tasks).await {
        ended.push(producer.wait_for_result(&created.unwrap().id, PATIENCE).await.unwrap());
    }
    assert_eq!(ended.iter().map(|one| one.is_completed).collect::<Vec<_>>(), [false, true, true]);
    let error = ended[0].error.as_deref().unwrap_or_default();
    assert!(error.starts_with("the server did not take the result"), "{error}");
    worker.end().await.unwrap();
}

#[tokio::test]
async fn no_more_jobs_run_than_allowed_and_all_slots_are_used() {
    let server = Server::start();
    for transport in BOTH {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let seen = most.clone();
        let handler = move |_: Job<u32>| {
            let (now, most) = (now.clone(), most.clone());
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(20)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                Ok::<_, String>(())
            }
        };
        let producer = transport.producer(&server);
        let created = producer.create_all((0..60).map(|n| NewTask::new("slots", &n))).await;
        let worker = run(transport.worker(&server).concurrency(6).batch_size(4).handle("slots", handler));
        for created in created {
            let finished = producer.wait_for_result(&created.unwrap().id, PATIENCE).await.unwrap();
            assert_eq!((finished.is_completed, finished.task.attempts), (true, 1));
        }
        assert_eq!(seen.load(Ordering::SeqCst), 6, "{transport:?}");
        worker.end().await.unwrap();
    }
}

#[tokio::test]
async fn a_result_that_the_server_does_not_take_fails_the_task() {
    let server = Server::start();
    let producer = Transport::Stream.producer(&server);
    let handler = |_: Job<()>| async { Ok::<_, String>("x".repeat(15 * 1024 * 1024)) };
    let worker = run(Transport::Stream.worker(&server).handle("large", handler));
    let created = producer.create(NewTask::new("large", &())).await.unwrap();
    let finished = producer.wait_for_result(&created.id, PATIENCE).await.unwrap();
    let error = finished.error.unwrap();
    assert!(error.starts_with("the server did not take the result: refused with 413"), "{error}");
    worker.end().await.unwrap();
}
