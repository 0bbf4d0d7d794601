//! Very many delayed tasks that are due at once.

use super::ground::{keyspace, open, options};
use super::round_trips::settled;
use super::server::Server;
use super::verbs::{claim, done, new};
use codeq_queue::event::What;
use codeq_queue::{Delay, Event, NewTask, Observer, QueueKey, Store, TaskId, TaskStore};
use codeq_store::ManualClock;
use codeq_store::kvrocks::{Backend, KvrocksOptions, KvrocksStore, Timing};
use codeq_store::testing::exam::START;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const LIMIT: usize = 10;
const DELAY: Duration = Duration::from_secs(60);

fn store(timing: Timing, clock: &Arc<ManualClock>) -> Arc<KvrocksStore> {
    open(limited(timing, clock, LIMIT))
}

fn limited(timing: Timing, clock: &Arc<ManualClock>, limit: usize) -> KvrocksOptions {
    let inspect_limit = u32::try_from(limit).unwrap();
    KvrocksOptions { timing, inspect_limit, clock: clock.clone(), ..options(keyspace()) }
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
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let observer: Observer = Arc::new(move |events: &[Event]| {
        for _ in events.iter().filter(|event| matches!(event.what, What::Promoted)) {
            tell.send(()).unwrap();
        }
    });
    let timing = Timing::Running { sweep_interval: Duration::from_millis(50) };
    let store = open(KvrocksOptions { observer: Some(observer), ..limited(timing, &clock, LIMIT) });
    let ids = delayed(&*store, 20 * LIMIT).await;
    clock.set(START.plus(DELAY));
    for number in 0..ids.len() {
        let promoted = tokio::time::timeout(Duration::from_secs(30), told.recv()).await;
        assert!(promoted.is_ok(), "{number} were promoted; {:?}", counts(&*store).await);
    }
    assert_eq!(counts(&*store).await, (ids.len() as u64, 0));
    assert_eq!(claim(&*store, "render", ids.len()).await.len(), ids.len());
}

/// More than one command of the server takes at once.
#[tokio::test]
async fn a_limit_of_thousands_moves_thousands_in_order() {
    let clock = Arc::new(ManualClock::at(START));
    let store = open(limited(Timing::Stepped, &clock, 5000));
    let task = NewTask { delay: Delay::Until(START.plus(DELAY)), ..new("render") };
    let mut ids = Vec::new();
    for _ in 0..25 {
        let created = store.create(vec![task.clone(); 100]).await.unwrap();
        ids.extend(created.into_iter().map(|created| created.unwrap().task.id));
    }
    clock.set(START.plus(DELAY));
    let lent = claim(&*store, "render", ids.len()).await;
    assert_eq!(lent.iter().map(|task| task.id).collect::<Vec<_>>(), ids);
}

/// What another writer left in the set of delayed tasks: ids of no task, and of one that runs.
#[tokio::test]
async fn leftovers_among_the_due_go_and_hold_nothing_up() {
    let clock = Arc::new(ManualClock::at(START));
    let server = Server::start(&[]);
    let backend = Backend { address: server.address(), ..Backend::default() };
    let store = open(KvrocksOptions { backend, ..limited(Timing::Stepped, &clock, LIMIT) });
    store.create(vec![new("render")]).await.unwrap();
    let running = claim(&*store, "render", 1).await.remove(0);
    let ids = delayed(&*store, 2 * LIMIT).await;
    let score = START.plus(DELAY).millis() / 1000;
    for n in 0..3 * LIMIT {
        let id = if n == 0 { running.id.to_string() } else { format!("left-over-{n}") };
        assert_eq!(server.say(&format!("ZADD codeq:q:render:t:delayed {score} {id}")), ":1");
    }
    clock.set(START.plus(Duration::from_secs(30)));
    assert!(claim(&*store, "render", 1).await.is_empty());
    store.submit(vec![done(&running)]).await.unwrap().remove(0).expect("it ran on");
    clock.set(START.plus(DELAY));
    let lent: BTreeSet<TaskId> =
        claim(&*store, "render", ids.len()).await.iter().map(|task| task.id).collect();
    assert_eq!(lent, ids.into_iter().collect());
    assert_eq!(counts(&*store).await, (0, 0));
}
