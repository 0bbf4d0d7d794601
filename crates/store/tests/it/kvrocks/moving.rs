//! Moving while everything runs: queues, and spread shards from one backend to another.

use super::faults::quiet;
use super::ground::open;
use super::proxy::{CUT_BEFORE_EXEC, CUT_BEFORE_REPLY, PASS, Proxy};
use super::round_trips::settled;
use super::server::Server;
use super::verbs::{claim, create, done, keyed, named, new};
use codeq_queue::create::CreateRequest;
use codeq_queue::schedule::ScheduleRequest;
use codeq_queue::{OperatorStore, QueueKey, Store, TaskId, TaskStore};
use codeq_store::kvrocks::{
    Backend, Immovable, KvrocksOptions, KvrocksStore, Places, Relocation, ShardMove, Sharding, Timing,
};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

fn at(address: &str) -> Backend {
    Backend { address: address.into(), ..Backend::default() }
}

/// 64 shards over one backend; there is another one that they can move to.
fn spread(one: &str, two: &str) -> KvrocksOptions {
    let sharding = Sharding {
        default_shard: "one".into(),
        spread: true,
        spread_over: vec!["one".into()],
        backends: [("one".to_owned(), at(one)), ("two".to_owned(), at(two))].into(),
        ..Sharding::default()
    };
    KvrocksOptions { sharding, ..quiet(at(one)) }
}

/// The spread shard of tasks, by their ids.
fn shard_of(id: TaskId) -> usize {
    usize::from(id.as_bytes()[0] & 0x3f)
}

fn to(backend: &str, id: TaskId, batch: usize) -> ShardMove {
    ShardMove { shard: shard_of(id), to: backend.into(), batch }
}

async fn finish(store: &KvrocksStore, command: &str) -> Vec<TaskId> {
    let lent = claim(store, command, 100).await;
    for answer in store.submit(lent.iter().map(done).collect()).await.unwrap() {
        answer.unwrap();
    }
    lent.iter().map(|task| task.id).collect()
}

/// Creates with keys, as they are answered, until it is told to stop.
async fn produce(store: Arc<KvrocksStore>, stop: Arc<AtomicBool>) -> Vec<TaskId> {
    let mut made = Vec::new();
    while !stop.load(Ordering::Acquire) {
        let key = made.len().to_string();
        let created = store.create(vec![keyed("render", &key)]).await.unwrap().remove(0).unwrap();
        assert!(!created.is_replay, "nobody has used key {key}");
        made.push(created.task.id);
    }
    made
}

async fn consume(store: Arc<KvrocksStore>, stop: Arc<AtomicBool>) -> Vec<TaskId> {
    let mut ended = Vec::new();
    while !stop.load(Ordering::Acquire) {
        ended.extend(finish(&store, "render").await);
    }
    ended
}

/// Processes that are told nothing go on as if nothing were, and lose and repeat nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spread_shard_moves_while_everything_runs() {
    let (one, two) = (Server::start(&[]), Server::start(&[]));
    let there = || spread(&one.address(), &two.address());
    let (producer, worker, mover) = (open(there()), open(there()), open(there()));
    let first = create(&*producer, "render").await.unwrap().task.id;
    let [is_made, is_over] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let producing = tokio::spawn(produce(producer.clone(), is_made.clone()));
    let workers: Vec<_> = (0..2).map(|_| tokio::spawn(consume(worker.clone(), is_over.clone()))).collect();
    for backend in ["two", "one", "two"] {
        let deadline = Instant::now() + PATIENCE;
        loop {
            mover.move_shard(&to(backend, first, 7)).await.unwrap();
            let (left, _) = mover.shard_places(&to(backend, first, 7)).await.unwrap();
            if left == Places::default() {
                break;
            }
            assert!(Instant::now() < deadline, "{left:?} are left");
        }
    }
    is_made.store(true, Ordering::Release);
    let mut made = producing.await.unwrap();
    made.insert(0, first);
    let deadline = Instant::now() + PATIENCE;
    while worker.queue(QueueKey::new("t", "render")).await.unwrap().ready_total() > 0 {
        assert!(Instant::now() < deadline, "the workers do not come to an end");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    is_over.store(true, Ordering::Release);
    let mut ended = Vec::new();
    for worker in workers {
        ended.extend(worker.await.unwrap());
    }
    assert_eq!((ended.len(), made.len()), (made.len(), ended.iter().collect::<HashSet<_>>().len()));
    assert_eq!(made.iter().collect::<HashSet<_>>(), ended.iter().collect::<HashSet<_>>());
    // Keys lead to their tasks wherever these were created, also in a process that begins now.
    let late = open(there());
    for (key, id) in made[1..].iter().enumerate().step_by(5) {
        let replay = late.create(vec![keyed("render", &key.to_string())]).await.unwrap().remove(0).unwrap();
        assert_eq!((replay.is_replay, replay.task.id), (true, *id));
    }
    let held = two.ask(&format!("HGET codeq:layout at:p{}", shard_of(first)));
    assert!(held.ends_with(" two"), "{held}");
    let before = two.say("HLEN codeq:tasks");
    let mut without = spread(&one.address(), &two.address());
    without.sharding.backends.remove("two");
    let refused =
        super::ground::wait(codeq_store::kvrocks::open(without)).err().expect("a backend is missing");
    assert!(refused.contains("backend \"two\"") && refused.contains("sharding.backends"), "{refused}");
    let last = create(&*late, "render").await.unwrap().task;
    assert_ne!(two.say("HLEN codeq:tasks"), before, "new tasks go where the shard lives");
    assert!(producer.get(vec![named(&last)]).await.unwrap()[0].is_some());
}

