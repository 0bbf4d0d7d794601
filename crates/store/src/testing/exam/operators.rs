//! Operators: cancel, requeue, remove, and the history of a task.

use super::bench::{Bench, LEASE, eager_rules};
use super::candidate::Open;
use super::request::New;
use codeq_queue::store::ResultLookup;
use codeq_queue::{
    Attempt, AttemptOutcome, FailureReason, Outcome, Place, Refusal, Status, TaskId, TaskStatus,
};

async fn assert_cancelled(bench: &Bench, id: TaskId) {
    let task = bench.get(id).await;
    assert_eq!((task.state.status(), task.state.place()), (TaskStatus::Failed, Place::None));
    assert_eq!((task.error.as_deref(), task.updated_at), (Some("CANCELLED"), bench.now()));
    let record = bench.record(id).await;
    assert_eq!((record.status, record.error.as_deref()), (Status::Failed, Some("CANCELLED")));
    assert_eq!(record.failure_reason, Some(FailureReason::Cancelled));
    assert_eq!((record.result, record.completed_at), (None, bench.now()));
}

pub async fn a_ready_task_can_be_cancelled(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create("render").await;
    bench.advance_ms(2);
    let cancelled = bench.cancel(task.id).await.expect("a ready task can be cancelled");
    assert_eq!(cancelled, bench.get(task.id).await);
    assert_cancelled(&bench, task.id).await;
    assert!(bench.claim_any(1).await.is_empty());
}

pub async fn a_delayed_task_can_be_cancelled(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.make(New::of("render").delayed_ms(10)).await.task;
    bench.cancel(task.id).await.expect("a delayed task can be cancelled");
    assert_cancelled(&bench, task.id).await;
    bench.advance_ms(10);
    assert!(bench.claim_any(1).await.is_empty(), "it is not promoted any more");
}

pub async fn a_running_task_can_be_cancelled_and_its_owner_is_told(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render")).await;
    bench.advance_ms(2);
    bench.cancel(task.id).await.expect("a running task can be cancelled");
    assert_cancelled(&bench, task.id).await;
    assert_eq!(bench.heartbeat(bench.fenced(&task), LEASE).await, Err(Refusal::Cancelled));
    assert_eq!(bench.nack(&task, 0, "x").await, Err(Refusal::Cancelled));
    assert_eq!(bench.abandon(&task).await, Err(Refusal::Cancelled));
    assert_eq!(bench.refund(&task).await, Err(Refusal::Cancelled));
    assert_eq!(bench.submit(&task, Outcome::completed("{}")).await, Err(Refusal::Cancelled));
    let cancelled = bench.get(task.id).await;
    bench.advance(60);
    assert_eq!(bench.get(task.id).await, cancelled, "its old deadline means nothing");
}

pub async fn what_has_ended_cannot_be_cancelled(open: Open) {
    let bench = Bench::new(&open);
    let completed = bench.create_and_take(New::of("render")).await;
    bench.complete(&completed).await;
    let failed = bench.create_and_take(New::of("render")).await;
    bench.submit(&failed, Outcome::failed("no")).await.expect("the owner may fail its task");
    let cancelled = bench.create("render").await;
    bench.cancel(cancelled.id).await.expect("a ready task can be cancelled");
    let dead = bench.dead("render").await;
    let before = bench.lookup(cancelled.id).await;
    assert!(bench.cancel(cancelled.id).await.is_ok(), "a cancelled task stays as it is");
    assert_eq!(bench.lookup(cancelled.id).await, before);
    for id in [completed.id, failed.id, dead.id] {
        let before = bench.lookup(id).await;
        assert_eq!(bench.cancel(id).await, Err(Refusal::AlreadyTerminal));
        assert_eq!(bench.lookup(id).await, before);
    }
}

