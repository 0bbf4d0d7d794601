//! Lanes and queue policies: fair turns, exact limits, order where it is asked for.

use super::bench::{Bench, one, within};
use super::candidate::Open;
use super::request::New;
use codeq_queue::policy::{Hold, LaneStats, Obstacle};
use codeq_queue::store::{Nack, Returned, Wait};
use codeq_queue::{Commands, Policies, Refusal, State, Store, StoredPolicy, Task, TaskId};
use std::sync::Arc;

/// A store that keeps policies.
fn keeper(store: &Arc<dyn Store>) -> &dyn Policies {
    store.policing().expect("the store keeps policies")
}

async fn try_put(bench: &Bench, command: &str, text: &str) -> Result<StoredPolicy, Refusal> {
    let store = bench.store();
    bench.ask("put policy", keeper(&store).put_policy(bench.key(command), text.into())).await
}

pub(super) async fn put(bench: &Bench, command: &str, text: &str) -> StoredPolicy {
    try_put(bench, command, text).await.expect("the policy is taken")
}

async fn delete(bench: &Bench, command: &str) -> Result<bool, Refusal> {
    let store = bench.store();
    bench.ask("delete policy", keeper(&store).delete_policy(bench.key(command))).await
}

async fn lanes(bench: &Bench, command: &str) -> Vec<LaneStats> {
    let store = bench.store();
    bench.ask("lanes", keeper(&store).lanes(bench.key(command), 10)).await
}

async fn obstacles(bench: &Bench, id: TaskId) -> Vec<Obstacle> {
    let store = bench.store();
    let found = bench.ask("obstacles", keeper(&store).obstacles(bench.named(id))).await;
    found.expect("the task is live")
}

async fn hold(bench: &Bench, task: &Task, seconds: i64, hold: Hold) -> Returned {
    let nack = Nack { hold: Some(hold), ..Nack::new(bench.report(task), seconds, None) };
    one(bench.ask("nack", bench.store().nack(vec![nack])).await).expect("the owner may nack")
}

fn in_lane(lane: &str) -> New {
    New::of("mail").lane(lane)
}

fn lane_names(tasks: &[Task]) -> Vec<String> {
    let name = |task: &Task| task.body.options.as_ref().and_then(|options| options.lane.clone());
    tasks.iter().map(|task| name(task).unwrap_or_default().into()).collect()
}

async fn count(bench: &Bench, most: usize) -> usize {
    bench.claim(&["mail"], most).await.len()
}

pub async fn a_flood_in_one_lane_delays_others_by_one_task(open: Open) {
    let bench = Bench::new(&open);
    for _ in 0..20 {
        bench.make(in_lane("flood")).await;
    }
    assert_eq!(count(&bench, 5).await, 5);
    bench.make(in_lane("single")).await;
    bench.make(New::of("mail")).await;
    let taken = lane_names(&bench.claim(&["mail"], 5).await);
    assert!(taken.contains(&"single".to_owned()), "{taken:?}");
    assert!(taken.contains(&String::new()), "tasks without a lane take part: {taken:?}");
    let stats = bench.stats("mail").await;
    assert_eq!((stats.ready_total(), stats.in_progress), (12, 10));
}

pub async fn tasks_that_waited_before_there_were_lanes_take_part(open: Open) {
    let bench = Bench::new(&open);
    let first = bench.make(New::of("mail")).await.task;
    let second = bench.make(in_lane("a")).await.task;
    let mut taken: Vec<_> = bench.claim(&["mail"], 5).await.iter().map(|task| task.id).collect();
    let mut made = vec![first.id, second.id];
    taken.sort();
    made.sort();
    assert_eq!(taken, made);
}

