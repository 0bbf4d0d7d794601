//! Batches: items are independent, answers come in the order of the request.

use super::bench::{Bench, LEASE};
use super::candidate::Open;
use super::request::New;
use codeq_queue::store::{Abandon, Cancel, Heartbeat, Nack, Report, Returned, Submit, TaskRef};
use codeq_queue::{Outcome, Place, Refusal, Task, TaskId};

async fn running(bench: &Bench, count: usize) -> Vec<Task> {
    let new = New::of("render").build(&bench.tenant);
    bench.ask("create", bench.store().create(vec![new; count])).await;
    let tasks = bench.claim(&["render"], count).await;
    assert_eq!(tasks.len(), count);
    tasks
}

fn unknown(bench: &Bench, task: &Task) -> Report {
    Report { id: TaskId::from_bits(3), ..bench.report(task) }
}

pub async fn an_empty_batch_is_answered_by_nothing(open: Open) {
    let bench = Bench::new(&open);
    assert!(bench.ask("create", bench.store().create(vec![])).await.is_empty());
    assert!(bench.ask("get", bench.store().get(vec![])).await.is_empty());
    assert!(bench.ask("submit", bench.store().submit(vec![])).await.is_empty());
}

pub async fn a_batch_of_creates_may_span_tenants_and_commands(open: Open) {
    let bench = Bench::new(&open);
    let umbrella = bench.tenant("umbrella");
    let mut asked = Vec::new();
    for at in 0..60 {
        let tenant = if at % 2 == 0 { &bench.tenant } else { &umbrella.tenant };
        asked.push(New::of(&format!("command-{}", at % 7)).payload(&at.to_string()).build(tenant));
    }
    let created = bench.ask("create", bench.store().create(asked.clone())).await;
    assert_eq!(created.len(), asked.len());
    for (made, asked) in created.into_iter().zip(asked) {
        assert_eq!(made.expect("a create is not refused").task.body, asked.body);
    }
    assert_eq!(bench.claim_any(100).await.len(), 30);
    assert_eq!(umbrella.claim_any(100).await.len(), 30);
}

pub async fn a_refused_report_does_not_touch_its_neighbours(open: Open) {
    let bench = Bench::new(&open);
    let tasks = running(&bench, 3).await;
    let thief = bench.worker("thief", "w");
    let reports = [
        bench.report(&tasks[0]),
        unknown(&bench, &tasks[0]),
        thief.report(&tasks[1]),
        bench.fenced(&tasks[2]),
    ];
    let beats = reports.iter().map(|report| Heartbeat::new(report.clone(), LEASE * 2));
    let answers = bench.ask("heartbeat", bench.store().heartbeat(beats.collect())).await;
    let answers: Vec<_> = answers.into_iter().map(|answer| answer.map(|_| ())).collect();
    assert_eq!(answers, [Ok(()), Err(Refusal::NotFound), Err(Refusal::NotOwner), Ok(())]);
    let nacks = reports.iter().map(|report| Nack::new(report.clone(), 2, Some("x".into())));
    let answers = bench.ask("nack", bench.store().nack(nacks.collect())).await;
    let back = Ok(Returned::Requeued { delay_seconds: 2 });
    assert_eq!(answers, [back.clone(), Err(Refusal::NotFound), Err(Refusal::NotOwner), back]);
    let abandons = reports.iter().map(|report| Abandon::new(report.clone(), false));
    let answers = bench.ask("abandon", bench.store().abandon(abandons.collect())).await;
    let late = Err(Refusal::NotInProgress);
    assert_eq!(answers, [late.clone(), Err(Refusal::NotFound), Err(Refusal::NotOwner), late]);
    assert_eq!(bench.get(tasks[1].id).await, tasks[1], "the refused one is untouched");
}

pub async fn a_refused_result_does_not_touch_its_neighbours(open: Open) {
    let bench = Bench::new(&open);
    let tasks = running(&bench, 3).await;
    let bad = Outcome { result: None, ..Outcome::completed("") };
    let submits = vec![
        Submit { report: bench.report(&tasks[0]), outcome: Outcome::completed("{\"n\":0}") },
        Submit { report: bench.report(&tasks[1]), outcome: bad },
        Submit { report: unknown(&bench, &tasks[0]), outcome: Outcome::completed("{}") },
        Submit { report: bench.report(&tasks[2]), outcome: Outcome::failed("two") },
    ];
    let answers = bench.ask("submit", bench.store().submit(submits)).await;
    assert_eq!(answers[0].as_ref().map(|r| r.result.as_deref()), Ok(Some("{\"n\":0}")));
    assert_eq!(answers[1], Err(Refusal::ResultRequired));
    assert_eq!(answers[2], Err(Refusal::NotFound));
    assert_eq!(answers[3].as_ref().map(|r| r.error.as_deref()), Ok(Some("two")));
    assert_eq!(bench.get(tasks[1].id).await, tasks[1]);
}

pub async fn the_second_of_two_results_for_one_task_is_not_in_progress(open: Open) {
    let bench = Bench::new(&open);
    let task = running(&bench, 1).await.remove(0);
    let submits = ["{\"n\":1}", "{\"n\":2}"]
        .map(|text| Submit { report: bench.fenced(&task), outcome: Outcome::completed(text) });
    let answers = bench.ask("submit", bench.store().submit(submits.to_vec())).await;
    assert!(answers[0].is_ok());
    assert_eq!(answers[1], Err(Refusal::NotInProgress));
    assert_eq!(bench.record(task.id).await.result.as_deref(), Some("{\"n\":1}"));
}

pub async fn operators_work_in_batches_too(open: Open) {
    let bench = Bench::new(&open);
    let (ready, dead) = (bench.create("ready").await, bench.dead("dead").await);
    let named: Vec<TaskRef> = [ready.id, TaskId::from_bits(9), dead.id].map(|id| bench.named(id)).to_vec();
    let requeued = bench.ask("requeue", bench.store().requeue(named.clone(), None)).await;
    assert_eq!(requeued[0], Err(Refusal::NotDead));
    assert_eq!(requeued[1], Err(Refusal::NotFound));
    assert_eq!(requeued[2].as_ref().map(|task| task.state.place()), Ok(Place::PendingList));
    let removed = bench.ask("remove", bench.store().remove(named.clone())).await;
    assert_eq!(removed, [Err(Refusal::NotDead), Err(Refusal::NotFound), Err(Refusal::NotDead)]);
    let cancelled =
        bench.ask("cancel", bench.store().cancel(named.iter().cloned().map(Cancel::now).collect())).await;
    assert!(cancelled[0].is_ok() && cancelled[2].is_ok());
    assert_eq!(cancelled[1], Err(Refusal::NotFound));
    let again = bench.ask("cancel", bench.store().cancel(named.into_iter().map(Cancel::now).collect())).await;
    assert_eq!(again[0], cancelled[0], "a cancelled task stays as it is");
}
