//! Tasks that wait for others. Sat by the stores that keep batches, with `codeq_store::exam_batches!`.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on panics")]

use super::bench::{Bench, eventually, one, until, within};
use super::candidate::Open;
use super::request::New;
use codeq_queue::{FailureReason, Outcome, Place, Refusal, State, Task, TaskId};

const CHAIN: usize = 300;
const CROWD: usize = 2500;

pub async fn created(bench: &Bench, new: New) -> Task {
    bench.make(new).await.task
}

/// Crashes the store if it can be, and else closes it; then opens it again.
pub fn stop_and_open(bench: &Bench) {
    if !bench.candidate.crash() {
        bench.candidate.reopen();
    }
}

fn waits_for(task: &Task) -> usize {
    task.state.held().map_or(0, |held| held.open.len())
}

pub async fn is_ready(bench: &Bench, id: TaskId) {
    let what = format!("task {id} becomes ready");
    eventually(&what, || async { matches!(bench.get(id).await.state, State::Ready { .. }) }).await;
}

pub async fn has_failed(bench: &Bench, id: TaskId) -> Task {
    let what = format!("task {id} fails");
    eventually(&what, || async { bench.get(id).await.state.has_failed() }).await;
    bench.get(id).await
}

pub async fn work(bench: &Bench, command: &str) -> Task {
    let task = bench.take(command).await;
    bench.complete(&task).await;
    task
}

async fn fail(bench: &Bench, command: &str) -> Task {
    let task = bench.take(command).await;
    bench.submit(&task, Outcome::failed("broken")).await.expect("the owner may fail its task");
    task
}

pub async fn a_task_waits_for_another(open: Open) {
    let bench = Bench::new(&open);
    let (first, second) = (bench.create("first").await, bench.create("second").await);
    let held = created(&bench, New::of("after").after(&[first.id, second.id])).await;
    assert_eq!((waits_for(&held), held.state.place()), (2, Place::HeldSet));
    assert_eq!(held.state.status().word(), "PENDING");
    bench.settle().await;
    assert!(bench.claim(&["after"], 1).await.is_empty(), "a held task is not lent");
    assert_eq!((bench.stats("after").await.held, bench.stats("after").await.ready_total()), (1, 0));
    work(&bench, "first").await;
    eventually("one of two has ended", || async { waits_for(&bench.get(held.id).await) == 1 }).await;
    work(&bench, "second").await;
    is_ready(&bench, held.id).await;
    assert_eq!(bench.stats("after").await.held, 0);
    assert_eq!(work(&bench, "after").await.id, held.id);
}

pub async fn a_delay_counts_from_the_release(open: Open) {
    let bench = Bench::new(&open);
    let first = bench.create("first").await;
    let held = created(&bench, New::of("after").after(&[first.id]).delayed_ms(5_000)).await;
    bench.advance(100);
    assert_eq!(waits_for(&bench.get(held.id).await), 1);
    work(&bench, "first").await;
    let is_delayed = || async { matches!(bench.get(held.id).await.state, State::Delayed { .. }) };
    eventually("it waits for its delay", is_delayed).await;
    assert_eq!(until(&bench.get(held.id).await), bench.now().plus_seconds(5));
    bench.advance(5);
    is_ready(&bench, held.id).await;
}

pub async fn the_last_of_a_diamond_waits_for_both_sides(open: Open) {
    let bench = Bench::new(&open);
    let top = bench.create("top").await;
    let left = created(&bench, New::of("left").after(&[top.id])).await;
    let right = created(&bench, New::of("right").after(&[top.id])).await;
    let bottom = created(&bench, New::of("bottom").after(&[left.id, right.id])).await;
    work(&bench, "top").await;
    is_ready(&bench, left.id).await;
    is_ready(&bench, right.id).await;
    assert_eq!(waits_for(&bench.get(bottom.id).await), 2);
    work(&bench, "right").await;
    eventually("one side has ended", || async { waits_for(&bench.get(bottom.id).await) == 1 }).await;
    work(&bench, "left").await;
    is_ready(&bench, bottom.id).await;
}

