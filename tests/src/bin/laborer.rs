//! A process that works a store as hard as it can and tells its standard output what was acknowledged,
//! until it is killed.
//!
//! Arguments: data directory, shards, seed, the largest batch of creates, how many seconds its clock is ahead, and `brief`
//! if what has ended is to go soon: then no task has a key, because keys go with their tasks.

use anyhow::Context;
use codeq_queue::store::{Abandon, Claim, Nack, Report, Submit, Wait};
use codeq_queue::{Commands, Outcome, Owner, Store, Task};
use codeq_store::local::{self, LocalOptions};
use codeq_tests::ledger::Line;
use codeq_tests::{Later, TENANT, brief_rules, new_task, rules};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

const CLIENTS: u64 = 48;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().context("a directory")?;
    let shards: u32 = arguments.next().context("a number of shards")?.parse()?;
    let seed: u64 = arguments.next().context("a seed")?.parse()?;
    let most: usize = arguments.next().context("a number of tasks")?.parse()?;
    let ahead: u64 = arguments.next().context("seconds")?.parse()?;
    let is_brief = arguments.next().as_deref() == Some("brief");
    let options = LocalOptions {
        rules: if is_brief { brief_rules() } else { rules() },
        shards,
        clock: Arc::new(Later::by(Duration::from_secs(ahead))),
        segment_bytes: 8 << 20,
        ..LocalOptions::new(directory)
    };
    let store: Arc<dyn Store> = local::open(options)?;
    say("open");
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        let local = tokio::task::LocalSet::new();
        for client in 0..CLIENTS {
            let random = SmallRng::seed_from_u64(seed ^ (client << 32));
            local.spawn_local(labor(store.clone(), client, (most, !is_brief), random));
        }
        local.await;
    });
    anyhow::bail!("the laborers have stopped")
}

/// One write call per line: a kill cuts between lines, or inside the last one.
fn say(line: impl std::fmt::Display) {
    let _ = std::io::stdout().lock().write_all(format!("{line}\n").as_bytes());
}

async fn labor(store: Arc<dyn Store>, client: u64, batches: (usize, bool), mut random: SmallRng) {
    let owner = Arc::new(Owner::new("laborer", &format!("{client}-{}", random.random::<u32>())));
    loop {
        let done = if random.random_bool(0.5) {
            create(&*store, batches, &mut random).await
        } else {
            work(&*store, &owner, &mut random).await
        };
        if let Err(error) = done {
            say(format!("failure {error}"));
            return;
        }
    }
}

async fn create(
    store: &dyn Store,
    (most, has_keys): (usize, bool),
    random: &mut SmallRng,
) -> anyhow::Result<()> {
    let count = if random.random_bool(0.2) { random.random_range(2..most) } else { 1 };
    let tasks: Vec<_> = (0..count)
        .map(|_| {
            let is_keyed = has_keys && random.random_bool(0.3);
            let key = is_keyed.then(|| format!("key-{}", random.random_range(0..5000)));
            let bytes = if random.random_bool(0.01) { 20_000 } else { random.random_range(2..600) };
            new_task(0, random.random_range(0..3), format!("\"{}\"", "x".repeat(bytes)), key)
        })
        .collect();
    let keys: Vec<_> = tasks.iter().map(|task| task.body.idempotency_key.clone()).collect();
    for (created, key) in store.create(tasks).await?.into_iter().zip(keys) {
        let id = created?.task.id.to_string();
        say(Line::Created { id, key: key.map(String::from) });
    }
    Ok(())
}

async fn work(store: &dyn Store, owner: &Arc<Owner>, random: &mut SmallRng) -> anyhow::Result<()> {
    let claim = Claim {
        tenant: TENANT.into(),
        commands: if random.random_bool(0.3) { Commands::Any } else { Commands::these(["work-0"]) },
        owner: owner.clone(),
        lease: Duration::from_secs(600),
        is_default_lease: false,
        count: random.random_range(1..8),
        wait: Wait::No,
    };
    for task in store.claim(claim).await? {
        let (id, attempt) = (task.id.to_string(), task.attempts);
        say(Line::Lent { id: id.clone(), attempt });
        report(store, owner, task, random).await?;
    }
    Ok(())
}

async fn report(
    store: &dyn Store,
    owner: &Arc<Owner>,
    task: Task,
    random: &mut SmallRng,
) -> anyhow::Result<()> {
    let (id, attempt) = (task.id.to_string(), task.attempts);
    let report = Report { tenant: TENANT.into(), id: task.id, owner: owner.clone(), attempt: Some(attempt) };
    let choice = random.random_range(0..10);
    say(Line::Intends { id: id.clone(), attempt, end: choice < 7 });
    match choice {
        0..7 => {
            let outcome = Outcome::completed(&format!("{{\"attempt\":{attempt}}}"));
            store.submit(vec![Submit { report, outcome }]).await?.remove(0)?;
            say(Line::Done { id, attempt });
        }
        7 => {
            let nack = Nack::new(report, 1, Some("again".into()));
            store.nack(vec![nack]).await?.remove(0)?;
            say(Line::Returned { id, attempt });
        }
        _ => {
            let refund = choice == 8;
            store.abandon(vec![Abandon::new(report, refund)]).await?.remove(0)?;
            say(Line::Returned { id, attempt });
        }
    }
    Ok(())
}
