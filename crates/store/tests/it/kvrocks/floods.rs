//! Very many delayed tasks that are due at once.

use super::ground::{keyspace, open, options};
use super::round_trips::settled;
use super::verbs::{claim, new};
use codeq_queue::{Delay, NewTask, QueueKey, Store, TaskId};
use codeq_store::ManualClock;
use codeq_store::kvrocks::{KvrocksOptions, KvrocksStore, Timing};
use codeq_store::testing::exam::START;
use std::sync::Arc;
use std::time::{Duration, Instant};

const LIMIT: usize = 10;
const DELAY: Duration = Duration::from_secs(60);

fn store(timing: Timing, clock: &Arc<ManualClock>) -> Arc<KvrocksStore> {
    let inspect_limit = u32::try_from(LIMIT).unwrap();
    open(KvrocksOptions { timing, inspect_limit, clock: clock.clone(), ..options(keyspace()) })
}

/// Creates tasks that become ready at one instant, one after the other.
async fn delayed(store: &dyn Store, count: usize) -> Vec<TaskId> {
    let mut ids = Vec::new();
    for _ in 0..count {
        let task = NewTask { delay: Delay::Until(START.plus(DELAY)), ..new("render") };
        ids.push(store.create(vec![task]).await.unwrap().remove(0).unwrap().task.id);
    }
    ids
}

/// Ready and delayed.
async fn counts(store: &dyn Store) -> (u64, u64) {
    let stats = store.queue(QueueKey::new("t", "render")).await.unwrap();
    (stats.ready_total(), stats.delayed)
}

#[tokio::test]
async fn as_many_as_the_limit_come_in_the_order_of_their_creation() {
    let clock = Arc::new(ManualClock::at(START));
    let store = store(Timing::Stepped, &clock);
    let ids = delayed(&*store, LIMIT).await;
    clock.set(START.plus(DELAY));
    let lent = claim(&*store, "render", LIMIT).await;
    assert_eq!(lent.iter().map(|task| task.id).collect::<Vec<_>>(), ids);
}

#[tokio::test]
async fn a_claim_moves_no_more_than_the_limit_and_nothing_while_enough_is_ready() {
    let clock = Arc::new(ManualClock::at(START));
    // No sweep but the one at the start.
    let store = store(Timing::Running { sweep_interval: Duration::from_secs(3600) }, &clock);
    settled(&store).await;
    delayed(&*store, 5 * LIMIT).await;
    clock.set(START.plus(DELAY));
    assert_eq!(claim(&*store, "render", 1).await.len(), 1);
    assert_eq!(counts(&*store).await, (9, 40), "an empty queue is filled");
    assert_eq!(claim(&*store, "render", 1).await.len(), 1);
    assert_eq!(counts(&*store).await, (18, 30), "one that is short of tasks, too");
    assert_eq!(claim(&*store, "render", 1).await.len(), 1);
    assert_eq!(counts(&*store).await, (17, 30), "one that has enough waits for the sweep");
    assert_eq!(claim(&*store, "render", 9).await.len(), 9);
    assert_eq!(claim(&*store, "render", 1).await.len(), 1);
    assert_eq!(counts(&*store).await, (17, 20), "until it is short again");
}

#[tokio::test]
async fn what_is_left_of_a_flood_is_moved_like_any_other() {
    let clock = Arc::new(ManualClock::at(START));
    let store = store(Timing::Stepped, &clock);
    for _ in 0..LIMIT {
        store.create(vec![new("render")]).await.unwrap();
    }
    delayed(&*store, LIMIT - 1).await;
    clock.set(START.plus(DELAY));
    assert_eq!(claim(&*store, "render", 1).await.len(), 1);
    assert_eq!(counts(&*store).await, (18, 0), "fewer than the limit are due");
}

#[tokio::test]
async fn a_flood_ends_by_itself() {
    let clock = Arc::new(ManualClock::at(START));
    let store = store(Timing::Running { sweep_interval: Duration::from_millis(50) }, &clock);
    let ids = delayed(&*store, 20 * LIMIT).await;
    clock.set(START.plus(DELAY));
    let begun = Instant::now();
    while counts(&*store).await != (ids.len() as u64, 0) {
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", counts(&*store).await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(claim(&*store, "render", ids.len()).await.len(), ids.len());
}
