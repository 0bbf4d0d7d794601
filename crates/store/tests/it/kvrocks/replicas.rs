//! Answers that wait for replicas.

use super::double::LateReplica;
use super::faults::{is_unknown, quiet};
use super::ground::open;
use super::round_trips::settled;
use super::server::Server;
use super::verbs::{claim, create, done, named, new, report, wish_for};
use codeq_queue::store::Heartbeat;
use codeq_queue::{Failure, OperatorStore, QueueKey, State, TaskStore};
use codeq_store::kvrocks::{Backend, KvrocksOptions, KvrocksStore, Meters};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

fn waiting(address: String, wait_timeout: Duration) -> KvrocksOptions {
    let backend = Backend { address, ..Backend::default() };
    KvrocksOptions { wait_replicas: 1, wait_timeout, ..quiet(backend) }
}

/// A master and its replica, which has caught up.
pub fn pair() -> (Server, Server) {
    let master = Server::start(&["--repl-diskless-sync-delay", "0"]);
    let replica = replica_of(&master);
    (master, replica)
}

fn replica_of(master: &Server) -> Server {
    let port = master.port.to_string();
    let replica = Server::start(&["--replicaof", "127.0.0.1", &port, "--repl-diskless-sync-delay", "0"]);
    let deadline = Instant::now() + PATIENCE;
    while master.say("WAIT 1 100") != ":1" {
        assert!(Instant::now() < deadline, "the replica does not find its master");
        std::thread::sleep(Duration::from_millis(20));
    }
    replica
}

