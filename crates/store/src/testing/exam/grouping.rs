//! Batches: when they close and end, and what follows. Sat by the stores that keep them, with
//! `codeq_store::exam_batches!`.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on panics")]

use super::bench::{Bench, eventually, one, plain_rules};
use super::candidate::Open;
use super::dependencies::{created, has_failed, is_ready, stop_and_open, work};
use super::request::New;
use crate::Rules;
use codeq_queue::batch::{Batch, BatchState, NewBatch};
use codeq_queue::{Filter, Outcome, Page, Refusal, State, TaskId};
use std::sync::Arc;
use std::time::Duration;

const CLOSE_AFTER: Duration = Duration::from_secs(600);

pub async fn make(bench: &Bench) -> TaskId {
    let store = bench.store();
    let batches = store.batching().expect("the candidate keeps batches");
    let new =
        NewBatch { tenant: bench.tenant.clone(), name: Some("nightly".into()), close_after: CLOSE_AFTER };
    bench.ask("create batch", batches.create_batch(new)).await.unwrap().id
}

pub async fn find(bench: &Bench, id: TaskId) -> Option<Batch> {
    let store = bench.store();
    let batches = store.batching().expect("the candidate keeps batches");
    bench.ask("batch", batches.batch(bench.tenant.clone(), id)).await
}

async fn state(bench: &Bench, id: TaskId) -> BatchState {
    find(bench, id).await.expect("the batch is there").state()
}

async fn counts(bench: &Bench, id: TaskId) -> (u64, u64, u64) {
    let counts = find(bench, id).await.expect("the batch is there").counts();
    (counts.live, counts.completed, counts.failed)
}

/// Counts of other shards come with notes, so they may be a moment behind.
async fn has_counts(bench: &Bench, id: TaskId, expected: (u64, u64, u64)) {
    eventually("the counts of a batch", || async { counts(bench, id).await == expected }).await;
}

pub async fn close(bench: &Bench, id: TaskId) -> Result<Batch, Refusal> {
    let store = bench.store();
    let batches = store.batching().expect("the candidate keeps batches");
    bench.ask("close batch", batches.close_batch(bench.tenant.clone(), id)).await
}

async fn cancel(bench: &Bench, id: TaskId) -> Result<Batch, Refusal> {
    let store = bench.store();
    let batches = store.batching().expect("the candidate keeps batches");
    bench.ask("cancel batch", batches.cancel_batch(bench.tenant.clone(), id)).await
}

/// A member in one of several queues, and so on any shard.
pub async fn join(bench: &Bench, id: TaskId, index: usize) -> Result<TaskId, Refusal> {
    let new = New::of(&format!("part{}", index % 6)).batch(id).build(&bench.tenant);
    one(bench.ask("create", bench.store().create(vec![new])).await).map(|created| created.task.id)
}

async fn fail_one(bench: &Bench) -> TaskId {
    let task = bench.claim_any(1).await.pop().expect("a member to fail");
    bench.submit(&task, Outcome::failed("broken")).await.expect("the owner may fail its task");
    task.id
}

pub async fn a_batch_without_members_completes_when_it_closes(open: Open) {
    let bench = Bench::new(&open);
    let id = make(&bench).await;
    let then = created(&bench, New::of("then").after(&[id])).await;
    assert_eq!(state(&bench, id).await, BatchState::Open);
    assert_eq!(close(&bench, id).await.unwrap().state(), BatchState::Completed);
    is_ready(&bench, then.id).await;
    assert_eq!(close(&bench, id).await.unwrap().state(), BatchState::Completed, "once more changes nothing");
    let late = created(&bench, New::of("late").after(&[id])).await;
    assert!(matches!(late.state, State::Ready { .. }), "it has ended before");
}

pub async fn a_task_after_a_batch_runs_once(open: Open) {
    let bench = Bench::new(&open);
    let id = make(&bench).await;
    let then = created(&bench, New::of("then").after(&[id])).await;
    for index in 0..30 {
        join(&bench, id, index).await.unwrap();
    }
    has_counts(&bench, id, (30, 0, 0)).await;
    for task in bench.claim_any(20).await {
        bench.complete(&task).await;
    }
    has_counts(&bench, id, (10, 20, 0)).await;
    assert!((find(&bench, id).await.unwrap().progress() - 20.0 / 30.0).abs() < 1e-9);
    assert_eq!(close(&bench, id).await.unwrap().state(), BatchState::Closed);
    for task in bench.claim_any(20).await {
        bench.complete(&task).await;
    }
    is_ready(&bench, then.id).await;
    assert_eq!(state(&bench, id).await, BatchState::Completed);
    has_counts(&bench, id, (0, 30, 0)).await;
    assert_eq!(work(&bench, "then").await.id, then.id);
    bench.settle().await;
    assert!(bench.claim_any(1).await.is_empty(), "it runs once");
}