#[tokio::test]
async fn schedules_pauses_and_what_waits_move_with_their_shard() {
    let (one, two) = (Server::start(&[]), Server::start(&[]));
    let store = open(spread(&one.address(), &two.address()));
    let made = store.create(vec![new("render"); 5]).await.unwrap();
    let ids: Vec<TaskId> = made.into_iter().map(|made| made.unwrap().task.id).collect();
    let task = CreateRequest {
        tenant: "t".into(),
        command: "render".into(),
        payload: "{}".into(),
        ..CreateRequest::default()
    };
    let request = ScheduleRequest { every_seconds: Some(3600), task, ..ScheduleRequest::default() };
    let definition = request.check("n", 5, 1000, super::verbs::now()).unwrap();
    let schedules = store.scheduling().unwrap();
    schedules.put_schedule("t".into(), "n".into(), definition).await.unwrap().unwrap();
    let before = schedules.schedule("t".into(), "n".into()).await.unwrap().unwrap();
    store.pause(QueueKey::new("t", "render")).await.unwrap();
    let wanted = to("two", ids[0], 100);
    assert_eq!(store.shard_places(&wanted).await.unwrap().0.pending, 5);
    assert_eq!(store.move_shard(&wanted).await.unwrap().pending, 5);
    assert_eq!(store.move_shard(&wanted).await.unwrap(), Places::default(), "it may be repeated");
    for name in ["schedules", "schedules:progress", "ticks"] {
        assert_eq!(one.say(&format!("EXISTS codeq:{name}")), ":0", "{name} is left");
        assert_eq!(two.say(&format!("EXISTS codeq:{name}")), ":1", "{name} has not come");
    }
    let after = schedules.schedule("t".into(), "n".into()).await.unwrap().unwrap();
    assert_eq!((before.progress, before.definition), (after.progress, after.definition));
    assert!(claim(&*store, "render", 9).await.is_empty(), "the queue is paused");
    store.resume(QueueKey::new("t", "render")).await.unwrap();
    assert_eq!(finish(&store, "render").await, ids, "in order");
    assert!(schedules.delete_schedule("t".into(), "n".into()).await.unwrap());
    let unknown = store.move_shard(&to("three", ids[0], 1)).await.expect_err("there is no such backend");
    assert!(matches!(unknown, Immovable::UnknownBackend(_)), "{unknown}");
}

#[tokio::test]
async fn two_names_of_one_server_are_one_server() {
    let server = Server::start(&[]);
    let store = open(spread(&server.address(), &format!("localhost:{}", server.port)));
    let id = create(&*store, "render").await.unwrap().task.id;
    let refused = store.move_shard(&to("two", id, 1)).await.expect_err("it would move onto itself");
    assert!(matches!(refused, Immovable::SameServer(_)), "{refused}");
    assert_eq!(finish(&store, "render").await, [id]);
}

