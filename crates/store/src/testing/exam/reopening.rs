//! Closing and opening: what a store that keeps things finds again. Candidates that keep nothing pass.

use super::bench::{Bench, eager_rules, ids, until, within};
use super::candidate::Open;
use super::request::New;
use super::{catalogue, outbox};
use codeq_queue::delivery::DeliveryReport;
use codeq_queue::store::{Health, ResultLookup, Wait};
use codeq_queue::{Commands, DeliveryState, Failure, Outcome, Place, State, Task};
use std::time::Duration;

/// A bench at a candidate that keeps what it has, or nothing to examine.
fn keeping(open: &Open, rules: crate::Rules) -> Option<Bench> {
    let bench = Bench::with(open, rules);
    bench.candidate.keeps_on_reopen().then_some(bench)
}

/// The number of a ready task orders it; opening may number anew.
fn unnumbered(mut task: Task) -> Task {
    if let State::Ready { seq } = &mut task.state {
        *seq = 0;
    }
    task
}

pub async fn every_task_is_found_as_it_was(open: Open) {
    let Some(bench) = keeping(&open, super::bench::plain_rules()) else { return };
    let full = New::of("Ready")
        .payload("{ \"a\":1.0 }")
        .header("h", "v")
        .key("k")
        .webhook("http://h/")
        .trace("p", "s");
    bench.make(full.priority(4)).await;
    bench.make(New::of("delayed").delayed_ms(99_000)).await;
    bench.create_and_take(New::of("running")).await;
    let nacked = bench.create_and_take(New::of("nacked")).await;
    bench.nack(&nacked, 77, "x").await.expect("the owner may nack");
    let done = bench.create_and_take(New::of("done")).await;
    bench.submit(&done, Outcome::completed("{ \"r\": 1.0}")).await.expect("the owner may complete");
    let failed = bench.create_and_take(New::of("failed")).await;
    bench.submit(&failed, Outcome::failed("no")).await.expect("the owner may fail its task");
    let cancelled = bench.create_and_take(New::of("cancelled")).await;
    bench.cancel(cancelled.id).await.expect("a running task can be cancelled");
    let dead = bench.dead("dead").await;
    let refunded = bench.create_and_take(New::of("refunded")).await;
    bench.refund(&refunded).await.expect("the owner may refund");
    let replay = bench.make(New::of("ready").key("k")).await.task;
    let all = [replay.id, nacked.id, done.id, failed.id, cancelled.id, dead.id, refunded.id];
    let before = everything(&bench, &all).await;
    bench.candidate.reopen();
    assert_eq!(everything(&bench, &all).await, before);
}

type Everything = Vec<(Task, ResultLookup, Option<Vec<codeq_queue::Attempt>>)>;

async fn everything(bench: &Bench, all: &[codeq_queue::TaskId]) -> Everything {
    let mut found = Vec::new();
    for id in all {
        let lookup = bench.lookup(*id).await;
        found.push((unnumbered(bench.get(*id).await), lookup, bench.attempts(*id).await));
    }
    found
}

pub async fn the_order_is_kept(open: Open) {
    let Some(bench) = keeping(&open, eager_rules()) else { return };
    let mut made = Vec::new();
    for priority in [0, 5, 0, 9, 5] {
        made.push(bench.make(New::of("render").priority(priority)).await.task.id);
    }
    let first = bench.take("render").await;
    bench.abandon(&first).await.expect("the owner may abandon");
    bench.candidate.reopen();
    made.push(bench.make(New::of("render").priority(5)).await.task.id);
    let expected = [made[3], made[1], made[4], made[5], made[0], made[2]];
    assert_eq!(ids(&bench.claim(&["render"], 9).await), expected, "new tasks stand behind old ones");
}

