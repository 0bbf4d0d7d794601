//! The bars at sizes that take seconds; `cargo run --release -p codeq-store --example bars` measures the large ones.

use crate::candidates::{forgetful, local, memory};
use codeq_store::local::Durability;
use codeq_store::testing::bars;
use codeq_store::testing::exam::bench::{Bench, eager_rules};

fn in_memory(shards: u32) -> Bench {
    Bench::with(&memory(shards), eager_rules())
}

#[tokio::test]
async fn a_flood_in_one_lane_lets_999_others_through() {
    let claims = bars::flood(&in_memory(1), 20_000, 999).await;
    assert!((999..2_000).contains(&claims), "{claims}");
}

#[tokio::test]
async fn a_rate_is_kept_to_the_start() {
    assert!((2_990..=3_010).contains(&bars::steady_rate(&in_memory(1), 100, 10, 30).await));
}

#[tokio::test]
async fn the_rates_of_lanes_are_kept_though_nothing_of_them_is_left() {
    assert_eq!(bars::lane_rates(&in_memory(1), 10, 3, 4).await, 42);
}

#[tokio::test]
async fn limits_that_are_not_reached_hold_nothing_back() {
    bars::unreached_limits(&in_memory(1), 100, 2_000, true).await;
}

#[tokio::test]
async fn a_chain_runs_in_order_and_fails_from_where_it_breaks() {
    bars::chain(&in_memory(4), 300, 150).await;
}

#[tokio::test]
async fn a_diamond_runs_layer_by_layer() {
    bars::diamond(&in_memory(4), 10, 20).await;
}

#[tokio::test]
async fn a_batch_over_four_shards_ends_once_though_the_store_is_stopped() {
    bars::batch(&Bench::with(&local(4, Durability::Fsync), eager_rules()), 3_000, 3).await;
}

#[tokio::test]
async fn a_batch_ends_once_though_the_power_fails() {
    bars::batch(&Bench::with(&forgetful(), eager_rules()), 2_000, 5).await;
}

#[tokio::test]
async fn very_many_creates_of_one_key_are_one_task() {
    bars::debounce(&in_memory(1), 3_000).await;
}

#[tokio::test]
async fn heartbeats_of_very_many_tasks_keep_all_leases() {
    bars::heartbeats(&in_memory(1), 2_000, 5).await;
}
