//! However much is asked for at once, no group outgrows a journal segment, and memory is bounded.

use super::{Ground, feed, is_of_tables};
use codeq_queue::store::{Health, Submit, Wait};
use codeq_queue::{Commands, Outcome, Refusal, limits};
use codeq_store::local::Limits;
use codeq_store::testing::batches::Caller;
use codeq_store::testing::exam::bench::{Bench, eager_rules, eventually, plain_rules, within};
use codeq_store::testing::exam::request::New;
use codeq_store::testing::observed::{Call, When};
use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

fn assert_well(bench: &Bench) {
    assert_eq!(bench.store().health(), Health::Ready);
}

/// Sizes used to be estimated before anything was written, and the estimate of a result left the address of
/// its callback out. One batch of twenty was larger than a segment, and the store stopped for everyone.
#[tokio::test]
async fn results_with_callbacks_larger_than_a_segment_together_are_taken() {
    let mut ground = Ground::new(plain_rules(), 2 << 20);
    let bench = ground.bench();
    let url = format!("http://h/{}", "x".repeat(300_000));
    let new = || New::of("render").webhook(&url).build(&bench.tenant);
    bench.ask("create", bench.store().create((0..20).map(|_| new()).collect())).await;
    let tasks = bench.claim_any(20).await;
    let submit = |task| Submit { report: bench.report(task), outcome: Outcome::completed("{}") };
    let answers = bench.ask("submit", bench.store().submit(tasks.iter().map(submit).collect())).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 20);
    assert_well(&bench);
}

/// The segments of a new store are small; for a large task one is made that holds it.
#[tokio::test]
async fn tasks_and_results_larger_than_a_usual_segment_are_taken_and_kept() {
    let mut ground = Ground::small();
    let bench = ground.bench();
    let text = |fill: &str, bytes: usize| format!("\"{}\"", fill.repeat(bytes));
    bench.create("small").await;
    let task = bench.create_and_take(New::of("large").payload(&text("p", 50_000))).await;
    let result = text("r", 60_000);
    bench.submit(&task, Outcome::completed(&result)).await.expect("it is taken");
    let waiting = bench.make(New::of("large").payload(&text("w", 40_000))).await.task;
    assert_well(&bench);
    let mut ground = ground.copy();
    ground.disk.crash_keep_none();
    let again = ground.bench();
    assert_eq!(again.record(task.id).await.result.as_deref(), Some(&*result));
    assert_eq!(again.get(waiting.id).await, waiting);
    assert_eq!(again.stats("small").await.ready_total(), 1);
}

/// Nothing had been decided on it yet, so that the store goes on.
#[tokio::test]
async fn a_task_for_which_no_segment_can_be_made_is_refused_and_others_are_not() {
    let mut ground = Ground::small();
    let store = ground.open().expect("the store opens");
    let bench = ground.at(store.clone());
    eventually("spares are ready", || async { store.disk_bytes() >= 3 * ground.segment_bytes }).await;
    let is_segment = |call: &Call| matches!(call, Call::Create { name } if name.ends_with(".seg"));
    ground.files.set_veto(Some(Arc::new(is_segment)));
    let large = || New::of("large").payload(&format!("\"{}\"", "p".repeat(50_000))).build(&bench.tenant);
    let refused = bench.ask("create", bench.store().create(vec![large()])).await;
    assert!(matches!(&*refused, [Err(Refusal::PayloadTooLarge)]), "{refused:?}");
    bench.create("small").await;
    ground.files.set_veto(None);
    eventually("a large task is taken", || async {
        let made = bench.ask("create", bench.store().create(vec![large()])).await;
        made[0].is_ok()
    })
    .await;
    assert_well(&bench);
    assert_eq!(ground.copy().bench().stats("large").await.ready_total(), 1);
}

/// All removals of a cleanup were one group.
#[tokio::test]
async fn one_cleanup_of_very_much_is_written_in_many_groups() {
    let mut ground = Ground::busy();
    let bench = ground.bench();
    let key = "k".repeat(limits::IDEMPOTENCY_KEY_BYTES - 4);
    for batch in 0..10 {
        let new =
            |n: usize| New::of("render").key(&format!("{:04}{key}", batch * 100 + n)).build(&bench.tenant);
        bench.ask("create", bench.store().create((0..100).map(new).collect())).await;
        let tasks = bench.claim_any(100).await;
        let submit = |task| Submit { report: bench.report(task), outcome: Outcome::completed("{}") };
        bench.ask("submit", bench.store().submit(tasks.iter().map(submit).collect())).await;
    }
    assert_eq!(bench.cleanup(codeq_queue::Time::MAX, 1_000_000).await, 1000);
    assert_well(&bench);
}