/// The mover dies around every script that does something, before it and after it; another one goes on.
#[tokio::test]
async fn a_move_that_is_cut_anywhere_is_finished_by_the_next() {
    let (one, two) = (Server::start(&[]), Server::start(&[]));
    let store = open(spread(&one.address(), &two.address()));
    // At the source two tasks depart and leave, then the third, then nothing; at the destination they arrive twice.
    for (side, spared) in [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 0), (1, 1)] {
        for mode in [CUT_BEFORE_EXEC, CUT_BEFORE_REPLY] {
            let case = format!("cut {mode} at {side} behind {spared}");
            let made = store.create(vec![new("render"); 3]).await.unwrap();
            let ids: Vec<TaskId> = made.into_iter().map(|made| made.unwrap().task.id).collect();
            let proxies = [&one, &two].map(|server| Proxy::start(server.address()));
            let mover = open(spread(&proxies[0].address, &proxies[1].address));
            settled(&mover).await;
            proxies[side].spared.store(spared, Ordering::Release);
            proxies[side].mode.store(mode, Ordering::Release);
            assert!(mover.move_shard(&to("two", ids[0], 2)).await.is_err(), "{case}");
            assert_eq!(proxies[side].mode.load(Ordering::Acquire), PASS, "{case}: it was cut");
            store.move_shard(&to("two", ids[0], 2)).await.expect(&case);
            assert_eq!(store.shard_places(&to("two", ids[0], 2)).await.unwrap().1.pending, 3, "{case}");
            assert_eq!(finish(&store, "render").await, ids, "{case}: in order");
            assert!(finish(&store, "render").await.is_empty(), "{case}");
            for server in [&one, &two] {
                assert_eq!(server.say("EXISTS codeq:moving"), ":0", "{case}");
            }
            store.move_shard(&to("one", ids[0], 2)).await.expect(&case);
        }
    }
}

/// What a mover that is gone has left on the way is brought to its destination by whoever sweeps.
#[tokio::test]
async fn a_sweeper_finishes_what_a_mover_has_left() {
    let (one, two) = (Server::start(&[]), Server::start(&[]));
    let timing = Timing::Running { sweep_interval: Duration::from_millis(50) };
    let store = open(KvrocksOptions { timing, ..spread(&one.address(), &two.address()) });
    let made = store.create(vec![new("render"); 6]).await.unwrap();
    let ids: Vec<TaskId> = made.into_iter().map(|made| made.unwrap().task.id).collect();
    let proxy = Proxy::start(two.address());
    let mover = open(spread(&one.address(), &proxy.address));
    settled(&mover).await;
    proxy.mode.store(CUT_BEFORE_EXEC, Ordering::Release);
    assert!(mover.move_shard(&to("two", ids[0], 100)).await.is_err());
    assert_eq!(one.say("HLEN codeq:moving"), ":6", "they are on their way");
    let (deadline, mut ended) = (Instant::now() + PATIENCE, Vec::new());
    while ended.len() < ids.len() {
        assert!(Instant::now() < deadline, "{ended:?} of {ids:?}");
        ended.extend(finish(&store, "render").await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(ended, ids, "in order");
    assert_eq!(one.say("EXISTS codeq:moving"), ":0");
}

/// Batches of more than a few hundred were copied in parts that overtook each other.
#[tokio::test]
async fn the_order_is_kept_at_every_batch_size() {
    let (one, two) = (Server::start(&[]), Server::start(&[]));
    let over = |mapped: &str| {
        let sharding = Sharding {
            default_shard: "one".into(),
            command_mappings: [("render".to_owned(), mapped.to_owned())].into(),
            backends: [("one".to_owned(), at(&one.address())), ("two".to_owned(), at(&two.address()))].into(),
            ..Sharding::default()
        };
        open(KvrocksOptions { sharding, ..quiet(at(&one.address())) })
    };
    let (mut from, mut to) = ("one", "two");
    for (batch, count) in [(1, 50), (100, 450), (1000, 1_050)] {
        let before = over(from);
        let mut made = Vec::new();
        while made.len() < count {
            let created = before.create(vec![new("render"); 50]).await.unwrap();
            made.extend(created.into_iter().map(|created| created.unwrap().task.id));
        }
        let relocation =
            Relocation { command: "render".into(), tenant: None, from: from.into(), to: to.into(), batch };
        assert_eq!(before.relocate(&relocation).await.unwrap().pending, count as u64);
        let after = over(to);
        let mut lent = Vec::new();
        while lent.len() < count {
            let ended = finish(&after, "render").await;
            assert!(!ended.is_empty(), "{} of {count}", lent.len());
            lent.extend(ended);
        }
        assert_eq!(lent, made, "batches of {batch}");
        (from, to) = (to, from);
    }
}
