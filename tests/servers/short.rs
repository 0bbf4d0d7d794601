//! kill -9 of real servers under load from real clients, as much as fits into a test; more with `CODEQ_LONG`.

use codeq_store::testing::campaign::sized;
use codeq_tests::servers::{Account, Durability, Plan, Promoter, Storage, campaign};

async fn run(storage: Storage, rounds: u32, seed: u64) -> Account {
    let plan = Plan { server: env!("CARGO_BIN_EXE_codeq").into(), storage, rounds, seed };
    let account = campaign(&plan).await.expect("the campaign can be carried out");
    println!("{account}");
    account
}

/// Nothing is wrong, and enough was done for that to mean something.
fn assert_clean(account: &Account) {
    assert!(account.is_clean(), "seed {}:\n{account}", account.seed);
    assert!(account.found.tasks > 20 * u64::from(account.rounds), "next to nothing was done:\n{account}");
    assert!(account.found.completed > 0 && account.found.failed > 0 && account.found.dead > 0, "{account}");
    assert!(account.counts.unknown_creates > 0, "no kill met a create:\n{account}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_an_embedded_server_lose_nothing_and_lend_nothing_twice() {
    assert_clean(&run(Storage::EMBEDDED, sized(12, 40), 1).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_replicas_and_of_redis_lose_nothing_and_lend_nothing_twice() {
    assert_clean(&run(Storage::Redis, sized(9, 30), 1).await);
}

/// Masters are killed, and stopped until another one is promoted and then let go again, in turn.
async fn promotions(promoter: Promoter, rounds: u32) {
    assert_clean(&run(Storage::Replicated { promoter, wait_replicas: 1 }, rounds, 1).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn promotions_by_a_sentinel_lose_nothing_that_a_replica_has_confirmed() {
    promotions(Promoter::Sentinel, sized(2, 10)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn promotions_in_a_cluster_lose_nothing_that_a_replica_has_confirmed() {
    promotions(Promoter::Cluster, sized(3, 12)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_account_sees_that_a_server_without_storage_loses_everything() {
    let account = run(Storage::Memory, 2, 1).await;
    assert!(account.lost > 0, "{account}");
}

fn powerless(durability: Durability) -> Storage {
    Storage::Embedded { shards: 1, durability, loses_power: true }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn losses_of_power_lose_nothing_that_was_acknowledged() {
    let account = run(powerless(Durability::Fsync), sized(5, 15), 1).await;
    assert_clean(&account);
    assert!(account.taken_back > 0, "there was nothing to lose:\n{account}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_account_sees_what_a_loss_of_power_takes_from_a_server_that_does_not_sync() {
    let account = run(powerless(Durability::Os), 3, 1).await;
    assert!(account.lost > 0, "{account}");
}
