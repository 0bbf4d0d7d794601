//! Counting: the numbers of a queue agree with its tasks after every transition, tenant by tenant.

use super::bench::{Bench, ids};
use super::candidate::Open;
use super::request::New;
use codeq_queue::store::ResultLookup;
use codeq_queue::{Outcome, Place, QueueStats, TaskId};

/// Ready by priority, delayed, running, dead.
type Counts = ([u64; 10], u64, u64, u64);

fn counts(stats: &QueueStats) -> Counts {
    (stats.ready, stats.delayed, stats.in_progress, stats.dead)
}

async fn recount(bench: &Bench, tasks: &[TaskId]) -> Counts {
    let mut counts = Counts::default();
    for id in tasks {
        let Some(task) = bench.find(*id).await else { continue };
        match task.state.place() {
            Place::PendingList => counts.0[usize::from(task.priority)] += 1,
            Place::DelayedSet => counts.1 += 1,
            Place::InProgressSet => counts.2 += 1,
            Place::DeadLetterSet => counts.3 += 1,
            Place::HeldSet | Place::None => {}
        }
    }
    counts
}

async fn check(bench: &Bench, tasks: &[TaskId], expected: (u64, u64, u64, u64), when: &str) {
    let stats = bench.stats("render").await;
    let found = (stats.ready_total(), stats.delayed, stats.in_progress, stats.dead);
    assert_eq!(found, expected, "{when}: ready, delayed, running, dead");
    assert_eq!(counts(&stats), recount(bench, tasks).await, "{when}");
    let mut all = bench.ask("queues", bench.store().queues(Some(bench.tenant.clone()))).await;
    all.retain(|queue| queue.command.eq_ignore_ascii_case("render"));
    assert_eq!(all.iter().map(counts).collect::<Vec<_>>(), [counts(&stats)], "{when}");
}

pub async fn the_counts_follow_every_transition(open: Open) {
    let bench = Bench::new(&open);
    let mut tasks = Vec::new();
    for (priority, delay) in [(0, 0), (3, 0), (9, 0), (9, 0), (0, 10), (5, 20)] {
        let new = New::of("render").priority(priority).delayed_ms(delay).max_attempts(2);
        tasks.push(bench.make(new).await.task.id);
    }
    check(&bench, &tasks, (4, 2, 0, 0), "created").await;
    bench.advance_ms(10);
    check(&bench, &tasks, (5, 1, 0, 0), "promoted").await;
    let taken = bench.claim(&["render"], 4).await;
    check(&bench, &tasks, (1, 1, 4, 0), "claimed").await;
    bench.nack(&taken[0], 100, "x").await.expect("the owner may nack");
    check(&bench, &tasks, (1, 2, 3, 0), "nacked").await;
    bench.abandon(&taken[1]).await.expect("the owner may abandon");
    check(&bench, &tasks, (2, 2, 2, 0), "abandoned").await;
    bench.complete(&taken[2]).await;
    check(&bench, &tasks, (2, 2, 1, 0), "completed").await;
    bench.advance(60);
    check(&bench, &tasks, (3, 2, 0, 0), "expired, and the last delay passed").await;
    bench.cancel(taken[3].id).await.expect("a delayed task can be cancelled");
    check(&bench, &tasks, (3, 1, 0, 0), "cancelled").await;
    bench.advance(40);
    check(&bench, &tasks, (4, 0, 0, 0), "the nacked one is back").await;
    let again = bench.claim(&["render"], 1).await.remove(0);
    bench.abandon(&again).await.expect("the owner may abandon");
    check(&bench, &tasks, (3, 0, 0, 1), "dead").await;
    bench.requeue(again.id, None).await.expect("a dead letter can be requeued");
    check(&bench, &tasks, (4, 0, 0, 0), "requeued").await;
    bench.advance(2 * 86_400);
    check(&bench, &tasks, (4, 0, 0, 0), "the ended ones are gone").await;
}

