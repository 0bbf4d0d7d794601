//! How often the store goes to the server, as it says itself and as a proxy in between sees it.

use super::ground::{keyspace, open, options};
use super::proxy::Proxy;
use super::verbs::{claim, create, done, new, report, wish, wish_for};
use codeq_queue::store::{Abandon, Heartbeat, Nack, Wait};
use codeq_queue::{Commands, Delay, NewTask, OperatorStore, QueueKey, Task, TaskStore};
use codeq_store::kvrocks::{Backend, KvrocksOptions, KvrocksStore, Timing};
use std::sync::Arc;
use std::time::Duration;

/// Nothing but the test's own calls is counted.
fn still(backend: Backend) -> Arc<KvrocksStore> {
    let timing = Timing::Running { sweep_interval: Duration::from_secs(3600) };
    open(KvrocksOptions { timing, ..options(backend) })
}

/// The round trips since the last call.
pub struct Count(Arc<KvrocksStore>, u64);

impl Count {
    pub fn since(&mut self) -> u64 {
        let before = std::mem::replace(&mut self.1, self.0.round_trips());
        self.1 - before
    }
}

/// Waits for the one sweep that every store makes at its start.
pub async fn settled(store: &Arc<KvrocksStore>) -> Count {
    let mut count = Count(store.clone(), 0);
    loop {
        count.since();
        tokio::time::sleep(Duration::from_millis(200)).await;
        if count.since() == 0 {
            return count;
        }
    }
}

/// A store behind a proxy, and the round trips that both have counted.
struct Counted {
    store: Arc<KvrocksStore>,
    proxy: Proxy,
    before: [u64; 2],
}

impl Counted {
    async fn over(backend: &Backend) -> Counted {
        let proxy = Proxy::start(backend.address.clone());
        let store = still(Backend { address: proxy.address.clone(), ..backend.clone() });
        settled(&store).await;
        let mut counted = Counted { store, proxy, before: [0; 2] };
        counted.since();
        counted
    }

    /// Since the last time.
    fn since(&mut self) -> u64 {
        let now = [self.store.round_trips(), self.proxy.round_trips()];
        let before = std::mem::replace(&mut self.before, now);
        let [said, seen] = [now[0] - before[0], now[1] - before[1]];
        assert!(before == [0; 2] || said == seen, "the store says {said}, the proxy saw {seen}");
        seen
    }
}

fn beat(task: &Task) -> Heartbeat {
    Heartbeat::new(report(task), Duration::from_secs(60))
}

fn nack(task: &Task) -> Nack {
    Nack::new(report(task), 600, None)
}

fn abandon(task: &Task) -> Abandon {
    Abandon::new(report(task), false)
}

/// A heartbeat and an end of the attempt, each with the number it takes.
async fn report_all(counted: &mut Counted, tasks: &[Task], verb: &str, number: u64) {
    let store = counted.store.clone();
    let answers = store.heartbeat(tasks.iter().map(beat).collect()).await.unwrap();
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(counted.since(), number, "heartbeat of {}", tasks.len());
    let is_done = match verb {
        "submit" => store.submit(tasks.iter().map(done).collect()).await.unwrap().iter().all(Result::is_ok),
        "nack" => store.nack(tasks.iter().map(nack).collect()).await.unwrap().iter().all(Result::is_ok),
        _ => store.abandon(tasks.iter().map(abandon).collect()).await.unwrap().iter().all(Result::is_ok),
    };
    assert!(is_done);
    assert_eq!(counted.since(), number, "{verb} of {}", tasks.len());
}

async fn every_verb(count: usize) {
    let backend = keyspace();
    let (mut here, mut there) = (Counted::over(&backend).await, Counted::over(&backend).await);
    for verb in ["submit", "nack", "abandon"] {
        here.store.create(vec![new(verb); count]).await.unwrap();
        assert_eq!(here.since(), 1, "create");
        let tasks = claim(&*here.store, verb, count).await;
        assert_eq!((tasks.len(), here.since()), (count, 1), "claim");
        report_all(&mut here, &tasks, verb, 1).await;
        // The other process has to look first what it is about.
        let foreign = format!("foreign-{verb}");
        here.store.create(vec![new(&foreign); count]).await.unwrap();
        let tasks = claim(&*here.store, &foreign, count).await;
        here.since();
        report_all(&mut there, &tasks, verb, 2).await;
    }
    create(&*here.store, "other").await.unwrap();
    here.since();
    assert!(!here.store.claim(wish(Commands::Any, count, Wait::No)).await.unwrap().is_empty());
    assert_eq!(here.since(), 2, "claim of any command");
}

#[tokio::test]
async fn every_verb_keeps_to_its_number() {
    every_verb(1).await;
}

#[tokio::test]
async fn batches_of_a_hundred_take_two_at_most() {
    every_verb(100).await;
}

#[tokio::test]
async fn a_claim_promotes_and_repairs_in_the_same_round_trip() {
    let mut counted = Counted::over(&keyspace()).await;
    let store = counted.store.clone();
    create(&*store, "render").await.unwrap();
    let mut short = wish_for("render");
    short.lease = Duration::from_millis(50);
    let expired = store.claim(short).await.unwrap().remove(0);
    let soon = NewTask { delay: Delay::For(Duration::from_millis(50)), ..new("render") };
    let soon = store.create(vec![soon]).await.unwrap().remove(0).unwrap().task;
    // Both are over by the clock then, and nothing looks before the claim does.
    tokio::time::sleep(Duration::from_millis(100)).await;
    counted.since();
    let lent = claim(&*store, "render", 9).await;
    assert_eq!(counted.since(), 1);
    assert!(lent.iter().any(|task| task.id == soon.id), "the delayed one was due");
    let stats = store.queue(QueueKey::new("t", "render")).await.unwrap();
    let is_repaired = lent.iter().any(|task| task.id == expired.id) || stats.delayed == 1;
    assert!(is_repaired, "the lease was over: {stats:?}");
}
