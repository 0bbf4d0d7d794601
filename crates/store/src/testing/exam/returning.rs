//! Giving a task back: nack, abandon and refund, until the attempts run out.

use super::bench::{Bench, eager_rules, until};
use super::candidate::Open;
use super::request::New;
use codeq_queue::store::{Nack, Returned};
use codeq_queue::{FailureReason, Place, Status, Task, TaskStatus};

pub async fn a_nacked_task_waits_and_comes_back(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render")).await;
    bench.advance_ms(3);
    let back = bench.nack(&task, 0, "disk full").await;
    assert_eq!(back, Ok(Returned::Requeued { delay_seconds: 5 }));
    let waiting = bench.get(task.id).await;
    assert_eq!((waiting.state.status(), waiting.state.place()), (TaskStatus::Pending, Place::DelayedSet));
    assert_eq!(until(&waiting), bench.now().plus_seconds(5));
    assert_eq!((waiting.attempts, waiting.refunds), (1, 0));
    assert_eq!((waiting.error.as_deref(), waiting.updated_at), (Some("disk full"), bench.now()));
    assert_eq!((waiting.created_at, waiting.state.lease()), (task.created_at, None));
    bench.advance(5);
    let again = bench.take("render").await;
    assert_eq!((again.id, again.attempts), (task.id, 2));
}

pub async fn a_nack_with_no_delay_is_ready_at_once(open: Open) {
    let bench = Bench::with(&open, eager_rules());
    let task = bench.create_and_take(New::of("render")).await;
    assert_eq!(bench.nack(&task, 0, "x").await, Ok(Returned::Requeued { delay_seconds: 0 }));
    assert_eq!(bench.get(task.id).await.state.place(), Place::PendingList);
    assert_eq!(bench.take("render").await.attempts, 2);
}

pub async fn a_nack_with_a_refund_uses_no_attempt_and_never_kills(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render").max_attempts(1)).await;
    let nack = Nack { refund: true, ..Nack::new(bench.report(&task), 7, Some("too early".into())) };
    let back = bench.ask("nack", bench.store().nack(vec![nack])).await.remove(0);
    assert_eq!(back, Ok(Returned::Requeued { delay_seconds: 7 }));
    let waiting = bench.get(task.id).await;
    assert_eq!(until(&waiting), bench.now().plus_seconds(7));
    assert_eq!((waiting.attempts, waiting.refunds, waiting.error.as_deref()), (1, 1, Some("too early")));
    bench.advance(7);
    let again = bench.take("render").await;
    assert_eq!((again.id, again.attempts), (task.id, 2));
    // The next one counts.
    assert_eq!(bench.nack(&again, 7, "x").await, Ok(Returned::Dead));
}

pub async fn a_blank_reason_keeps_the_error(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render")).await;
    bench.nack(&task, 1, "first").await.expect("the owner may nack");
    for reason in [None, Some(String::new()), Some("  \t".into())] {
        bench.advance(1);
        let task = bench.take("render").await;
        let nack = Nack::new(bench.report(&task), 1, reason);
        bench.ask("nack", bench.store().nack(vec![nack])).await.remove(0).expect("the owner may nack");
        assert_eq!(bench.get(task.id).await.error.as_deref(), Some("first"));
    }
}

pub async fn a_long_reason_is_cut(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render")).await;
    bench.nack(&task, 1, &"é".repeat(5_000)).await.expect("the owner may nack");
    assert_eq!(bench.get(task.id).await.error.as_deref(), Some("é".repeat(4_096).as_str()));
}

pub async fn an_explicit_delay_bypasses_the_policy_and_is_clamped(open: Open) {
    let bench = Bench::new(&open);
    for (asked, got) in [(1, 1), (7, 7), (900, 900), (901, 900), (i64::MAX, 900), (0, 5), (-1, 5)] {
        let task = bench.create_and_take(New::of("render")).await;
        assert_eq!(bench.nack(&task, asked, "x").await, Ok(Returned::Requeued { delay_seconds: got }));
        assert_eq!(until(&bench.get(task.id).await), bench.now().plus_seconds(got), "asked for {asked}");
        bench.cancel(task.id).await.expect("a delayed task can be cancelled");
    }
}

