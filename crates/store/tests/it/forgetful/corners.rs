//! Rare orders of events, each made to happen.

use super::{Ground, feed};
use codeq_queue::store::{Nack, Returned};
use codeq_queue::{State, limits};
use codeq_store::Rules;
use codeq_store::testing::exam::bench::{eager_rules, within};
use codeq_store::testing::exam::request::New;
use codeq_store::testing::lossy::Step;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Stops the tree's next commit at its beginning: tells when it is there, and goes on when told.
fn stop_commits(ground: &Ground) -> (Receiver<()>, Sender<()>) {
    let (arrive, arrived) = channel();
    let (go, gone) = channel();
    let gate = Mutex::new((arrive, gone));
    ground.tree.set_hook(Some(Arc::new(move |step| {
        let gate = gate.lock().unwrap();
        if step == Step::Begun && gate.0.send(()).is_ok() {
            let _ = gate.1.recv();
        }
        true
    })));
    (arrived, go)
}

/// Waits off the runtime's thread, which the store's answers need.
async fn arrival(arrived: Receiver<()>) {
    let waiting = tokio::task::spawn_blocking(move || arrived.recv_timeout(Duration::from_secs(20)));
    waiting.await.unwrap().expect("a commit begins");
}

#[tokio::test]
async fn a_task_that_dies_and_is_removed_between_two_batches_stays_gone() {
    let mut ground = Ground::busy();
    let bench = ground.bench();
    let task = bench.create_and_take(New::of("render").max_attempts(1)).await;
    feed(&bench).await;
    bench.create("other").await;
    let (arrived, go) = stop_commits(&ground);
    // It lets the tree take everything in first, and does not yet know of the death.
    let removing = tokio::spawn(bench.store().remove(vec![bench.named(task.id)]));
    arrival(arrived).await;
    assert_eq!(bench.nack(&task, 0, "broken").await, Ok(Returned::Dead));
    ground.tree.set_hook(None);
    drop(go);
    assert_eq!(within("remove", removing).await.unwrap(), Ok(vec![Ok(())]));
    assert_eq!(bench.find(task.id).await, None);
    feed(&bench).await;
    let again = ground.copy().bench();
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
            Nack { report: bench.report(task), delay_seconds: 0, reason }
        };
        let answers = within("nack", bench.store().nack(tasks.iter().map(nack).collect())).await;
        assert!(answers.is_ok(), "round {round}: {:?}", answers.err());
    }
}
