//! The clock: time may step back; nothing is lost by it and no record grows younger.

use super::bench::{Bench, eager_rules, until};
use super::candidate::{Open, START};
use super::request::New;
use codeq_queue::{Place, Time};

const HOUR: i64 = 3_600_000;

fn step_back(bench: &Bench) {
    bench.set(Time::from_millis(bench.now().millis() - HOUR));
}

pub async fn a_step_back_loses_no_task(open: Open) {
    let bench = Bench::new(&open);
    let ready = bench.create("render").await;
    let delayed = bench.make(New::of("render").delayed_ms(1000)).await.task;
    let running = bench.create_and_take(New::of("running")).await;
    step_back(&bench);
    for task in [&ready, &delayed, &running] {
        assert_eq!(bench.get(task.id).await, *task);
    }
    assert_eq!(bench.take("render").await.id, ready.id);
    bench.complete(&running).await;
    bench.set(until(&delayed));
    assert_eq!(bench.take("render").await.id, delayed.id, "its instant still comes");
}

pub async fn a_step_back_does_not_bring_a_delay_forward(open: Open) {
    let bench = Bench::new(&open);
    let delayed = bench.make(New::of("render").delayed_ms(1000)).await.task;
    step_back(&bench);
    bench.settle().await;
    assert_eq!(bench.get(delayed.id).await.state.place(), Place::DelayedSet);
    bench.set(Time::from_millis(until(&delayed).millis() - 1));
    assert!(bench.claim(&["render"], 1).await.is_empty());
    bench.set(until(&delayed));
    assert_eq!(bench.take("render").await.id, delayed.id);
}

pub async fn a_lease_given_before_a_step_back_ends_at_its_deadline(open: Open) {
    let bench = Bench::with(&open, eager_rules());
    let task = bench.create_and_take(New::of("render")).await;
    let deadline = task.state.lease().expect("it is running").until;
    step_back(&bench);
    assert_eq!(bench.get(task.id).await.state.place(), Place::InProgressSet);
    bench.set(Time::from_millis(deadline.millis() - 1));
    assert_eq!(bench.get(task.id).await.state.place(), Place::InProgressSet);
    bench.set(deadline);
    assert_eq!(bench.take("render").await.attempts, 2);
}

pub async fn the_times_of_a_record_never_go_back(open: Open) {
    let bench = Bench::with(&open, eager_rules());
    bench.advance(10_000);
    let mut before = bench.create("render").await;
    for _ in 0..3 {
        step_back(&bench);
        let running = bench.take("render").await;
        bench.nack(&running, 0, "x").await.expect("the owner may nack");
        let after = bench.get(before.id).await;
        assert!(running.updated_at >= before.updated_at && after.updated_at >= running.updated_at);
        assert_eq!(after.created_at, before.created_at);
        before = after;
    }
    let running = bench.take("render").await;
    let record = bench.complete(&running).await;
    assert!(record.completed_at >= before.created_at);
    let history = bench.attempts(before.id).await.expect("the task is known");
    for attempt in history {
        assert!(attempt.end.is_some_and(|end| end.at >= attempt.claimed_at && end.at >= START));
    }
}

pub async fn order_survives_a_step_back(open: Open) {
    let bench = Bench::new(&open);
    let first = bench.create("render").await;
    step_back(&bench);
    let second = bench.create("render").await;
    assert_eq!(super::bench::ids(&bench.claim(&["render"], 9).await), [first.id, second.id]);
}

pub async fn a_jump_over_many_instants_acts_on_all_of_them(open: Open) {
    let bench = Bench::with(&open, eager_rules());
    let done = bench.create_and_take(New::of("done")).await;
    bench.complete(&done).await;
    let expiring = bench.create_and_take(New::of("render")).await;
    let dying = bench.create_and_take(New::of("dying").max_attempts(1)).await;
    let delayed = bench.make(New::of("other").delayed_ms(1000)).await.task;
    bench.advance(30 * 86_400);
    assert_eq!(bench.get(expiring.id).await.state.place(), Place::PendingList);
    assert_eq!(bench.get(dying.id).await.state.place(), Place::DeadLetterSet);
    assert_eq!(bench.get(delayed.id).await.state.place(), Place::PendingList);
    assert_eq!(bench.find(done.id).await, None);
}
