//! What falls due is found by a bound that is kept in the store, whoever looks.

use super::double::{Instead, find, pretend};
use super::ground::{keyspace, open, options};
use super::server::Server;
use super::verbs::{claim, create, done, named, new, now, wish, wish_for};
use codeq_queue::store::{ResultLookup, Wait};
use codeq_queue::{Commands, Delay, NewTask, OperatorStore, QueueKey, Store, TaskStore, Time};
use codeq_store::kvrocks::{Backend, KvrocksOptions, Sharding, Timing};
use codeq_store::{Clock, Rules, SystemClock};
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
    let before = scripts(&server);
    tokio::time::sleep(Duration::from_secs(1)).await;
    // Retention is looked at now and then; queues are not.
    let made = scripts(&server) - before;
    assert!(made <= 3, "{made} scripts in ten rounds of three processes");
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

fn scripts(server: &Server) -> u64 {
    let stats = server.ask("INFO commandstats");
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap_or("calls=0,");
    line.split("calls=").nth(1).unwrap().split(',').next().unwrap().parse().unwrap()
}

/// Every spread shard was looked at with a script of its own, once a second by every process.
#[tokio::test]
async fn who_waits_over_spread_shards_costs_one_read_for_all_of_them() {
    let server = Server::start(&[]);
    let sharding = Sharding { spread: true, ..Sharding::default() };
    let backend = Backend { address: server.address(), ..Backend::default() };
    let store = open(KvrocksOptions { sharding, ..quiet(&backend) });
    let held: Vec<_> = (0..200)
        .map(|queue| {
            let wait = Wait::Until(now().plus_seconds(60));
            tokio::spawn(store.claim(wish(Commands::these([format!("c{queue}").as_str()]), 1, wait)))
        })
        .collect();
    // Each is tried once at the beginning.
    let mut before = scripts(&server);
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let tried = scripts(&server);
        if tried >= 200 && tried - before <= 2 {
            break;
        }
        before = tried;
    }
    let (before, begun) = (scripts(&server), Instant::now());
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (made, seconds) = (scripts(&server) - before, begun.elapsed().as_secs());
    assert!(made >= 1 && made <= 2 * seconds + 2, "{made} scripts in {seconds} seconds");
    held.iter().for_each(|claim| claim.abort());
}

/// A process that took over walked through all queues as fast as the server let it, and swept nothing meanwhile.
#[tokio::test]
async fn a_walk_takes_its_time_and_timers_go_on_meanwhile() {
    let server = Server::start(&[]);
    let backend = Backend { address: server.address(), ..Backend::default() };
    let first = open(quiet(&backend));
    // A walk through all of them takes ten seconds.
    for some in (0..1600).collect::<Vec<u32>>().chunks(100) {
        let tasks = some.iter().map(|queue| new(&format!("c{queue}"))).collect();
        assert!(first.create(tasks).await.unwrap().iter().all(Result::is_ok));
    }
    first.clone().close().await.unwrap();
    let gone = || server.say("EXISTS codeq:sweeper") == ":0";
    while !gone() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let before = scripts(&server);
    let timing = Timing::Running { sweep_interval: Duration::from_millis(100) };
    let store = open(KvrocksOptions { timing, ..options(backend) });
    store.create(vec![delayed(300)]).await.unwrap().remove(0).unwrap();
    let begun = Instant::now();
    while store.queue(QueueKey::new("t", "render")).await.unwrap().ready_total() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(7), "timers wait for the walk");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Two scripts for each queue, sixteen queues in a tenth of a second.
    let bound = 320 * (u64::try_from(begun.elapsed().as_millis()).unwrap() / 1000 + 2);
    assert!(
        scripts(&server) - before < bound,
        "{} scripts after {:?}",
        scripts(&server) - before,
        begun.elapsed()
    );
}

/// While the clock of a server is set back its keys live longer. What was due then was not looked at again before that life was
/// over, although the clock was right again seconds later.
#[tokio::test]
async fn a_lease_that_outlived_its_instant_ends_soon_after_its_key() {
    let server = Server::start(&[]);
    let timing = Timing::Running { sweep_interval: Duration::from_millis(100) };
    let store = open(KvrocksOptions {
        timing,
        ..options(Backend { address: server.address(), ..Backend::default() })
    });
    create(&*store, "render").await.unwrap();
    let mut short = wish_for("render");
    short.lease = Duration::from_millis(300);
    let lent = store.claim(short).await.unwrap().remove(0);
    let key = format!("codeq:lease:{}", lent.id);
    assert_eq!(server.say(&format!("PEXPIRE {key} 3600000")), ":1");
    let score = || server.ask(&format!("ZSCORE codeq:q:render:t:leases {}", lent.id)).parse::<i64>().unwrap();
    let (first, begun) = (score(), Instant::now());
    while score() == first {
        assert!(begun.elapsed() < Duration::from_secs(10), "nobody looks");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(store.queue(QueueKey::new("t", "render")).await.unwrap().in_progress, 1, "it lives");
    assert_eq!(server.say(&format!("PEXPIRE {key} 1")), ":1");
    let begun = Instant::now();
    while store.queue(QueueKey::new("t", "render")).await.unwrap().in_progress == 1 {
        assert!(begun.elapsed() < Duration::from_secs(5), "it does not end");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A process that starts while the clock of the server is ten years ahead removed every result there was.
#[tokio::test]
async fn a_server_clock_that_is_years_ahead_removes_no_result() {
    let server = Server::start(&[]);
    let backend = Backend { address: server.address(), ..Backend::default() };
    let before = open(quiet(&backend));
    create(&*before, "render").await.unwrap();
    let ended = claim(&*before, "render", 1).await.remove(0);
    before.submit(vec![done(&ended)]).await.unwrap().remove(0).unwrap();
    before.clone().close().await.unwrap();
    let address = pretend(server.address(), |command| {
        let asks = find(command, b"*1\r\n$4\r\nTIME\r\n");
        let seconds = (now().millis() / 1000 + 10 * 365 * 24 * 3600).to_string();
        let told = format!("*2\r\n${}\r\n{seconds}\r\n$1\r\n0\r\n", seconds.len());
        Instead { command: None, answer: asks.then(|| told.into_bytes()) }
    });
    let timing = Timing::Running { sweep_interval: Duration::from_millis(50) };
    let rules = Rules { cleanup_interval: Duration::from_millis(50), ..Rules::default() };
    let store = open(KvrocksOptions { timing, rules, ..options(Backend { address, ..Backend::default() }) });
    // It has swept, as the time says that it writes.
    let soon = NewTask { delay: Delay::For(Duration::from_millis(200)), ..new("render") };
    let soon = store.create(vec![soon]).await.unwrap().remove(0).unwrap().task;
    assert!(
        soon.created_at.since(now()) > Duration::from_secs(9 * 365 * 24 * 3600),
        "it believes the server"
    );
    let begun = Instant::now();
    while store.queue(QueueKey::new("t", "render")).await.unwrap().delayed == 1 {
        assert!(begun.elapsed() < Duration::from_secs(10), "nobody sweeps");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let result = store.result(named(&ended), Wait::No).await.unwrap();
    assert!(matches!(result, ResultLookup::Done { .. }), "{result:?}");
}