pub async fn a_batch_with_a_failure_fails(open: Open) {
    let bench = Bench::new(&open);
    let id = make(&bench).await;
    let then = created(&bench, New::of("then").after(&[id])).await;
    let anyway = created(&bench, New::of("anyway").after(&[id]).run_anyway()).await;
    for index in 0..6 {
        join(&bench, id, index).await.unwrap();
    }
    close(&bench, id).await.unwrap();
    fail_one(&bench).await;
    for task in bench.claim_any(6).await {
        bench.complete(&task).await;
    }
    is_ready(&bench, anyway.id).await;
    let failed = has_failed(&bench, then.id).await;
    assert_eq!(failed.error.as_deref(), Some(&*format!("DEPENDENCY: {id}")));
    has_counts(&bench, id, (0, 5, 1)).await;
    assert_eq!(state(&bench, id).await, BatchState::Failed);
}

pub async fn a_batch_that_nobody_joins_closes_by_itself(open: Open) {
    let bench = Bench::new(&open);
    let (id, empty) = (make(&bench).await, make(&bench).await);
    bench.advance(500);
    join(&bench, id, 0).await.unwrap();
    has_counts(&bench, id, (1, 0, 0)).await;
    bench.advance(101);
    bench.settle().await;
    let has_ended = || async { state(&bench, empty).await == BatchState::Completed };
    eventually("the empty one has ended", has_ended).await;
    assert_eq!(state(&bench, id).await, BatchState::Open, "a join puts it off");
    bench.advance(500);
    eventually("it closes", || async { state(&bench, id).await == BatchState::Closed }).await;
    eventually("it takes no more", || async { join(&bench, id, 0).await == Err(Refusal::BatchClosed) }).await;
    // The shard of the queue may have let some join before it heard.
    let ends = || async {
        for task in bench.claim_any(10).await {
            bench.complete(&task).await;
        }
        state(&bench, id).await == BatchState::Completed
    };
    eventually("it ends", ends).await;
}

pub async fn a_closed_batch_takes_no_more_members(open: Open) {
    let bench = Bench::new(&open);
    let id = make(&bench).await;
    join(&bench, id, 0).await.unwrap();
    assert_eq!(join(&bench, TaskId::from_bits(9), 0).await, Err(Refusal::BatchNotFound));
    assert_eq!(close(&bench, TaskId::from_bits(9)).await, Err(Refusal::BatchNotFound));
    close(&bench, id).await.unwrap();
    for index in 0..6 {
        assert_eq!(join(&bench, id, index).await, Err(Refusal::BatchClosed));
    }
    let replay = New::of("part0").key("k");
    bench.make(replay.clone()).await;
    assert!(bench.make(replay.batch(id)).await.is_replay, "a replay is answered first");
    has_counts(&bench, id, (1, 0, 0)).await;
}

pub async fn a_cancelled_batch_cancels_its_members(open: Open) {
    let bench = Bench::new(&open);
    let id = make(&bench).await;
    let mut members = Vec::new();
    for index in 0..12 {
        members.push(join(&bench, id, index).await.unwrap());
    }
    let running = bench.claim_any(3).await;
    let bystander = bench.create("part0").await;
    bench.complete(&running[0]).await;
    cancel(&bench, id).await.unwrap();
    eventually("it ends", || async { state(&bench, id).await == BatchState::Failed }).await;
    has_counts(&bench, id, (0, 1, 11)).await;
    for member in members.into_iter().filter(|member| *member != running[0].id) {
        assert_eq!(bench.get(member).await.state, State::Cancelled);
    }
    assert_eq!(work(&bench, "part0").await.id, bystander.id);
    assert_eq!(cancel(&bench, id).await.unwrap().state(), BatchState::Failed, "once more changes nothing");
}

