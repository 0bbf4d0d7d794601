//! Schedules: what their ticks make, and what they do not. Sat by the stores that keep them, with
//! `codeq_store::exam_schedules!`.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on panics")]

use super::bench::{Bench, eventually};
use super::candidate::Open;
use super::policies;
use super::request::New;
use codeq_queue::create::CreateRequest;
use codeq_queue::schedule::{
    Backfill, Definition, SCHEDULE_HEADER, SCHEDULED_FOR_HEADER, Schedule, SchedulePut, ScheduleRequest,
};
use codeq_queue::{Filter, Page, Refusal, State, Task, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Every ten seconds, into the queue `report`.
pub fn every_ten(change: impl FnOnce(&mut ScheduleRequest)) -> ScheduleRequest {
    let task = CreateRequest { command: "Report".into(), payload: "{}".into(), ..CreateRequest::default() };
    let mut request = ScheduleRequest { every_seconds: Some(10), task, ..ScheduleRequest::default() };
    change(&mut request);
    request
}

fn defined(bench: &Bench, mut request: ScheduleRequest) -> Definition {
    request.task.tenant = bench.tenant.clone();
    request.check("n", 5, 1 << 20, bench.now()).expect("the schedule is sound")
}

pub async fn put(
    bench: &Bench,
    name: &str,
    request: ScheduleRequest,
) -> Result<(Schedule, SchedulePut), Refusal> {
    let definition = defined(bench, request);
    let store = bench.store();
    let schedules = store.scheduling().expect("the candidate keeps schedules");
    bench.ask("put schedule", schedules.put_schedule(bench.tenant.clone(), name.into(), definition)).await
}

pub async fn find(bench: &Bench, name: &str) -> Option<Schedule> {
    let store = bench.store();
    let schedules = store.scheduling().expect("the candidate keeps schedules");
    bench.ask("schedule", schedules.schedule(bench.tenant.clone(), name.into())).await
}

async fn get(bench: &Bench, name: &str) -> Schedule {
    find(bench, name).await.unwrap_or_else(|| panic!("schedule {name} is gone"))
}

async fn pages(bench: &Bench, after: Option<&str>, limit: usize) -> Vec<String> {
    let store = bench.store();
    let schedules = store.scheduling().expect("the candidate keeps schedules");
    let asked = schedules.schedules(bench.tenant.clone(), after.map(Into::into), limit);
    bench.ask("schedules", asked).await.iter().map(|schedule| schedule.name.to_string()).collect()
}

pub async fn delete(bench: &Bench, name: &str) -> bool {
    let store = bench.store();
    let schedules = store.scheduling().expect("the candidate keeps schedules");
    bench.ask("delete schedule", schedules.delete_schedule(bench.tenant.clone(), name.into())).await
}

pub async fn pause(bench: &Bench, name: &str) -> Result<Schedule, Refusal> {
    let store = bench.store();
    let schedules = store.scheduling().expect("the candidate keeps schedules");
    let note = Some("why".into());
    bench.ask("pause schedule", schedules.pause_schedule(bench.tenant.clone(), name.into(), note)).await
}

async fn resume(bench: &Bench, name: &str) -> Result<Schedule, Refusal> {
    let store = bench.store();
    let schedules = store.scheduling().expect("the candidate keeps schedules");
    bench.ask("resume schedule", schedules.resume_schedule(bench.tenant.clone(), name.into())).await
}

async fn trigger(bench: &Bench, name: &str) -> Result<Task, Refusal> {
    let store = bench.store();
    let schedules = store.scheduling().expect("the candidate keeps schedules");
    bench.ask("trigger", schedules.trigger_schedule(bench.tenant.clone(), name.into())).await
}

/// All tasks of the tenant, the oldest first.
pub async fn tasks(bench: &Bench) -> Vec<Task> {
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let page = Page {
            tenant: Some(bench.tenant.clone()),
            filter: Arc::new(Filter::default()),
            is_newest_first: false,
            cursor,
            limit: 500,
        };
        let listed = bench.ask("list", bench.store().list(page)).await.expect("the cursor is its own");
        all.extend(listed.tasks);
        cursor = listed.next;
        if cursor.is_none() {
            return all;
        }
    }
}

fn header<'a>(task: &'a Task, name: &str) -> &'a str {
    let found = task.body.headers.iter().find(|(known, _)| known == name);
    found.map_or("", |(_, value)| value)
}

/// The ticks that tasks were made for.
pub async fn ticks(bench: &Bench) -> Vec<String> {
    tasks(bench).await.iter().map(|task| header(task, SCHEDULED_FOR_HEADER).to_owned()).collect()
}

fn at(bench: &Bench, seconds: i64) -> Time {
    Time::from_millis(bench.now().millis() + seconds * 1000)
}

