//! The gate in front of heartbeat, nack, abandon and result: every check, in the order of the contract.

use super::bench::{Bench, LEASE};
use super::candidate::Open;
use super::request::New;
use codeq_queue::store::{Nack, Report};
use codeq_queue::{Outcome, Refusal, Task, TaskId};

/// Sends `report` with each of the four verbs and gives what refused it.
async fn refusals(bench: &Bench, report: &Report) -> [Option<Refusal>; 5] {
    let nack = Nack::new(report.clone(), 1, None);
    [
        bench.heartbeat(report.clone(), LEASE).await.err(),
        bench.ask("nack", bench.store().nack(vec![nack])).await.remove(0).err(),
        bench.give_back(report.clone(), false).await.err(),
        bench.give_back(report.clone(), true).await.err(),
        bench.submit_as(report.clone(), Outcome::completed("{}")).await.err(),
    ]
}

async fn all_refuse(bench: &Bench, report: Report, expected: Refusal) {
    let before = bench.find(report.id).await;
    assert_eq!(refusals(bench, &report).await, std::array::from_fn(|_| Some(expected.clone())));
    assert_eq!(bench.find(report.id).await, before, "a refusal changes nothing");
}

/// A report with everything wrong that can be wrong after the task has been found.
fn wrong(bench: &Bench, task: &Task) -> Report {
    Report { attempt: Some(99), ..bench.worker("thief", "worker").report(task) }
}

pub async fn an_unknown_id_is_not_found(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render")).await;
    let unknown = Report { id: TaskId::from_bits(1), ..bench.fenced(&task) };
    all_refuse(&bench, unknown, Refusal::NotFound).await;
}

pub async fn the_id_of_another_tenant_is_not_found(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render")).await;
    let foreign = bench.tenant("umbrella").fenced(&task);
    all_refuse(&bench, foreign, Refusal::NotFound).await;
    let cancelled = bench.create("render").await;
    bench.cancel(cancelled.id).await.expect("a ready task can be cancelled");
    all_refuse(&bench, bench.tenant("umbrella").fenced(&cancelled), Refusal::NotFound).await;
}

pub async fn cancelled_is_said_before_everything_else(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render")).await;
    bench.cancel(task.id).await.expect("a running task can be cancelled");
    all_refuse(&bench, wrong(&bench, &task), Refusal::Cancelled).await;
    all_refuse(&bench, bench.fenced(&task), Refusal::Cancelled).await;
    all_refuse(&bench, bench.report(&task), Refusal::Cancelled).await;
}

pub async fn a_wrong_attempt_is_a_lost_lease_in_any_state(open: Open) {
    let bench = Bench::new(&open);
    let ready = bench.create("ready").await;
    let delayed = bench.make(New::of("delayed").delayed_ms(1000)).await.task;
    let running = bench.create_and_take(New::of("running")).await;
    let done = bench.create_and_take(New::of("done")).await;
    bench.complete(&done).await;
    let dead = bench.dead("dead").await;
    for task in [ready, delayed, running, done, dead] {
        all_refuse(&bench, wrong(&bench, &task), Refusal::LeaseLost).await;
        let one_off = Report { attempt: Some(task.attempts + 1), ..bench.report(&task) };
        all_refuse(&bench, one_off, Refusal::LeaseLost).await;
    }
}

pub async fn a_task_that_is_not_running_is_not_in_progress(open: Open) {
    let bench = Bench::new(&open);
    let ready = bench.create("ready").await;
    let delayed = bench.make(New::of("delayed").delayed_ms(1000)).await.task;
    let done = bench.create_and_take(New::of("done")).await;
    bench.complete(&done).await;
    let failed = bench.create_and_take(New::of("failed")).await;
    bench.submit(&failed, Outcome::failed("no")).await.expect("the owner may fail its task");
    let dead = bench.dead("dead").await;
    let thief = bench.worker("thief", "worker");
    for task in [ready, delayed, done, failed, dead] {
        all_refuse(&bench, bench.report(&task), Refusal::NotInProgress).await;
        all_refuse(&bench, thief.fenced(&task), Refusal::NotInProgress).await;
    }
}

pub async fn subject_and_worker_id_must_both_be_the_owners(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render")).await;
    for (subject, worker_id) in [("subject", "other"), ("other", "worker"), ("worker", "subject")] {
        let other = bench.worker(subject, worker_id);
        all_refuse(&bench, other.report(&task), Refusal::NotOwner).await;
        all_refuse(&bench, other.fenced(&task), Refusal::NotOwner).await;
    }
    assert_eq!(bench.heartbeat(bench.fenced(&task), LEASE).await, Ok(()));
}

pub async fn the_guards_come_before_the_content_of_a_result(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render")).await;
    let bad = Outcome { status: "DONE".into(), ..Outcome::completed("{}") };
    let submit = |report| bench.submit_as(report, bad.clone());
    assert_eq!(submit(bench.worker("thief", "w").report(&task)).await, Err(Refusal::NotOwner));
    let stale = Report { attempt: Some(7), ..bench.report(&task) };
    assert_eq!(submit(stale).await, Err(Refusal::LeaseLost));
    assert_eq!(submit(bench.report(&task)).await, Err(Refusal::InvalidStatus));
    assert_eq!(bench.get(task.id).await, task, "a refused result changes nothing");
    bench.complete(&task).await;
    assert_eq!(submit(bench.report(&task)).await, Err(Refusal::NotInProgress));
}
