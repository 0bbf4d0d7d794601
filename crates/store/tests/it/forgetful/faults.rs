//! Every call to the disk fails once: with ENOSPC, then with EIO. Whoever is hit is told so, and nothing that
//! was acknowledged is lost.

use super::facts::{self, Facts, learn, progress, result_text};
use super::{Ground, feed};
use codeq_queue::store::{Answer, Nack, Submit, Wait};
use codeq_queue::{Commands, Failure, Outcome, Task};
use codeq_store::testing::exam::bench::{Bench, one, within};
use codeq_store::testing::exam::request::New;
use codeq_store::testing::forgetful::Fault;

const TASKS: usize = 8;

/// The answer, or nothing if the store could not.
async fn ask<T>(what: &str, answer: Answer<T>) -> Option<T> {
    match within(what, answer).await {
        Ok(value) => Some(value),
        Err(Failure::Unavailable { .. } | Failure::Closed) => None,
        Err(other) => panic!("{what}: {other}"),
    }
}

/// Lets tasks through all their states, as far as the store can. Gives what it acknowledged.
async fn work(bench: &Bench) -> Facts {
    let mut facts = Facts::new();
    let mut learn = |task: &Task, progress| learn(&mut facts, task.id, &task.body, progress, None);
    for round in 0..TASKS {
        // A few of these fill a segment.
        let new =
            New::of("render").payload(&format!("{{\"fill\":\"{}\"}}", "x".repeat(1500))).max_attempts(2);
        let made = ask("create", bench.store().create(vec![new.build(&bench.tenant)])).await;
        made.into_iter().flatten().flatten().for_each(|made| learn(&made.task, 0));
        let wish = bench.wish(Commands::these(["render"]), 1, Wait::No);
        let claimed = ask("claim", bench.store().claim(wish)).await.unwrap_or_default();
        for task in claimed {
            learn(&task, progress(&task.state, task.attempts));
            let report = bench.fenced(&task);
            if round % 2 == 0 {
                let outcome = Outcome::completed(&result_text(task.id, task.attempts));
                let done = ask("submit", bench.store().submit(vec![Submit { report, outcome }])).await;
                done.map(one).iter().flatten().for_each(|_| learn(&task, u64::MAX));
            } else {
                let nack = Nack::new(report, 0, Some("busy".into()));
                let done = ask("nack", bench.store().nack(vec![nack])).await;
                done.map(one).iter().flatten().for_each(|_| learn(&task, 2 * u64::from(task.attempts)));
            }
        }
        if round == TASKS / 2 {
            ask("cleanup", bench.store().cleanup("nobody".into(), codeq_queue::Time::ZERO, 1)).await;
        }
    }
    facts
}

/// One run whose `n`-th call to the disk fails. False if it made fewer calls.
async fn run(n: u64, fault: Fault) -> bool {
    let mut ground = Ground::small();
    ground.disk.fail_at(n, fault);
    let told = match ground.open_bench() {
        Ok(bench) => {
            let told = work(&bench).await;
            bench.store().close().await.expect("closing does not depend on the disk");
            told
        }
        Err(_) => Facts::new(),
    };
    let is_hit = ground.disk.calls() >= n;
    let ids = told.keys().copied().collect();
    for keep_all in [false, true] {
        let mut copy = ground.copy();
        match keep_all {
            false => copy.disk.crash_keep_none(),
            true => copy.disk.crash_keep_all(),
        }
        let bench = copy.bench();
        facts::hold(&bench, &told, &ids).await;
        feed(&bench).await;
        bench.create("goes-on").await;
    }
    is_hit
}

async fn every_call_in_turn(fault: Fault) {
    let mut n = 1;
    while run(n, fault).await {
        n += 1;
    }
    assert!(n > 40, "the work makes more than {n} calls");
}

#[tokio::test]
async fn a_disk_that_is_full_for_one_call_loses_nothing() {
    every_call_in_turn(Fault::Full).await;
}

#[tokio::test]
async fn a_disk_that_fails_one_call_loses_nothing() {
    every_call_in_turn(Fault::Io).await;
}
