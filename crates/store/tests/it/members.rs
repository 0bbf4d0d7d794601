//! Members of batches that are given another life at the very moment when their batch ends.

use crate::candidates::{local, memory};
use codeq_queue::Outcome;
use codeq_store::local::Durability;
use codeq_store::testing::exam::bench::{Bench, eager_rules, eventually};
use codeq_store::testing::exam::grouping::{close, find, join, make};

/// It counts as live again, or it belongs to the batch no more: its home may have ended the batch before it heard.
async fn counts_or_leaves(bench: Bench) {
    for round in 0..100 {
        let id = make(&bench).await;
        let member = join(&bench, id, round).await.unwrap();
        close(&bench, id).await.unwrap();
        let task = bench.claim_any(1).await.remove(0);
        let requeued = async {
            while bench.requeue(member, None).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        let (failed, ()) = tokio::join!(bench.submit(&task, Outcome::failed("broken")), requeued);
        failed.expect("the owner may fail its task");
        eventually("the member counts, or has left", || async {
            let (batch, task) = (find(&bench, id).await.unwrap(), bench.get(member).await);
            match task.body.batch() {
                Some(_) => batch.counts().live == 1,
                None => batch.state().has_ended(),
            }
        })
        .await;
        let again = bench.claim_any(1).await.remove(0);
        bench.complete(&again).await;
        eventually("the batch ends", || async { find(&bench, id).await.unwrap().state().has_ended() }).await;
        let counts = find(&bench, id).await.unwrap().counts();
        let is_member = bench.get(member).await.body.batch().is_some();
        let expected = if is_member { (0, 1, 0) } else { (0, 0, 1) };
        assert_eq!((counts.live, counts.completed, counts.failed), expected, "round {round}");
    }
}

#[tokio::test]
async fn a_member_that_lives_again_as_its_batch_ends_counts_or_leaves() {
    counts_or_leaves(Bench::with(&memory(4), eager_rules())).await;
    counts_or_leaves(Bench::with(&local(4, Durability::Os), eager_rules())).await;
}
