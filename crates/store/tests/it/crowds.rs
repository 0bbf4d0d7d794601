//! A tenant with very many queues: claims of any command find the best task without looking through all of them.

use crate::candidates::memory;
use codeq_queue::{Task, TaskId};
use codeq_store::testing::exam::bench::{Bench, eager_rules};
use codeq_store::testing::exam::request::New;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};

/// Every queue has one task, so the order of all heads is the order of all tasks.
#[derive(Default)]
struct Expected {
    ready: BTreeSet<(u8, i64, usize)>,
    paused: BTreeSet<usize>,
    ids: BTreeMap<TaskId, usize>,
    ranks: Vec<(u8, i64, usize)>,
}

impl Expected {
    fn best(&self) -> Option<usize> {
        self.ready.iter().map(|(.., queue)| *queue).find(|queue| !self.paused.contains(queue))
    }
}

async fn fill(bench: &Bench, rng: &mut SmallRng, expected: &mut Expected, queues: usize) {
    for _ in 0..queues {
        let (queue, priority) = (expected.ranks.len(), rng.random_range(0..10));
        let new = New::of(&format!("command-{queue}")).priority(priority).max_attempts(1000);
        let task = bench.make(new).await.task;
        let rank = (u8::MAX - task.priority, task.created_at.millis(), queue);
        expected.ready.insert(rank);
        expected.ranks.push(rank);
        expected.ids.insert(task.id, queue);
        bench.advance_ms(1);
    }
}

async fn take_best(bench: &Bench, expected: &mut Expected) -> Option<Task> {
    let task = bench.claim_any(1).await.pop();
    let taken = task.as_ref().map(|task| expected.ids[&task.id]);
    assert_eq!(taken, expected.best(), "of {} ready queues", expected.ready.len());
    if let Some(queue) = taken {
        expected.ready.remove(&expected.ranks[queue]);
    }
    task
}

#[tokio::test]
async fn of_very_many_queues_the_best_head_is_claimed() {
    for seed in 0..6 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let bench = Bench::with(&memory(1), eager_rules());
        let (mut expected, mut held): (Expected, Vec<Task>) = (Expected::default(), Vec::new());
        // More and fewer than the number from which on heads are kept in order, several times.
        for _ in 0..6 {
            fill(&bench, &mut rng, &mut expected, 60).await;
            for _ in 0..rng.random_range(20..140) {
                match rng.random_range(0..10) {
                    0..=5 => held.extend(take_best(&bench, &mut expected).await),
                    6 | 7 if !held.is_empty() => {
                        let task = held.swap_remove(rng.random_range(0..held.len()));
                        bench.abandon(&task).await.expect("it is held");
                        let queue = expected.ids[&task.id];
                        expected.ready.insert(expected.ranks[queue]);
                    }
                    8 => {
                        let queue = rng.random_range(0..expected.ranks.len());
                        bench.pause(&format!("command-{queue}")).await;
                        expected.paused.insert(queue);
                    }
                    _ => {
                        if let Some(queue) = expected.paused.pop_first() {
                            bench.resume(&format!("command-{queue}")).await;
                        }
                    }
                }
            }
        }
        while take_best(&bench, &mut expected).await.is_some() {}
    }
}
