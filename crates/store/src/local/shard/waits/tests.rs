use crate::local::engine::inbox::Lane;
use crate::local::store::LocalStore;
use crate::local::{Durability, LocalOptions, Parts, assemble};
use crate::testing::exam::bench::eventually;
use crate::testing::exam::request::New;
use codeq_queue::store::{Cancel, TaskRef};
use codeq_queue::{OperatorStore, TaskId, TaskStore};
use std::sync::Arc;

const SHARDS: u32 = 4;

async fn watching(store: &LocalStore) -> usize {
    let mut count = 0;
    for shard in store.shards().iter() {
        let ask = shard.ask(Lane::Read, |turn, reply| {
            let watching = turn.shard.waits.watching();
            turn.answer(reply, watching);
        });
        count += ask.await.unwrap();
    }
    count
}

async fn create(store: &LocalStore, new: Vec<New>) -> Vec<TaskId> {
    let tenant: Arc<str> = "acme".into();
    let made = store.create(new.into_iter().map(|new| new.build(&tenant)).collect()).await.unwrap();
    made.into_iter().map(|made| made.unwrap().task.id).collect()
}

async fn cancel(store: &LocalStore, ids: &[TaskId]) {
    let named = |id: &TaskId| Cancel::now(TaskRef { tenant: "acme".into(), id: *id });
    store.cancel(ids.iter().map(named).collect()).await.unwrap();
}

/// Whoever waited for a task was to be told until that task ended, though he had long been cancelled: a task that
/// lives for ever gathered them for ever.
#[tokio::test]
async fn who_waited_and_is_gone_is_to_be_told_nothing() {
    let options = LocalOptions { shards: SHARDS, durability: Durability::Os, ..LocalOptions::new("") };
    let store = assemble(options, Parts::in_memory(SHARDS)).unwrap();
    let first = create(&store, (0..8).map(|index| New::of(&format!("first-{index}"))).collect()).await;
    let held =
        |count: usize| (0..count).map(|index| New::of(&format!("held-{index}")).after(&first)).collect();
    let waiting = create(&store, held(20)).await;
    eventually("all are watched", || async { watching(&store).await == 160 }).await;
    cancel(&store, &waiting[..15]).await;
    eventually("those that are left are watched", || async { watching(&store).await == 40 }).await;
    // The others fail with the first.
    cancel(&store, &first[..1]).await;
    eventually("nobody is left to be told", || async { watching(&store).await == 0 }).await;
}