/// A chain over several queues, and so over all shards.
async fn chain(bench: &Bench, length: usize) -> Vec<(TaskId, String)> {
    let mut links: Vec<(TaskId, String)> = Vec::new();
    for index in 0..length {
        let command = format!("link{}", index % 7);
        let after: Vec<TaskId> = links.last().map(|(id, _)| *id).into_iter().collect();
        links.push((created(bench, New::of(&command).after(&after)).await.id, command));
    }
    links
}

pub async fn a_long_chain_runs_in_order(open: Open) {
    let bench = Bench::new(&open);
    for (id, command) in chain(&bench, CHAIN).await {
        is_ready(&bench, id).await;
        assert_eq!(work(&bench, &command).await.id, id);
    }
    assert!(bench.claim_any(1).await.is_empty());
}

pub async fn a_failure_fails_all_that_follows(open: Open) {
    let bench = Bench::new(&open);
    let links = chain(&bench, CHAIN).await;
    work(&bench, "link0").await;
    is_ready(&bench, links[1].0).await;
    let broken = fail(&bench, "link1").await;
    let next = has_failed(&bench, links[2].0).await;
    assert_eq!(next.error.as_deref(), Some(&*format!("DEPENDENCY: {}", broken.id)));
    assert_eq!(bench.record(next.id).await.failure_reason, Some(FailureReason::Dependency));
    let last = has_failed(&bench, links[CHAIN - 1].0).await;
    assert_eq!(last.error.as_deref(), Some(&*format!("DEPENDENCY: {}", links[CHAIN - 2].0)));
    assert!(bench.claim_any(1).await.is_empty());
}

pub async fn a_failure_lets_those_run_that_asked_for_it(open: Open) {
    let bench = Bench::new(&open);
    let (good, bad) = (bench.create("good").await, bench.create("bad").await);
    let cleanup = created(&bench, New::of("cleanup").after(&[good.id, bad.id]).run_anyway()).await;
    let report = created(&bench, New::of("report").after(&[cleanup.id])).await;
    fail(&bench, "bad").await;
    eventually("one has ended", || async { waits_for(&bench.get(cleanup.id).await) == 1 }).await;
    work(&bench, "good").await;
    is_ready(&bench, cleanup.id).await;
    work(&bench, "cleanup").await;
    is_ready(&bench, report.id).await;
}

pub async fn every_end_but_success_counts_as_failure(open: Open) {
    let bench = Bench::new(&open);
    let dying = created(&bench, New::of("dying").max_attempts(1)).await;
    let expiring = created(&bench, New::of("expiring").expires_at(bench.now().plus_seconds(5))).await;
    let cancelled = bench.create("cancelled").await;
    let mut waiting = Vec::new();
    for (index, id) in [dying.id, expiring.id, cancelled.id].into_iter().enumerate() {
        waiting.push(created(&bench, New::of(&format!("after{index}")).after(&[id])).await.id);
    }
    let taken = bench.take("dying").await;
    bench.nack(&taken, 0, "broken").await.unwrap();
    bench.cancel(cancelled.id).await.unwrap();
    bench.advance(5);
    for id in waiting {
        assert_eq!(has_failed(&bench, id).await.state, State::Failed);
    }
}

pub async fn what_has_ended_before_counts_at_once(open: Open) {
    let bench = Bench::new(&open);
    bench.create("good").await;
    bench.create("bad").await;
    let (good, bad) = (work(&bench, "good").await.id, fail(&bench, "bad").await.id);
    // Also where they are no longer in memory.
    if bench.candidate.keeps_on_reopen() {
        stop_and_open(&bench);
    }
    let ready = created(&bench, New::of("a").after(&[good])).await;
    assert!(matches!(ready.state, State::Ready { .. }), "{:?}", ready.state);
    assert_eq!(ready.body.after(), [good]);
    let delayed = created(&bench, New::of("b").after(&[good]).delayed_ms(9_000)).await;
    assert_eq!(until(&delayed), bench.now().plus_seconds(9));
    let both = created(&bench, New::of("c").after(&[good, bad])).await;
    has_failed(&bench, both.id).await;
    let anyway = created(&bench, New::of("d").after(&[good, bad]).run_anyway()).await;
    assert!(matches!(anyway.state, State::Ready { .. }), "{:?}", anyway.state);
}

