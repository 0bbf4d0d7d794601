//! A pair behind Sentinels: the store asks who is master, and follows.

use super::faults::quiet;
use super::ground::{open, wait};
use super::replicas::pair;
use super::server::Server;
use super::verbs::{create, named};
use codeq_queue::{OperatorStore, QueueKey, TaskStore};
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

/// A master that was cut off from its Sentinels, and not from us, went on to serve although another one had been promoted:
/// nobody asked the Sentinels as long as nothing broke.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_was_cut_off_from_the_sentinels_is_left_for_the_new_one() {
    let (master, replica) = pair();
    let sentinel = Server::sentinel(master.port);
    let deadline = Instant::now() + PATIENCE;
    while !sentinel.text_of("SENTINEL REPLICAS codeq").contains(&replica.port.to_string()) {
        assert!(Instant::now() < deadline, "the Sentinel does not find the replica");
        std::thread::sleep(Duration::from_millis(100));
    }
    let store = open(behind(&sentinel, "codeq"));
    create(&*store, "render").await.unwrap();
    // Whoever connects from now on is refused; we stay, and the Sentinel is sent away.
    let clients = master.ask("CLIENT LIST");
    assert_eq!(master.say("CONFIG SET requirepass secret"), "+OK");
    for client in clients.lines().filter(|client| client.contains("name=sentinel")) {
        let id = client.split(' ').next().unwrap().trim_start_matches("id=");
        assert_eq!(master.say_as("secret", &format!("CLIENT KILL ID {id}")), ":1");
    }
    let named = format!("\r\n{}\r\n", replica.port);
    while !sentinel.text_of("SENTINEL GET-MASTER-ADDR-BY-NAME codeq").contains(&named) {
        assert!(Instant::now() < deadline, "nobody is promoted");
        std::thread::sleep(Duration::from_millis(50));
    }
    let told = Instant::now();
    loop {
        let made = create(&*store, "render").await;
        if made.is_ok_and(|made| replica.say(&format!("HEXISTS codeq:tasks {}", made.task.id)) == ":1") {
            break;
        }
        assert!(Instant::now() < deadline, "the promotion is not followed");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(told.elapsed() < Duration::from_secs(5), "{:?}", told.elapsed());
    assert!(store.queue(QueueKey::new("t", "render")).await.unwrap().ready_total() > 0);
}
