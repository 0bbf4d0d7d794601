//! Leases: how long they last, what prolongs them, and what happens at their end.

use super::bench::{Bench, LEASE, eager_rules, until};
use super::candidate::Open;
use super::request::New;
use codeq_queue::store::{Claim, Wait};
use codeq_queue::{Commands, FailureReason, Outcome, Place, Refusal, Status, Task, TaskStatus};
use std::time::Duration;

const LEASE_MS: u64 = 60_000;

async fn claim_for(bench: &Bench, lease: Duration) -> Task {
    let wish = Claim { lease, ..bench.wish(Commands::Any, 1, Wait::No) };
    bench.ask("claim", bench.store().claim(wish)).await.pop().expect("there is a task")
}

pub async fn a_lease_ends_at_its_deadline_and_not_a_millisecond_early(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render")).await;
    bench.advance_ms(LEASE_MS - 1);
    assert_eq!(bench.get(task.id).await, task, "nothing happens before the deadline");
    bench.advance_ms(1);
    let waiting = bench.get(task.id).await;
    assert_eq!((waiting.state.status(), waiting.state.place()), (TaskStatus::Pending, Place::DelayedSet));
    assert_eq!(until(&waiting), bench.now().plus_seconds(5));
    assert_eq!((waiting.attempts, waiting.refunds), (1, 0));
    assert_eq!((waiting.error.as_deref(), waiting.updated_at), (Some("LEASE_EXPIRED"), bench.now()));
    assert_eq!(waiting.created_at, task.created_at);
    bench.advance(5);
    assert_eq!(bench.take("render").await.attempts, 2);
}

pub async fn an_expired_task_without_backoff_is_ready_at_once(open: Open) {
    let bench = Bench::with(&open, eager_rules());
    let task = bench.create_and_take(New::of("render")).await;
    bench.advance_ms(LEASE_MS);
    let ready = bench.get(task.id).await;
    assert_eq!((ready.state.place(), ready.error.as_deref()), (Place::PendingList, Some("LEASE_EXPIRED")));
    let again = bench.worker("s2", "w2").take("render").await;
    assert_eq!((again.id, again.attempts), (task.id, 2));
}

pub async fn an_expiry_of_the_last_attempt_kills(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render").max_attempts(1)).await;
    bench.advance_ms(LEASE_MS);
    let dead = bench.get(task.id).await;
    assert_eq!((dead.state.status(), dead.state.place()), (TaskStatus::Failed, Place::DeadLetterSet));
    assert_eq!((dead.error.as_deref(), dead.updated_at), (Some("LEASE_EXPIRED"), bench.now()));
    let record = bench.record(task.id).await;
    assert_eq!((record.status, record.error.as_deref()), (Status::Failed, Some("LEASE_EXPIRED")));
    assert_eq!(record.failure_reason, Some(FailureReason::MaxAttempts));
    assert_eq!((record.result, record.completed_at), (None, bench.now()));
}

pub async fn three_expiries_kill_a_task_with_three_attempts(open: Open) {
    let bench = Bench::with(&open, eager_rules());
    let task = bench.make(New::of("render").max_attempts(3)).await.task;
    for attempt in 1..=3 {
        assert_eq!(bench.take("render").await.attempts, attempt);
        bench.advance_ms(LEASE_MS);
        let place = if attempt < 3 { Place::PendingList } else { Place::DeadLetterSet };
        assert_eq!(bench.get(task.id).await.state.place(), place);
    }
}

pub async fn a_heartbeat_moves_the_deadline_forward(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render")).await;
    bench.advance_ms(LEASE_MS - 1);
    assert_eq!(bench.heartbeat(bench.report(&task), LEASE).await, Ok(()));
    let beaten = bench.get(task.id).await;
    let lease = beaten.state.lease().expect("it is still running");
    assert_eq!((lease.until, lease.claimed_at), (bench.now().plus(LEASE), task.updated_at));
    assert_eq!((beaten.attempts, beaten.updated_at), (1, bench.now()));
    bench.advance_ms(LEASE_MS - 1);
    assert_eq!(bench.get(task.id).await.state.place(), Place::InProgressSet, "the old deadline is forgotten");
    bench.advance_ms(1);
    assert_eq!(bench.get(task.id).await.state.place(), Place::DelayedSet);
}

