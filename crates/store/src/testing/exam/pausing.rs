//! Pausing: a paused queue lends nothing; everything else goes on.

use super::bench::{Bench, LEASE};
use super::candidate::Open;
use super::request::New;
use codeq_queue::store::{Returned, Wait};
use codeq_queue::{Commands, Place};

pub async fn claims_pass_a_paused_queue_over(open: Open) {
    let bench = Bench::new(&open);
    let paused = bench.make(New::of("Paused").priority(9)).await.task;
    let other = bench.create("other").await;
    assert!(bench.pause("pAUSED").await.is_paused);
    assert!(bench.claim(&["paused"], 9).await.is_empty());
    assert_eq!(bench.claim(&["paused", "other"], 9).await[0].id, other.id);
    assert!(bench.claim_any(9).await.is_empty());
    assert!(!bench.resume("paused").await.is_paused);
    assert_eq!(bench.claim_any(9).await[0].id, paused.id);
}

pub async fn everything_else_goes_on_in_a_paused_queue(open: Open) {
    let bench = Bench::new(&open);
    let running = bench.create_and_take(New::of("render")).await;
    let back = bench.create_and_take(New::of("render")).await;
    let expiring = bench.create_and_take(New::of("render").max_attempts(1)).await;
    bench.pause("render").await;
    let made = bench.create("render").await;
    let delayed = bench.make(New::of("render").delayed_ms(10)).await.task;
    assert_eq!(bench.nack(&back, 3, "x").await, Ok(Returned::Requeued { delay_seconds: 3 }));
    assert_eq!(bench.heartbeat(bench.fenced(&running), LEASE * 9).await, Ok(()));
    bench.advance(60);
    assert_eq!(bench.get(made.id).await.state.place(), Place::PendingList);
    assert_eq!(bench.get(delayed.id).await.state.place(), Place::PendingList);
    assert_eq!(bench.get(back.id).await.state.place(), Place::PendingList);
    assert_eq!(bench.get(expiring.id).await.state.place(), Place::DeadLetterSet);
    bench.complete(&running).await;
    let stats = bench.stats("render").await;
    assert_eq!((stats.ready_total(), stats.dead, stats.is_paused), (3, 1, true));
}

pub async fn a_held_claim_passes_a_paused_queue_over(open: Open) {
    let bench = Bench::new(&open);
    bench.pause("paused").await;
    let held = bench.hold(Commands::Any, Wait::Forever).await;
    let waiting = bench.create("paused").await;
    bench.settle().await;
    assert!(!held.is_finished());
    let other = bench.create("other").await;
    let tasks = super::bench::within("the held claim", held).await.expect("waiting does not panic");
    assert_eq!(tasks[0].id, other.id);
    assert_eq!(bench.get(waiting.id).await.attempts, 0);
}

pub async fn a_pause_is_for_one_tenant_and_one_command(open: Open) {
    let bench = Bench::new(&open);
    let umbrella = bench.tenant("umbrella");
    bench.pause("render").await;
    umbrella.create("render").await;
    bench.create("render2").await;
    assert!(!umbrella.stats("render").await.is_paused);
    assert_eq!(umbrella.claim(&["render"], 1).await.len(), 1);
    assert_eq!(bench.claim_any(1).await.len(), 1);
}

pub async fn pausing_twice_is_pausing_once(open: Open) {
    let bench = Bench::new(&open);
    bench.create("render").await;
    bench.pause("render").await;
    assert!(bench.pause("render").await.is_paused);
    assert!(!bench.resume("render").await.is_paused);
    assert!(!bench.resume("render").await.is_paused);
    assert_eq!(bench.claim(&["render"], 1).await.len(), 1);
}

pub async fn a_queue_without_tasks_can_be_paused(open: Open) {
    let bench = Bench::new(&open);
    let stats = bench.pause("render").await;
    assert_eq!((stats.is_paused, stats.ready_total()), (true, 0));
    assert!(bench.stats("render").await.is_paused);
    bench.create("render").await;
    assert!(bench.claim_any(1).await.is_empty());
}

pub async fn the_order_is_kept_through_a_pause(open: Open) {
    let bench = Bench::new(&open);
    let first = bench.create("render").await;
    bench.pause("render").await;
    let second = bench.create("render").await;
    bench.resume("render").await;
    let third = bench.create("render").await;
    let order = super::bench::ids(&bench.claim(&["render"], 9).await);
    assert_eq!(order, [first.id, second.id, third.id]);
}
