//! Several processes over one keyspace: two stores that know nothing of each other.

use super::ground::{keyspace, open, options};
use super::verbs::{claim, create, done, named, new, now, report, wish};
use codeq_queue::shared::Bucket;
use codeq_queue::store::{Heartbeat, ResultLookup, Wait};
use codeq_queue::{Commands, OperatorStore, QueueKey, Refusal, Store, TaskId, TaskStore};
use codeq_store::kvrocks::{KvrocksOptions, KvrocksStore, Sharding, Timing};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub fn pair() -> (Arc<KvrocksStore>, Arc<KvrocksStore>) {
    let backend = keyspace();
    (open(options(backend.clone())), open(options(backend)))
}

#[tokio::test]
async fn no_task_is_lent_twice() {
    let (one, two) = pair();
    for _ in 0..4 {
        one.create(vec![new("render"); 100]).await.unwrap();
    }
    let workers = (0..8).map(|n| {
        let store: Arc<dyn Store> = if n % 2 == 0 { one.clone() } else { two.clone() };
        tokio::spawn(async move {
            let mut taken = Vec::new();
            loop {
                let tasks = claim(&*store, "render", 3).await;
                if tasks.is_empty() {
                    return taken;
                }
                taken.extend(tasks.iter().map(|task| task.id));
            }
        })
    });
    let mut all: Vec<TaskId> = Vec::new();
    for worker in workers.collect::<Vec<_>>() {
        all.extend(worker.await.unwrap());
    }
    assert_eq!(all.len(), 400);
    assert_eq!(all.into_iter().collect::<HashSet<_>>().len(), 400);
}

#[tokio::test]
async fn a_waiting_claim_is_woken_by_another_process() {
    let (one, two) = pair();
    let mut fastest = Duration::MAX;
    for _ in 0..5 {
        let held = two.claim(wish(Commands::Any, 1, Wait::Until(now().plus_seconds(20))));
        let held = tokio::spawn(held);
        tokio::task::yield_now().await;
        two.queues(None).await.unwrap();
        let began = Instant::now();
        let made = create(&*one, "render").await.unwrap().task;
        let lent = held.await.unwrap().unwrap();
        fastest = fastest.min(began.elapsed());
        assert_eq!(lent[0].id, made.id);
    }
    assert!(fastest < Duration::from_millis(500), "{fastest:?} is the pace of looking again");
}

#[tokio::test]
async fn a_waiting_producer_is_told_by_another_process() {
    let (one, two) = pair();
    let made = create(&*one, "render").await.unwrap().task;
    let lent = claim(&*two, "render", 1).await.remove(0);
    let watch = tokio::spawn(one.result(named(&made), Wait::Until(now().plus_seconds(20))));
    tokio::task::yield_now().await;
    two.submit(vec![done(&lent)]).await.unwrap().remove(0).unwrap();
    assert!(matches!(watch.await.unwrap(), Ok(ResultLookup::Done { .. })));
}

#[tokio::test]
async fn a_lease_ends_by_the_life_of_its_key() {
    let (one, two) = pair();
    create(&*one, "render").await.unwrap();
    let mut short = wish(Commands::Any, 1, Wait::No);
    short.lease = Duration::from_millis(1_500);
    let lent = one.claim(short).await.unwrap().remove(0);
    let beat = |extend| Heartbeat::new(report(&lent), extend);
    assert!(two.heartbeat(vec![beat(Duration::from_millis(300))]).await.unwrap()[0].is_ok());
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let queue = two.queue(QueueKey::new("t", "render")).await.unwrap();
        if queue.in_progress == 0 {
            break;
        }
        assert!(Instant::now() < deadline, "a sweep ends the lease");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let late = one.heartbeat(vec![beat(Duration::from_secs(9))]).await.unwrap().remove(0);
    assert!(matches!(late, Err(Refusal::NotInProgress | Refusal::LeaseLost)), "{late:?}");
    let found = one.get(vec![named(&lent)]).await.unwrap().remove(0).unwrap();
    assert_eq!(found.error.as_deref(), Some("LEASE_EXPIRED"));
}

