//! Kills real servers under load and audits every task: `ledger [--rounds N] [--seed S]
//! [--storage embedded|redis|sentinel|cluster|memory] [--wait-replicas N] [--shards N] [--durability fsync|os] [--power-loss]
//! [--server PATH] [--json]`.

use anyhow::{Context, bail, ensure};
use codeq_tests::servers::{Durability, Plan, Promoter, Storage, campaign};
use std::path::PathBuf;

fn main() -> anyhow::Result<()> {
    let (plan, is_json) = read(std::env::args().skip(1))?;
    ensure!(
        plan.server.is_file(),
        "there is no server at {}: build it with `cargo build -p codeq`, or name one with --server",
        plan.server.display()
    );
    let account = tokio::runtime::Runtime::new()?.block_on(campaign(&plan))?;
    match is_json {
        true => println!("{}", account.json()),
        false => print!("{account}"),
    }
    ensure!(account.is_clean(), "something is wrong; the same clients again: --seed {}", plan.seed);
    Ok(())
}

fn read(mut arguments: impl Iterator<Item = String>) -> anyhow::Result<(Plan, bool)> {
    let (mut storage, mut shards, mut durability) = ("embedded".to_owned(), 1, Durability::Fsync);
    let (mut loses_power, mut is_json, mut wait_replicas) = (false, false, 1);
    let mut plan = Plan { server: beside_us()?, storage: Storage::EMBEDDED, rounds: 40, seed: 1 };
    while let Some(name) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{name} needs a value"));
        match name.as_str() {
            "--json" => is_json = true,
            "--power-loss" => loses_power = true,
            "--rounds" => plan.rounds = value()?.parse()?,
            "--seed" => plan.seed = value()?.parse()?,
            "--shards" => shards = value()?.parse()?,
            "--wait-replicas" => wait_replicas = value()?.parse()?,
            "--storage" => storage = value()?,
            "--server" => plan.server = value()?.into(),
            "--durability" => {
                durability = match value()?.as_str() {
                    "fsync" => Durability::Fsync,
                    "os" => Durability::Os,
                    other => bail!("unknown durability {other}: fsync or os"),
                }
            }
            _ => bail!("unknown option {name}"),
        }
    }
    plan.storage = match storage.as_str() {
        "embedded" => Storage::Embedded { shards, durability, loses_power },
        "redis" | "sentinel" | "cluster" | "memory" if loses_power => {
            bail!("--power-loss is for the embedded storage")
        }
        "redis" => Storage::Redis,
        "sentinel" => Storage::Replicated { promoter: Promoter::Sentinel, wait_replicas },
        "cluster" => Storage::Replicated { promoter: Promoter::Cluster, wait_replicas },
        "memory" => Storage::Memory,
        _ => bail!("unknown storage {storage}: embedded, redis, sentinel, cluster or memory"),
    };
    Ok((plan, is_json))
}

/// The server that was built into the same directory.
fn beside_us() -> anyhow::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("codeq"))
}
