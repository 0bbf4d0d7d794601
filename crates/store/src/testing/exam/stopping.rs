//! Ends that come from outside: expiry, cancels with grace, the longest run.

use super::bench::{Bench, LEASE, one, within};
use super::candidate::Open;
use super::request::New;
use codeq_queue::store::{Cancel, Heartbeat, Returned, Wait};
use codeq_queue::{Commands, FailureReason, Outcome, Refusal, State, Status, Task, Time};
use std::time::Duration;

const GRACE: Duration = Duration::from_secs(10);

async fn cancel(bench: &Bench, task: &Task, grace: Duration, reason: Option<&str>) -> Result<Task, Refusal> {
    let cancel = Cancel { task: bench.named(task.id), grace, reason: reason.map(Into::into) };
    one(bench.ask("cancel", bench.store().cancel(vec![cancel])).await)
}

pub async fn a_task_that_nobody_claims_in_time_fails(open: Open) {
    let bench = Bench::new(&open);
    let at = bench.now().plus_seconds(5);
    let ready = bench.make(New::of("render").expires_at(at).webhook("http://h/")).await.task;
    let delayed = bench.make(New::of("later").expires_at(at).delayed_ms(60_000)).await.task;
    bench.pause("render").await;
    bench.advance_ms(4_999);
    assert_eq!(bench.get(ready.id).await, ready);
    bench.advance_ms(1);
    for id in [ready.id, delayed.id] {
        let task = bench.get(id).await;
        assert_eq!((&task.state, task.error.as_deref()), (&State::Failed, Some("EXPIRED")));
        let record = bench.record(id).await;
        assert_eq!((record.status, record.failure_reason), (Status::Failed, Some(FailureReason::Expired)));
    }
    assert_eq!(bench.ask("outbox", bench.store().outbox()).await.pending, 1, "an end as every other");
    bench.resume("render").await;
    assert_eq!(bench.claim_any(2).await, []);
}

/// A create may come late, for one because it is repeated: it is taken, and no worker gets the task.
pub async fn a_task_whose_time_has_passed_expires_at_once(open: Open) {
    let bench = Bench::new(&open);
    let waiting = bench.hold(Commands::these(["render"]), Wait::Forever).await;
    for at in [bench.now().plus_seconds(0), Time::from_millis(bench.now().millis() - 1), Time::from_millis(1)]
    {
        let late = || New::of("render").expires_at(at).key(&format!("{at:?}"));
        let task = bench.make(late()).await.task;
        bench.settle().await;
        let ended = bench.get(task.id).await;
        assert_eq!((&ended.state, ended.error.as_deref()), (&State::Failed, Some("EXPIRED")));
        let again = bench.make(late()).await;
        assert_eq!((again.is_replay, again.task), (true, ended));
    }
    let next = bench.create("render").await;
    let taken = within("a claim that waits", waiting).await.expect("it is answered");
    assert!(taken.iter().map(|task| task.id).eq([next.id]));
}

pub async fn a_task_that_was_claimed_does_not_expire(open: Open) {
    let bench = Bench::new(&open);
    let at = bench.now().plus_seconds(5);
    let task = bench.create_and_take(New::of("render").expires_at(at)).await;
    bench.nack(&task, 30, "later").await.expect("the owner may nack");
    bench.advance(29);
    assert!(bench.get(task.id).await.state.is_live());
    bench.advance(1);
    assert_eq!(bench.take("render").await.id, task.id);
}

pub async fn a_task_run_now_still_expires(open: Open) {
    let bench = Bench::new(&open);
    let expires = bench.now().plus_seconds(10);
    let task = bench.make(New::of("render").delayed_ms(60_000).expires_at(expires)).await.task;
    bench.run_now(task.id).await.expect("a delayed task can run now");
    bench.advance(10);
    assert!(bench.claim_any(1).await.is_empty());
    assert_eq!(bench.get(task.id).await.state, State::Failed);
}

pub async fn a_lease_never_outlives_the_longest_run(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render").max_run(LEASE / 2)).await;
    let end = bench.now().plus(LEASE / 2);
    assert_eq!(task.state.lease().map(|lease| lease.until), Some(end));
    bench.advance(10);
    let beat = bench.beat(Heartbeat::new(bench.fenced(&task), LEASE)).await.expect("the owner may extend");
    assert_eq!((beat.lease_until, beat.cancel), (end, None));
    bench.advance(20);
    assert_eq!(bench.get(task.id).await.error.as_deref(), Some("LEASE_EXPIRED"));
}