pub async fn a_requeued_member_counts_again_or_leaves(open: Open) {
    let bench = Bench::new(&open);
    let id = make(&bench).await;
    for index in 0..2 {
        join(&bench, id, index).await.unwrap();
    }
    let failed = fail_one(&bench).await;
    has_counts(&bench, id, (1, 0, 1)).await;
    assert_eq!(bench.requeue(failed, None).await.unwrap().body.batch(), Some(id));
    has_counts(&bench, id, (2, 0, 0)).await;
    close(&bench, id).await.unwrap();
    let failed = fail_one(&bench).await;
    let other = bench.claim_any(1).await.pop().unwrap();
    bench.complete(&other).await;
    eventually("it ends", || async { state(&bench, id).await == BatchState::Failed }).await;
    // The shard of the member hears of the end a moment later.
    let leaves = || async {
        let again = bench.requeue(failed, None).await.unwrap();
        bench.cancel(failed).await.unwrap();
        again.body.batch().is_none()
    };
    eventually("it leaves", leaves).await;
    has_counts(&bench, id, (0, 1, 1)).await;
    assert_eq!(state(&bench, id).await, BatchState::Failed);
}

pub async fn batches_belong_to_one_tenant_and_go_when_their_time_is_over(open: Open) {
    let rules = Rules { retention: Duration::from_secs(100), ..plain_rules() };
    let bench = Bench::with(&open, rules);
    let id = make(&bench).await;
    let stranger = bench.tenant("globex");
    join(&bench, id, 0).await.unwrap();
    assert_eq!(find(&stranger, id).await, None);
    assert_eq!(close(&stranger, id).await, Err(Refusal::BatchNotFound));
    assert_eq!(cancel(&stranger, id).await, Err(Refusal::BatchNotFound));
    for index in 0..6 {
        assert_eq!(join(&stranger, id, index).await, Err(Refusal::BatchNotFound));
    }
    let new = New::of("after").after(&[id]).build(&stranger.tenant);
    let refused = one(bench.ask("create", bench.store().create(vec![new])).await);
    assert_eq!(refused, Err(Refusal::UnknownDependency(id.to_string().into())));
    work(&bench, "part0").await;
    close(&bench, id).await.unwrap();
    eventually("it ends", || async { state(&bench, id).await == BatchState::Completed }).await;
    bench.advance(101);
    eventually("it goes", || async { find(&bench, id).await.is_none() }).await;
    assert_eq!(join(&bench, id, 0).await, Err(Refusal::BatchNotFound));
}

/// What was lost with the process is asked for again at once: nothing has to wait for a clock that stands still.
fn reopen(bench: &Bench) {
    stop_and_open(bench);
}

pub async fn a_batch_survives_reopening_in_the_middle(open: Open) {
    let bench = Bench::new(&open);
    if !bench.candidate.keeps_on_reopen() {
        return;
    }
    let id = make(&bench).await;
    let then = created(&bench, New::of("then").after(&[id])).await;
    for index in 0..18 {
        join(&bench, id, index).await.unwrap();
    }
    for task in bench.claim_any(7).await {
        bench.complete(&task).await;
    }
    reopen(&bench);
    has_counts(&bench, id, (11, 7, 0)).await;
    for index in 0..6 {
        join(&bench, id, index).await.unwrap();
    }
    reopen(&bench);
    has_counts(&bench, id, (17, 7, 0)).await;
    close(&bench, id).await.unwrap();
    reopen(&bench);
    assert_eq!(join(&bench, id, 0).await, Err(Refusal::BatchClosed));
    let left = bench.claim_any(20).await;
    assert_eq!(left.len(), 17);
    for task in &left {
        bench.complete(task).await;
    }
    reopen(&bench);
    is_ready(&bench, then.id).await;
    has_counts(&bench, id, (0, 24, 0)).await;
    assert_eq!(state(&bench, id).await, BatchState::Completed);
    reopen(&bench);
    assert_eq!(work(&bench, "then").await.id, then.id);
    assert!(bench.claim_any(1).await.is_empty(), "it runs once");
    has_counts(&bench, id, (0, 24, 0)).await;
}

pub async fn members_are_found_by_their_batch(open: Open) {
    let bench = Bench::new(&open);
    let (id, other) = (make(&bench).await, make(&bench).await);
    let mut members = Vec::new();
    for index in 0..6 {
        members.push(join(&bench, id, index).await.unwrap());
        join(&bench, other, index).await.unwrap();
    }
    let task = bench.claim_any(1).await.pop().unwrap();
    bench.complete(&task).await;
    let page = Page {
        tenant: Some(bench.tenant.clone()),
        filter: Arc::new(Filter { batch: Some(id), ..Filter::default() }),
        is_newest_first: false,
        cursor: None,
        limit: 100,
    };
    let listed = bench.ask("list", bench.store().list(page)).await.unwrap();
    let mut found: Vec<TaskId> = listed.tasks.iter().map(|task| task.id).collect();
    members.sort();
    found.sort();
    assert_eq!(found, members);
}
