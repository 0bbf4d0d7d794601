//! The embedded store in a process of its own, killed again and again at random moments.

use codeq_queue::store::{Claim, Report, ResultLookup, Submit, TaskRef, Wait};
use codeq_queue::{Commands, Outcome, Owner, Store, TaskId, TaskStatus, TaskStore};
use codeq_store::Rules;
use codeq_store::local::{self, LocalOptions};
use codeq_store::testing::campaign::sized;
use codeq_tests::ledger::{Ledger, Line};
use codeq_tests::{Later, TENANT, brief_rules, rules};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// How a campaign goes.
#[derive(Clone, Copy)]
struct Course {
    shards: u32,
    rounds: usize,
    seed: u64,
    /// The largest batch of creates.
    most: usize,
    /// What has ended goes while others are worked on; ten seconds pass between two rounds.
    is_brief: bool,
}

impl Course {
    fn rules(&self) -> Rules {
        if self.is_brief { brief_rules() } else { rules() }
    }
}

/// Lets a laborer work for a random while, kills it, and notes what it said.
fn round(directory: &Path, course: Course, number: usize, random: &mut SmallRng, ledger: &mut Ledger) {
    let ahead = if course.is_brief { number * 10 } else { 0 };
    let mut laborer = Command::new(env!("CARGO_BIN_EXE_codeq-laborer"))
        .arg(directory)
        .arg(course.shards.to_string())
        .arg(random.random::<u32>().to_string())
        .arg(course.most.to_string())
        .arg(ahead.to_string())
        .arg(if course.is_brief { "brief" } else { "lasting" })
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(laborer.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "open\n", "the store did not open after a kill");
    let after = Duration::from_micros(random.random_range(2_000..400_000));
    let killer = std::thread::spawn(move || {
        std::thread::sleep(after);
        laborer.kill().unwrap();
        laborer.wait().unwrap();
    });
    line.clear();
    while output.read_line(&mut line).unwrap() > 0 {
        assert!(!line.starts_with("failure"), "{line}");
        if let Some(said) = line.strip_suffix('\n').and_then(Line::parse) {
            ledger.add(said);
        }
        line.clear();
    }
    killer.join().unwrap();
}

/// Compares every acknowledged task with the reopened store; what has ended may be gone if its retention is brief.
async fn compare(store: &dyn Store, is_brief: bool, ledger: &mut Ledger) {
    let ids: Vec<String> = ledger.accounts.keys().cloned().collect();
    for chunk in ids.chunks(500) {
        let refs = chunk.iter().map(|id| TaskRef { tenant: TENANT.into(), id: TaskId::parse(id).unwrap() });
        let found = store.get(refs.collect()).await.unwrap();
        for (id, task) in chunk.iter().zip(found) {
            let account = &ledger.accounts[id];
            let Some(task) = task else {
                if is_brief && (account.is_done || account.may_be_done) {
                    continue;
                }
                ledger.wrongs.push(format!("{id} is lost: {account:?}"));
                continue;
            };
            let is_done = task.state.status() == TaskStatus::Completed;
            let is_wrong = (account.is_done && !is_done)
                || (is_done && !account.is_done && !account.may_be_done)
                || task.attempts < account.attempts;
            if is_wrong {
                ledger.wrongs.push(format!("{id} is {:?} after {account:?}", task.state));
            }
        }
    }
}

/// Claims and completes everything that is left; gives how many.
async fn drain(store: &dyn Store, ledger: &mut Ledger) -> usize {
    let owner = Arc::new(Owner::new("drain", "drain"));
    let mut drained = 0;
    loop {
        let claim = Claim {
            tenant: TENANT.into(),
            commands: Commands::Any,
            owner: owner.clone(),
            lease: Duration::from_secs(600),
            is_default_lease: false,
            count: 1000,
            wait: Wait::No,
        };
        let tasks = store.claim(claim).await.unwrap();
        if tasks.is_empty() {
            return drained;
        }
        drained += tasks.len();
        let mut submits = Vec::new();
        for task in tasks {
            let (id, attempt) = (task.id, task.attempts);
            ledger.add(Line::Lent { id: id.to_string(), attempt });
            let report = Report { tenant: TENANT.into(), id, owner: owner.clone(), attempt: Some(attempt) };
            submits.push(Submit { report, outcome: Outcome::completed("{}") });
        }
        for (submitted, submit) in store.submit(submits.clone()).await.unwrap().into_iter().zip(submits) {
            submitted.unwrap();
            let (id, attempt) = (submit.report.id.to_string(), submit.report.attempt.unwrap());
            ledger.add(Line::Done { id, attempt });
        }
    }
}

