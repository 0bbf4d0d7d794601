//! What falls due is found by a bound that is kept in the store, whoever looks.

use super::ground::{keyspace, open, options};
use super::server::Server;
use super::verbs::{claim, new, now, wish};
use codeq_queue::store::Wait;
use codeq_queue::{Commands, Delay, NewTask, TaskStore, Time};
use codeq_store::kvrocks::{Backend, KvrocksOptions, Timing};
use codeq_store::{Clock, SystemClock};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn delayed(ms: u64) -> NewTask {
    NewTask { delay: Delay::For(Duration::from_millis(ms)), ..new("render") }
}

fn quiet(backend: &Backend) -> KvrocksOptions {
    let timing = Timing::Running { sweep_interval: Duration::from_secs(3600) };
    KvrocksOptions { timing, ..options(backend.clone()) }
}

/// A held claim looked only when it was told of something or a second had passed, and answered empty at its
/// deadline although a delay had ended half a second before.
#[tokio::test]
async fn a_held_claim_looks_once_more_at_its_deadline() {
    let store = open(quiet(&keyspace()));
    for _ in 0..3 {
        store.create(vec![delayed(1000)]).await.unwrap().remove(0).unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let wait = Wait::Until(now().plus(Duration::from_millis(1400)));
        let lent = store.claim(wish(Commands::these(["render"]), 1, wait)).await.unwrap();
        assert_eq!(lent.len(), 1, "the delay ended before the wait");
    }
}

#[tokio::test]
async fn a_bound_is_lowered_by_whoever_makes_something_due_earlier_and_goes_with_the_last() {
    let server = Server::start(&[]);
    let store = open(quiet(&Backend { address: server.address(), ..Backend::default() }));
    let bound = || server.ask("ZSCORE codeq:timers render:t").parse::<i64>().unwrap();
    store.create(vec![delayed(60_000)]).await.unwrap().remove(0).unwrap();
    let late = bound();
    store.create(vec![delayed(120_000)]).await.unwrap().remove(0).unwrap();
    assert_eq!(bound(), late, "a later one does not raise it");
    store.create(vec![delayed(50)]).await.unwrap().remove(0).unwrap();
    assert!(bound() < late);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(claim(&*store, "render", 9).await.len(), 1);
    assert_eq!(bound(), late, "the next one that falls due");
    assert_eq!(server.say("ZCARD codeq:timers"), ":1");
}

/// Nothing due, nothing asked: before, every process looked at every queue every two seconds.
#[tokio::test]
async fn queues_with_nothing_due_cost_a_sweep_nothing() {
    let server = Server::start(&[]);
    let timing = Timing::Running { sweep_interval: Duration::from_millis(100) };
    let backend = Backend { address: server.address(), ..Backend::default() };
    let stores: Vec<_> =
        (0..3).map(|_| open(KvrocksOptions { timing, ..options(backend.clone()) })).collect();
    for queue in 0..200 {
        stores[0].create(vec![new(&format!("c{queue}"))]).await.unwrap().remove(0).unwrap();
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let scripts = || {
        let stats = server.ask("INFO commandstats");
        let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap_or("calls=0,");
        line.split("calls=").nth(1).unwrap().split(',').next().unwrap().parse::<u64>().unwrap()
    };
    let before = scripts();
    tokio::time::sleep(Duration::from_secs(1)).await;
    // Retention is looked at now and then; queues are not.
    assert!(scripts() - before <= 3, "{} scripts in ten rounds of three processes", scripts() - before);
}

/// The wall clock, and so much later.
struct Ahead(Duration);

impl Clock for Ahead {
    fn now(&self) -> Time {
        SystemClock.now().plus(self.0)
    }
}

/// Ranges began at a score that each process remembered: behind one whose clock runs fast, an earlier timer of
/// another waited for the next full look. Now the store's clock counts, and the bound is the store's.
#[tokio::test]
async fn processes_whose_clocks_differ_agree_about_what_is_due() {
    let backend = keyspace();
    let timing = Timing::Running { sweep_interval: Duration::from_millis(100) };
    let clock: Arc<dyn Clock> = Arc::new(Ahead(Duration::from_secs(300)));
    let fast = open(KvrocksOptions { timing, clock, ..options(backend.clone()) });
    let slow = open(KvrocksOptions { timing, ..options(backend.clone()) });
    for store in [&fast, &slow] {
        store.create(vec![delayed(1_500)]).await.unwrap().remove(0).unwrap();
        let begun = Instant::now();
        assert!(claim(&*fast, "render", 1).await.is_empty(), "it is not due");
        assert!(claim(&*slow, "render", 1).await.is_empty(), "it is not due");
        let wait = Wait::Until(now().plus_seconds(10));
        let lent = slow.claim(wish(Commands::these(["render"]), 1, wait)).await.unwrap();
        assert_eq!(lent.len(), 1);
        assert!(begun.elapsed() >= Duration::from_millis(1_300), "{:?}", begun.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
}

/// Waiting workers were served one round trip each.
#[tokio::test]
async fn one_script_lends_to_as_many_waiters_as_there_are_tasks() {
    let store = open(quiet(&keyspace()));
    super::round_trips::settled(&store).await;
    let held: Vec<_> = (0..12)
        .map(|_| {
            let wait = Wait::Until(now().plus_seconds(20));
            tokio::spawn(store.claim(wish(Commands::these(["render"]), 1, wait)))
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let before = store.round_trips();
    let made = store.create(vec![new("render"); 12]).await.unwrap();
    let mut lent = Vec::new();
    for claim in held {
        lent.push(claim.await.unwrap().unwrap().remove(0).id);
    }
    assert_eq!(
        lent,
        made.into_iter().map(|made| made.unwrap().task.id).collect::<Vec<_>>(),
        "in their order"
    );
    assert!(store.round_trips() - before <= 4, "{} round trips", store.round_trips() - before);
}
