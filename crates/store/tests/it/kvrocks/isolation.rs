//! One of two servers is away: what it holds is, and nothing else.

use super::faults::quiet;
use super::ground::{open, wait};
use super::server::Server;
use super::verbs::{claim, create, done, keyed, named, new, now, report, wish};
use codeq_queue::store::{Health, Heartbeat, Items, Nack, Wait};
use codeq_queue::{
    Commands, Delay, Failure, NewTask, OperatorStore, QueueKey, Refusal, Store, Task, TaskStore,
};
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

/// Of each item: done, not done because its server is away, or refused.
fn fates<T>(items: Items<T>) -> String {
    let fate = |item: Result<T, Refusal>| match item {
        Ok(_) => '+',
        Err(Refusal::Failed(Failure::Unavailable { .. })) => '-',
        Err(_) => 'x',
    };
    items.into_iter().map(fate).collect()
}

/// A batch over two servers of which one was away failed as a whole, though what was for the other one was done: a repeated
/// batch made its tasks twice, and workers dropped results that were stored.
#[tokio::test]
async fn of_a_batch_over_two_servers_only_the_items_of_the_one_that_is_away_fail() {
    let (one, mut two) = (Server::start(&[]), Server::start(&[]));
    let (store, stranger) = (open(over(&one, &two)), open(over(&one, &two)));
    store.create(["near", "near", "far", "far"].map(new).to_vec()).await.unwrap();
    let (near, far) = (claim(&*store, "near", 2).await, claim(&*store, "far", 2).await);
    let unknown = Task { id: codeq_queue::TaskId::from_bits(7), ..near[0].clone() };
    two.kill();
    becomes(&store, |health| *health == Health::Degraded(vec!["two".into()])).await;
    let asked = vec![new("near"), new("far"), keyed("near", "k"), keyed("far", "k")];
    assert_eq!(fates(store.create(asked).await.unwrap()), "+-+-");
    assert_eq!(store.queue(QueueKey::new("t", "near")).await.unwrap().ready_total(), 2);
    let beat = |task: &Task| Heartbeat::new(report(task), Duration::from_secs(60));
    assert_eq!(fates(store.heartbeat(vec![beat(&near[0]), beat(&far[0])]).await.unwrap()), "+-");
    // A process that knows none of them: what it cannot find may be on the server that is away.
    becomes(&stranger, |health| *health == Health::Degraded(vec!["two".into()])).await;
    let nacks = [&near[1], &unknown, &far[1]].map(|task| Nack::new(report(task), 600, None));
    assert_eq!(fates(stranger.nack(nacks.to_vec()).await.unwrap()), "+--");
    assert_eq!(fates(store.submit([&far[0], &near[0]].map(done).to_vec()).await.unwrap()), "-+");
    assert!(store.submit([&far[0], &far[1]].map(done).to_vec()).await.is_err(), "none of them can be done");
    two.run();
    becomes(&store, |health| *health == Health::Ready).await;
    assert_eq!(fates(store.submit(vec![done(&far[0]), done(&unknown)]).await.unwrap()), "+x");
}

/// Whoever waits for work of a server that is silent does not keep those waiting who wait for that of another one.
#[tokio::test]
async fn a_silent_server_does_not_delay_who_waits_for_work_of_the_others() {
    let (one, two) = (Server::start(&[]), Server::start(&[]));
    // So that the silent server is not away before this is over.
    let patient = KvrocksOptions { silence: Duration::from_secs(20), ..over(&one, &two) };
    let store = open(KvrocksOptions { timeout: Duration::from_secs(20), ..patient });
    create(&*store, "far").await.unwrap();
    assert_eq!(claim(&*store, "far", 1).await.len(), 1);
    let wait = || Wait::Until(now().plus_seconds(30));
    let near = tokio::spawn(store.claim(wish(Commands::these(["near"]), 1, wait())));
    tokio::time::sleep(Duration::from_millis(200)).await;
    two.signal("STOP");
    let far = tokio::spawn(store.claim(wish(Commands::these(["far"]), 1, wait())));
    tokio::time::sleep(Duration::from_millis(200)).await;
    let begun = Instant::now();
    create(&*store, "near").await.unwrap();
    assert_eq!(near.await.unwrap().unwrap().len(), 1);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let short = Wait::Until(now().plus_seconds(1));
    let none = store.claim(wish(Commands::these(["near"]), 1, short)).await.unwrap();
    assert!(none.is_empty() && begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    two.signal("CONT");
    far.abort();
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
