//! How often the store goes to the server.

use super::ground::{keyspace, open, options};
use super::verbs::{claim, create, done, new, report, wish};
use codeq_queue::store::{Heartbeat, Nack, Wait};
use codeq_queue::{Commands, Store, Task};
use codeq_store::kvrocks::{Backend, KvrocksOptions, KvrocksStore, Timing};
use std::sync::Arc;
use std::time::Duration;

/// Nothing but the test's own calls is counted.
fn still(backend: Backend) -> Arc<KvrocksStore> {
    let timing = Timing::Running { sweep_interval: Duration::from_secs(3600) };
    open(KvrocksOptions { timing, ..options(backend) })
}

/// The round trips since the last call.
pub struct Count(Arc<KvrocksStore>, u64);

impl Count {
    pub fn since(&mut self) -> u64 {
        let before = std::mem::replace(&mut self.1, self.0.round_trips());
        self.1 - before
    }
}

/// Waits for the one sweep that every store makes at its start.
pub async fn settled(store: &Arc<KvrocksStore>) -> Count {
    let mut count = Count(store.clone(), 0);
    loop {
        count.since();
        tokio::time::sleep(Duration::from_millis(200)).await;
        if count.since() == 0 {
            return count;
        }
    }
}

#[tokio::test]
async fn every_verb_keeps_to_its_number() {
    let backend = keyspace();
    let (store, other) = (still(backend.clone()), still(backend));
    let mut count = settled(&store).await;
    create(&*store, "render").await.unwrap();
    assert_eq!(count.since(), 1, "create");
    let task = claim(&*store, "render", 1).await.remove(0);
    assert_eq!(count.since(), 1, "claim, with promotion and repair");
    store.heartbeat(vec![Heartbeat { report: report(&task), extend: Duration::from_secs(9) }]).await.unwrap();
    assert_eq!(count.since(), 1, "heartbeat");
    store.nack(vec![Nack { report: report(&task), delay_seconds: 1, reason: None }]).await.unwrap();
    assert_eq!(count.since(), 1, "nack");
    create(&*store, "other").await.unwrap();
    count.since();
    let task = store.claim(wish(Commands::Any, 1, Wait::No)).await.unwrap().remove(0);
    assert_eq!(count.since(), 2, "claim of any command");
    store.submit(vec![done(&task)]).await.unwrap().remove(0).unwrap();
    assert_eq!(count.since(), 1, "submit");
    create(&*store, "third").await.unwrap();
    let foreign = claim(&*store, "third", 1).await.remove(0);
    let mut elsewhere = settled(&other).await;
    other.submit(vec![done(&foreign)]).await.unwrap().remove(0).unwrap();
    assert_eq!(elsewhere.since(), 2, "submit by a process that did not claim");
}

#[tokio::test]
async fn batches_of_a_hundred_take_two_at_most() {
    let store = still(keyspace());
    let mut count = settled(&store).await;
    store.create(vec![new("render"); 100]).await.unwrap();
    assert!(count.since() <= 2, "create");
    let tasks: Vec<Task> = claim(&*store, "render", 100).await;
    assert_eq!((tasks.len(), count.since()), (100, 1));
    let answers = store.submit(tasks.iter().map(done).collect()).await.unwrap();
    assert!(answers.iter().all(Result::is_ok));
    assert!(count.since() <= 2, "submit");
}
