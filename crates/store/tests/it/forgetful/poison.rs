//! A failed sync: nothing more is acknowledged until the store is opened anew.

use super::Ground;
use codeq_queue::store::{Health, Wait};
use codeq_queue::{Commands, Failure};
use codeq_store::testing::exam::bench::{Bench, within};
use codeq_store::testing::exam::request::New;
use std::time::Duration;

async fn assert_refuses_everything(bench: &Bench, known: codeq_queue::TaskId) {
    let is_unavailable = |failure| matches!(failure, Failure::Unavailable { .. });
    let store = bench.store();
    let created = within("create", store.create(vec![New::of("render").build(&bench.tenant)])).await;
    assert!(created.is_err_and(is_unavailable));
    let wish = bench.wish(Commands::Any, 1, Wait::No);
    assert!(within("claim", store.claim(wish)).await.is_err_and(is_unavailable));
    assert!(within("get", store.get(vec![bench.named(known)])).await.is_err_and(is_unavailable));
    assert!(within("queues", store.queues(None)).await.is_err_and(is_unavailable));
    assert!(matches!(store.health(), Health::Poisoned(_)), "{:?}", store.health());
}

#[tokio::test]
async fn after_a_failed_sync_nothing_is_answered_until_the_store_is_reopened() {
    let mut ground = Ground::small();
    let bench = ground.bench();
    let kept = bench.create("kept").await;
    ground.files.fail_syncs(true);
    let lost = bench.store().create(vec![New::of("lost").build(&bench.tenant)]).await;
    assert!(matches!(lost, Err(Failure::Unavailable { outcome_unknown: true, .. })), "{lost:?}");
    assert_refuses_everything(&bench, kept.id).await;
    // A disk that works again proves nothing about what it lost.
    ground.files.fail_syncs(false);
    assert_refuses_everything(&bench, kept.id).await;
    bench.store().close().await.expect("a poisoned store closes");
    for seed in 0..20 {
        let mut copy = ground.copy();
        copy.disk.crash(seed);
        let bench = copy.bench();
        assert_eq!(bench.store().health(), Health::Ready);
        assert_eq!(bench.get(kept.id).await, kept);
        assert!(bench.stats("lost").await.ready_total() <= 1);
        bench.create("goes-on").await;
    }
}

#[tokio::test]
async fn a_claim_that_waits_is_not_left_waiting_by_a_failed_sync() {
    let mut ground = Ground::small();
    let bench = ground.bench();
    let until = bench.now().plus(Duration::from_secs(5));
    let wish = bench.wish(Commands::these(["render"]), 1, Wait::Until(until));
    let held = tokio::spawn(bench.store().claim(wish));
    bench.settle().await;
    ground.files.fail_syncs(true);
    bench.store().create(vec![New::of("other").build(&bench.tenant)]).await.expect_err("the sync fails");
    bench.advance(10);
    let answer = tokio::time::timeout(Duration::from_secs(2), held).await;
    assert!(answer.is_ok(), "its time is over and it still waits");
}
