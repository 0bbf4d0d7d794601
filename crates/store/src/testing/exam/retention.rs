//! Retention: how long ended tasks are kept, and what goes with them.

use super::bench::{Bench, eventually, plain_rules};
use super::candidate::Open;
use super::request::New;
use crate::Rules;
use codeq_queue::store::ResultLookup;
use codeq_queue::{Outcome, Task, TaskId};
use std::time::Duration;

const DAY: u64 = 86_400;

fn brief(open: &Open) -> Bench {
    Bench::with(open, Rules { retention: Duration::from_secs(100), ..plain_rules() })
}

async fn is_gone(bench: &Bench, id: TaskId) -> bool {
    let known = bench.find(id).await.is_some();
    let has_result = bench.lookup(id).await != ResultLookup::NotFound;
    let has_history = bench.attempts(id).await.is_some();
    // Removal may fall between two of these reads, but what is gone stays gone.
    let order = [known, has_result, has_history];
    assert!(order.is_sorted_by(|earlier, later| earlier >= later), "they go together: {order:?}");
    !known
}

/// One task ended in each way that retention applies to.
async fn ended(bench: &Bench) -> Vec<Task> {
    let completed = bench.create_and_take(New::of("render")).await;
    bench.complete(&completed).await;
    let failed = bench.create_and_take(New::of("render")).await;
    bench.submit(&failed, Outcome::failed("no")).await.expect("the owner may fail its task");
    let cancelled = bench.create("render").await;
    bench.cancel(cancelled.id).await.expect("a ready task can be cancelled");
    vec![completed, failed, cancelled]
}

pub async fn ended_tasks_stay_readable_to_the_last_millisecond(open: Open) {
    let bench = brief(&open);
    bench.advance_ms(123);
    let tasks = ended(&bench).await;
    bench.advance_ms(99_999);
    for task in &tasks {
        assert!(!is_gone(&bench, task.id).await);
    }
    bench.advance_ms(1);
    for task in &tasks {
        assert!(is_gone(&bench, task.id).await);
    }
}

pub async fn retention_counts_from_the_end_and_not_from_the_creation(open: Open) {
    let bench = brief(&open);
    let task = bench.create("render").await;
    bench.advance(1000);
    let taken = bench.take("render").await;
    bench.advance(50);
    bench.complete(&taken).await;
    bench.advance_ms(99_999);
    assert!(!is_gone(&bench, task.id).await);
    bench.advance_ms(1);
    assert!(is_gone(&bench, task.id).await);
}

pub async fn live_tasks_are_kept_however_old(open: Open) {
    let bench = brief(&open);
    let ready = bench.create("ready").await;
    let delayed = bench.make(New::of("delayed").delayed_ms(300 * DAY * 1000)).await.task;
    bench.advance(299 * DAY);
    assert_eq!(bench.get(ready.id).await, ready);
    assert_eq!(bench.get(delayed.id).await, delayed);
}

pub async fn dead_letters_stay_for_ever_unless_told_otherwise(open: Open) {
    let bench = brief(&open);
    let dead = bench.dead("render").await;
    bench.advance(1000 * DAY);
    assert_eq!(bench.get(dead.id).await, dead);
    assert!(!is_gone(&bench, dead.id).await);
}

pub async fn dead_letters_go_when_their_own_retention_ends(open: Open) {
    let rules = Rules { dead_retention: Some(Duration::from_secs(1000)), ..plain_rules() };
    let lag = rules.cleanup_interval.as_secs();
    let bench = Bench::with(&open, rules);
    let dead = bench.dead("render").await;
    bench.advance_ms(999_999);
    assert!(!is_gone(&bench, dead.id).await);
    bench.advance_ms(1);
    bench.advance(lag);
    eventually("the dead letter is gone", || is_gone(&bench, dead.id)).await;
    assert_eq!(bench.stats("render").await.dead, 0);
}

pub async fn a_requeued_dead_letter_is_not_removed_by_its_old_retention(open: Open) {
    let rules = Rules { dead_retention: Some(Duration::from_secs(1000)), ..plain_rules() };
    let bench = Bench::with(&open, rules);
    let dead = bench.dead("render").await;
    bench.advance(900);
    let requeued = bench.requeue(dead.id, None).await.expect("a dead letter can be requeued");
    bench.advance(10_000);
    bench.settle().await;
    assert_eq!(bench.get(dead.id).await, requeued);
}

pub async fn cleanup_removes_what_ends_by_the_given_instant(open: Open) {
    let bench = brief(&open);
    let early = ended(&bench).await;
    bench.advance_ms(10);
    let late = ended(&bench).await;
    let end = bench.now().plus_seconds(100);
    let before = codeq_queue::Time::from_millis(end.millis() - 11);
    assert_eq!(bench.cleanup(before, 100).await, 0, "nothing ends so early");
    let before = codeq_queue::Time::from_millis(end.millis() - 10);
    assert_eq!(bench.cleanup(before, 100).await, 3);
    for task in &early {
        assert!(is_gone(&bench, task.id).await);
    }
    for task in &late {
        assert!(!is_gone(&bench, task.id).await);
    }
}

pub async fn cleanup_removes_no_more_than_its_limit(open: Open) {
    let bench = brief(&open);
    for _ in 0..3 {
        ended(&bench).await;
    }
    let end = bench.now().plus_seconds(100);
    assert_eq!(bench.cleanup(end, 0).await, 0);
    assert_eq!(bench.cleanup(end, 4).await, 4);
    assert_eq!(bench.cleanup(end, 100).await, 5);
    assert_eq!(bench.cleanup(end, 100).await, 0);
}

pub async fn cleanup_spares_live_tasks_dead_letters_and_other_tenants(open: Open) {
    let dead_retention = Some(Duration::from_secs(100));
    let bench = Bench::with(&open, Rules { dead_retention, ..plain_rules() });
    let ready = bench.create("ready").await;
    let delayed = bench.make(New::of("delayed").delayed_ms(10)).await.task;
    let running = bench.create_and_take(New::of("running")).await;
    let dead = bench.dead("dead").await;
    let foreign = ended(&bench.tenant("umbrella")).await;
    assert_eq!(bench.cleanup(codeq_queue::Time::MAX, 100).await, 0);
    for task in [ready, delayed, running, dead] {
        assert_eq!(bench.get(task.id).await, task);
    }
    for task in foreign {
        assert!(!is_gone(&bench.tenant("umbrella"), task.id).await);
    }
}