pub async fn a_cancel_with_grace_lets_the_owner_finish(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render")).await;
    let asked =
        cancel(&bench, &task, GRACE, Some("too late")).await.expect("a running task can be cancelled");
    assert!(asked.state.lease().is_some(), "it still runs");
    let beat = bench.beat(Heartbeat::new(bench.fenced(&task), LEASE)).await.expect("the owner may extend");
    let told = beat.cancel.expect("the owner is told");
    assert_eq!((told.deadline, told.reason.as_deref()), (bench.now().plus(GRACE), Some("too late")));
    let later = cancel(&bench, &task, GRACE * 2, None).await.expect("asking again is harmless");
    assert_eq!(later.state.lease().and_then(|lease| lease.cancel.clone()), Some(told), "never later");
    bench.submit(&task, Outcome::completed("{}")).await.expect("what comes in time counts");
    assert_eq!(bench.get(task.id).await.state, State::Completed);
}

pub async fn a_cancelled_task_ends_at_its_deadline(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render")).await;
    cancel(&bench, &task, GRACE, Some("too late")).await.expect("a running task can be cancelled");
    bench.heartbeat(bench.fenced(&task), LEASE).await.expect("the owner may extend");
    bench.advance_ms(9_999);
    assert!(bench.get(task.id).await.state.lease().is_some());
    bench.advance_ms(1);
    let ended = bench.get(task.id).await;
    assert_eq!((&ended.state, ended.error.as_deref()), (&State::Cancelled, Some("CANCELLED: too late")));
    assert_eq!(bench.record(task.id).await.failure_reason, Some(FailureReason::Cancelled));
    assert_eq!(bench.heartbeat(bench.fenced(&task), LEASE).await, Err(Refusal::Cancelled));
}

pub async fn giving_a_cancelled_task_back_ends_it(open: Open) {
    let bench = Bench::new(&open);
    let nacked = bench.create_and_take(New::of("nacked")).await;
    let abandoned = bench.create_and_take(New::of("abandoned")).await;
    let silent = bench.create_and_take(New::of("silent")).await;
    for task in [&nacked, &abandoned, &silent] {
        cancel(&bench, task, LEASE * 5, None).await.expect("a running task can be cancelled");
    }
    assert_eq!(bench.nack(&nacked, 0, "no").await, Ok(Returned::Cancelled));
    assert_eq!(bench.abandon(&abandoned).await, Ok(Returned::Cancelled));
    bench.advance_ms(u64::try_from(LEASE.as_millis()).expect("a minute"));
    for task in [nacked, abandoned, silent] {
        assert_eq!(bench.get(task.id).await.state, State::Cancelled);
    }
}

pub async fn a_cancel_with_grace_ends_what_does_not_run(open: Open) {
    let bench = Bench::new(&open);
    let ready = bench.create("render").await;
    let ended = cancel(&bench, &ready, GRACE, None).await.expect("a ready task can be cancelled");
    assert_eq!((ended.state, ended.error.as_deref()), (State::Cancelled, Some("CANCELLED")));
}

pub async fn checkpoints_reach_the_next_attempt_and_progress_who_asks(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render")).await;
    let beat = Heartbeat {
        progress: Some("{\"done\":3}".into()),
        checkpoint: Some("[3]".into()),
        ..Heartbeat::new(bench.fenced(&task), LEASE)
    };
    bench.beat(beat).await.expect("the owner may extend");
    let shown = bench.get(task.id).await;
    assert_eq!((shown.progress.as_deref(), shown.checkpoint.as_deref()), (Some("{\"done\":3}"), Some("[3]")));
    bench.nack(&task, 1, "again").await.expect("the owner may nack");
    assert_eq!(bench.get(task.id).await.progress, None, "nothing runs");
    bench.advance(1);
    let again = bench.take("render").await;
    assert_eq!(again.checkpoint.as_deref(), Some("[3]"));
    bench.complete(&again).await;
    assert_eq!(bench.get(task.id).await.checkpoint, None);
}

pub async fn cancels_checkpoints_and_expiries_are_kept(open: Open) {
    let bench = Bench::new(&open);
    if !bench.candidate.keeps_on_reopen() {
        return;
    }
    let asked = bench.create_and_take(New::of("asked")).await;
    let beat = Heartbeat { checkpoint: Some("[3]".into()), ..Heartbeat::new(bench.fenced(&asked), LEASE) };
    bench.beat(beat).await.expect("the owner may extend");
    cancel(&bench, &asked, GRACE, Some("why")).await.expect("a running task can be cancelled");
    let at = bench.now().plus_seconds(5);
    let expiring = bench.make(New::of("expiring").expires_at(at).max_run(LEASE)).await.task;
    let before = bench.get(asked.id).await;
    for _ in 0..2 {
        bench.candidate.reopen();
        assert_eq!(bench.get(asked.id).await, before);
        assert_eq!(bench.get(expiring.id).await.body, expiring.body);
    }
    bench.advance(5);
    assert_eq!(bench.get(expiring.id).await.state, State::Failed);
    bench.advance(5);
    let ended = bench.get(asked.id).await;
    assert_eq!((&ended.state, ended.checkpoint.as_deref()), (&State::Cancelled, Some("[3]")));
    bench.candidate.reopen();
    assert_eq!(bench.get(asked.id).await, ended);
}
