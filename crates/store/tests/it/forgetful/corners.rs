//! Rare orders of events, each made to happen.

use super::{Ground, feed, is_of_tables};
use crate::candidates::local;
use codeq_queue::store::{Health, Import, Nack, Returned, Wait};
use codeq_queue::{Commands, State, Task, TaskId, limits};
use codeq_store::Rules;
use codeq_store::local::Durability;
use codeq_store::local::files::Files;
use codeq_store::testing::exam::bench::{Bench, eager_rules, eventually, plain_rules, within};
use codeq_store::testing::exam::request::New;
use codeq_store::testing::observed::Call;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_task_that_dies_and_is_removed_between_two_batches_stays_gone() {
    let mut ground = Ground::busy();
    let bench = ground.bench();
    let task = bench.create_and_take(New::of("render").max_attempts(1)).await;
    let bench = reopened(&mut ground, bench).await;
    let then = ground.copy();
    assert_eq!(bench.nack(&task, 0, "broken").await, Ok(Returned::Dead));
    bench.remove(task.id).await.unwrap();
    assert_eq!(bench.find(task.id).await, None);
    let again = stopped_at(&ground, &then).bench();
    assert_eq!(again.find(task.id).await, None, "what was removed has come back");
    assert_eq!(again.stats("render").await.ready_total(), 0);
}

#[tokio::test]
async fn cleaning_up_finds_records_from_before_a_change_of_the_retention() {
    let mut ground = Ground::busy();
    let bench = ground.bench();
    let task = bench.create_and_take(New::of("render").key("k")).await;
    bench.complete(&task).await;
    feed(&bench).await;
    bench.store().close().await.expect("the store closes");
    ground.rules = Rules { retention: Duration::from_secs(3600), ..ground.rules };
    let bench = ground.bench();
    assert_eq!(bench.get(task.id).await.state, State::Completed);
    let far = bench.now().plus(Duration::from_secs(1_000_000));
    assert_eq!(bench.cleanup(far, 10).await, 1);
    feed(&bench).await;
    let again = ground.copy().bench();
    assert_eq!(again.find(task.id).await, None, "what was cleaned up has come back");
    assert!(!again.make(New::of("render").key("k")).await.is_replay);
}

/// One batch of a thousand, the most that a stream may send, with the longest reasons. Segments are smaller
/// than usual, but large enough for the margins that the owner keeps to be the usual ones.
#[tokio::test]
async fn a_large_batch_of_nacks_fits_the_journal() {
    let mut ground = Ground::new(eager_rules(), 20 << 20);
    let bench = ground.bench();
    // If the owner dies of it, closing would wait for ever.
    std::mem::forget(bench.store());
    let new = || New::of("render").max_attempts(9).build(&bench.tenant);
    bench.ask("create", bench.store().create((0..1000).map(|_| new()).collect())).await;
    for round in 0..3 {
        let tasks = bench.claim_any(1000).await;
        assert_eq!(tasks.len(), 1000);
        let nack = |task| {
            let reason = Some("x".repeat(limits::ERROR_BYTES));
            Nack::new(bench.report(task), 0, reason)
        };
        let answers = within("nack", bench.store().nack(tasks.iter().map(nack).collect())).await;
        assert!(answers.is_ok(), "round {round}: {:?}", answers.err());
    }
}

/// Closes and opens the store: then memory has no bodies.
pub async fn reopened(ground: &mut Ground, bench: Bench) -> Bench {
    bench.store().close().await.expect("the store closes");
    drop(bench);
    ground.bench()
}