pub async fn a_claimed_task_is_submitted_after_reopening(open: Open) {
    let Some(bench) = keeping(&open, eager_rules()) else { return };
    let task = bench.create_and_take(New::of("render")).await;
    bench.candidate.reopen();
    assert!(bench.claim_any(1).await.is_empty(), "it is still lent");
    assert_eq!(bench.get(task.id).await, task, "to the same owner, until the same deadline");
    assert!(bench.submit_as(bench.fenced(&task), Outcome::completed("{}")).await.is_ok());
}

pub async fn deadlines_and_delays_keep_running(open: Open) {
    let Some(bench) = keeping(&open, eager_rules()) else { return };
    let running = bench.create_and_take(New::of("running")).await;
    let delayed = bench.make(New::of("delayed").delayed_ms(60_000)).await.task;
    bench.candidate.reopen();
    bench.advance_ms(59_999);
    assert_eq!(bench.get(running.id).await.state.place(), Place::InProgressSet);
    assert_eq!(bench.get(delayed.id).await.state.place(), Place::DelayedSet);
    bench.advance_ms(1);
    assert_eq!(bench.get(running.id).await.state.place(), Place::PendingList);
    assert_eq!(bench.get(delayed.id).await.state.place(), Place::PendingList);
}

pub async fn what_came_due_while_it_was_closed_acts_at_once(open: Open) {
    let Some(bench) = keeping(&open, eager_rules()) else { return };
    let running = bench.create_and_take(New::of("running")).await;
    let delayed = bench.make(New::of("delayed").delayed_ms(60_000)).await.task;
    let done = bench.create_and_take(New::of("done").key("k")).await;
    bench.complete(&done).await;
    bench.ask("close", bench.store().close()).await;
    bench.advance(2 * 86_400);
    bench.candidate.reopen();
    let expired = bench.take("running").await;
    assert_eq!((expired.id, expired.attempts), (running.id, 2));
    assert_eq!(expired.error.as_deref(), Some("LEASE_EXPIRED"));
    assert_eq!(bench.take("delayed").await.id, delayed.id);
    assert_eq!(bench.find(done.id).await, None);
    assert!(!bench.make(New::of("done").key("k")).await.is_replay);
}

pub async fn keys_and_pauses_are_kept(open: Open) {
    let Some(bench) = keeping(&open, eager_rules()) else { return };
    let keyed = bench.make(New::of("Render").key("k")).await.task;
    bench.pause("render").await;
    bench.pause("empty").await;
    bench.candidate.reopen();
    let replay = bench.make(New::of("render").key("k")).await;
    assert_eq!((replay.is_replay, replay.task.id), (true, keyed.id));
    assert!(bench.claim_any(1).await.is_empty());
    let stats = bench.stats("render").await;
    assert_eq!((stats.is_paused, stats.ready_total()), (true, 1));
    assert!(bench.stats("empty").await.is_paused);
    bench.resume("render").await;
    bench.candidate.reopen();
    assert_eq!(bench.take("render").await.id, keyed.id);
}

pub async fn counts_are_kept(open: Open) {
    let Some(bench) = keeping(&open, eager_rules()) else { return };
    bench.create_and_take(New::of("render")).await;
    bench.dead("render").await;
    bench.make(New::of("render").delayed_ms(1000)).await;
    bench.make(New::of("render").priority(3)).await;
    let before = bench.stats("render").await;
    bench.candidate.reopen();
    let after = bench.stats("render").await;
    assert_eq!((after.ready, after.delayed, after.in_progress, after.dead), (before.ready, 1, 1, 1));
    assert_eq!((after.oldest_ready, after.is_paused), (before.oldest_ready, false));
}

pub async fn topics_and_subscriptions_are_kept(open: Open) {
    let Some(bench) = keeping(&open, eager_rules()) else { return };
    let (topic, _) = catalogue::put(&bench, "video", catalogue::policy(3)).await;
    let subscriptions = [catalogue::subscribe(&bench, 60).await, catalogue::subscribe(&bench, 90).await];
    bench.candidate.reopen();
    assert_eq!(catalogue::topic(&bench, "video").await, Some(topic));
    assert_eq!(catalogue::list(&bench).await, subscriptions);
    bench.advance(60);
    assert_eq!(catalogue::list(&bench).await, subscriptions[1..]);
}

