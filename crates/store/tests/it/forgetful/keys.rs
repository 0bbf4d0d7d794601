//! A key leads to its own task, whatever was configured or lost in between.

use super::{Ground, feed};
use codeq_queue::{OnConflict, UniqueUntil};
use codeq_store::Rules;
use codeq_store::local::Durability;
use codeq_store::testing::campaign::sized;
use codeq_store::testing::exam::bench::Bench;
use codeq_store::testing::exam::request::New;
use std::time::Duration;

/// The search for a key ended at the first record that had it, also at one whose time was over and that lay in a bucket
/// that was not: after the retention had been lowered, one key had two tasks.
#[tokio::test]
async fn a_key_stays_with_its_task_though_the_retention_was_lowered() {
    let mut ground = Ground::busy();
    ground.rules = Rules { retention: Duration::from_secs(1_000_000), ..ground.rules };
    let bench = ground.bench();
    let first = bench.create_and_take(New::of("render").key("k")).await;
    bench.complete(&first).await;
    feed(&bench).await;
    bench.advance(1_000_001);
    bench.store().close().await.expect("the store closes");
    ground.rules = Rules { retention: Duration::from_secs(3600), ..ground.rules };
    let bench = ground.bench();
    let second = bench.make(New::of("render").key("k")).await;
    assert!(!second.is_replay, "the time of the first is over");
    let taken = bench.take("render").await;
    bench.complete(&taken).await;
    feed(&bench).await;
    for _ in 0..2 {
        let again = ground.copy().bench().make(New::of("render").key("k")).await;
        assert!(again.is_replay, "one key, two tasks");
        assert_eq!(again.task.id, second.task.id);
        bench.advance(1000);
    }
}

/// With `durability: os` a loss of power may take the newest answers. Numbers are given out again then, and rows of the
/// time before must not lead anybody to them.
#[tokio::test]
async fn after_a_loss_of_power_no_key_leads_to_the_task_of_another() {
    for seed in 0..sized(12, 60) {
        let mut ground = Ground::busy();
        ground.durability = Durability::Os;
        let mut bench = ground.bench();
        for life in 0..3 {
            for tenant in TENANTS {
                finish_some(&bench.tenant(tenant), life).await;
            }
            if seed % 2 == 0 {
                feed(&bench).await;
            }
            // On a copy: the store that is cut off goes on where it is.
            ground = ground.copy();
            ground.disk.crash(seed * 10 + life);
            bench = ground.bench();
            for (tenant, life) in
                TENANTS.iter().flat_map(|tenant| (0..=life).map(move |life| (*tenant, life)))
            {
                for number in 0..KEYS {
                    let key = format!("k{number}");
                    let made = bench.tenant(tenant).make(New::of(&format!("life-{life}")).key(&key)).await;
                    let found = (&*made.task.body.tenant, made.task.body.idempotency_key.as_deref());
                    assert_eq!(found, (tenant, Some(key.as_str())), "seed {seed}, life {life}");
                }
            }
        }
    }
}

const TENANTS: [&str; 2] = ["acme", "globex"];
const KEYS: usize = 6;

/// Finishes tasks with keys, in a queue of their own.
async fn finish_some(bench: &Bench, life: u64) {
    for number in 0..KEYS {
        let new = New::of(&format!("life-{life}")).key(&format!("k{number}"));
        let task = bench.create_and_take(new).await;
        bench.complete(&task).await;
    }
}

const HOUR: Duration = Duration::from_secs(3600);

/// The row of a key that was taken for some time stayed when another kind of task took the key over, and after the next
/// opening the key was its first task's again.
#[tokio::test]
async fn a_unique_key_that_was_taken_over_stays_with_its_task() {
    for is_closed in [true, false] {
        let mut ground = Ground::busy();
        let bench = ground.bench();
        let first = bench.make(New::of("render").unique("k", UniqueUntil::For(HOUR), OnConflict::Keep)).await;
        bench.complete(&bench.take("render").await).await;
        feed(&bench).await;
        let wish = |on_conflict| New::of("render").unique("k", UniqueUntil::Ended, on_conflict);
        let second = bench.make(wish(OnConflict::Cancel)).await;
        assert!(!second.is_duplicate && second.task.id != first.task.id);
        feed(&bench).await;
        if is_closed {
            bench.store().close().await.expect("the store closes");
        }
        let bench = ground.copy().bench();
        let third = bench.make(wish(OnConflict::Keep)).await;
        assert_eq!((third.is_duplicate, third.task.id), (true, second.task.id), "closed: {is_closed}");
        bench.complete(&bench.take("render").await).await;
        assert!(!bench.make(wish(OnConflict::Keep)).await.is_duplicate, "it ended with its task");
    }
}

/// Whoever asked for the key was told for the rest of its time that its task is being removed.
#[tokio::test]
async fn a_unique_key_goes_with_the_record_of_its_task() {
    let mut ground = Ground::busy();
    let bench = ground.bench();
    let wish = || New::of("render").max_attempts(1).unique("k", UniqueUntil::For(HOUR), OnConflict::Keep);
    bench.make(wish()).await;
    let task = bench.take("render").await;
    bench.nack(&task, 0, "broken").await.expect("the owner may nack");
    assert!(bench.make(wish()).await.is_duplicate, "a dead letter has it");
    bench.remove(task.id).await.expect("a dead letter can be removed");
    bench.store().close().await.expect("the store closes");
    let mut ground = ground.copy();
    let bench = ground.bench();
    let next = bench.make(wish()).await;
    assert!(!next.is_duplicate);
    bench.store().close().await.expect("the store closes");
    let again = ground.copy().bench().make(wish()).await;
    assert_eq!((again.is_duplicate, again.task.id), (true, next.task.id));
}