/// The catalog is on the disk, and the directory's sync says otherwise.
#[tokio::test]
async fn a_batch_that_failed_after_it_was_written_is_not_in_the_way_of_others() {
    let mut ground = Ground::busy();
    let bench = ground.bench();
    let task = bench.create("render").await;
    let bench = reopened(&mut ground, bench).await;
    let (is_renamed, fails) = (AtomicBool::new(false), AtomicBool::new(true));
    ground.files.set_veto(Some(Arc::new(move |call| match call {
        Call::Rename { .. } => {
            is_renamed.store(true, Ordering::Relaxed);
            false
        }
        Call::SyncDir => is_renamed.load(Ordering::Relaxed) && fails.swap(false, Ordering::Relaxed),
        _ => false,
    })));
    bench.cancel(task.id).await.unwrap();
    eventually("the failure is noticed", || async { bench.store().health() != Health::Ready }).await;
    eventually("the store is ready again", || async { bench.store().health() == Health::Ready }).await;
    let bench = reopened(&mut ground, bench).await;
    assert_eq!(bench.get(task.id).await.state, State::Cancelled);
}

/// Of a task whose body only the tables have, memory knows a part when it dies.
#[tokio::test]
async fn a_task_that_has_just_died_is_requeued_whole() {
    let mut ground = Ground::busy();
    let bench = ground.bench();
    let task = bench.create_and_take(New::of("render").max_attempts(1)).await;
    let bench = reopened(&mut ground, bench).await;
    assert_eq!(bench.nack(&task, 0, "broken").await, Ok(Returned::Dead));
    let requeued = bench.requeue(task.id, None).await.unwrap();
    assert_eq!((requeued.id, &requeued.body), (task.id, &task.body));
    assert_eq!(bench.take("render").await.id, task.id);
}

/// A store that stopped before its tables had heard of anything since `then` was copied: its journal is of now, its
/// tables are of then.
pub fn stopped_at(now: &Ground, then: &Ground) -> Ground {
    let stopped = now.without_tables();
    for name in then.disk.list().unwrap().into_iter().filter(|name| is_of_tables(name)) {
        let from = then.disk.open(&name).unwrap();
        let mut bytes = vec![0; usize::try_from(from.len().unwrap()).unwrap()];
        assert_eq!(from.read_at(&mut bytes, 0).unwrap(), bytes.len());
        let to = stopped.disk.create(&name).unwrap();
        to.write_at(&bytes, 0).unwrap();
        to.sync_data().unwrap();
    }
    stopped.disk.sync_dir().unwrap();
    stopped
}

async fn import(bench: &Bench, task: &Task) {
    let import = Import { task: task.clone(), record: None };
    assert_eq!(bench.ask("import", bench.store().import(vec![import])).await, [Ok(true)]);
}

#[tokio::test]
async fn a_task_that_was_removed_imported_again_and_ended_since_the_last_batch_stays_ended() {
    let mut ground = Ground::busy();
    let bench = ground.bench();
    let task = bench.create_and_take(New::of("render").max_attempts(1)).await;
    let bench = reopened(&mut ground, bench).await;
    let then = ground.copy();
    assert_eq!(bench.nack(&task, 0, "broken").await, Ok(Returned::Dead));
    bench.remove(task.id).await.unwrap();
    import(&bench, &task).await;
    bench.cancel(task.id).await.unwrap();
    let mut ground = stopped_at(&ground, &then);
    let bench = ground.bench();
    feed(&bench).await;
    let bench = reopened(&mut ground, bench).await;
    assert_eq!(bench.get(task.id).await.state, State::Cancelled);
    assert_eq!(bench.claim_any(9).await, []);
}

/// Numbers of imported tasks are higher than those of all others, and rows are written in their order.
#[tokio::test]
async fn a_key_that_an_imported_task_gave_back_stays_with_its_next_task() {
    let mut ground = Ground::busy();
    let bench = ground.bench();
    let model = bench.make(New::of("render").max_attempts(1).key("k")).await.task;
    assert_eq!(bench.nack(&bench.take("render").await, 0, "broken").await, Ok(Returned::Dead));
    bench.remove(model.id).await.unwrap();
    let imported = Task { id: TaskId::from_bits(u128::MAX / 7), ..model };
    import(&bench, &imported).await;
    assert_eq!(bench.nack(&bench.take("render").await, 0, "broken").await, Ok(Returned::Dead));
    let bench = reopened(&mut ground, bench).await;
    let then = ground.copy();
    bench.remove(imported.id).await.unwrap();
    let next = bench.make(New::of("render").max_attempts(1).key("k")).await;
    assert!(!next.is_replay);
    assert_eq!(bench.nack(&bench.take("render").await, 0, "broken").await, Ok(Returned::Dead));
    let mut ground = stopped_at(&ground, &then);
    let bench = ground.bench();
    feed(&bench).await;
    let bench = reopened(&mut ground, bench).await;
    let again = bench.make(New::of("render").key("k")).await;
    assert_eq!((again.is_replay, again.task.id), (true, next.task.id));
}

