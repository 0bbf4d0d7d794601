//! Processes whose clocks are minutes apart: no lease is shortened, nothing is lent twice.

use super::ground::{keyspace, open, options};
use super::verbs::{new, report, wish};
use codeq_queue::store::{Abandon, Heartbeat, Wait};
use codeq_queue::{
    Backoff, BackoffPolicy, Commands, NewTask, OperatorStore, QueueKey, Store, Task, TaskId, TaskStore, Time,
};
use codeq_store::kvrocks::{Backend, KvrocksOptions, KvrocksStore, Timing};
use codeq_store::{Clock, Rules, SystemClock};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const APART: Duration = Duration::from_secs(300);
const LEASE: Duration = Duration::from_secs(2);
/// The server counts in whole milliseconds.
const ROUNDING: Duration = Duration::from_millis(5);

/// The wall clock, and so much later.
struct Ahead(Duration);

impl Clock for Ahead {
    fn now(&self) -> Time {
        SystemClock.now().plus(self.0)
    }
}

fn store(backend: &Backend, ahead: Duration) -> Arc<KvrocksStore> {
    let timing = Timing::Running { sweep_interval: Duration::from_millis(100) };
    // What has expired is ready at once, so that nobody has to wait for a delay by another's clock.
    let backoff = Backoff { policy: BackoffPolicy::Fixed, base_seconds: 0, max_seconds: 0 };
    let rules = Rules { backoff, ..Rules::default() };
    open(KvrocksOptions { timing, rules, clock: Arc::new(Ahead(ahead)), ..options(backend.clone()) })
}

async fn lend(store: &dyn Store, count: usize) -> Vec<Task> {
    let mut wish = wish(Commands::these(["render"]), count, Wait::No);
    wish.lease = LEASE;
    store.claim(wish).await.unwrap()
}

#[tokio::test]
async fn a_process_whose_clock_is_ahead_does_not_end_the_leases_of_others() {
    let backend = keyspace();
    let (slow, fast) = (store(&backend, Duration::ZERO), store(&backend, APART));
    for (lender, other) in [(&slow, &fast), (&fast, &slow)] {
        lender.create(vec![new("render")]).await.unwrap();
        let sent = Instant::now();
        let lent = lend(&**lender, 1).await.remove(0);
        // Both look all the time, and so do their sweeps.
        let taken = loop {
            let taken = [lend(&**other, 1).await, lend(&**lender, 1).await].concat();
            if !taken.is_empty() {
                break taken;
            }
            assert!(sent.elapsed() < Duration::from_secs(40), "nobody gets it back");
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        assert!(sent.elapsed() + ROUNDING >= LEASE, "after {:?} of {LEASE:?}", sent.elapsed());
        assert_eq!((taken.len(), taken[0].id, taken[0].attempts), (1, lent.id, lent.attempts + 1));
        let beat = Heartbeat::new(report(&taken[0]), LEASE);
        assert!(other.heartbeat(vec![beat]).await.unwrap()[0].is_ok(), "whoever asks");
        let abandon = Abandon::new(report(&taken[0]), false);
        other.abandon(vec![abandon]).await.unwrap().remove(0).unwrap();
        assert_eq!(lend(&**lender, 1).await.len(), 1, "it is there for everyone");
        let left = lender.queue(QueueKey::new("t", "render")).await.unwrap();
        assert_eq!((left.ready_total(), left.in_progress), (0, 1));
        lender
            .cancel(vec![codeq_queue::store::Cancel::now(super::verbs::named(&lent))])
            .await
            .unwrap()
            .remove(0)
            .unwrap();
    }
}

/// Until when each task is somebody's for certain, and by which attempt.
type Held = Arc<Mutex<HashMap<TaskId, (u32, Instant)>>>;

async fn work(store: Arc<KvrocksStore>, held: Held, until: Instant) -> u32 {
    let mut lent = 0;
    while Instant::now() < until {
        let sent = Instant::now();
        for task in lend(&*store, 3).await {
            lent += 1;
            let now = Instant::now();
            let earlier = held.lock().unwrap().insert(task.id, (task.attempts, sent + LEASE));
            if let Some((attempt, end)) = earlier {
                assert!(attempt < task.attempts, "attempt {} after {attempt}", task.attempts);
                assert!(now + ROUNDING >= end, "lent again {:?} too early", end - now);
            }
            // Every second one is left to expire.
            if task.attempts % 2 == 0 {
                held.lock().unwrap().insert(task.id, (task.attempts, Instant::now()));
                let abandon = Abandon::new(report(&task), true);
                let _ = store.abandon(vec![abandon]).await.unwrap();
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    lent
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_of_skewed_processes_never_hold_a_task_at_once() {
    let backend = keyspace();
    let stores = [Duration::ZERO, APART, APART * 2].map(|ahead| store(&backend, ahead));
    let patient = NewTask { max_attempts: 1_000_000, ..new("render") };
    stores[0].create(vec![patient; 30]).await.unwrap();
    let held = Held::default();
    let until = Instant::now() + LEASE * 4;
    let workers: Vec<_> =
        (0..6).map(|n| tokio::spawn(work(stores[n % 3].clone(), held.clone(), until))).collect();
    let mut lent = 0;
    for worker in workers {
        lent += worker.await.unwrap();
    }
    assert!(lent > 60, "only {lent} were lent");
    let tasks = stores[1].queue(QueueKey::new("t", "render")).await.unwrap();
    assert_eq!(tasks.ready_total() + tasks.delayed + tasks.in_progress, 30);
}