pub async fn what_nobody_knows_is_refused(open: Open) {
    let bench = Bench::new(&open);
    let first = bench.create("first").await;
    let unknown = TaskId::from_bits(77);
    let refused = |id: TaskId| Err(Refusal::UnknownDependency(id.to_string().into()));
    let after = |id: TaskId| New::of("after").after(&[id]).key("k");
    let ask = async |bench: &Bench, new: New| {
        let new = new.build(&bench.tenant);
        one(bench.ask("create", bench.store().create(vec![new])).await).map(|created| created.is_replay)
    };
    assert_eq!(ask(&bench, after(unknown)).await, refused(unknown));
    assert_eq!(ask(&bench.tenant("globex"), after(first.id)).await, refused(first.id), "another tenant's");
    assert_eq!(ask(&bench, after(first.id)).await, Ok(false));
    assert_eq!(ask(&bench, after(unknown)).await, Ok(true), "a replay is answered first");
}

pub async fn held_tasks_can_be_cancelled_and_expire(open: Open) {
    let bench = Bench::new(&open);
    let first = bench.create("first").await;
    let one = created(&bench, New::of("one").after(&[first.id])).await;
    let expires = New::of("two").after(&[first.id]).expires_at(bench.now().plus_seconds(9));
    let two = created(&bench, expires).await;
    assert_eq!(bench.cancel(one.id).await.unwrap().state, State::Cancelled);
    bench.advance(9);
    bench.settle().await;
    assert_eq!(bench.record(two.id).await.failure_reason, Some(FailureReason::Expired));
    work(&bench, "first").await;
    bench.settle().await;
    assert!(bench.claim_any(1).await.is_empty());
}

pub async fn a_requeued_task_waits_for_nothing(open: Open) {
    let bench = Bench::new(&open);
    let first = bench.create("first").await;
    let held = created(&bench, New::of("after").after(&[first.id])).await;
    bench.cancel(first.id).await.unwrap();
    has_failed(&bench, held.id).await;
    let again = bench.requeue(held.id, None).await.unwrap();
    assert!(matches!(again.state, State::Ready { .. }) && again.body.after().is_empty());
    bench.requeue(first.id, None).await.unwrap();
    assert_eq!(work(&bench, "after").await.id, held.id);
}

pub async fn very_many_are_released_by_one(open: Open) {
    let bench = Bench::new(&open);
    let first = bench.create("first").await;
    let new = |index: usize| New::of(&format!("many{}", index % 5)).after(&[first.id]).build(&bench.tenant);
    let made = bench.ask("create", bench.store().create((0..CROWD).map(new).collect())).await;
    assert!(made.iter().all(Result::is_ok));
    work(&bench, "first").await;
    let mut released = 0;
    within("all are released", async {
        while released < CROWD {
            released += bench.claim_any(500).await.len();
        }
    })
    .await;
    assert_eq!(released, CROWD, "each once");
}

pub async fn held_tasks_are_kept(open: Open) {
    let bench = Bench::new(&open);
    if !bench.candidate.keeps_on_reopen() {
        return;
    }
    let (first, second) = (bench.create("first").await, bench.create("second").await);
    let held = created(&bench, New::of("after").after(&[first.id, second.id]).delayed_ms(3_000)).await;
    let doomed = created(&bench, New::of("doomed").after(&[second.id])).await;
    work(&bench, "first").await;
    stop_and_open(&bench);
    eventually("one has ended", || async { waits_for(&bench.get(held.id).await) == 1 }).await;
    assert_eq!(bench.stats("after").await.held, 1);
    stop_and_open(&bench);
    assert_eq!(waits_for(&bench.get(held.id).await), 1);
    fail(&bench, "second").await;
    stop_and_open(&bench);
    for id in [held.id, doomed.id] {
        has_failed(&bench, id).await;
    }
    assert_eq!(bench.get(held.id).await.body.after(), [first.id, second.id]);
}
