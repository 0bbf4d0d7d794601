//! Tasks that wait for others, and batches.

use super::{complete, create};
use crate::testing::exam::bench::{Bench, eventually};
use crate::testing::exam::request::New;
use codeq_queue::batch::{BatchState, NewBatch};
use codeq_queue::{Outcome, State, Task, TaskId};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// Waits until something can be claimed.
async fn work(bench: &Bench, most: usize) -> Vec<Task> {
    for _ in 0..10_000 {
        let tasks = bench.claim_any(most).await;
        if !tasks.is_empty() {
            return tasks;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("nothing can be claimed any more");
}

/// A chain of so many tasks runs in order up to the one that fails, and everything behind that one fails with it.
pub async fn chain(bench: &Bench, length: usize, fails: usize) {
    let mut ids: Vec<TaskId> = Vec::with_capacity(length);
    for index in 0..length {
        let after: Vec<TaskId> = ids.last().copied().into_iter().collect();
        let new = New::of(&format!("link{}", index % 7)).after(&after);
        ids.push(bench.make(new).await.task.id);
    }
    for (index, id) in ids.iter().take(fails + 1).enumerate() {
        let tasks = work(bench, 2).await;
        assert_eq!(tasks.iter().map(|task| task.id).collect::<Vec<_>>(), [*id], "link {index}");
        let outcome = if index == fails { Outcome::failed("broken") } else { Outcome::completed("{}") };
        bench.submit(&tasks[0], outcome).await.expect("the owner may end its task");
    }
    let Some(last) = ids.last().filter(|_| fails < length) else { return };
    // A failure goes down the chain link by link; the rest of a long one takes its time.
    for _ in 0..length {
        if bench.get(*last).await.state == State::Failed {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for (index, id) in ids.iter().enumerate() {
        let state = bench.get(*id).await.state;
        let expected = if index < fails { State::Completed } else { State::Failed };
        assert_eq!(state, expected, "link {index}");
    }
}

/// Layers of tasks, each of which waits for all of the layer before: none starts before all of those have ended.
pub async fn diamond(bench: &Bench, layers: usize, width: usize) {
    let mut after: HashMap<TaskId, Vec<TaskId>> = HashMap::new();
    let mut before: Vec<TaskId> = Vec::new();
    for _ in 0..layers {
        let new = (0..width).map(|index| New::of(&format!("side{}", index % 5)).after(&before));
        let layer: Vec<TaskId> = create(bench, new).await.iter().map(|task| task.id).collect();
        after.extend(layer.iter().map(|id| (*id, before.clone())));
        before = layer;
    }
    let mut done: HashSet<TaskId> = HashSet::new();
    while done.len() < layers * width {
        let tasks = work(bench, 100).await;
        for task in &tasks {
            let is_early = after[&task.id].iter().any(|id| !done.contains(id));
            assert!(
                !is_early && !done.contains(&task.id),
                "{} starts after all that it waits for, once",
                task.id
            );
        }
        complete(bench, &tasks).await;
        done.extend(tasks.iter().map(|task| task.id));
    }
}

/// A batch whose members are on all shards, with the store stopped and opened again so many times in between: what
/// comes after it runs once, and the counts are those of the members.
pub async fn batch(bench: &Bench, members: usize, stops: usize) {
    let store = bench.store();
    let batches = store.batching().expect("the store keeps batches");
    let new = NewBatch { tenant: bench.tenant.clone(), name: None, close_after: Duration::from_secs(86_400) };
    let id = bench.ask("create batch", batches.create_batch(new)).await.expect("a batch is made").id;
    drop(store);
    let then = create(bench, std::iter::once(New::of("then").after(&[id]))).await[0].id;
    create(bench, (0..members).map(|index| New::of(&format!("part{}", index % 16)).batch(id))).await;
    let store = bench.store();
    let batches = store.batching().expect("the store keeps batches");
    bench.ask("close", batches.close_batch(bench.tenant.clone(), id)).await.expect("it is open");
    drop(store);
    let (mut done, mut stopped) = (0, 0);
    while done < members {
        let tasks = bench.claim_any(500).await;
        complete(bench, &tasks).await;
        done += tasks.len();
        if stopped < stops && done * (stops + 1) >= members * (stopped + 1) {
            stopped += 1;
            if !bench.candidate.crash() && bench.candidate.keeps_on_reopen() {
                bench.candidate.reopen();
            }
        }
    }
    eventually("what comes after the batch", || async {
        matches!(bench.get(then).await.state, State::Ready { .. })
    })
    .await;
    let after: Vec<TaskId> = bench.claim_any(10).await.iter().map(|task| task.id).collect();
    assert_eq!(after, [then], "it runs once, and nothing is left over");
    let store = bench.store();
    let batches = store.batching().expect("the store keeps batches");
    let ended = bench.ask("batch", batches.batch(bench.tenant.clone(), id)).await.expect("it is kept");
    let counts = ended.counts();
    assert_eq!(ended.state(), BatchState::Completed);
    assert_eq!((counts.live, counts.completed, counts.failed), (0, members as u64, 0));
}
