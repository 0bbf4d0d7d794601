//! What the store does when the server, or the way to it, fails.

use super::ground::{keyspace, open, options, wait};
use super::server::Server;
use super::verbs::{claim, create, done, named};
use codeq_queue::store::Health;
use codeq_queue::{Failure, OperatorStore, QueueKey, State, Store, Task, TaskStore};
use codeq_store::kvrocks::{self, Backend, KvrocksOptions, Timing};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub fn is_unknown(failure: &Failure) -> bool {
    matches!(failure, Failure::Unavailable { outcome_unknown: true, .. })
}

/// By hand, so that nothing but the test talks to the server.
pub fn quiet(backend: Backend) -> KvrocksOptions {
    let sweep_interval = Duration::from_secs(3600);
    KvrocksOptions { timing: Timing::Running { sweep_interval }, ..options(backend) }
}

#[tokio::test]
async fn a_wrong_password_is_told_at_the_start() {
    let server = Server::start(&["--requirepass", "secret"]);
    let backend = |password: &str| Backend {
        address: server.address(),
        password: password.into(),
        ..Backend::default()
    };
    for wrong in ["", "wrong"] {
        let refused = wait(kvrocks::open(quiet(backend(wrong)))).err().expect("the password is wrong");
        assert!(refused.contains(&server.address()), "{refused}");
        let is_precise = refused.to_lowercase().contains("password") || refused.contains("NOAUTH");
        assert!(is_precise, "{refused}");
    }
    create(&*open(quiet(backend("secret"))), "render").await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_at_the_start() {
    let address = format!("127.0.0.1:{}", super::server::free_port());
    let refused = wait(kvrocks::open(quiet(Backend { address: address.clone(), ..Backend::default() })));
    assert!(refused.err().expect("no one listens").contains(&address));
}

#[tokio::test]
async fn a_full_server_refuses_and_comes_back() {
    let server = Server::start(&["--maxmemory-policy", "noeviction"]);
    let store = open(quiet(Backend { address: server.address(), ..Backend::default() }));
    create(&*store, "render").await.unwrap();
    let running = claim(&*store, "render", 1).await.remove(0);
    assert_eq!(server.say("CONFIG SET maxmemory 1"), "+OK");
    let failed = create(&*store, "render").await.expect_err("there is no memory");
    assert!(matches!(failed, Failure::Unavailable { outcome_unknown: false, .. }), "{failed}");
    assert_eq!(server.say("HLEN codeq:tasks"), ":1");
    // A submit begins by freeing; it is done whole or not at all.
    let submitted = store.submit(vec![done(&running)]).await;
    let found = store.get(vec![named(&running)]).await.unwrap().remove(0).unwrap();
    assert_eq!(submitted.is_ok(), found.state == State::Completed);
    assert_eq!(server.say("CONFIG SET maxmemory 0"), "+OK");
    create(&*store, "render").await.expect("there is memory again");
}

/// Creates until told to stop; gives what was acknowledged.
async fn create_under_load(store: Arc<dyn Store>, stop: Arc<AtomicBool>) -> Vec<Task> {
    let mut made = Vec::new();
    while !stop.load(Ordering::Acquire) {
        match create(&*store, "render").await {
            Ok(created) => made.push(created.task),
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
    made
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_the_server_is_killed() {
    let mut server = Server::start(&[]);
    let store: Arc<dyn Store> = open(quiet(Backend { address: server.address(), ..Backend::default() }));
    let stop = Arc::new(AtomicBool::new(false));
    let loads: Vec<_> =
        (0..8).map(|_| tokio::spawn(create_under_load(store.clone(), stop.clone()))).collect();
    for round in 1..=3_u64 {
        // Enough is acknowledged before the next kill.
        let queue = QueueKey::new("t", "render");
        let wanted = round * 50;
        while store.queue(queue.clone()).await.map_or(0, |stats| stats.ready_total()) < wanted {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        tokio::task::block_in_place(|| {
            server.kill();
            server.run();
        });
    }
    stop.store(true, Ordering::Release);
    let mut acknowledged = Vec::new();
    for load in loads {
        acknowledged.extend(load.await.unwrap());
    }
    assert!(acknowledged.len() >= 100);
    let found = store.get(acknowledged.iter().map(named).collect()).await.unwrap();
    let lost = found.iter().filter(|task| task.is_none()).count();
    assert_eq!(lost, 0, "of {}", acknowledged.len());
}

#[tokio::test]
async fn scripts_that_the_server_has_forgotten_are_loaded_again() {
    let server = Server::start(&[]);
    let store = open(quiet(Backend { address: server.address(), ..Backend::default() }));
    create(&*store, "render").await.unwrap();
    assert_eq!(server.say("SCRIPT FLUSH"), "+OK");
    create(&*store, "render").await.expect("the script is loaded again");
    assert_eq!(server.say("SCRIPT FLUSH"), "+OK");
    assert_eq!(claim(&*store, "render", 9).await.len(), 2);
    assert_eq!(store.health(), Health::Ready);
}

#[tokio::test]
async fn too_few_replicas_are_told_and_the_write_stays() {
    let store =
        open(KvrocksOptions { wait_replicas: 1, timeout: Duration::from_millis(300), ..quiet(keyspace()) });
    let failed = create(&*store, "render").await.expect_err("there is no replica");
    assert!(is_unknown(&failed), "{failed}");
    assert_eq!(store.queue(QueueKey::new("t", "render")).await.unwrap().ready_total(), 1);
}