/// Resuming a queue served everyone who waited for it in one group.
#[tokio::test]
async fn resuming_a_queue_that_very_many_wait_for_serves_them_all() {
    let mut ground = Ground::busy();
    let bench = ground.bench().worker(&"s".repeat(255), &"w".repeat(255));
    bench.pause("render").await;
    let new = || New::of("render").build(&bench.tenant);
    bench.ask("create", bench.store().create((0..400).map(|_| new()).collect())).await;
    let wish = bench.wish(Commands::these(["render"]), 1, Wait::Forever);
    let held: Vec<_> = (0..400).map(|_| tokio::spawn(bench.store().claim(wish.clone()))).collect();
    bench.settle().await;
    bench.resume("render").await;
    for claim in held {
        assert_eq!(within("held claim", claim).await.unwrap().map(|tasks| tasks.len()), Ok(1));
    }
    assert_well(&bench);
}

/// Every verb at the bounds of the rules, in random orders, on segments that a single batch overflows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_batch_of_any_verb_stops_the_store() {
    for seed in 0..12 {
        let mut ground = Ground::new(eager_rules(), 192 << 10);
        let bench = ground.bench();
        let mut bytes = vec![0; 300];
        SmallRng::seed_from_u64(seed).fill_bytes(&mut bytes);
        let caller = Caller::new(bench.store(), ground.clock.clone(), &bytes);
        let outcome = within("a caller", caller.run()).await;
        assert_eq!(outcome, Ok(()), "seed {seed}");
        assert_eq!(bench.store().health(), Health::Ready, "seed {seed}");
        bench.create("goes-on").await;
        bench.store().close().await.expect("the store closes");
        ground.bench().take("goes-on").await;
    }
}

/// While it is closed, writes of tables wait.
#[derive(Default)]
struct Gate(Mutex<bool>, Condvar);

impl Gate {
    fn set(&self, is_closed: bool) {
        *self.0.lock().unwrap() = is_closed;
        self.1.notify_all();
    }

    fn pass(&self) {
        drop(self.1.wait_while(self.0.lock().unwrap(), |is_closed| *is_closed).unwrap());
    }
}

/// Only creates waited for the tables. Results came into memory as fast as they were sent while those stood still.
#[tokio::test]
async fn results_wait_for_the_tables_when_memory_is_used_up() {
    let mut ground = Ground::new(plain_rules(), 8 << 20);
    ground.limits = Limits { unsettled_bytes: 1 << 20, ..Limits::default() };
    let gate = Arc::new(Gate::default());
    let store = ground.open().expect("the store opens");
    let bench = ground.at(store.clone());
    let new = || New::of("render").build(&bench.tenant);
    bench.ask("create", bench.store().create((0..64).map(|_| new()).collect())).await;
    let tasks = bench.claim_any(64).await;
    feed(&bench).await;
    gate.set(true);
    let closed = gate.clone();
    ground.files.set_watch(Some(Arc::new(move |call, when| {
        if when == When::Before && matches!(call, Call::Create { name } if is_of_tables(name)) {
            closed.pass();
        }
    })));
    let result = format!("\"{}\"", "r".repeat(100_000));
    let submit = |task| Submit { report: bench.report(task), outcome: Outcome::completed(&result) };
    let sent: Vec<_> =
        tasks.iter().map(|task| tokio::spawn(bench.store().submit(vec![submit(task)]))).collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    // What was on its way when the room was used up is still taken in.
    let held = store.unsettled_bytes();
    let done = sent.iter().filter(|sent| sent.is_finished()).count();
    gate.set(false);
    for sent in sent {
        assert!(matches!(within("a result", sent).await.unwrap().as_deref(), Ok([Ok(_)])));
    }
    assert!((1..64).contains(&done), "{done} results were taken");
    assert!(held < 4 << 20, "{held} bytes wait for the tables");
    eventually("memory is free again", || async { store.unsettled_bytes() < 1 << 20 }).await;
}

/// The store's own time does not go back with the clock, and waits were compared with it: until the clock had
/// caught up, every long poll was answered at once, and clients asked again in a busy loop.
#[tokio::test]
async fn a_claim_waits_although_the_clock_was_set_back() {
    let mut ground = Ground::small();
    let bench = ground.bench();
    bench.create("earlier").await;
    bench.set(codeq_queue::Time::from_millis(bench.now().millis() - 3_600_000));
    let until = Wait::Until(bench.now().plus(Duration::from_secs(30)));
    let (served, empty) = (
        bench.hold(Commands::these(["render"]), until).await,
        bench.hold(Commands::these(["nothing"]), until).await,
    );
    bench.advance(29);
    bench.settle().await;
    assert!(!served.is_finished() && !empty.is_finished());
    let task = bench.create("render").await;
    assert_eq!(within("a held claim", served).await.unwrap()[0].id, task.id);
    bench.advance(2);
    assert!(within("the other one", empty).await.unwrap().is_empty());
}