/// A task that waits for another one, or for its time, has its place in its lane from the start.
pub async fn tasks_of_lanes_that_are_held_or_delayed_take_their_turn(open: Open) {
    let bench = Bench::new(&open);
    put(&bench, "mail", r#"{"lanes":{"concurrency":1},"maxReady":4}"#).await;
    let first = bench.create("first").await;
    let held = bench.make(in_lane("a").after(&[first.id])).await.task;
    let late = bench.make(in_lane("a").delayed_ms(60_000)).await.task;
    let other = bench.make(in_lane("a")).await.task;
    assert!(bench.claim(&["mail"], 5).await.iter().map(|task| task.id).eq([other.id]));
    super::dependencies::work(&bench, "first").await;
    super::dependencies::is_ready(&bench, held.id).await;
    bench.run_now(late.id).await.expect("a delayed task can run now");
    assert_eq!((count(&bench, 5).await, bench.stats("mail").await.limited), (0, 2));
    for expected in [held.id, late.id] {
        let running = bench.get(if expected == held.id { other.id } else { held.id }).await;
        bench.complete(&running).await;
        assert!(bench.claim(&["mail"], 5).await.iter().map(|task| task.id).eq([expected]));
    }
}

/// A policy counts from the moment on at which it was answered, and the shard is not held up by very many lanes that take
/// it over.
pub async fn a_policy_counts_at_once_in_very_many_lanes(open: Open) {
    const LANES: usize = 1_300;
    let bench = Bench::new(&open);
    for from in (0..LANES).step_by(100) {
        let lanes = (from..from + 100).map(|lane| format!("lane-{lane}"));
        let twice = lanes.flat_map(|lane| [in_lane(&lane), in_lane(&lane)]);
        let tasks = twice.map(|task| task.build(&bench.tenant)).collect();
        let made = bench.ask("create", bench.store().create(tasks)).await;
        assert!(made.iter().all(Result::is_ok));
    }
    let mut started = 0;
    while started < LANES {
        started += count(&bench, 100).await;
    }
    put(&bench, "mail", r#"{"lanes":{"concurrency":1}}"#).await;
    assert_eq!(count(&bench, 10).await, 0, "every lane has one running");
    let waiting = bench.hold(Commands::These([Arc::from("mail")].into()), Wait::Forever).await;
    put(&bench, "mail", r#"{"lanes":{"concurrency":2}}"#).await;
    let mut again = within("a claim that waited", waiting).await.expect("it is answered").len();
    within("every lane starts another", async {
        while again < LANES {
            again += count(&bench, 100).await;
        }
    })
    .await;
    assert_eq!((again, count(&bench, 10).await), (LANES, 0));
}

pub async fn lanes_are_served_by_weight_and_within_them_by_priority(open: Open) {
    let bench = Bench::new(&open);
    put(&bench, "mail", r#"{"lanes":{"overrides":{"big":{"weight":3}}}}"#).await;
    for _ in 0..12 {
        bench.make(in_lane("big")).await;
        bench.make(in_lane("small")).await;
    }
    let urgent = bench.make(in_lane("small").priority(9)).await.task;
    let taken = bench.claim(&["mail"], 12).await;
    let names = lane_names(&taken);
    let big = names.iter().filter(|name| *name == "big").count();
    assert!((8..=10).contains(&big), "{names:?}");
    let first_small = names.iter().position(|name| name == "small").expect("a small one");
    assert_eq!(taken[first_small].id, urgent.id);
}

pub async fn no_more_run_than_the_queue_allows(open: Open) {
    let bench = Bench::new(&open);
    put(&bench, "mail", r#"{"concurrency":3}"#).await;
    for n in 0..6 {
        bench.make(if n % 2 == 0 { New::of("mail") } else { in_lane("a") }).await;
    }
    let running = bench.claim(&["mail"], 6).await;
    assert_eq!(running.len(), 3);
    assert_eq!(bench.stats("mail").await.limited, 3);
    let waiting = bench.hold(Commands::these(["mail"]), Wait::Forever).await;
    bench.complete(&running[0]).await;
    let next = within("a freed slot serves who waits", waiting).await.expect("the call ended");
    assert_eq!(next.len(), 1);
    bench.nack(&running[1], 5, "later").await.expect("the owner may nack");
    bench.refund(&running[2]).await.expect("the owner may abandon");
    assert_eq!(count(&bench, 6).await, 2);
    bench.cancel(next[0].id).await.expect("a running task can be cancelled");
    assert_eq!(count(&bench, 6).await, 1);
    bench.advance(61);
    assert_eq!(count(&bench, 6).await, 1, "expired leases free their slots; one retry is due");
    bench.advance(5);
    assert_eq!(count(&bench, 6).await, 2, "the others follow, as far as the limit goes");
}

pub async fn no_more_of_a_lane_run_than_it_may(open: Open) {
    let bench = Bench::new(&open);
    let policy = r#"{"lanes":{"concurrency":1,"overrides":{"two":{"concurrency":2}}}}"#;
    put(&bench, "mail", policy).await;
    for lane in ["one", "two"] {
        for _ in 0..3 {
            bench.make(in_lane(lane)).await;
        }
    }
    for _ in 0..3 {
        bench.make(New::of("mail")).await;
    }
    let running = bench.claim(&["mail"], 20).await;
    let mut names = lane_names(&running);
    names.sort();
    assert_eq!(names, ["", "", "", "one", "two", "two"]);
    let waits = bench.make(in_lane("one")).await.task;
    let limit = Obstacle::LaneAtConcurrency { lane: "one".into(), limit: 1, running: 1 };
    assert_eq!(obstacles(&bench, waits.id).await, std::slice::from_ref(&limit));
    let found = lanes(&bench, "mail").await;
    let one = found.iter().find(|lane| &*lane.lane == "one").expect("it is listed");
    assert_eq!((one.ready, one.running, &one.blocked_by), (3, 1, &Some(limit)));
    let done = running.iter().find(|task| lane_names(&[(*task).clone()]) == ["one"]).expect("one runs");
    bench.complete(done).await;
    assert_eq!(lane_names(&bench.claim(&["mail"], 5).await), ["one"]);
}

pub async fn starts_keep_to_the_rate(open: Open) {
    let bench = Bench::new(&open);
    put(&bench, "mail", r#"{"rate":{"limit":2,"periodSeconds":1,"burst":2}}"#).await;
    for _ in 0..10 {
        bench.make(New::of("mail")).await;
    }
    assert_eq!(count(&bench, 10).await, 2, "the burst");
    bench.advance_ms(499);
    assert_eq!(count(&bench, 10).await, 0);
    let waiting = bench.hold(Commands::Any, Wait::Forever).await;
    bench.advance_ms(1);
    let next = within("a task when its time has come", waiting).await.expect("the call ended");
    assert_eq!(next.len(), 1);
    bench.refund(&next[0]).await.expect("the owner may abandon");
    assert_eq!(count(&bench, 10).await, 0, "a refunded start is not given back");
    bench.advance_ms(5_000);
    assert_eq!(count(&bench, 10).await, 2, "no more than the burst is saved up");
}

pub async fn lanes_have_rates_of_their_own(open: Open) {
    let bench = Bench::new(&open);
    put(&bench, "mail", r#"{"lanes":{"rate":{"limit":1,"periodSeconds":10}}}"#).await;
    for lane in ["a", "b"] {
        for _ in 0..3 {
            bench.make(in_lane(lane)).await;
        }
    }
    let plain = bench.make(New::of("mail")).await.task;
    let mut names = lane_names(&bench.claim(&["mail"], 10).await);
    names.sort();
    assert_eq!(names, ["", "a", "b"]);
    let waits = bench.make(in_lane("a")).await.task;
    assert!(matches!(obstacles(&bench, waits.id).await[..], [Obstacle::RateLimited { .. }]));
    assert!(obstacles(&bench, plain.id).await.is_empty());
    bench.advance(10);
    assert_eq!(count(&bench, 10).await, 2);
}

/// What a lane has used up of its burst stays used up though nothing of the lane is left.
pub async fn a_lane_that_was_emptied_keeps_to_its_rate(open: Open) {
    let bench = Bench::new(&open);
    put(&bench, "mail", r#"{"lanes":{"rate":{"limit":10,"periodSeconds":10,"burst":10}}}"#).await;
    for (waited, starts) in [(0, 10), (1_100, 1), (900, 1), (1_000, 1), (20_000, 10)] {
        bench.advance_ms(waited);
        let mut made = Vec::new();
        for _ in 0..10 {
            made.push(bench.make(in_lane("a")).await.task.id);
        }
        let started = bench.claim(&["mail"], 20).await;
        assert_eq!(started.len(), starts, "{waited} ms after the starts before");
        for id in made {
            bench.cancel(id).await.expect("a live task can be cancelled");
        }
    }
}

pub async fn an_ordered_lane_serves_its_oldest_task_alone(open: Open) {
    let bench = Bench::new(&open);
    put(&bench, "mail", r#"{"lanes":{"ordered":true}}"#).await;
    let first = bench.make(in_lane("a").max_attempts(2)).await.task;
    let second = bench.make(in_lane("a").priority(9)).await.task;
    let third = bench.make(in_lane("a")).await.task;
    bench.make(in_lane("b")).await;
    let taken = bench.claim(&["mail"], 10).await;
    assert_eq!(lane_names(&taken), ["a", "b"]);
    assert_eq!(taken[0].id, first.id, "priority does not count");
    assert_eq!(obstacles(&bench, second.id).await, [Obstacle::LaneInOrder { task: first.id }]);
    bench.nack(&taken[0], 7, "later").await.expect("the owner may nack");
    assert_eq!(count(&bench, 10).await, 0, "the retry blocks the lane");
    bench.advance(7);
    let again = bench.take("mail").await;
    assert_eq!(again.id, first.id);
    assert_eq!(bench.nack(&again, 0, "broken").await, Ok(Returned::Dead));
    let next = bench.take("mail").await;
    assert_eq!(next.id, second.id, "a dead task lets the next one go on");
    bench.requeue(first.id, None).await.expect("a dead letter can be requeued");
    bench.refund(&next).await.expect("the owner may abandon");
    assert_eq!(bench.take("mail").await.id, second.id, "refunded it is next again");
    bench.cancel(second.id).await.expect("a running task can be cancelled");
    let next = bench.take("mail").await;
    assert_eq!(next.id, third.id, "what was requeued counts as created then");
    bench.complete(&next).await;
    assert_eq!(bench.take("mail").await.id, first.id);
}

pub async fn the_order_changes_only_in_an_empty_queue(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.make(in_lane("a")).await.task;
    assert_eq!(try_put(&bench, "mail", r#"{"lanes":{"ordered":true}}"#).await, Err(Refusal::QueueNotEmpty));
    bench.cancel(task.id).await.expect("a ready task can be cancelled");
    put(&bench, "mail", r#"{"lanes":{"ordered":true}}"#).await;
    let first = bench.make(in_lane("a")).await.task;
    bench.make(in_lane("a")).await;
    assert_eq!(delete(&bench, "mail").await, Err(Refusal::QueueNotEmpty));
    assert_eq!(count(&bench, 5).await, 1);
    assert_eq!(bench.get(first.id).await.attempts, 1);
}

pub async fn a_nack_holds_back_its_lane_or_its_queue(open: Open) {
    let bench = Bench::new(&open);
    for lane in ["a", "b"] {
        for _ in 0..2 {
            bench.make(in_lane(lane).max_attempts(1)).await;
        }
    }
    let task = bench.take("mail").await;
    assert_eq!(hold(&bench, &task, 2_000, Hold::Lane).await, Returned::Requeued { delay_seconds: 2_000 });
    let held = bench.get(task.id).await;
    assert_eq!((held.refunds, held.attempts), (1, 1), "no attempt is used, and the delay is not cut");
    let taken = bench.claim(&["mail"], 10).await;
    assert_eq!(lane_names(&taken), ["b", "b"]);
    let plain = bench.make(New::of("mail")).await.task;
    hold(&bench, &taken[0], 60, Hold::Queue).await;
    assert_eq!(count(&bench, 10).await, 0);
    assert!(matches!(obstacles(&bench, plain.id).await[..], [Obstacle::HeldUntil { .. }]));
    bench.advance(60);
    assert_eq!(count(&bench, 10).await, 2, "the task itself and the one without a lane");
    bench.resume("mail").await;
    assert_eq!(lane_names(&bench.claim(&["mail"], 10).await), ["a"], "a resume clears all holds");
}

/// They count as a lane of their own, also where no task has one.
pub async fn tasks_without_a_lane_are_listed_as_one(open: Open) {
    let bench = Bench::new(&open);
    assert_eq!(lanes(&bench, "mail").await, []);
    bench.create("mail").await;
    let plain =
        |ready, running, blocked_by| LaneStats { lane: "".into(), ready, running, weight: 1, blocked_by };
    assert_eq!(lanes(&bench, "mail").await, [plain(1, 0, None)]);
    let task = bench.take("mail").await;
    bench.create("mail").await;
    assert_eq!(lanes(&bench, "mail").await, [plain(1, 1, None)]);
    hold(&bench, &task, 60, Hold::Lane).await;
    let until = bench.now().plus_seconds(60);
    assert_eq!(lanes(&bench, "mail").await, [plain(1, 0, Some(Obstacle::HeldUntil { until }))]);
}

pub async fn a_full_queue_takes_no_creates(open: Open) {
    let bench = Bench::new(&open);
    put(&bench, "mail", r#"{"maxReady":2}"#).await;
    bench.make(New::of("mail").delayed_ms(60_000)).await;
    bench.make(New::of("mail").key("k")).await;
    assert_eq!(bench.try_make(New::of("mail")).await, Err(Refusal::QueueFull));
    assert!(bench.try_make(New::of("mail").key("k")).await.is_ok_and(|created| created.is_replay));
    assert!(bench.try_make(New::of("other")).await.is_ok());
    let running = bench.take("mail").await;
    assert!(bench.try_make(New::of("mail")).await.is_ok(), "what runs does not wait");
    bench.abandon(&running).await.expect("the owner may abandon");
    assert_eq!(bench.try_make(New::of("mail")).await, Err(Refusal::QueueFull));
}

pub async fn a_queue_has_defaults_of_its_own(open: Open) {
    let bench = Bench::new(&open);
    let policy = r#"{"leaseSeconds":7,"maxRunSeconds":9,"retentionSeconds":11,"failedRetentionSeconds":1000000,
        "backoff":{"policy":"fixed","baseSeconds":33}}"#;
    put(&bench, "mail", policy).await;
    bench.create("mail").await;
    let wish = bench.wish(Commands::these(["mail"]), 1, Wait::No);
    let wish = codeq_queue::store::Claim { is_default_lease: true, ..wish };
    let task = one(bench.ask("claim", bench.store().claim(wish)).await);
    let lease = task.state.lease().expect("it runs").clone();
    assert_eq!(lease.until, bench.now().plus_seconds(7));
    assert_eq!(bench.nack(&task, 0, "x").await, Ok(Returned::Requeued { delay_seconds: 33 }));
    bench.advance(33);
    let task = bench.take("mail").await;
    let lease = task.state.lease().expect("it runs").clone();
    assert_eq!(lease.until, bench.now().plus_seconds(9), "no lease outlives the longest run");
    bench.complete(&task).await;
    bench.advance(10);
    assert!(bench.find(task.id).await.is_some());
    bench.advance(2);
    assert!(bench.find(task.id).await.is_none());
    let task = bench.create("mail").await;
    bench.cancel(task.id).await.expect("a ready task can be cancelled");
    bench.advance(999_000);
    assert_eq!(bench.get(task.id).await.state, State::Cancelled);
}

pub async fn policies_are_put_read_and_deleted(open: Open) {
    let bench = Bench::new(&open);
    let store = bench.store();
    let read = || bench.ask("policy", keeper(&store).policy(bench.key("Mail")));
    assert_eq!(read().await, None);
    let first = put(&bench, "mail", r#"{"concurrency":1}"#).await;
    assert_eq!((first.version, read().await.as_ref()), (1, Some(&first)));
    assert_eq!(put(&bench, "mail", r#"{"concurrency":1}"#).await, first);
    assert_eq!(put(&bench, "mail", r#"{"concurrency":2}"#).await.version, 2);
    let other = bench.tenant("umbrella");
    put(&other, "mail", r#"{"concurrency":9}"#).await;
    let all = bench.ask("policies", keeper(&store).policies()).await;
    assert_eq!(all.len(), 2);
    for _ in 0..4 {
        bench.create("mail").await;
    }
    assert_eq!(count(&bench, 10).await, 2);
    put(&bench, "mail", r#"{"concurrency":1}"#).await;
    assert_eq!(count(&bench, 10).await, 0, "lowering a limit touches nothing that runs");
    assert_eq!(delete(&bench, "mail").await, Ok(true));
    assert_eq!(delete(&bench, "mail").await, Ok(false));
    assert_eq!(count(&bench, 10).await, 2);
    assert_eq!(read().await, None);
}

pub async fn limits_hold_over_a_restart(open: Open) {
    let bench = Bench::new(&open);
    if !bench.candidate.keeps_on_reopen() {
        return;
    }
    let policy = r#"{"concurrency":4,"rate":{"limit":3,"periodSeconds":60,"burst":3},
        "lanes":{"ordered":true,"rate":{"limit":1,"periodSeconds":600}}}"#;
    put(&bench, "mail", policy).await;
    let first = bench.make(in_lane("a")).await.task;
    for lane in ["a", "b", "c", "d"] {
        bench.make(in_lane(lane).priority(5)).await;
    }
    let running = bench.claim(&["mail"], 10).await;
    assert_eq!((running.len(), running[0].id), (3, first.id));
    for round in 0..3 {
        bench.candidate.reopen();
        assert_eq!(count(&bench, 10).await, 0, "round {round}: the rate is used up");
    }
    let held = bench.create("held").await;
    let held = bench.claim(&["held"], 1).await.pop().filter(|task| task.id == held.id).expect("it is ready");
    hold(&bench, &held, 500, Hold::Queue).await;
    bench.create("held").await;
    bench.candidate.reopen();
    bench.advance(20);
    assert_eq!(bench.claim(&["held"], 9).await.len(), 0);
    assert_eq!(count(&bench, 10).await, 1, "of the lane that had no start yet");
    bench.advance(480);
    assert_eq!(bench.claim(&["held"], 9).await.len(), 2);
    bench.candidate.reopen();
    assert_eq!(bench.stats("mail").await.policy.and_then(|stored| stored.policy.concurrency), Some(4));
}