pub async fn the_counts_of_the_dead_and_the_failed(open: Open) {
    let bench = Bench::new(&open);
    let dead = bench.dead("render").await.id;
    let failed = bench.create_and_take(New::of("render")).await;
    bench.submit(&failed, Outcome::failed("no")).await.expect("the owner may fail its task");
    check(&bench, &[dead, failed.id], (0, 0, 0, 1), "a failed task is not dead").await;
    let cancelled = bench.create("render").await.id;
    bench.cancel(cancelled).await.expect("a ready task can be cancelled");
    assert_eq!(bench.stats("render").await.failed, 1, "neither the dead nor the cancelled one counts");
    bench.requeue(failed.id, None).await.expect("a failed task can be requeued");
    assert_eq!(bench.stats("render").await.failed, 0);
    let failed = bench.take("render").await;
    bench.submit(&failed, Outcome::failed("no")).await.expect("the owner may fail its task");
    assert_eq!(bench.stats("render").await.failed, 1);
    let later = bench.now().plus_seconds(86_400 * 366);
    assert_eq!(bench.cleanup(later, 10).await, 2, "the failed and the cancelled one");
    assert_eq!(bench.stats("render").await.failed, 0);
    bench.remove(dead).await.expect("a dead letter can be removed");
    check(&bench, &[dead, failed.id], (0, 0, 0, 0), "removed").await;
}

pub async fn an_unknown_queue_counts_nothing(open: Open) {
    let bench = Bench::new(&open);
    let stats = bench.stats("render").await;
    assert_eq!(counts(&stats), Counts::default());
    assert_eq!((stats.is_paused, stats.oldest_ready, stats.last_claim), (false, None, None));
    assert_eq!(&*stats.tenant, "acme");
    assert!(bench.ask("queues", bench.store().queues(None)).await.is_empty());
}

pub async fn a_queue_tells_its_oldest_task_its_last_claim_and_its_newest_spelling(open: Open) {
    let bench = Bench::new(&open);
    let first = bench.create("render").await;
    bench.advance_ms(5);
    let second = bench.create("Render").await;
    let stats = bench.stats("rEnder").await;
    assert_eq!((stats.oldest_ready, stats.last_claim), (Some(first.created_at), None));
    assert_eq!(&*stats.command, "Render");
    bench.advance_ms(5);
    bench.take("render").await;
    let stats = bench.stats("render").await;
    assert_eq!((stats.oldest_ready, stats.last_claim), (Some(second.created_at), Some(bench.now())));
    bench.take("render").await;
    assert_eq!(bench.stats("render").await.oldest_ready, None);
}

pub async fn tenants_do_not_see_each_other(open: Open) {
    let bench = Bench::new(&open);
    let umbrella = bench.tenant("umbrella");
    let (mine, theirs) = (bench.create("render").await, umbrella.create("render").await);
    assert_eq!(umbrella.find(mine.id).await, None);
    assert_eq!(umbrella.lookup(mine.id).await, ResultLookup::NotFound);
    assert_eq!(bench.stats("render").await.ready_total(), 1);
    assert_eq!(ids(&bench.claim_any(9).await), [mine.id]);
    assert_eq!(umbrella.stats("render").await.ready_total(), 1, "a claim takes of one tenant only");
    assert_eq!(ids(&umbrella.claim(&["render"], 9).await), [theirs.id]);
    assert!(bench.tenant("ACME").claim_any(9).await.is_empty(), "tenants compare with case");
}

pub async fn queues_are_listed_for_one_tenant_or_for_all(open: Open) {
    let bench = Bench::new(&open);
    for (tenant, command) in [("acme", "a"), ("acme", "b"), ("umbrella", "a")] {
        bench.tenant(tenant).create(command).await;
    }
    let list = |tenant: Option<&str>| {
        let answer = bench.store().queues(tenant.map(Into::into));
        async {
            let queues = bench.ask("queues", answer).await;
            let mut names: Vec<_> = queues
                .iter()
                .map(|q| (q.tenant.to_string(), q.command.to_string(), counts(q).0[0]))
                .collect();
            names.sort();
            names
        }
    };
    let row = |tenant: &str, command: &str| (tenant.to_string(), command.to_string(), 1);
    assert_eq!(list(Some("acme")).await, [row("acme", "a"), row("acme", "b")]);
    assert_eq!(list(Some("umbrella")).await, [row("umbrella", "a")]);
    assert_eq!(list(None).await, [row("acme", "a"), row("acme", "b"), row("umbrella", "a")]);
    assert!(list(Some("nobody")).await.is_empty());
}
