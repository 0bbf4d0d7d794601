//! What the store does when the server, or the way to it, fails.

use super::ground::{keyspace, open, options, wait};
use super::proxy::{CUT_BEFORE_EXEC, CUT_BEFORE_REPLY, PASS, Proxy};
use super::server::Server;
use super::verbs::{claim, create, done, named};
use codeq_queue::store::Health;
use codeq_queue::{Failure, QueueKey, State, Store, Task};
use codeq_store::kvrocks::{self, Backend, KvrocksOptions, Timing};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn is_unknown(failure: &Failure) -> bool {
    matches!(failure, Failure::Unavailable { outcome_unknown: true, .. })
}

/// By hand, so that nothing but the test talks to the server.
fn quiet(backend: Backend) -> KvrocksOptions {
    let sweep_interval = Duration::from_secs(3600);
    KvrocksOptions { timing: Timing::Running { sweep_interval }, ..options(backend) }
}

#[tokio::test]
async fn a_connection_cut_around_exec_leaves_nothing_or_everything() {
    let server = Server::start(&[]);
    let proxy = Proxy::start(server.address());
    let store = open(quiet(Backend { address: proxy.address.clone(), ..Backend::default() }));
    let witness = open(quiet(Backend { address: server.address(), ..Backend::default() }));
    let queue = QueueKey::new("t", "render");
    for (mode, created) in [(CUT_BEFORE_EXEC, 0), (CUT_BEFORE_REPLY, 1)] {
        let before = witness.queue(queue.clone()).await.unwrap().ready_total();
        proxy.mode.store(mode, Ordering::Release);
        let failed = create(&*store, "render").await.expect_err("the connection was cut");
        assert!(is_unknown(&failed), "{failed}");
        assert_eq!(proxy.mode.load(Ordering::Acquire), PASS, "it was cut at an EXEC");
        assert_eq!(witness.queue(queue.clone()).await.unwrap().ready_total(), before + created);
    }
    create(&*store, "render").await.expect("the store has dialled again");
    let task = claim(&*store, "render", 1).await.remove(0);
    for (mode, is_done) in [(CUT_BEFORE_EXEC, false), (CUT_BEFORE_REPLY, true)] {
        proxy.mode.store(mode, Ordering::Release);
        assert!(store.submit(vec![done(&task)]).await.is_err());
        let found = witness.get(vec![named(&task)]).await.unwrap().remove(0).unwrap();
        assert_eq!(found.state == State::Completed, is_done);
        let counts = witness.queue(queue.clone()).await.unwrap();
        assert_eq!(counts.in_progress, u64::from(!is_done));
    }
}

#[tokio::test]
async fn a_key_of_another_type_fails_the_call_and_changes_nothing() {
    let server = Server::start(&[]);
    let store = open(quiet(Backend { address: server.address(), ..Backend::default() }));
    let running = {
        create(&*store, "render").await.unwrap();
        claim(&*store, "render", 1).await.remove(0)
    };
    for key in ["codeq:results", "codeq:outbox:due", "codeq:q:render:t:dlq"] {
        assert_eq!(server.say(&format!("SET {key} x")), "+OK");
        let before = server.say("LLEN codeq:q:render:t:pending:0");
        let failed = store.submit(vec![done(&running)]).await.expect_err("a key is misused");
        assert!(matches!(&failed, Failure::Internal(text) if text.contains(key)), "{failed}");
        assert_eq!(store.get(vec![named(&running)]).await.unwrap()[0], Some(running.clone()));
        assert_eq!(server.say("SCARD codeq:q:render:t:inprog"), ":1");
        assert_eq!(server.say("LLEN codeq:q:render:t:pending:0"), before);
        assert_eq!(server.say(&format!("DEL {key}")), ":1");
    }
    assert_eq!(server.say("SET codeq:created x"), "+OK");
    assert!(create(&*store, "other").await.is_err());
    assert_eq!(server.say("HLEN codeq:tasks"), ":1", "nothing of the refused create");
    server.say("DEL codeq:created");
    assert!(store.submit(vec![done(&running)]).await.unwrap()[0].is_ok());
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