#[tokio::test]
async fn shards_of_one_server_keep_to_themselves_and_are_found() {
    let backend = keyspace();
    let sharded = |mapped: &str| {
        let command_mappings = [("render".to_owned(), mapped.to_owned())].into();
        let sharding = Sharding { command_mappings, ..Sharding::default() };
        let timing = Timing::Running { sweep_interval: Duration::from_secs(3600) };
        open(KvrocksOptions { sharding, timing, ..options(backend.clone()) })
    };
    let before = sharded("one");
    let old = create(&*before, "render").await.unwrap().task;
    let mut keyed = new("render");
    let body = codeq_queue::Body { idempotency_key: Some("k".into()), ..(*keyed.body).clone() };
    keyed.body = Arc::new(body);
    let first = before.create(vec![keyed.clone()]).await.unwrap().remove(0).unwrap();
    before.clone().close().await.unwrap();
    // The mapping changes; what was there is still found, and a key is still its task's.
    let sharding = Sharding {
        command_mappings: [("render".to_owned(), "two".to_owned())].into(),
        tenant_overrides: [("nobody".to_owned(), "one".to_owned())].into(),
        ..Sharding::default()
    };
    let after = open(KvrocksOptions { sharding, ..options(backend.clone()) });
    let replay = after.create(vec![keyed]).await.unwrap().remove(0).unwrap();
    assert_eq!((replay.is_replay, replay.task.id), (true, first.task.id));
    create(&*after, "render").await.unwrap();
    assert_eq!(after.queue(QueueKey::new("t", "render")).await.unwrap().ready_total(), 3);
    assert!(after.get(vec![named(&old)]).await.unwrap()[0].is_some());
    let lent = claim(&*after, "render", 9).await;
    assert_eq!(lent.len(), 3);
    // A process that did not lend them finds the shard of each in its record.
    let stranger = open(KvrocksOptions {
        sharding: Sharding {
            command_mappings: [("render".to_owned(), "two".to_owned())].into(),
            tenant_overrides: [("nobody".to_owned(), "one".to_owned())].into(),
            ..Sharding::default()
        },
        ..options(backend)
    });
    for answer in stranger.submit(lent.iter().map(done).collect()).await.unwrap() {
        answer.unwrap();
    }
    assert_eq!(stranger.queue(QueueKey::new("t", "render")).await.unwrap().in_progress, 0);
}

#[tokio::test]
async fn a_resume_wakes_whoever_waits_on_a_shard() {
    let sharding = Sharding {
        command_mappings: [("render".to_owned(), "one".to_owned())].into(),
        ..Sharding::default()
    };
    let store = open(KvrocksOptions { sharding, ..options(keyspace()) });
    let queue = QueueKey::new("t", "render");
    create(&*store, "render").await.unwrap();
    assert!(store.pause(queue.clone()).await.unwrap().is_paused);
    assert!(claim(&*store, "render", 1).await.is_empty());
    let held = tokio::spawn(store.claim(wish(Commands::Any, 1, Wait::Until(now().plus_seconds(20)))));
    tokio::task::yield_now().await;
    assert!(!store.resume(queue).await.unwrap().is_paused);
    assert_eq!(held.await.unwrap().unwrap().len(), 1);
}

/// Takes as many as there are and gives how many, with the seconds that the first refused has to wait.
pub async fn drain(stores: [&KvrocksStore; 2], caller: [u8; 32]) -> (usize, u64) {
    let bucket = Bucket { scope: "worker", caller, per_second: 0.01, capacity: 3 };
    for taken in 0..10 {
        let shared = stores[taken % 2].shared().expect("processes share");
        if let Err(seconds) = shared.take_token(bucket).await.unwrap() {
            return (taken, seconds);
        }
    }
    panic!("the bucket has no bottom");
}

#[tokio::test]
async fn processes_share_one_bucket() {
    let (one, two) = pair();
    for caller in [[1; 32], [2; 32]] {
        let (taken, seconds) = drain([&one, &two], caller).await;
        assert_eq!(taken, 3);
        assert!((90..=100).contains(&seconds), "{seconds}");
    }
}