pub async fn a_requeued_dead_letter_has_a_full_set_of_attempts(open: Open) {
    let bench = Bench::with(&open, eager_rules());
    let mut task = bench.create_and_take(New::of("render").max_attempts(2)).await;
    bench.nack(&task, 0, "one").await.expect("the owner may nack");
    task = bench.take("render").await;
    bench.nack(&task, 0, "two").await.expect("the owner may nack");
    bench.advance_ms(4);
    let requeued = bench.requeue(task.id, None).await.expect("a dead letter can be requeued");
    assert_eq!(requeued, bench.get(task.id).await);
    assert_eq!((requeued.state.status(), requeued.state.place()), (TaskStatus::Pending, Place::PendingList));
    assert_eq!((requeued.attempts, requeued.refunds, requeued.max_attempts), (2, 2, 2));
    assert_eq!((requeued.error.as_deref(), requeued.updated_at), (Some("two"), bench.now()));
    assert_eq!(bench.lookup(task.id).await, ResultLookup::Pending, "the old result is gone");
    task = bench.take("render").await;
    assert_eq!(task.attempts, 3);
    bench.nack(&task, 0, "three").await.expect("the owner may nack");
    task = bench.take("render").await;
    bench.advance_ms(4);
    bench.nack(&task, 0, "four").await.expect("the owner may nack");
    assert_eq!(bench.get(task.id).await.state.place(), Place::DeadLetterSet);
    let record = bench.record(task.id).await;
    assert_eq!((record.error.as_deref(), record.completed_at), (Some("four"), bench.now()));
}

pub async fn a_requeue_may_change_the_number_of_attempts(open: Open) {
    let bench = Bench::with(&open, eager_rules());
    let dead = bench.dead("render").await;
    let requeued = bench.requeue(dead.id, Some(3)).await.expect("a dead letter can be requeued");
    assert_eq!((requeued.max_attempts, requeued.attempts, requeued.refunds), (3, 1, 1));
    for place in [Place::PendingList, Place::PendingList, Place::DeadLetterSet] {
        let task = bench.take("render").await;
        bench.abandon(&task).await.expect("the owner may abandon");
        assert_eq!(bench.get(dead.id).await.state.place(), place);
    }
}

pub async fn a_requeued_dead_letter_can_be_completed(open: Open) {
    let bench = Bench::new(&open);
    let dead = bench.dead("render").await;
    bench.requeue(dead.id, None).await.expect("a dead letter can be requeued");
    let task = bench.take("render").await;
    bench.complete(&task).await;
    let record = bench.record(dead.id).await;
    assert_eq!((record.status, record.failure_reason), (Status::Completed, None));
    bench.advance(bench.candidate.rules().retention.as_secs());
    assert_eq!(bench.find(dead.id).await, None, "its retention is that of a completed task");
}

pub async fn a_requeued_dead_letter_joins_the_tail(open: Open) {
    let bench = Bench::new(&open);
    let dead = bench.dead("render").await;
    let other = bench.create("render").await;
    bench.requeue(dead.id, None).await.expect("a dead letter can be requeued");
    assert_eq!(super::bench::ids(&bench.claim(&["render"], 9).await), [other.id, dead.id]);
}

pub async fn a_removed_dead_letter_is_gone(open: Open) {
    let bench = Bench::new(&open);
    let dead = bench.dead("render").await;
    assert_eq!(bench.remove(dead.id).await, Ok(()));
    assert_eq!(bench.find(dead.id).await, None);
    assert_eq!(bench.lookup(dead.id).await, ResultLookup::NotFound);
    assert_eq!(bench.attempts(dead.id).await, None);
    assert_eq!(bench.stats("render").await.dead, 0);
    assert_eq!(bench.remove(dead.id).await, Err(Refusal::NotFound));
}

