//! Idempotency: one key, one task, for as long as the task is known.

use super::bench::{Bench, plain_rules, within};
use super::candidate::Open;
use super::request::New;
use crate::Rules;
use codeq_queue::Place;
use std::time::Duration;

pub async fn a_replay_shows_the_task_as_it_is_now(open: Open) {
    let bench = Bench::new(&open);
    let first = bench.make(New::of("render").key("k").payload("1")).await;
    let other = New::of("render").key("k").payload("2").priority(9).delayed_ms(5000);
    let replay = bench.make(other.clone()).await;
    assert!(!first.is_replay && replay.is_replay);
    assert_eq!(replay.task, first.task, "the new body is not compared");
    bench.advance_ms(5);
    let running = bench.take("render").await;
    assert_eq!(bench.make(other.clone()).await.task, running);
    assert!(bench.claim(&["render"], 1).await.is_empty(), "a replay enqueues nothing");
    bench.advance_ms(5);
    bench.complete(&running).await;
    let replay = bench.make(other).await;
    assert!(replay.is_replay);
    assert_eq!(replay.task, bench.get(first.task.id).await, "also after its completion");
}

pub async fn a_key_is_scoped_by_tenant_and_command(open: Open) {
    let bench = Bench::new(&open);
    let mut made = std::collections::HashSet::new();
    for (tenant, command) in [("acme", "a"), ("acme", "b"), ("umbrella", "a")] {
        let created = bench.tenant(tenant).make(New::of(command).key("k")).await;
        assert!(!created.is_replay, "{tenant} {command}");
        made.insert(created.task.id);
    }
    assert_eq!(made.len(), 3);
    assert!(bench.make(New::of("A").key("k")).await.is_replay, "commands compare without case");
}

pub async fn keys_are_compared_byte_by_byte(open: Open) {
    let bench = Bench::new(&open);
    let long = "k".repeat(255);
    for key in ["k", "K", "k ", "é", "e\u{301}", &long, &long[..254], "a/b", "a\0b"] {
        assert!(!bench.make(New::of("render").key(key)).await.is_replay, "{key:?}");
    }
    assert!(bench.make(New::of("render").key("e\u{301}")).await.is_replay);
}

pub async fn tasks_without_a_key_are_never_replays(open: Open) {
    let bench = Bench::new(&open);
    assert!(!bench.make(New::of("render")).await.is_replay);
    assert!(!bench.make(New::of("render")).await.is_replay);
    assert_eq!(bench.claim(&["render"], 9).await.len(), 2);
}

pub async fn of_many_racing_creates_exactly_one_makes_a_task(open: Open) {
    let bench = Bench::new(&open);
    for round in 0..10 {
        let key = format!("key-{round}");
        let racers = (0..16).map(|_| {
            let answer = bench.store().create(vec![New::of("render").key(&key).build(&bench.tenant)]);
            let handle = tokio::runtime::Handle::current();
            tokio::task::spawn_blocking(move || handle.block_on(answer))
        });
        let mut ids = std::collections::HashSet::new();
        let mut made = 0;
        for racer in racers.collect::<Vec<_>>() {
            let items = within("a racing create", racer).await.expect("a racer does not panic");
            let created = items.expect("a create does not fail").remove(0).expect("a create is not refused");
            made += usize::from(!created.is_replay);
            ids.insert(created.task.id);
        }
        assert_eq!((made, ids.len()), (1, 1), "one task and fifteen replays of it");
        assert_eq!(bench.claim(&["render"], 16).await.len(), 1);
    }
}

pub async fn the_second_of_two_in_one_batch_is_a_replay(open: Open) {
    let bench = Bench::new(&open);
    let new = New::of("render").key("k").build(&bench.tenant);
    let created = bench.ask("create", bench.store().create(vec![new.clone(), new])).await;
    let created: Vec<_> = created.into_iter().map(|item| item.expect("a create is not refused")).collect();
    assert_eq!(created.iter().map(|c| c.is_replay).collect::<Vec<_>>(), [false, true]);
    assert_eq!(created[0].task.id, created[1].task.id);
    assert_eq!(bench.claim(&["render"], 9).await.len(), 1);
}

pub async fn a_key_is_freed_when_the_retention_of_its_task_ends(open: Open) {
    let bench = Bench::with(&open, Rules { retention: Duration::from_secs(100), ..plain_rules() });
    let task = bench.create_and_take(New::of("render").key("k")).await;
    bench.complete(&task).await;
    bench.advance_ms(99_999);
    assert!(bench.make(New::of("render").key("k")).await.is_replay);
    bench.advance_ms(1);
    let again = bench.make(New::of("render").key("k")).await;
    assert!(!again.is_replay);
    assert_ne!(again.task.id, task.id);
    assert_eq!(again.task.state.place(), Place::PendingList);
}

pub async fn a_dead_letter_keeps_its_key_until_it_is_removed(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render").key("k").max_attempts(1)).await;
    bench.abandon(&task).await.expect("the owner may abandon");
    bench.advance(100 * 86_400);
    let replay = bench.make(New::of("render").key("k")).await;
    assert!(replay.is_replay);
    assert_eq!(replay.task.state.place(), Place::DeadLetterSet);
    assert_eq!(bench.remove(task.id).await, Ok(()));
    assert!(!bench.make(New::of("render").key("k")).await.is_replay);
}

pub async fn a_cancelled_task_keeps_its_key_and_cleanup_frees_it(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.make(New::of("render").key("k")).await.task;
    bench.cancel(task.id).await.expect("a ready task can be cancelled");
    assert!(bench.make(New::of("render").key("k")).await.is_replay);
    assert_eq!(bench.cleanup(bench.now().plus(bench.candidate.rules().retention), 10).await, 1);
    assert!(!bench.make(New::of("render").key("k")).await.is_replay);
}