pub async fn an_abandoned_task_is_ready_at_once_with_its_error_kept(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render")).await;
    bench.nack(&task, 1, "first").await.expect("the owner may nack");
    bench.advance(1);
    let task = bench.take("render").await;
    bench.advance_ms(3);
    assert_eq!(bench.abandon(&task).await, Ok(Returned::Requeued { delay_seconds: 0 }));
    let ready = bench.get(task.id).await;
    assert_eq!((ready.state.status(), ready.state.place()), (TaskStatus::Pending, Place::PendingList));
    assert_eq!((ready.attempts, ready.refunds), (2, 0));
    assert_eq!((ready.error.as_deref(), ready.updated_at), (Some("first"), bench.now()));
}

pub async fn a_refund_does_not_count_and_never_kills(open: Open) {
    let bench = Bench::new(&open);
    let mut task = bench.create_and_take(New::of("render").max_attempts(1)).await;
    for refunds in 1..=4 {
        assert_eq!(bench.refund(&task).await, Ok(Returned::Requeued { delay_seconds: 0 }));
        let ready = bench.get(task.id).await;
        assert_eq!((ready.attempts, ready.refunds, ready.used()), (refunds, refunds, 0));
        assert_eq!((ready.state.place(), ready.error.as_deref()), (Place::PendingList, None));
        task = bench.take("render").await;
        assert_eq!(task.attempts, refunds + 1, "the fencing number only grows");
    }
    assert_eq!(bench.abandon(&task).await, Ok(Returned::Dead), "the uncounted ones did not save the last");
}

async fn assert_dead(bench: &Bench, task: &Task, error: &str) {
    let dead = bench.get(task.id).await;
    assert_eq!((dead.state.status(), dead.state.place()), (TaskStatus::Failed, Place::DeadLetterSet));
    assert_eq!((dead.error.as_deref(), dead.updated_at), (Some(error), bench.now()));
    assert_eq!((dead.attempts, dead.created_at), (task.attempts, task.created_at));
    let record = bench.record(task.id).await;
    assert_eq!((record.status, record.error.as_deref()), (Status::Failed, Some(error)));
    assert_eq!(record.failure_reason, Some(FailureReason::MaxAttempts));
    assert_eq!((record.result.as_deref(), record.completed_at), (None, bench.now()));
    assert!(record.artifacts.is_empty());
    assert!(bench.claim_any(1).await.is_empty());
}

pub async fn a_task_with_one_attempt_dies_of_its_first_nack(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render").max_attempts(1)).await;
    bench.advance_ms(9);
    assert_eq!(bench.nack(&task, 7, "broken").await, Ok(Returned::Dead));
    assert_dead(&bench, &task, "broken").await;
}

pub async fn a_task_with_one_attempt_dies_of_its_first_abandon(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render").max_attempts(1)).await;
    bench.advance_ms(9);
    assert_eq!(bench.abandon(&task).await, Ok(Returned::Dead));
    assert_dead(&bench, &task, "MAX_ATTEMPTS").await;
}

pub async fn a_nack_without_a_reason_dies_of_max_attempts(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render").max_attempts(1)).await;
    assert_eq!(bench.nack(&task, 0, " ").await, Ok(Returned::Dead));
    assert_dead(&bench, &task, "MAX_ATTEMPTS").await;
}

pub async fn a_task_with_three_attempts_dies_of_the_third(open: Open) {
    let bench = Bench::with(&open, eager_rules());
    let mut task = bench.create_and_take(New::of("render").max_attempts(3)).await;
    assert_eq!(bench.nack(&task, 0, "one").await, Ok(Returned::Requeued { delay_seconds: 0 }));
    task = bench.take("render").await;
    assert_eq!(bench.abandon(&task).await, Ok(Returned::Requeued { delay_seconds: 0 }));
    task = bench.take("render").await;
    assert_eq!(bench.nack(&task, 0, "three").await, Ok(Returned::Dead));
    assert_dead(&bench, &task, "three").await;
}

pub async fn refunds_do_not_bring_the_end_nearer_or_further(open: Open) {
    let bench = Bench::with(&open, eager_rules());
    let mut task = bench.create_and_take(New::of("render").max_attempts(2)).await;
    for _ in 0..3 {
        bench.refund(&task).await.expect("the owner may refund");
        task = bench.take("render").await;
    }
    assert_eq!(bench.nack(&task, 0, "x").await, Ok(Returned::Requeued { delay_seconds: 0 }));
    task = bench.take("render").await;
    assert_eq!((task.attempts, task.refunds), (5, 3));
    assert_eq!(bench.nack(&task, 0, "x").await, Ok(Returned::Dead));
}
