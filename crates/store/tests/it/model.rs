//! Every store of this crate against the model. `CODEQ_MODEL_SEED` and `CODEQ_MODEL_OPS` choose the run.

use crate::candidates;
use codeq_store::local::Durability;
use codeq_store::testing::model::{as_store, run_from_environment};

#[tokio::test]
async fn the_model_agrees_with_itself() {
    run_from_environment(as_store::open()).await;
}

#[tokio::test]
async fn the_memory_store_does_what_the_model_does() {
    run_from_environment(candidates::memory(1)).await;
}

#[tokio::test]
async fn the_memory_store_with_four_shards_does_what_the_model_does() {
    run_from_environment(candidates::memory(4)).await;
}

#[tokio::test]
async fn the_local_store_with_one_shard_does_what_the_model_does() {
    run_from_environment(candidates::local(1, Durability::Os)).await;
}

#[tokio::test]
async fn the_local_store_with_four_shards_does_what_the_model_does() {
    run_from_environment(candidates::local(4, Durability::Os)).await;
}

#[tokio::test]
async fn the_store_on_a_forgetful_disk_does_what_the_model_does() {
    run_from_environment(candidates::forgetful()).await;
}