pub async fn every_tick_makes_a_task(open: Open) {
    let bench = Bench::new(&open);
    let begun = bench.now();
    let (made, did) = put(&bench, "nightly", every_ten(|r| r.overlap = Some("allow".into()))).await.unwrap();
    assert_eq!((did, made.progress.next_at), (SchedulePut::Created, Some(begun.plus_seconds(10))));
    bench.advance_ms(9_999);
    bench.settle().await;
    assert!(tasks(&bench).await.is_empty());
    bench.advance_ms(1);
    bench.settle().await;
    let [task] = <[Task; 1]>::try_from(tasks(&bench).await).expect("one tick, one task");
    assert_eq!((&*task.body.command, header(&task, SCHEDULE_HEADER)), ("Report", "nightly"));
    assert_eq!(header(&task, SCHEDULED_FOR_HEADER), begun.plus_seconds(10).to_utc());
    assert_eq!(bench.take("report").await.id, task.id);
    let now = get(&bench, "nightly").await.progress;
    assert_eq!((now.last_at, now.last_task), (Some(begun.plus_seconds(10)), Some(task.id)));
    assert_eq!(now.next_at, Some(begun.plus_seconds(20)));
    for _ in 0..3 {
        bench.advance(10);
        bench.settle().await;
    }
    let expected: Vec<String> = (1..=4).map(|n| begun.plus_seconds(10 * n).to_utc()).collect();
    assert_eq!(ticks(&bench).await, expected);
}

pub async fn a_tick_is_skipped_while_the_task_before_lives(open: Open) {
    let bench = Bench::new(&open);
    put(&bench, "n", every_ten(|_| {})).await.unwrap();
    for _ in 0..3 {
        bench.advance(10);
        bench.settle().await;
    }
    assert_eq!(tasks(&bench).await.len(), 1);
    assert_eq!(get(&bench, "n").await.progress.skipped, 2);
    let task = bench.take("report").await;
    bench.complete(&task).await;
    bench.advance(10);
    bench.settle().await;
    assert_eq!(tasks(&bench).await.len(), 2);
}

pub async fn a_tick_cancels_the_task_before_if_asked_to(open: Open) {
    let bench = Bench::new(&open);
    put(&bench, "n", every_ten(|r| r.overlap = Some("cancel".into()))).await.unwrap();
    for _ in 0..3 {
        bench.advance(10);
        bench.settle().await;
        bench.take("report").await;
    }
    let states: Vec<bool> =
        tasks(&bench).await.iter().map(|task| matches!(task.state, State::Cancelled)).collect();
    assert_eq!(states, [true, true, false]);
}

pub async fn missed_ticks_are_caught_up_with(open: Open) {
    let bench = Bench::new(&open);
    for (name, words) in [("all", "all"), ("none", "none"), ("one", "one")] {
        let change = |r: &mut ScheduleRequest| {
            r.task.command = format!("catch-{name}");
            (r.catch_up, r.overlap) = (Some(words.into()), Some("allow".into()));
            r.every_seconds = Some(600);
            r.anchor = Some(at(&bench, 0));
        };
        put(&bench, name, every_ten(change)).await.unwrap();
    }
    // Ticks at 10, 20 and 30 minutes pass while nobody looks.
    bench.advance(35 * 60);
    bench.settle().await;
    let found = async |name: &str| {
        let command = format!("catch-{name}");
        let all = tasks(&bench).await;
        let count = all.iter().filter(|task| *task.body.command == *command).count();
        (count, get(&bench, name).await.progress.missed)
    };
    assert_eq!(found("all").await, (3, 0));
    assert_eq!(found("none").await, (0, 3));
    assert_eq!(found("one").await, (1, 2));
    for name in ["all", "none", "one"] {
        assert_eq!(get(&bench, name).await.progress.next_at, Some(at(&bench, 5 * 60)), "{name}");
    }
}

pub async fn a_paused_schedule_makes_and_misses_nothing(open: Open) {
    let bench = Bench::new(&open);
    put(&bench, "n", every_ten(|r| r.catch_up = Some("all".into()))).await.unwrap();
    let paused = pause(&bench, "n").await.unwrap().progress;
    assert_eq!((paused.is_paused, paused.note.as_deref(), paused.next_at), (true, Some("why"), None));
    bench.advance(100);
    bench.settle().await;
    let resumed = resume(&bench, "n").await.unwrap().progress;
    assert_eq!((resumed.is_paused, resumed.note, resumed.missed), (false, None, 0));
    assert_eq!(resumed.next_at, Some(at(&bench, 10)));
    assert!(tasks(&bench).await.is_empty());
    bench.advance(10);
    bench.settle().await;
    assert_eq!(tasks(&bench).await.len(), 1);
    assert_eq!(pause(&bench, "none").await, Err(Refusal::ScheduleNotFound));
    assert_eq!(resume(&bench, "none").await, Err(Refusal::ScheduleNotFound));
}