async fn comes_back(store: &KvrocksStore) {
    let deadline = Instant::now() + PATIENCE;
    while let Err(failure) = create(store, "render").await {
        assert!(matches!(failure, Failure::Unavailable { .. }), "{failure}");
        assert!(Instant::now() < deadline, "it does not come back: {failure}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A replica of Kvrocks acknowledges the first record of a write batch, and WAIT waits for the last one. So
/// every write took until the next one came, or until a ping after two seconds. A single write behind the EXEC
/// confirms it, sometimes the second or third.
#[tokio::test]
async fn a_replica_that_acknowledges_the_first_record_of_a_batch_confirms_in_milliseconds() {
    let server = Server::start(&[]);
    let double = LateReplica::start(server.address(), 3);
    let meters = Arc::new(Meters::default());
    let options = waiting(double.address.clone(), Duration::from_secs(2));
    let store = open(KvrocksOptions { meters: meters.clone(), ..options });
    settled(&store).await;
    let measured = meters.waits();
    let waits = double.waits.load(Ordering::Acquire);
    create(&*store, "render").await.expect("it is confirmed");
    assert_eq!(double.waits.load(Ordering::Acquire) - waits, 3, "one with the group, two more");
    let more = meters.waits();
    assert_eq!(more.count, measured.count + 1);
    assert!(more.sum > measured.sum + 0.02, "{more:?}");
}

#[tokio::test]
async fn without_a_replica_writes_are_refused_at_once_until_there_is_one() {
    let (master, replica) = pair();
    const WAIT: Duration = Duration::from_millis(500);
    let store = open(waiting(master.address(), WAIT));
    settled(&store).await;
    create(&*store, "render").await.expect("the replica confirms");
    let running = claim(&*store, "render", 1).await.remove(0);
    drop(replica);
    // The two that find out are written; the master has them.
    for count in 2..=3 {
        let failed = create(&*store, "render").await.expect_err("there is no replica");
        assert!(
            is_unknown(&failed) && failed.to_string().contains("written, not yet replicated"),
            "{failed}"
        );
        assert_eq!(master.say("HLEN codeq:tasks"), format!(":{count}"));
    }
    let begun = Instant::now();
    for _ in 0..20 {
        let failed = create(&*store, "render").await.expect_err("there is no replica");
        let is_refused = matches!(&failed, Failure::Unavailable { outcome_unknown: false, reason }
            if reason.contains("replication"));
        assert!(is_refused, "{failed}");
    }
    assert!(begun.elapsed() < 20 * WAIT, "each of them waited: {:?}", begun.elapsed());
    assert_eq!(master.say("HLEN codeq:tasks"), ":3", "refused means unwritten");
    // A lease must not end because a replica is away.
    let beat = Heartbeat::new(report(&running), Duration::from_secs(60));
    assert!(store.heartbeat(vec![beat]).await.unwrap()[0].is_ok());
    let _replica = replica_of(&master);
    comes_back(&store).await;
    store.submit(vec![done(&running)]).await.unwrap().remove(0).unwrap();
}

#[tokio::test]
async fn a_claim_that_was_not_confirmed_is_given_back_with_a_refund() {
    let (master, replica) = pair();
    let store = open(waiting(master.address(), Duration::from_millis(500)));
    settled(&store).await;
    let made = create(&*store, "render").await.unwrap().task;
    drop(replica);
    let failed = store.claim(wish_for("render")).await.expect_err("there is no replica");
    assert!(is_unknown(&failed), "{failed}");
    let deadline = Instant::now() + PATIENCE;
    let back = loop {
        let found = store.get(vec![named(&made)]).await.unwrap().remove(0).unwrap();
        if matches!(found.state, State::Ready { .. }) && found.attempts > 0 {
            break found;
        }
        assert!(Instant::now() < deadline, "it is not given back: {found:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!((back.attempts, back.refunds), (1, 1), "the attempt does not count");
}

/// The server that was promoted knows nothing of a claim that no replica had confirmed. When it had lent the task anew to the
/// same worker, through another process, what took the first claim back ended the second lease, too.
#[tokio::test]
async fn what_takes_an_unconfirmed_claim_back_does_not_end_a_later_lease() {
    let (master, replica) = pair();
    let store = open(waiting(master.address(), Duration::from_secs(2)));
    let other = open(quiet(Backend { address: master.address(), ..Backend::default() }));
    settled(&store).await;
    let made = create(&*store, "render").await.unwrap().task;
    let before = master.ask(&format!("HGET codeq:tasks {}", made.id));
    drop(replica);
    let unconfirmed = tokio::spawn(store.claim(wish_for("render")));
    let deadline = Instant::now() + PATIENCE;
    while master.say("SCARD codeq:q:render:t:inprog") != ":1" {
        assert!(Instant::now() < deadline, "it is not lent");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // As a replica has it that was promoted: the claim has never happened.
    let id = made.id.to_string();
    let text = before.replace('\\', "\\\\").replace('"', "\\\"");
    assert_eq!(master.say(&format!("HSET codeq:tasks {id} \"{text}\"")), ":0");
    assert_eq!(master.say(&format!("SREM codeq:q:render:t:inprog {id}")), ":1");
    assert_eq!(master.say(&format!("ZREM codeq:q:render:t:leases {id}")), ":1");
    assert_eq!(master.say(&format!("DEL codeq:lease:{id}")), ":1");
    assert_eq!(master.say(&format!("RPUSH codeq:q:render:t:pending:0 {id}")), ":1");
    let lent = claim(&*other, "render", 1).await.remove(0);
    assert_eq!((lent.id, lent.attempts), (made.id, 1));
    assert!(is_unknown(&unconfirmed.await.unwrap().expect_err("there is no replica")));
    // By now it is on its way; a beat goes behind it.
    for _ in 0..20 {
        let beat = Heartbeat::new(report(&lent), Duration::from_secs(60));
        assert!(store.heartbeat(vec![beat]).await.unwrap()[0].is_ok(), "the lease is there");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    other.submit(vec![done(&lent)]).await.unwrap().remove(0).unwrap();
}

/// Whatever was not a number counted as confirmed: a server that was demoted between EXEC and WAIT answers with
/// an error.
#[tokio::test]
async fn an_error_in_the_place_of_a_number_confirms_nothing() {
    let (master, _replica) = pair();
    let store = open(waiting(master.address(), Duration::from_millis(500)));
    settled(&store).await;
    create(&*store, "render").await.expect("the replica confirms");
    assert_eq!(master.say("ACL SETUSER default -wait"), "+OK");
    let failed = create(&*store, "render").await.expect_err("WAIT is refused");
    assert!(is_unknown(&failed), "{failed}");
}

/// A replay answers for a write that was made before, maybe in a group that no replica has.
#[tokio::test]
async fn a_replay_waits_for_the_replicas_of_the_write_that_it_vouches_for() {
    let (master, replica) = pair();
    let store = open(waiting(master.address(), Duration::from_millis(500)));
    settled(&store).await;
    let keyed = || super::verbs::keyed("render", "k");
    store.create(vec![keyed()]).await.expect("the replica confirms");
    drop(replica);
    let failed = store.create(vec![keyed()]).await.expect_err("there is no replica");
    assert!(is_unknown(&failed), "{failed}");
    assert_eq!(store.queue(QueueKey::new("t", "render")).await.unwrap().ready_total(), 1);
    assert!(store.create(vec![new("render")]).await.is_err());
}