/// What failed by mistake can be tried again, with everything that a new attempt needs.
pub async fn what_has_failed_or_was_cancelled_can_be_requeued(open: Open) {
    let bench = Bench::new(&open);
    let failed = bench.create_and_take(New::of("render").key("k")).await;
    bench.submit(&failed, Outcome::failed("by mistake")).await.expect("the owner may fail its task");
    let cancelled = bench.create("cancelled").await;
    bench.cancel(cancelled.id).await.expect("a ready task can be cancelled");
    let stopped = bench.create_and_take(New::of("stopped")).await;
    bench.cancel(stopped.id).await.expect("a running task can be cancelled");
    for (task, attempts) in [(&failed, 1), (&cancelled, 0), (&stopped, 1)] {
        let again = bench.requeue(task.id, Some(3)).await.expect("a failed task can be requeued");
        assert_eq!(again, bench.get(task.id).await);
        assert_eq!((again.state.status(), again.state.place()), (TaskStatus::Pending, Place::PendingList));
        assert_eq!((again.attempts, again.refunds, again.max_attempts), (attempts, attempts, 3));
        assert_eq!(bench.lookup(task.id).await, ResultLookup::Pending);
        assert_eq!(bench.requeue(task.id, None).await, Err(Refusal::NotDead));
        let stats = bench.stats(&task.body.command).await;
        assert_eq!((stats.ready_total(), stats.dead), (1, 0), "{}", task.body.command);
    }
    let same = bench.make(New::of("render").key("k")).await;
    assert_eq!((same.task.id, same.is_replay), (failed.id, true), "it has its key again");
    let running = bench.take("render").await;
    bench.complete(&running).await;
    assert_eq!(bench.requeue(failed.id, None).await, Err(Refusal::NotDead), "it has completed");
}

pub async fn a_requeued_failure_outlives_its_old_retention(open: Open) {
    let bench = Bench::new(&open);
    let failed = bench.create_and_take(New::of("render")).await;
    bench.submit(&failed, Outcome::failed("by mistake")).await.expect("the owner may fail its task");
    let again = bench.requeue(failed.id, None).await.expect("a failed task can be requeued");
    bench.advance(100 * 86_400);
    assert_eq!(bench.get(failed.id).await, again);
    let over = bench.create_and_take(New::of("over")).await;
    bench.submit(&over, Outcome::failed("for good")).await.expect("the owner may fail its task");
    bench.advance(100 * 86_400);
    assert_eq!(bench.requeue(over.id, None).await, Err(Refusal::NotFound), "its retention is over");
}

pub async fn only_dead_letters_are_removed_and_only_failures_requeued(open: Open) {
    let bench = Bench::new(&open);
    let ready = bench.create("ready").await;
    let delayed = bench.make(New::of("delayed").delayed_ms(10)).await.task;
    let running = bench.create_and_take(New::of("running")).await;
    let done = bench.create_and_take(New::of("done")).await;
    bench.complete(&done).await;
    let cancelled = bench.create("cancelled").await;
    bench.cancel(cancelled.id).await.expect("a ready task can be cancelled");
    for id in [ready.id, delayed.id, running.id, done.id, cancelled.id] {
        let before = bench.get(id).await;
        if id != cancelled.id {
            assert_eq!(bench.requeue(id, Some(9)).await, Err(Refusal::NotDead));
        }
        assert_eq!(bench.remove(id).await, Err(Refusal::NotDead));
        assert_eq!(bench.get(id).await, before);
    }
}

pub async fn operators_do_not_reach_other_tenants(open: Open) {
    let bench = Bench::new(&open);
    let (ready, dead) = (bench.create("render").await, bench.dead("other").await);
    let umbrella = bench.tenant("umbrella");
    for task in [ready, dead] {
        assert_eq!(umbrella.cancel(task.id).await, Err(Refusal::NotFound));
        assert_eq!(umbrella.requeue(task.id, None).await, Err(Refusal::NotFound));
        assert_eq!(umbrella.remove(task.id).await, Err(Refusal::NotFound));
        assert_eq!(umbrella.attempts(task.id).await, None);
        assert_eq!(bench.get(task.id).await, task);
    }
}