pub async fn a_trigger_makes_a_task_besides_the_plan(open: Open) {
    let bench = Bench::new(&open);
    let (made, _) = put(&bench, "n", every_ten(|r| r.jitter_seconds = Some(60))).await.unwrap();
    let first = trigger(&bench, "n").await.unwrap();
    let second = trigger(&bench, "n").await.unwrap();
    assert!(first.id != second.id && matches!(first.state, State::Ready { .. }));
    assert_eq!(header(&first, SCHEDULED_FOR_HEADER), bench.now().to_utc());
    assert_eq!(get(&bench, "n").await.progress, made.progress);
    // What was triggered does not stand in the way of a tick.
    bench.advance(10);
    bench.settle().await;
    assert_eq!(tasks(&bench).await.len(), 3);
    assert_eq!(trigger(&bench, "none").await, Err(Refusal::ScheduleNotFound));
}

/// Only a producer's create is refused by a full queue.
pub async fn a_trigger_and_a_tick_pass_a_full_queue(open: Open) {
    let bench = Bench::new(&open);
    policies::put(&bench, "report", r#"{"maxReady":1}"#).await;
    put(&bench, "n", every_ten(|r| r.overlap = Some("allow".into()))).await.unwrap();
    let first = trigger(&bench, "n").await.unwrap();
    let second = trigger(&bench, "n").await.unwrap();
    assert_ne!(first.id, second.id);
    assert_eq!(bench.get(second.id).await.state.place(), second.state.place());
    bench.advance(10);
    bench.settle().await;
    assert_eq!(tasks(&bench).await.len(), 3);
    assert_eq!(bench.try_make(New::of("report")).await, Err(Refusal::QueueFull));
}

/// The policy counts at the moment when a task is made, unless the schedule says how many attempts it has.
pub async fn tasks_of_schedules_have_the_attempts_of_the_policy(open: Open) {
    let bench = Bench::new(&open);
    let policy = async |attempts: u32| {
        policies::put(&bench, "report", &format!("{{\"maxAttempts\":{attempts}}}")).await;
    };
    put(&bench, "named", every_ten(|r| r.task.max_attempts = 2)).await.unwrap();
    put(&bench, "open", every_ten(|_| {})).await.unwrap();
    let made = async || {
        let of = |task: Result<Task, Refusal>| task.unwrap().max_attempts;
        (of(trigger(&bench, "named").await), of(trigger(&bench, "open").await))
    };
    assert_eq!(made().await, (2, 5), "the server's default");
    policy(9).await;
    assert_eq!(made().await, (2, 9));
    policy(8).await;
    bench.advance(10);
    bench.settle().await;
    policy(7).await;
    let (from, to) = (at(&bench, -60), at(&bench, 0));
    let backfill = Backfill { tenant: bench.tenant.clone(), name: "open".into(), operation: 1, from, to };
    let store = bench.store();
    let schedules = store.scheduling().expect("the candidate keeps schedules");
    bench.ask("backfill", schedules.backfill_schedule(backfill)).await.unwrap();
    let mut attempts: Vec<u32> = tasks(&bench).await.iter().map(|task| task.max_attempts).collect();
    attempts.sort_unstable();
    assert_eq!(attempts, [2, 2, 2, 5, 7, 7, 7, 7, 7, 7, 8, 9]);
}

pub async fn a_put_creates_changes_or_leaves_alone(open: Open) {
    let bench = Bench::new(&open);
    let (first, _) = put(&bench, "n", every_ten(|_| {})).await.unwrap();
    bench.advance(3);
    let (same, did) = put(&bench, "n", every_ten(|_| {})).await.unwrap();
    assert_eq!((same, did), (first, SchedulePut::Same));
    let (changed, did) = put(&bench, "n", every_ten(|r| r.every_seconds = Some(20))).await.unwrap();
    assert_eq!((did, changed.updated_at), (SchedulePut::Changed, bench.now()));
    assert_eq!(get(&bench, "n").await, changed);
    let other = |r: &mut ScheduleRequest| r.task.command = "other".into();
    assert_eq!(put(&bench, "n", every_ten(other)).await.map(|_| ()), Err(Refusal::ScheduleCommandFixed));
    assert_eq!(get(&bench, "n").await, changed);
    let never = |r: &mut ScheduleRequest| (r.every_seconds, r.cron) = (None, Some("0 0 30 2 *".into()));
    assert!(matches!(put(&bench, "m", every_ten(never)).await, Err(Refusal::InvalidSchedule { .. })));
    assert_eq!(find(&bench, "m").await, None);
    // Once it is deleted the name is free for another command.
    assert!(delete(&bench, "n").await && !delete(&bench, "n").await);
    assert_eq!(find(&bench, "n").await, None);
    assert_eq!(put(&bench, "n", every_ten(other)).await.map(|(_, did)| did), Ok(SchedulePut::Created));
}

pub async fn a_deleted_schedule_does_not_tick(open: Open) {
    let bench = Bench::new(&open);
    put(&bench, "n", every_ten(|_| {})).await.unwrap();
    delete(&bench, "n").await;
    bench.advance(20);
    bench.settle().await;
    assert!(tasks(&bench).await.is_empty());
}

pub async fn schedules_are_listed_by_name_within_their_tenant(open: Open) {
    let bench = Bench::new(&open);
    for name in ["d", "b", "a", "c", "e"] {
        let change = |r: &mut ScheduleRequest| r.task.command = format!("command-{name}");
        put(&bench, name, every_ten(change)).await.unwrap();
    }
    let other = bench.tenant("umbrella");
    put(&other, "b", every_ten(|r| r.every_seconds = Some(7))).await.unwrap();
    assert_eq!(pages(&bench, None, 2).await, ["a", "b"]);
    assert_eq!(pages(&bench, Some("b"), 2).await, ["c", "d"]);
    assert_eq!(pages(&bench, Some("d"), 9).await, ["e"]);
    assert_eq!(pages(&other, None, 9).await, ["b"]);
    assert!(delete(&other, "b").await && !delete(&other, "a").await);
    assert_eq!(pages(&bench, None, 9).await.len(), 5);
}

pub async fn a_backfill_makes_each_task_once(open: Open) {
    let bench = Bench::new(&open);
    put(&bench, "n", every_ten(|r| r.jitter_seconds = Some(60))).await.unwrap();
    let (from, to) = (at(&bench, -6000), at(&bench, 0));
    let part = |operation| Backfill { tenant: bench.tenant.clone(), name: "n".into(), operation, from, to };
    let ask = async |operation| {
        let store = bench.store();
        let schedules = store.scheduling().expect("the candidate keeps schedules");
        bench.ask("backfill", schedules.backfill_schedule(part(operation))).await.unwrap()
    };
    let first = ask(1).await;
    assert!(!first.is_done && first.made < 600);
    let mut parts = 1;
    let mut done = ask(1).await;
    while !done.is_done {
        (done, parts) = (ask(1).await, parts + 1);
        assert!(parts < 600, "every part makes something");
    }
    assert_eq!((done.made, ask(1).await), (600, done));
    let all = ticks(&bench).await;
    let expected: BTreeSet<String> = (0..600).map(|n| from.plus_seconds(10 * n).to_utc()).collect();
    assert_eq!((all.len(), all.into_iter().collect::<BTreeSet<_>>()), (600, expected));
}

pub async fn many_that_fall_due_together_tick_once_each(open: Open) {
    let bench = Bench::new(&open);
    for n in 0..1500 {
        let change = |r: &mut ScheduleRequest| r.task.command = format!("command-{}", n % 7);
        put(&bench, &format!("s{n}"), every_ten(change)).await.unwrap();
    }
    bench.advance(10);
    eventually("every schedule ticks", async || tasks(&bench).await.len() >= 1500).await;
    let names: BTreeSet<String> =
        tasks(&bench).await.iter().map(|task| header(task, SCHEDULE_HEADER).to_owned()).collect();
    assert_eq!((names.len(), tasks(&bench).await.len()), (1500, 1500));
}

pub async fn schedules_are_found_again_after_reopening(open: Open) {
    let bench = Bench::new(&open);
    if !bench.candidate.keeps_on_reopen() {
        return;
    }
    put(&bench, "n", every_ten(|r| (r.catch_up, r.overlap) = (Some("all".into()), Some("allow".into()))))
        .await
        .unwrap();
    put(&bench, "asleep", every_ten(|r| r.task.command = "other".into())).await.unwrap();
    pause(&bench, "asleep").await.unwrap();
    bench.advance(10);
    bench.settle().await;
    let before = (get(&bench, "n").await, get(&bench, "asleep").await);
    bench.candidate.reopen();
    assert_eq!((get(&bench, "n").await, get(&bench, "asleep").await), before);
    assert_eq!(
        put(&bench, "n", every_ten(|r| r.task.command = "x".into())).await.map(|_| ()),
        Err(Refusal::ScheduleCommandFixed)
    );
    bench.advance(30);
    bench.candidate.reopen();
    bench.settle().await;
    assert_eq!(ticks(&bench).await.len(), 4);
    assert_eq!(get(&bench, "n").await.progress.missed, 0);
}
