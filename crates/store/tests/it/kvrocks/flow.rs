//! Unique keys, expiry, cancels and checkpoints where several processes, servers and the wall clock are involved.

use super::ground::{keyspace, open, options};
use super::server::Server;
use super::verbs::{claim, create, named, new, now, report};
use codeq_queue::store::{Cancel, Created, Heartbeat, Nack, ResultLookup, Wait};
use codeq_queue::{
    Body, FailureReason, NewTask, OnConflict, OperatorStore, State, TaskId, TaskOptions, TaskStore,
    UniqueRule, UniqueUntil,
};
use codeq_store::kvrocks::{Backend, KvrocksOptions, KvrocksStore, Relocation, Sharding, Timing};
use futures_util::future::join_all;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

fn with(command: &str, change: impl FnOnce(&mut TaskOptions)) -> NewTask {
    let (task, mut options) = (new(command), TaskOptions::default());
    change(&mut options);
    NewTask { body: Arc::new(Body { options: options.boxed(), ..(*task.body).clone() }), ..task }
}

fn unique(command: &str, on_conflict: OnConflict) -> NewTask {
    let rule = UniqueRule { key: "k".into(), until: UniqueUntil::Ended, on_conflict, max_wait: None };
    with(command, |options| options.unique = Some(rule))
}

async fn make(store: &KvrocksStore, task: NewTask) -> Created {
    store.create(vec![task]).await.unwrap().remove(0).unwrap()
}

