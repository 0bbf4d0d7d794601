//! Results: how a worker ends a task, what is kept of it, and who is told.

use super::bench::{Bench, within};
use super::candidate::Open;
use super::request::New;
use codeq_queue::store::{ResultLookup, Returned, Wait};
use codeq_queue::{Artifact, FailureReason, Outcome, Place, Refusal, Status, Task, TaskStatus};
use tokio::task::JoinHandle;

pub async fn a_completed_task_keeps_its_result_exactly(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render")).await;
    bench.advance_ms(11);
    let text = "{ \"ok\" : true , \"n\":1.50 }";
    let record = bench.submit(&task, Outcome::completed(text)).await.expect("the owner may complete");
    assert_eq!((record.status, record.result.as_deref()), (Status::Completed, Some(text)));
    assert_eq!((record.error.as_deref(), record.failure_reason), (None, None));
    assert_eq!(record.completed_at, bench.now());
    let done = bench.get(task.id).await;
    assert_eq!((done.state.status(), done.state.place()), (TaskStatus::Completed, Place::None));
    assert_eq!((done.attempts, done.updated_at, done.has_result()), (1, bench.now(), true));
    assert_eq!(done.created_at, task.created_at);
    assert_eq!(bench.lookup(task.id).await, ResultLookup::Done { task: done, record });
    assert!(bench.claim_any(1).await.is_empty());
}

pub async fn a_completed_task_keeps_the_error_of_its_last_failed_attempt(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render")).await;
    bench.nack(&task, 1, "first try").await.expect("the owner may nack");
    bench.advance(1);
    let task = bench.take("render").await;
    let ignored = Outcome { error: Some("not mine".into()), ..Outcome::completed("{}") };
    let record = bench.submit(&task, ignored).await.expect("the owner may complete");
    assert_eq!(record.error, None);
    assert_eq!(bench.get(task.id).await.error.as_deref(), Some("first try"));
}

pub async fn a_failed_task_is_final_and_not_a_dead_letter(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render")).await;
    let outcome = Outcome { result: Some("{\"part\":1}".into()), ..Outcome::failed("no such file") };
    let record = bench.submit(&task, outcome).await.expect("the owner may fail its task");
    assert_eq!((record.status, record.error.as_deref()), (Status::Failed, Some("no such file")));
    assert_eq!((record.result.as_deref(), record.failure_reason), (Some("{\"part\":1}"), None));
    let failed = bench.get(task.id).await;
    assert_eq!((failed.state.status(), failed.state.place()), (TaskStatus::Failed, Place::None));
    assert_eq!(failed.error.as_deref(), Some("no such file"));
    bench.advance(3600);
    assert!(bench.claim_any(1).await.is_empty(), "a failure by a worker is not retried");
}

pub async fn the_content_of_a_result_is_checked_in_order(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render")).await;
    let artifact = |name: &str| Artifact { name: name.into(), url: "https://x/".into(), stored: None };
    let bad = vec![artifact("a/b")];
    let none = Outcome { result: None, artifacts: bad.clone(), ..Outcome::completed("") };
    let blank = Outcome { artifacts: bad.clone(), ..Outcome::failed(" ") };
    let unknown = Outcome { status: "completed".into(), ..none.clone() };
    assert_eq!(bench.submit(&task, unknown).await, Err(Refusal::InvalidStatus));
    assert_eq!(bench.submit(&task, none).await, Err(Refusal::ResultRequired));
    assert_eq!(bench.submit(&task, blank).await, Err(Refusal::ErrorRequired));
    let named = Outcome { artifacts: bad, ..Outcome::completed("{}") };
    assert!(matches!(bench.submit(&task, named).await, Err(Refusal::InvalidArtifact(_))));
    assert_eq!(bench.get(task.id).await, task, "a refused result changes nothing");
    assert_eq!(bench.lookup(task.id).await, ResultLookup::Pending);
    let good = Outcome { artifacts: vec![artifact("log.txt")], ..Outcome::completed("{}") };
    let record = bench.submit(&task, good).await.expect("a refused result can be repaired");
    assert_eq!(record.artifacts, [artifact("log.txt")]);
    assert_eq!(bench.record(task.id).await, record);
}