/// An hour later every lease is over, and another one later every backoff: everything left must be
/// claimable, then done.
async fn settle(directory: &Path, course: Course, ledger: &mut Ledger) {
    let hour = Duration::from_secs(3600);
    let clock = Arc::new(Later::by(hour));
    let options = LocalOptions {
        rules: course.rules(),
        shards: course.shards,
        clock: clock.clone(),
        segment_bytes: 8 << 20,
        ..LocalOptions::new(directory)
    };
    let store = local::open(options).unwrap();
    compare(&*store, course.is_brief, ledger).await;
    ledger.all_leases_ran_out();
    while !is_over(&*store).await {
        drain(&*store, ledger).await;
        clock.move_on(hour);
    }
    for (id, account) in &ledger.accounts {
        let task = TaskRef { tenant: TENANT.into(), id: TaskId::parse(id).unwrap() };
        let found = store.result(task, Wait::No).await.unwrap();
        let is_gone = course.is_brief && found == ResultLookup::NotFound;
        if !is_gone && !matches!(found, ResultLookup::Done { .. }) {
            ledger.wrongs.push(format!("{id} is stuck: {found:?} {account:?}"));
        }
    }
    store.close().await.unwrap();
}

async fn is_over(store: &dyn Store) -> bool {
    let queues = store.queues(None).await.unwrap();
    queues.iter().all(|queue| queue.ready_total() + queue.delayed + queue.in_progress == 0)
}

async fn campaign(course: Course) {
    let Course { rounds, seed, .. } = course;
    let directory = tempfile::tempdir().unwrap();
    let mut random = SmallRng::seed_from_u64(seed);
    let mut ledger = Ledger::default();
    for number in 0..rounds {
        round(directory.path(), course, number, &mut random, &mut ledger);
    }
    settle(directory.path(), course, &mut ledger).await;
    let created = ledger.accounts.values().filter(|account| account.is_created).count();
    println!(
        "{rounds} kills, {} acknowledgements, {created} tasks, {} wrong",
        ledger.acknowledged,
        ledger.wrongs.len()
    );
    assert!(ledger.wrongs.is_empty(), "seed {seed}: {:#?}", &ledger.wrongs[..ledger.wrongs.len().min(20)]);
    assert!(created > rounds * 10, "the laborers did next to nothing: {created} tasks");
}

#[tokio::test]
async fn kills_lose_nothing_lend_nothing_twice_and_leave_nothing_stuck() {
    campaign(Course { shards: 1, rounds: sized(20, 50), seed: 1, most: 20, is_brief: false }).await;
}

#[tokio::test]
async fn kills_lose_nothing_with_four_shards() {
    campaign(Course { shards: 4, rounds: sized(8, 15), seed: 2, most: 20, is_brief: false }).await;
}

/// Tasks come faster than they go, so batches of the tables have thousands of new ones.
#[tokio::test]
async fn kills_lose_nothing_of_a_heap_that_grows() {
    campaign(Course { shards: 1, rounds: sized(8, 20), seed: 3, most: 2000, is_brief: false }).await;
}

/// Tables of history are dropped all the time, before kills and after them.
#[tokio::test]
async fn kills_lose_nothing_that_lives_while_history_goes() {
    campaign(Course { shards: 1, rounds: sized(10, 40), seed: 4, most: 20, is_brief: true }).await;
    campaign(Course { shards: 4, rounds: sized(5, 40), seed: 5, most: 20, is_brief: true }).await;
}
