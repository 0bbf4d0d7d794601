//! Ids of tasks that are not pending any more stay in the lists until somebody pops them. Nobody sees them.

use super::ground::{keyspace, open, options};
use super::server::Server;
use super::verbs::{claim, create, named, new};
use codeq_queue::store::TaskRef;
use codeq_queue::{Delay, NewTask, OperatorStore, QueueKey, Store, TaskStore};
use codeq_store::kvrocks::Backend;
use std::time::Duration;

async fn ready(store: &dyn Store) -> u64 {
    store.queue(QueueKey::new("t", "render")).await.unwrap().ready_total()
}

/// A cancel that searched its list stopped the server for as long as the list was; now it leaves the id, and
/// whoever pops it drops it.
#[tokio::test]
async fn cancelled_tasks_are_not_counted_and_not_lent_however_many_they_are() {
    let server = Server::start(&[]);
    let store = open(options(Backend { address: server.address(), ..Backend::default() }));
    let mut made = Vec::new();
    for _ in 0..10 {
        let part = store.create(vec![new("render"); 100]).await.unwrap();
        made.extend(part.into_iter().map(|made| made.unwrap().task));
    }
    let last = create(&*store, "render").await.unwrap().task;
    let gone: Vec<TaskRef> = made.iter().map(named).collect();
    assert!(
        store
            .cancel(gone.into_iter().map(codeq_queue::store::Cancel::now).collect())
            .await
            .unwrap()
            .iter()
            .all(Result::is_ok)
    );
    assert_eq!(ready(&*store).await, 1);
    let stats = store.queue(QueueKey::new("t", "render")).await.unwrap();
    assert!(stats.oldest_ready.is_none_or(|at| at >= last.created_at), "{stats:?}");
    let position = store.position(named(&last)).await.unwrap().unwrap();
    assert_eq!((position.ahead, position.ahead_at_higher_priority), (Some(0), 0));
    // More stale ids than one script may drop stand in front of it.
    let lent = claim(&*store, "render", 9).await;
    assert_eq!(lent.iter().map(|task| task.id).collect::<Vec<_>>(), [last.id]);
    assert_eq!(ready(&*store).await, 0);
    assert_eq!(server.say("EXISTS codeq:q:render:t:pending:0 codeq:q:render:t:stale"), ":0");
}

/// Stale ids make a list longer, not a queue fuller: the next task finds it empty and wakes those who wait.
#[tokio::test]
async fn a_queue_of_stale_ids_fills_with_the_next_task() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let observer: codeq_queue::Observer = std::sync::Arc::new(move |events: &[codeq_queue::Event]| {
        for event in events {
            tell.send(event.has_filled).unwrap();
        }
    });
    let options = codeq_store::kvrocks::KvrocksOptions { observer: Some(observer), ..options(keyspace()) };
    let store = open(options);
    let first = create(&*store, "render").await.unwrap().task;
    assert!(told.recv().await.unwrap());
    store.cancel(vec![codeq_queue::store::Cancel::now(named(&first))]).await.unwrap().remove(0).unwrap();
    assert!(!told.recv().await.unwrap());
    create(&*store, "render").await.unwrap();
    assert!(told.recv().await.unwrap(), "nothing was ready before");
    create(&*store, "render").await.unwrap();
    assert!(!told.recv().await.unwrap());
    let later = NewTask { delay: Delay::For(Duration::from_secs(60)), ..new("render") };
    store.create(vec![later]).await.unwrap().remove(0).unwrap();
    assert!(!told.recv().await.unwrap());
}