pub async fn callbacks_are_kept_with_their_counters(open: Open) {
    let Some(bench) = keeping(&open, eager_rules()) else { return };
    for _ in 0..3 {
        outbox::completed(&bench).await;
    }
    let taken = outbox::take(&bench).await;
    let due = bench.now().plus_seconds(600);
    let retry = DeliveryReport::Retry { due, error: "500".into() };
    outbox::report(&bench, taken[0].id, retry).await.expect("the callback is pending");
    let failed = DeliveryReport::Failed { error: "410".into() };
    outbox::report(&bench, taken[1].id, failed).await.expect("the callback is pending");
    let retried = outbox::list(&bench, false).await.into_iter().find(|found| found.id == taken[0].id);
    let failed = outbox::list(&bench, true).await;
    bench.candidate.reopen();
    let pending = outbox::list(&bench, false).await;
    assert_eq!(pending.len(), 2, "the one in someone's hands is pending too");
    assert_eq!(pending.into_iter().find(|found| found.id == taken[0].id), retried);
    assert_eq!(retried.map(|found| (found.attempts, found.state)), Some((1, DeliveryState::Pending { due })));
    assert_eq!(outbox::list(&bench, true).await, failed);
    bench.advance(600);
    assert_eq!(outbox::take(&bench).await.len(), 2);
}

pub async fn removed_tasks_stay_removed(open: Open) {
    let Some(bench) = keeping(&open, eager_rules()) else { return };
    let dead = bench.dead("render").await;
    bench.remove(dead.id).await.expect("a dead letter can be removed");
    let cleaned = bench.create_and_take(New::of("render")).await;
    bench.complete(&cleaned).await;
    let end = bench.now().plus(bench.candidate.rules().retention);
    assert_eq!(bench.cleanup(end, 10).await, 1);
    bench.candidate.reopen();
    assert_eq!(bench.find(dead.id).await, None);
    assert_eq!(bench.find(cleaned.id).await, None);
    assert_eq!(bench.stats("render").await.dead, 0);
}

pub async fn reopening_again_and_again_changes_nothing(open: Open) {
    let Some(bench) = keeping(&open, eager_rules()) else { return };
    let mut made = Vec::new();
    for at in 0..30_u64 {
        made.push(bench.make(New::of("render").delayed_ms(at % 2 * 5_000)).await.task);
        if at % 5 == 4 {
            bench.candidate.reopen();
        }
    }
    for task in &made {
        assert_eq!(unnumbered(bench.get(task.id).await), unnumbered(task.clone()));
    }
    assert!(made.iter().skip(1).step_by(2).all(|task| until(task) == bench.now().plus_seconds(5)));
    let even: Vec<_> = made.iter().step_by(2).map(|task| task.id).collect();
    assert_eq!(ids(&bench.claim(&["render"], 99).await), even);
}

pub async fn closing_answers_who_waits_and_refuses_who_comes_later(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create("other").await;
    let held = bench.hold(Commands::these(["render"]), Wait::Forever).await;
    let store = bench.store();
    assert_eq!(store.health(), Health::Ready);
    let watch = store.result(bench.named(task.id), Wait::Until(bench.now().plus(Duration::from_secs(9))));
    let watch = tokio::spawn(watch);
    bench.settle().await;
    bench.ask("close", store.clone().close()).await;
    bench.ask("close again", store.clone().close()).await;
    assert!(within("the held claim", held).await.expect("waiting does not panic").is_empty());
    let watched = within("the held result", watch).await.expect("waiting does not panic");
    assert_eq!(watched, Ok(ResultLookup::Pending));
    assert_eq!(store.health(), Health::Closed);
    let late = within("a call after close", store.get(vec![bench.named(task.id)])).await;
    assert_eq!(late, Err(Failure::Closed));
}