pub async fn a_result_is_written_once(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render")).await;
    let record = bench.complete(&task).await;
    for outcome in [Outcome::completed("{\"other\":1}"), Outcome::failed("other")] {
        assert_eq!(bench.submit(&task, outcome).await, Err(Refusal::NotInProgress));
    }
    assert_eq!(bench.record(task.id).await, record);
}

pub async fn a_result_of_another_tenant_is_not_found(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render")).await;
    bench.complete(&task).await;
    assert_eq!(bench.tenant("umbrella").lookup(task.id).await, ResultLookup::NotFound);
}

async fn watch(bench: &Bench, task: &Task, wait: Wait) -> JoinHandle<ResultLookup> {
    let answer = bench.store().result(bench.named(task.id), wait);
    let watching = tokio::spawn(async move { answer.await.expect("a held result does not fail") });
    bench.settle().await;
    watching
}

async fn watched(watching: JoinHandle<ResultLookup>) -> ResultLookup {
    within("the result that was waited for", watching).await.expect("waiting does not panic")
}

async fn told(watching: JoinHandle<ResultLookup>) -> codeq_queue::ResultRecord {
    match watched(watching).await {
        ResultLookup::Done { record, task } => {
            assert!(task.has_result());
            record
        }
        other => panic!("expected a result, found {other:?}"),
    }
}

pub async fn a_waiting_producer_is_told_of_a_result(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render")).await;
    let (first, second) =
        (watch(&bench, &task, Wait::Forever).await, watch(&bench, &task, Wait::Forever).await);
    let record = bench.complete(&task).await;
    assert_eq!(told(first).await, record);
    assert_eq!(told(second).await, record, "everyone who waits is told");
    assert_eq!(told(watch(&bench, &task, Wait::Forever).await).await, record, "and so is who comes later");
}

pub async fn a_waiting_producer_is_told_of_a_dead_letter(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render").max_attempts(1)).await;
    let watching = watch(&bench, &task, Wait::Forever).await;
    assert_eq!(bench.nack(&task, 0, "broken").await, Ok(Returned::Dead));
    assert_eq!(told(watching).await.failure_reason, Some(FailureReason::MaxAttempts));
    let task = bench.create_and_take(New::of("render").max_attempts(1)).await;
    let watching = watch(&bench, &task, Wait::Forever).await;
    bench.advance(60);
    assert_eq!(told(watching).await.error.as_deref(), Some("LEASE_EXPIRED"));
}

pub async fn a_waiting_producer_is_told_of_a_cancellation(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create("render").await;
    let watching = watch(&bench, &task, Wait::Forever).await;
    bench.cancel(task.id).await.expect("a ready task can be cancelled");
    assert_eq!(told(watching).await.failure_reason, Some(FailureReason::Cancelled));
}

pub async fn a_wait_for_a_result_ends_pending_at_its_instant(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render")).await;
    let watching = watch(&bench, &task, Wait::Until(bench.now().plus_seconds(10))).await;
    bench.nack(&task, 1, "not the end").await.expect("the owner may nack");
    bench.advance_ms(9_999);
    bench.settle().await;
    assert!(!watching.is_finished(), "neither a retry nor time short of the instant ends the wait");
    bench.advance_ms(1);
    assert_eq!(watched(watching).await, ResultLookup::Pending);
}

pub async fn waiting_for_an_unknown_task_ends_at_once(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create("render").await;
    let foreign = watch(&bench.tenant("umbrella"), &task, Wait::Forever).await;
    assert_eq!(watched(foreign).await, ResultLookup::NotFound);
}
