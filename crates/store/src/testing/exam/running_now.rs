//! An operator's run-now: what waits for its time need not.

use super::bench::{Bench, ids, plain_rules};
use super::candidate::Open;
use super::request::New;
use codeq_queue::store::{Returned, Wait};
use codeq_queue::{Commands, Outcome, Place, Refusal, TaskId};

pub async fn a_delayed_task_is_ready_at_once_and_joins_the_tail(open: Open) {
    let bench = Bench::new(&open);
    let late = bench.make(New::of("render").delayed_ms(60_000)).await.task;
    let first = bench.create("render").await;
    bench.advance_ms(3);
    let made = bench.run_now(late.id).await.expect("a delayed task can run now");
    assert_eq!(made, bench.get(late.id).await);
    assert_eq!((made.state.place(), made.updated_at, made.attempts), (Place::PendingList, bench.now(), 0));
    assert_eq!((bench.stats("render").await.ready_total(), bench.stats("render").await.delayed), (2, 0));
    assert_eq!(ids(&bench.claim(&["render"], 5).await), [first.id, late.id]);
    bench.advance(60);
    assert!(bench.claim_any(1).await.is_empty(), "its old time means nothing");
}

pub async fn a_task_that_waits_for_its_retry_is_ready_at_once(open: Open) {
    let bench = Bench::with(&open, plain_rules());
    let task = bench.create_and_take(New::of("render").max_attempts(3)).await;
    let back = bench.nack(&task, 30, "broken").await;
    assert_eq!(back, Ok(Returned::Requeued { delay_seconds: 30 }));
    let made = bench.run_now(task.id).await.expect("a task that waits for its retry can run now");
    assert_eq!((made.attempts, made.refunds, made.error.as_deref()), (1, 0, Some("broken")));
    assert_eq!(bench.take("render").await.attempts, 2);
}

pub async fn a_ready_task_stays_as_it_is(open: Open) {
    let bench = Bench::new(&open);
    let first = bench.create("render").await;
    let second = bench.create("render").await;
    bench.advance_ms(5);
    assert_eq!(bench.run_now(first.id).await, Ok(bench.get(first.id).await));
    assert_eq!(bench.get(first.id).await.updated_at, first.updated_at);
    assert_eq!(ids(&bench.claim(&["render"], 2).await), [first.id, second.id], "it keeps its place");
}

pub async fn what_does_not_wait_for_its_time_is_not_made_ready(open: Open) {
    let bench = Bench::new(&open);
    let running = bench.create_and_take(New::of("running")).await;
    let completed = bench.create_and_take(New::of("completed")).await;
    bench.complete(&completed).await;
    let failed = bench.create_and_take(New::of("failed")).await;
    bench.submit(&failed, Outcome::failed("no")).await.expect("the owner may fail its task");
    let cancelled = bench.make(New::of("cancelled").delayed_ms(9_000)).await.task;
    bench.cancel(cancelled.id).await.expect("a delayed task can be cancelled");
    let dead = bench.dead("dead").await;
    for id in [running.id, completed.id, failed.id, cancelled.id, dead.id] {
        let before = bench.get(id).await;
        assert_eq!(bench.run_now(id).await, Err(Refusal::NotDelayed), "{:?}", before.state);
        assert_eq!(bench.get(id).await, before);
    }
    let delayed = bench.make(New::of("delayed").delayed_ms(9_000)).await.task;
    assert_eq!(bench.tenant("umbrella").run_now(delayed.id).await, Err(Refusal::NotFound));
    assert_eq!(bench.run_now(TaskId::from_bits(7)).await, Err(Refusal::NotFound));
    assert_eq!(bench.get(delayed.id).await, delayed);
}

pub async fn a_waiting_claim_gets_what_is_run_now(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.make(New::of("render").delayed_ms(60_000)).await.task;
    let waiting = bench.hold(Commands::these(["render"]), Wait::Forever).await;
    bench.run_now(task.id).await.expect("a delayed task can run now");
    let taken = waiting.await.expect("the claim is answered");
    assert_eq!(ids(&taken), [task.id]);
}