/// Every flush made work for the next one: while others wrote, cleaning took as long as luck would have it, and so
/// did everything that waits for the tables.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cleaning_up_dead_letters_ends_while_others_write() {
    let rules = Rules { dead_retention: Some(Duration::from_secs(60)), ..plain_rules() };
    // On a real disk, where a flush takes its time.
    let bench = Bench::with(&local(1, Durability::Fsync), rules);
    let is_over = Arc::new(AtomicBool::new(false));
    let write = |_| {
        let (bench, is_over) = (bench.tenant("busy"), is_over.clone());
        tokio::spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                bench.create("other").await;
            }
        })
    };
    let writers: Vec<_> = (0..32).map(write).collect();
    let (mut plain, mut cleaning) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..20 {
        let begun = Instant::now();
        feed(&bench).await;
        plain += begun.elapsed();
        let dead = bench.dead("render").await;
        bench.advance(61);
        let begun = Instant::now();
        feed(&bench).await;
        cleaning += begun.elapsed();
        eventually("the dead letter is gone", || async { bench.find(dead.id).await.is_none() }).await;
    }
    is_over.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    // A cleanup that chased its own flushes took a second each time, however fast others were.
    assert!(cleaning < plain * 10 + Duration::from_secs(10), "{cleaning:?} with cleanups, {plain:?} without");
}

/// Whoever looks into the tables before it acts looks again when something has left memory meanwhile, and here that
/// happens all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_batches_with_keys_and_large_cleanups_end_while_the_tree_takes_in() {
    let mut ground = Ground::new(plain_rules(), 20 << 20);
    let bench = ground.bench();
    let is_over = Arc::new(AtomicBool::new(false));
    let feeder = {
        let (bench, is_over) = (bench.tenant("busy"), is_over.clone());
        tokio::spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                bench.create("other").await;
                feed(&bench).await;
            }
        })
    };
    let new = |n: u32| New::of("render").key(&format!("k{n}")).build(&bench.tenant);
    let batch = || (0..1000).map(new).collect::<Vec<_>>();
    for is_replay in [false, true] {
        let made = within("create", bench.store().create(batch())).await.unwrap();
        assert!(made.into_iter().all(|created| created.unwrap().is_replay == is_replay));
    }
    for task in bench.claim_any(1000).await {
        bench.complete(&task).await;
    }
    let far = bench.now().plus(Duration::from_secs(1_000_000));
    assert_eq!(within("cleanup", bench.cleanup(far, 10_000)).await, 1000);
    let made = within("create", bench.store().create(batch())).await.unwrap();
    assert!(made.into_iter().all(|created| !created.unwrap().is_replay));
    is_over.store(true, Ordering::Relaxed);
    feeder.await.unwrap();
}

/// The queues of a claim that begins to wait are made one after the other, and the last may be one too many.
#[tokio::test]
async fn a_waiting_claim_hears_of_all_its_queues() {
    for queues in [9_998, 9_999, 10_000] {
        let mut ground = Ground::busy();
        let bench = ground.bench();
        let many = (0..queues).map(|n| format!("{queues}-{n}").into()).collect();
        let held = bench.hold(Commands::These(many), Wait::Forever).await;
        held.abort();
        let _ = held.await;
        bench.settle().await;
        let names = [format!("first-{queues}"), format!("second-{queues}")];
        let commands = Commands::These(names.iter().map(|name| name.as_str().into()).collect());
        let held = bench.hold(commands, Wait::Forever).await;
        let task = bench.create(&names[0]).await;
        assert_eq!(within("the held claim", held).await.unwrap()[0].id, task.id, "{queues}");
    }
}
