//! One of two servers is away: what it holds is, and nothing else.

use super::faults::quiet;
use super::ground::{open, wait};
use super::server::Server;
use super::verbs::{claim, create, done, keyed, named, new, now, wish};
use codeq_queue::store::{Health, Wait};
use codeq_queue::{Commands, Delay, Failure, NewTask, OperatorStore, QueueKey, Store, TaskStore};
use codeq_store::kvrocks::{self, Backend, KvrocksOptions, KvrocksStore, Sharding, Timing};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub fn over(one: &Server, two: &Server) -> KvrocksOptions {
    let backend = |server: &Server| Backend { address: server.address(), ..Backend::default() };
    let sharding = Sharding {
        default_shard: "one".into(),
        command_mappings: [("far".to_owned(), "two".to_owned())].into(),
        backends: [("one".to_owned(), backend(one)), ("two".to_owned(), backend(two))].into(),
        ..Sharding::default()
    };
    let timing = Timing::Running { sweep_interval: Duration::from_millis(200) };
    KvrocksOptions { sharding, timing, ..quiet(backend(one)) }
}

pub async fn becomes(store: &KvrocksStore, wanted: impl Fn(&Health) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !wanted(&store.health()) {
        assert!(Instant::now() < deadline, "{:?}", store.health());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Keyed creates, empty claims, long polls, timers and the start of processes failed for everyone when one of two
/// servers was away.
#[tokio::test]
async fn a_server_that_is_away_takes_down_what_it_holds_and_nothing_else() {
    let (one, mut two) = (Server::start(&[]), Server::start(&[]));
    let store = open(over(&one, &two));
    let far = create(&*store, "far").await.unwrap().task;
    two.kill();
    assert!(create(&*store, "far").await.is_err());
    becomes(&store, |health| *health == Health::Degraded(vec!["two".into()])).await;
    // Calls for it fail at once.
    let begun = Instant::now();
    for _ in 0..20 {
        assert!(create(&*store, "far").await.is_err());
    }
    assert!(begun.elapsed() < Duration::from_secs(22), "{:?}", begun.elapsed());
    // Those of the other server work.
    let near = store.create(vec![keyed("near", "k")]).await.unwrap().remove(0).unwrap();
    let replay = store.create(vec![keyed("near", "k")]).await.unwrap().remove(0).unwrap();
    assert_eq!((replay.is_replay, replay.task.id), (true, near.task.id));
    assert_eq!(claim(&*store, "near", 9).await.len(), 1);
    assert!(claim(&*store, "near", 9).await.is_empty(), "empty, not unavailable");
    let both = Commands::these(["far", "near"]);
    assert!(store.claim(wish(both.clone(), 1, Wait::No)).await.unwrap().is_empty());
    let failed =
        store.claim(wish(Commands::these(["far"]), 1, Wait::No)).await.expect_err("only of that server");
    assert!(matches!(failed, Failure::Unavailable { .. }), "{failed}");
    // Waiting and timers go on.
    let soon = NewTask { delay: Delay::For(Duration::from_millis(500)), ..new("near") };
    store.create(vec![soon]).await.unwrap().remove(0).unwrap();
    let until = Wait::Until(now().plus_seconds(10));
    let lent = store.claim(wish(both, 1, until)).await.unwrap();
    assert_eq!(lent.len(), 1);
    store.submit(vec![done(&lent[0])]).await.unwrap().remove(0).unwrap();
    // Nobody says that a task is unknown whose server was not asked.
    assert!(store.get(vec![named(&far)]).await.is_err());
    assert!(!store.queues(None).await.unwrap().is_empty());
    // A process starts degraded.
    let late: Arc<KvrocksStore> = open(over(&one, &two));
    create(&*late, "near").await.unwrap();
    assert_eq!(late.health(), Health::Degraded(vec!["two".into()]));
    two.run();
    becomes(&store, |health| *health == Health::Ready).await;
    becomes(&late, |health| *health == Health::Ready).await;
    assert_eq!(claim(&*late, "far", 1).await[0].id, far.id);
}

#[tokio::test]
async fn a_silent_server_is_away_after_a_second() {
    let (one, two) = (Server::start(&[]), Server::start(&[]));
    let store = open(over(&one, &two));
    create(&*store, "far").await.unwrap();
    two.signal("STOP");
    let begun = Instant::now();
    assert!(create(&*store, "far").await.is_err());
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    create(&*store, "near").await.expect("the other one serves");
    two.signal("CONT");
    becomes(&store, |health| *health == Health::Ready).await;
    create(&*store, "far").await.unwrap();
}

/// What a stopped server finds in its buffers when it wakes lends nothing to nobody.
#[tokio::test]
async fn a_claim_that_is_found_too_late_lends_nothing() {
    let (one, two) = (Server::start(&[]), Server::start(&[]));
    let timeout = Duration::from_secs(1);
    let store = open(KvrocksOptions { timeout, ..over(&one, &two) });
    create(&*store, "far").await.unwrap();
    two.signal("STOP");
    let lost = store.claim(wish(Commands::these(["far"]), 1, Wait::No)).await;
    assert!(lost.is_err(), "{lost:?}");
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    two.signal("CONT");
    becomes(&store, |health| *health == Health::Ready).await;
    let stats = store.queue(QueueKey::new("t", "far")).await.unwrap();
    assert_eq!((stats.ready_total(), stats.in_progress), (1, 0));
}

#[tokio::test]
async fn without_any_server_a_process_does_not_start() {
    let (mut one, mut two) = (Server::start(&[]), Server::start(&[]));
    let options = over(&one, &two);
    one.kill();
    two.kill();
    let refused = wait(kvrocks::open(options)).err().expect("no one listens");
    assert!(refused.contains(&one.address()) && refused.contains(&two.address()), "{refused}");
}
