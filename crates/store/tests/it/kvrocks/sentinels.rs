//! A pair behind Sentinels: the store asks who is master, and follows.

use super::faults::quiet;
use super::ground::{open, wait};
use super::replicas::pair;
use super::server::Server;
use super::verbs::{create, named};
use codeq_queue::TaskStore;
use codeq_store::kvrocks::{self, Backend, KvrocksOptions, Sentinel};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

fn behind(sentinel: &Server, master: &str) -> KvrocksOptions {
    let sentinel = Some(Sentinel::new(vec![sentinel.address()], master, ""));
    KvrocksOptions { wait_replicas: 0, ..quiet(Backend { sentinel, ..Backend::default() }) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promotion_is_followed_and_nothing_confirmed_is_lost() {
    let (mut master, replica) = pair();
    let sentinel = Server::sentinel(master.port);
    let deadline = Instant::now() + PATIENCE;
    while !sentinel.text_of("SENTINEL REPLICAS codeq").contains(&replica.port.to_string()) {
        assert!(Instant::now() < deadline, "the Sentinel does not find the replica");
        std::thread::sleep(Duration::from_millis(100));
    }
    let store = open(KvrocksOptions { wait_replicas: 1, ..behind(&sentinel, "codeq") });
    let mut made = Vec::new();
    for _ in 0..20 {
        made.push(create(&*store, "render").await.expect("the replica confirms").task);
    }
    // From here on one server is left, which has no replica.
    let alone = open(behind(&sentinel, "codeq"));
    tokio::task::block_in_place(|| master.kill());
    loop {
        if create(&*alone, "render").await.is_ok() {
            break;
        }
        assert!(Instant::now() < deadline, "the promotion is not followed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for found in alone.get(made.iter().map(named).collect()).await.unwrap() {
        assert!(found.is_some(), "a confirmed task was lost");
    }
    let refused = wait(kvrocks::open(behind(&sentinel, "nobody"))).err().expect("there is no such master");
    assert!(refused.contains("\"nobody\""), "{refused}");
}