fn outcomes(history: &[Attempt]) -> Vec<Option<AttemptOutcome>> {
    history.iter().map(|attempt| attempt.end.as_ref().map(|end| end.outcome)).collect()
}

pub async fn the_history_tells_how_every_attempt_ended(open: Open) {
    let bench = Bench::with(&open, eager_rules());
    let id = bench.make(New::of("render").max_attempts(99)).await.task.id;
    for way in 0..5 {
        bench.advance_ms(1);
        let task = bench.take("render").await;
        bench.advance_ms(1);
        match way {
            0 => bench.nack(&task, 0, "nacked").await.map(|_| ()),
            1 => bench.abandon(&task).await.map(|_| ()),
            2 => bench.refund(&task).await.map(|_| ()),
            3 => {
                bench.advance(60);
                Ok(())
            }
            _ => bench.submit(&task, Outcome::failed("failed")).await.map(|_| ()),
        }
        .expect("the owner may end its attempt");
    }
    let history = bench.attempts(id).await.expect("the task is known");
    use AttemptOutcome::{Abandoned, Failed, LeaseExpired, Nack, Refunded};
    assert_eq!(outcomes(&history), [Nack, Abandoned, Refunded, LeaseExpired, Failed].map(Some));
    for (at, attempt) in history.iter().enumerate() {
        let end = attempt.end.as_ref().expect("every attempt has ended");
        assert_eq!((attempt.attempt as usize, &*attempt.worker_id), (at + 1, "worker"));
        assert!(attempt.claimed_at < end.at);
    }
    let error = |at: usize| history[at].end.as_ref().and_then(|end| end.error.as_deref());
    assert_eq!((error(0), error(4)), (Some("nacked"), Some("failed")));
}

pub async fn the_history_tells_of_running_completed_and_cancelled_attempts(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render")).await;
    let history = bench.attempts(task.id).await.expect("the task is known");
    assert_eq!(outcomes(&history), [None], "a running attempt has no end");
    assert_eq!(history[0].claimed_at, bench.now());
    bench.complete(&task).await;
    let history = bench.attempts(task.id).await.expect("the task is known");
    assert_eq!(outcomes(&history), [Some(AttemptOutcome::Completed)]);
    let task = bench.create_and_take(New::of("render")).await;
    bench.cancel(task.id).await.expect("a running task can be cancelled");
    let history = bench.attempts(task.id).await.expect("the task is known");
    assert_eq!(outcomes(&history), [Some(AttemptOutcome::Cancelled)]);
    let ready = bench.create("render").await;
    bench.cancel(ready.id).await.expect("a ready task can be cancelled");
    assert_eq!(bench.attempts(ready.id).await, Some(vec![]), "what never ran has no attempt");
}

pub async fn the_history_remembers_the_last_twenty(open: Open) {
    let bench = Bench::new(&open);
    let mut task = bench.create_and_take(New::of("render")).await;
    for _ in 0..24 {
        bench.refund(&task).await.expect("the owner may refund");
        task = bench.take("render").await;
    }
    let history = bench.attempts(task.id).await.expect("the task is known");
    let numbers: Vec<u32> = history.iter().map(|attempt| attempt.attempt).collect();
    assert_eq!(numbers, (6..=25).collect::<Vec<u32>>(), "oldest first");
    assert_eq!(history.last().map(|attempt| attempt.end.is_none()), Some(true));
}

pub async fn the_history_outlives_a_requeue(open: Open) {
    let bench = Bench::new(&open);
    let dead = bench.dead("render").await;
    bench.requeue(dead.id, None).await.expect("a dead letter can be requeued");
    let task = bench.take("render").await;
    bench.complete(&task).await;
    let history = bench.attempts(dead.id).await.expect("the task is known");
    assert_eq!(outcomes(&history), [AttemptOutcome::Nack, AttemptOutcome::Completed].map(Some));
}