pub async fn a_heartbeat_may_shorten_the_lease(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render")).await;
    assert_eq!(bench.heartbeat(bench.fenced(&task), Duration::from_secs(1)).await, Ok(()));
    bench.advance_ms(999);
    assert_eq!(bench.get(task.id).await.state.place(), Place::InProgressSet);
    bench.advance_ms(1);
    assert_eq!(bench.get(task.id).await.state.place(), Place::DelayedSet);
}

pub async fn a_report_at_the_deadline_is_too_late(open: Open) {
    let bench = Bench::new(&open);
    for report in 0..4 {
        let task = bench.create_and_take(New::of("render")).await;
        bench.advance_ms(LEASE_MS);
        let refused = match report {
            0 => bench.heartbeat(bench.fenced(&task), LEASE).await.err(),
            1 => bench.nack(&task, 0, "late").await.err(),
            2 => bench.abandon(&task).await.err(),
            _ => bench.submit(&task, Outcome::completed("{}")).await.err(),
        };
        let lost = report == 0 && refused == Some(Refusal::LeaseLost);
        assert!(lost || refused == Some(Refusal::NotInProgress), "report {report}: {refused:?}");
        assert_eq!(bench.get(task.id).await.error.as_deref(), Some("LEASE_EXPIRED"));
        bench.cancel(task.id).await.expect("a delayed task can be cancelled");
    }
}

pub async fn the_first_worker_cannot_end_the_second_delivery(open: Open) {
    let bench = Bench::with(&open, eager_rules());
    let first = bench.create_and_take(New::of("render")).await;
    bench.advance_ms(LEASE_MS);
    let second = bench.take("render").await;
    assert_eq!(second.attempts, 2, "the same owner, the next attempt");
    let late = bench.submit_as(bench.fenced(&first), Outcome::completed("{}")).await;
    assert_eq!(late, Err(Refusal::LeaseLost), "the fencing number tells them apart");
    assert_eq!(bench.get(first.id).await, second);
    assert!(bench.submit_as(bench.fenced(&second), Outcome::completed("{}")).await.is_ok());
}

pub async fn leases_end_in_the_order_of_their_deadlines(open: Open) {
    let bench = Bench::with(&open, eager_rules());
    let mut made = Vec::new();
    for seconds in [30, 10, 20] {
        made.push(bench.create("render").await.id);
        claim_for(&bench, Duration::from_secs(seconds)).await;
    }
    for (seconds, at) in [(10, 1), (10, 2), (10, 0)] {
        bench.advance(seconds);
        assert_eq!(bench.take("render").await.id, made[at]);
    }
}

pub async fn the_longest_lease_lasts_its_twelve_hours(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create("render").await;
    claim_for(&bench, Duration::from_secs(43_200)).await;
    bench.advance_ms(43_200_000 - 1);
    assert_eq!(bench.get(task.id).await.state.place(), Place::InProgressSet);
    bench.advance_ms(1);
    assert_eq!(bench.get(task.id).await.state.place(), Place::DelayedSet);
}

pub async fn a_finished_task_is_left_alone_by_its_old_deadline(open: Open) {
    let bench = Bench::new(&open);
    let done = bench.create_and_take(New::of("render")).await;
    bench.complete(&done).await;
    let back = bench.create_and_take(New::of("render")).await;
    bench.refund(&back).await.expect("the owner may refund");
    let before = (bench.get(done.id).await, bench.get(back.id).await);
    bench.advance_ms(u64::try_from(LEASE.as_millis()).expect("a minute fits") * 2);
    assert_eq!((bench.get(done.id).await, bench.get(back.id).await), before);
}
