//! Servers that are there and do not serve: replicas, loading, stopped, slow, behind another password, or one
//! of a cluster that is down. Callers are told precisely, nothing is half done, and it all comes back.

use super::cluster::cluster;
use super::faults::{is_unknown, quiet};
use super::ground::{next, open, wait};
use super::proxy::Proxy;
use super::round_trips::settled;
use super::server::Server;
use super::verbs::{claim, create, done, named};
use codeq_queue::store::Health;
use codeq_queue::{Failure, OperatorStore, QueueKey, State, Store, TaskStore};
use codeq_store::kvrocks::{self, Backend, KvrocksOptions, KvrocksStore, Sharding};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

fn at(server: &Server) -> Backend {
    Backend { address: server.address(), ..Backend::default() }
}

fn is_refused(failure: &Failure, code: &str) -> bool {
    matches!(failure, Failure::Unavailable { outcome_unknown: false, reason } if reason.contains(code))
}

/// Creates until it succeeds; everything before that must be a refusal that says why.
async fn comes_back(store: &dyn Store, command: &str, is_fine: impl Fn(&Failure) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while let Err(failure) = create(store, command).await {
        assert!(is_fine(&failure), "{failure}");
        assert!(Instant::now() < deadline, "it does not come back: {failure}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_server_that_becomes_a_replica_refuses_writes_and_comes_back() {
    let (server, master) = (Server::start(&[]), Server::start(&[]));
    let store = open(quiet(at(&server)));
    create(&*store, "render").await.unwrap();
    let running = claim(&*store, "render", 1).await.remove(0);
    // The master is unreachable behind this port, so that the replica keeps what it has.
    let nowhere = super::server::free_port();
    assert_eq!(server.say(&format!("REPLICAOF 127.0.0.1 {nowhere}")), "+OK");
    let failed = create(&*store, "render").await.expect_err("it is a replica");
    assert!(is_refused(&failed, "replica"), "{failed}");
    let failed = store.submit(vec![done(&running)]).await.expect_err("it is a replica");
    assert!(is_refused(&failed, "replica"), "{failed}");
    // It is away, and that is told.
    assert!(store.get(vec![named(&running)]).await.is_err(), "a replica may be behind");
    assert!(matches!(store.health(), Health::Unavailable(reason) if reason.contains("replica")));
    assert!(store.shards().iter().all(|shard| shard.away.is_some() && shard.server.is_none()));
    assert_eq!(server.say("REPLICAOF NO ONE"), "+OK");
    comes_back(&*store, "render", |failure| is_refused(failure, "replica")).await;
    store.submit(vec![done(&running)]).await.unwrap().remove(0).unwrap();
    // A server that is a replica from the start is refused at the start.
    let replica = Server::start(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
    let refused = wait(kvrocks::open(quiet(at(&replica)))).err().expect("it is a replica");
    assert_eq!(refused, format!("{}: the server is a replica", replica.address()));
}

/// Nobody writes, so nobody is refused: `/readyz` and the page of the store said that all is well.
#[tokio::test]
async fn a_server_that_becomes_a_replica_is_told_before_anybody_writes() {
    let server = Server::start(&[]);
    let store = open(quiet(at(&server)));
    create(&*store, "render").await.unwrap();
    let nowhere = super::server::free_port();
    assert_eq!(server.say(&format!("REPLICAOF 127.0.0.1 {nowhere}")), "+OK");
    let is_replica =
        |health: &Health| matches!(health, Health::Unavailable(reason) if reason.contains("replica"));
    super::isolation::becomes(&store, is_replica).await;
    assert_eq!(server.say("REPLICAOF NO ONE"), "+OK");
    super::isolation::becomes(&store, |health| *health == Health::Ready).await;
}

#[tokio::test]
async fn a_server_that_loads_refuses_until_it_has_loaded() {
    let mut server = Server::start(&["--key-load-delay", "100"]);
    let store = open(quiet(at(&server)));
    let task = create(&*store, "render").await.unwrap().task;
    // Enough to read for it to take its time.
    assert_eq!(server.say("EVAL \"for i=1,20000 do redis.call('SET','k'..i,i) end return 1\" 0"), ":1");
    server.kill();
    server.launch();
    let heard = std::sync::Mutex::new(0);
    comes_back(&*store, "render", |failure| {
        let is_loading = is_refused(failure, "LOADING") || is_refused(failure, "loading");
        *heard.lock().unwrap() += u32::from(is_loading);
        // Between the processes no one listens, and what was said to the old one is lost.
        is_loading || is_unknown(failure) || is_refused(failure, &server.address())
    })
    .await;
    assert!(*heard.lock().unwrap() > 0, "it was never seen loading");
    assert!(store.get(vec![named(&task)]).await.unwrap()[0].is_some());
}

/// A server that has got a password hung up on every group, because it reads nothing long from those it does
/// not know, and callers heard of a broken pipe and an unknown outcome for ever. Now whoever dials asks
/// something short first, so they hear what is wrong, and that nothing was sent.
#[tokio::test]
async fn a_password_that_changes_is_told_and_nothing_is_done() {
    let server = Server::start(&[]);
    let store = open(quiet(at(&server)));
    create(&*store, "render").await.unwrap();
    assert_eq!(server.say("CONFIG SET requirepass secret"), "+OK");
    assert_eq!(server.say("AUTH secret"), "+OK");
    // Whoever is connected stays so until the connection breaks.
    assert!(server.say_as("secret", "CLIENT KILL TYPE normal SKIPME yes").starts_with(':'));
    let is_told = |failed: &Failure| is_refused(failed, "NOAUTH") || is_refused(failed, "Authentication");
    // The first one to notice has sent something already, unless a wake-up noticed before it.
    let lost = create(&*store, "render").await.expect_err("the connection was killed");
    assert!(is_unknown(&lost) || is_told(&lost), "{lost}");
    let failed = create(&*store, "render").await.expect_err("the password is wrong");
    assert!(is_told(&failed), "{failed}");
    assert_eq!(server.say_as("secret", "HLEN codeq:tasks"), ":1");
    assert!(server.say_as("secret", "CONFIG SET requirepass \"\"").starts_with("+OK"));
    comes_back(&*store, "render", |failure| matches!(failure, Failure::Unavailable { .. })).await;
}

/// A server that answers too late: callers hear of it when their time is up, and what was sent happens whole,
/// late, or not at all.
#[tokio::test]
async fn a_slow_server_is_unavailable_in_time_and_leaves_nothing_half_done() {
    let server = Server::start(&[]);
    let proxy = Proxy::start(server.address());
    let backend = Backend { address: proxy.address.clone(), ..Backend::default() };
    let timeout = Duration::from_millis(900);
    let store = open(KvrocksOptions { timeout, ..quiet(backend) });
    let witness = open(quiet(at(&server)));
    settled(&store).await;
    create(&*store, "render").await.unwrap();
    let running = claim(&*store, "render", 1).await.remove(0);
    proxy.hold(true);
    let begun = Instant::now();
    let (made, ended) = tokio::join!(create(&*store, "other"), store.submit(vec![done(&running)]));
    assert!(begun.elapsed() < timeout * 20, "{:?}", begun.elapsed());
    for failed in [made.map(|_| ()).expect_err("no one answers"), ended.expect_err("no one answers")] {
        assert!(matches!(failed, Failure::Unavailable { .. }), "{failed}");
    }
    proxy.hold(false);
    comes_back(&*store, "last", |failure| matches!(failure, Failure::Unavailable { .. })).await;
    // What was held back has arrived by now or never will: its connections are closed.
    let found = witness.get(vec![named(&running)]).await.unwrap().remove(0).unwrap();
    let counts = witness.queue(QueueKey::new("t", "render")).await.unwrap();
    assert_eq!(counts.in_progress, u64::from(found.state != State::Completed), "{found:?}");
    let answer = store.submit(vec![done(&running)]).await.unwrap().remove(0);
    assert_eq!(answer.is_ok(), found.state != State::Completed, "{answer:?}");
    let made = witness.queue(QueueKey::new("t", "other")).await.unwrap().ready_total();
    assert_eq!(claim(&*store, "other", 9).await.len() as u64, made);
}

/// Shards by the server of the cluster that holds them.
fn over(servers: &[Server; 3], names: &[String]) -> Arc<KvrocksStore> {
    let addresses: Vec<String> = servers.iter().map(Server::address).collect();
    let sharding = Sharding {
        default_shard: names[0].clone(),
        command_mappings: names.iter().map(|name| (name.clone(), name.clone())).collect(),
        ..Sharding::default()
    };
    let backend = Backend { address: addresses.join(","), ..Backend::default() };
    let timeout = Duration::from_secs(2);
    open(KvrocksOptions { cluster: true, sharding, timeout, ..quiet(backend) })
}

#[tokio::test]
async fn a_cluster_without_one_of_its_servers_serves_the_others_and_gets_it_back() {
    let mut servers = cluster();
    let names: Vec<String> = (0..9).map(|n| format!("s{n}-{}", next())).collect();
    let store = over(&servers, &names);
    let mut made = Vec::new();
    for name in &names {
        made.push(create(&*store, name).await.unwrap().task);
    }
    servers[2].kill();
    let (mut served, mut refused) = (0, Vec::new());
    for name in &names {
        match create(&*store, name).await {
            Ok(_) => served += 1,
            Err(failure) => {
                assert!(matches!(failure, Failure::Unavailable { .. }), "{name}: {failure}");
                refused.push(name);
            }
        }
    }
    assert!(served > 0 && !refused.is_empty(), "{served} served, {refused:?} refused");
    servers[2].run();
    for name in &names {
        comes_back(&*store, name, |failure| matches!(failure, Failure::Unavailable { .. })).await;
    }
    for found in store.get(made.iter().map(named).collect()).await.unwrap() {
        assert!(found.is_some(), "what was acknowledged is there");
    }
    for (name, task) in names.iter().zip(&made) {
        assert_eq!(claim(&*store, name, 1).await[0].id, task.id);
    }
}