async fn ended(store: &KvrocksStore, id: TaskId) -> Option<FailureReason> {
    let task = codeq_queue::store::TaskRef { tenant: "t".into(), id };
    match store.result(task, Wait::Until(now().plus_seconds(20))).await.unwrap() {
        ResultLookup::Done { record, .. } => record.failure_reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn of_many_racing_creates_one_makes_the_task_of_a_unique_key() {
    let backend = keyspace();
    let stores: Vec<_> = (0..3).map(|_| open(options(backend.clone()))).collect();
    for round in 0..10 {
        let command = format!("c{round}");
        let creates = (0..12).map(|n| make(&stores[n % 3], unique(&command, OnConflict::Keep)));
        let made = join_all(creates).await;
        assert_eq!(made.iter().filter(|made| !made.is_duplicate).count(), 1);
        assert_eq!(made.iter().map(|made| made.task.id.to_string()).collect::<BTreeSet<_>>().len(), 1);
    }
    // Whoever cancels the holder leaves one that lives.
    let made = join_all((0..12).map(|n| make(&stores[n % 3], unique("latest", OnConflict::Cancel)))).await;
    assert!(made.iter().all(|made| !made.is_duplicate));
    let left = claim(&*stores[0], "latest", 20).await;
    assert_eq!(left.len(), 1);
    let tasks = stores[0].get(made.iter().map(|made| named(&made.task)).collect()).await.unwrap();
    let cancelled = tasks.iter().flatten().filter(|task| task.state == State::Cancelled).count();
    assert_eq!(cancelled, 11);
}

#[tokio::test]
async fn several_of_one_key_in_one_batch_are_settled_in_their_order() {
    let store = open(options(keyspace()));
    let batch = vec![
        unique("c", OnConflict::Keep),
        unique("c", OnConflict::Keep),
        unique("c", OnConflict::Cancel),
        new("c"),
        unique("c", OnConflict::Replace),
    ];
    let made: Vec<Created> =
        store.create(batch).await.unwrap().into_iter().map(|made| made.unwrap()).collect();
    assert_eq!(
        made.iter().map(|made| made.is_duplicate).collect::<Vec<_>>(),
        [false, true, false, false, true]
    );
    assert_eq!((made[0].task.id, made[2].task.id), (made[1].task.id, made[4].task.id));
    assert_eq!(claim(&*store, "c", 9).await.len(), 2);
}

#[tokio::test]
async fn the_wall_clock_ends_what_expires_what_was_to_stop_and_what_runs_too_long() {
    let timing = Timing::Running { sweep_interval: Duration::from_millis(50) };
    let store = open(KvrocksOptions { timing, ..options(keyspace()) });
    let at = now().plus(Duration::from_millis(700));
    let expiring = make(&store, with("expiring", |options| options.expires_at = Some(at))).await.task;
    let longest = Duration::from_secs(1);
    make(&store, with("long", |options| options.max_run = Some(longest))).await;
    create(&*store, "stopping").await.unwrap();
    let (long, stopping) =
        (claim(&*store, "long", 1).await.remove(0), claim(&*store, "stopping", 1).await.remove(0));
    let lease = long.state.lease().unwrap();
    assert_eq!(lease.until, lease.claimed_at.plus(longest));
    let grace = Duration::from_millis(500);
    let cancel = Cancel { task: named(&stopping), grace, reason: Some("why/not".into()) };
    let asked = store.cancel(vec![cancel]).await.unwrap().remove(0).unwrap();
    let asked = asked.state.lease().unwrap().cancel.clone().unwrap();
    assert_eq!(asked.reason.as_deref(), Some("why/not"));
    let beat = Heartbeat::new(report(&stopping), Duration::from_secs(60));
    let beat = store.heartbeat(vec![beat]).await.unwrap().remove(0).unwrap();
    assert_eq!(beat.cancel, Some(asked));
    assert_eq!(ended(&store, stopping.id).await, Some(FailureReason::Cancelled));
    assert_eq!(ended(&store, expiring.id).await, Some(FailureReason::Expired));
    let waits = async {
        while store.get(vec![named(&long)]).await.unwrap()[0].as_ref().unwrap().state.lease().is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waits).await.expect("a lease ends with the longest run");
    let told = store.get(vec![named(&stopping)]).await.unwrap().remove(0).unwrap();
    assert_eq!(told.error.as_deref(), Some("CANCELLED: why/not"));
}

fn shards(one: &Server, two: &Server, mapped: &str) -> Arc<KvrocksStore> {
    let backend = |server: &Server| Backend { address: server.address(), ..Backend::default() };
    let sharding = Sharding {
        default_shard: "one".into(),
        command_mappings: [("render".to_owned(), mapped.to_owned())].into(),
        backends: [("one".to_owned(), backend(one)), ("two".to_owned(), backend(two))].into(),
        ..Sharding::default()
    };
    let timing = Timing::Running { sweep_interval: Duration::from_millis(50) };
    open(KvrocksOptions { sharding, timing, ..options(backend(one)) })
}

#[tokio::test]
async fn a_key_that_is_taken_where_the_queue_lived_before_is_taken() {
    let (one, two) = (Server::start(&[]), Server::start(&[]));
    let before = shards(&one, &two, "one");
    let first = make(&before, unique("render", OnConflict::Keep)).await.task;
    let after = shards(&one, &two, "two");
    let second = make(&after, unique("render", OnConflict::Keep)).await;
    assert_eq!((second.is_duplicate, second.task.id), (true, first.id));
    let third = make(&after, unique("render", OnConflict::Cancel)).await;
    assert!(!third.is_duplicate);
    assert_eq!(ended(&after, first.id).await, Some(FailureReason::Cancelled));
    let lent = claim(&*after, "render", 9).await;
    assert_eq!(lent.iter().map(|task| task.id).collect::<Vec<_>>(), [third.task.id]);
    let done = super::verbs::done(&lent[0]);
    after.submit(vec![done]).await.unwrap().remove(0).unwrap();
    let fourth = make(&after, unique("render", OnConflict::Keep)).await;
    assert!(!fourth.is_duplicate);
    assert_eq!(two.say("HLEN codeq:tasks"), ":1", "a new one is made where the queue lives now");
}

#[tokio::test]
async fn keys_expiries_and_checkpoints_move_with_their_tasks() {
    let (one, two) = (Server::start(&[]), Server::start(&[]));
    let before = shards(&one, &two, "one");
    create(&*before, "render").await.unwrap();
    let task = claim(&*before, "render", 1).await.remove(0);
    let nack = Nack { checkpoint: Some("[7]".into()), ..Nack::new(report(&task), 600, None) };
    before.nack(vec![nack]).await.unwrap().remove(0).unwrap();
    let at = now().plus(Duration::from_secs(2));
    let expiring = make(&before, with("render", |options| options.expires_at = Some(at))).await.task;
    let held = make(&before, unique("render", OnConflict::Keep)).await.task;
    let relocation = Relocation {
        command: "render".into(),
        tenant: None,
        from: "one".into(),
        to: "two".into(),
        batch: 10,
    };
    assert_eq!(before.relocate(&relocation).await.unwrap().total(), 3);
    for key in ["q:render:t:s:one:leases", "checkpoints", "unique:render:t:k"] {
        assert_eq!(one.say(&format!("EXISTS codeq:{key}")), ":0", "{key} is left");
    }
    let after = shards(&one, &two, "two");
    let again = make(&after, unique("render", OnConflict::Keep)).await;
    assert_eq!((again.is_duplicate, again.task.id), (true, held.id));
    let moved = after.get(vec![named(&task)]).await.unwrap().remove(0).unwrap();
    assert_eq!(moved.checkpoint.as_deref(), Some("[7]"));
    assert_eq!(ended(&after, expiring.id).await, Some(FailureReason::Expired));
}
