//! Queues that spread by themselves, and ids that say where they are.

use super::cluster::cluster;
use super::faults::quiet;
use super::ground::{keyspace, open, options};
use super::server::Server;
use super::verbs::{claim, create, done, keyed, named};
use codeq_queue::store::Wait;
use codeq_queue::{Commands, OperatorStore, Store, TaskStore};
use codeq_store::kvrocks::{Backend, KvrocksOptions, KvrocksStore, Sharding};
use std::sync::Arc;

fn spread(backends: &[&Server]) -> KvrocksOptions {
    let backend = |server: &Server| Backend { address: server.address(), ..Backend::default() };
    let named = backends.iter().enumerate().map(|(at, server)| (format!("b{at}"), backend(server)));
    let sharding = Sharding {
        default_shard: "b0".into(),
        spread: true,
        spread_over: (0..backends.len()).map(|at| format!("b{at}")).collect(),
        backends: named.collect(),
        ..Sharding::default()
    };
    KvrocksOptions { sharding, ..quiet(backend(backends[0])) }
}

/// Everything that can be done with tasks of twenty queues.
async fn work(store: &Arc<KvrocksStore>) {
    for number in 0..20 {
        let command = format!("c{number}");
        let made = store.create(vec![keyed(&command, "k")]).await.unwrap().remove(0).unwrap();
        assert!(store.create(vec![keyed(&command, "k")]).await.unwrap().remove(0).unwrap().is_replay);
        let lent = claim(&**store, &command, 9).await;
        assert_eq!(lent.iter().map(|task| task.id).collect::<Vec<_>>(), [made.task.id]);
        store.submit(vec![done(&lent[0])]).await.unwrap().remove(0).unwrap();
        create(&**store, &command).await.unwrap();
    }
    let any = store.claim(super::verbs::wish(Commands::Any, 50, Wait::No)).await.unwrap();
    assert_eq!(any.len(), 20);
    for answer in store.submit(any.iter().map(done).collect()).await.unwrap() {
        answer.unwrap();
    }
    assert_eq!(store.queues(None).await.unwrap().iter().map(|queue| queue.in_progress).sum::<u64>(), 0);
}

#[tokio::test]
async fn queues_spread_over_servers_and_a_stranger_finds_a_task_in_one_round_trip() {
    let servers = [Server::start(&[]), Server::start(&[])];
    let store = open(spread(&[&servers[0], &servers[1]]));
    work(&store).await;
    for server in &servers {
        assert_ne!(server.say("HLEN codeq:tasks"), ":0", "both hold some");
    }
    let task = create(&*store, "render").await.unwrap().task;
    let stranger = open(spread(&[&servers[0], &servers[1]]));
    let mut count = super::round_trips::settled(&stranger).await;
    assert!(stranger.get(vec![named(&task)]).await.unwrap()[0].is_some());
    // Shards of one server share its connections, and each counts them.
    assert!(count.since() <= 64, "one exchange with one server");
}

#[tokio::test]
async fn what_was_there_before_is_found_when_spreading_begins() {
    let backend = keyspace();
    let before = open(options(backend.clone()));
    let old = before.create(vec![keyed("render", "k")]).await.unwrap().remove(0).unwrap().task;
    before.clone().close().await.unwrap();
    let sharding = Sharding { spread: true, ..Sharding::default() };
    let after = open(KvrocksOptions { sharding, ..quiet(backend) });
    assert!(after.create(vec![keyed("render", "k")]).await.unwrap().remove(0).unwrap().is_replay);
    let new = create(&*after, "render").await.unwrap().task;
    assert!(after.get(vec![named(&old)]).await.unwrap()[0].is_some());
    let lent: Vec<_> = claim(&*after, "render", 9).await.into_iter().collect();
    assert_eq!(lent.iter().map(|task| task.id).collect::<Vec<_>>(), [old.id, new.id], "former places first");
    for answer in after.submit(lent.iter().map(done).collect()).await.unwrap() {
        answer.unwrap();
    }
    work(&after).await;
}

#[tokio::test]
async fn queues_spread_over_the_slots_of_a_cluster() {
    let servers = cluster();
    let addresses: Vec<String> = servers.iter().map(Server::address).collect();
    let backend = Backend { address: addresses.join(","), pool_size: 2, ..Backend::default() };
    let sharding = Sharding { spread: true, ..Sharding::default() };
    let store = open(KvrocksOptions { cluster: true, sharding, ..quiet(backend) });
    work(&store).await;
    for server in &servers {
        assert_ne!(server.say("DBSIZE"), ":0", "each holds a share");
    }
}
