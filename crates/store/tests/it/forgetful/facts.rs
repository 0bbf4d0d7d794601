//! What clients were told, and whether a store still says so.

use codeq_queue::store::{ResultLookup, TaskRef};
use codeq_queue::{Body, QueueKey, ResultRecord, State, Task, TaskId};
use codeq_store::testing::exam::bench::Bench;
use codeq_store::testing::exam::request::New;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The newest that a client was told about one task.
#[derive(Clone, Debug)]
pub struct Fact {
    pub body: Arc<Body>,
    pub progress: u64,
    pub record: Option<ResultRecord>,
}

pub type Facts = BTreeMap<TaskId, Fact>;

/// Grows with every transition of a task that is not revived by an operator.
pub fn progress(state: &State, attempts: u32) -> u64 {
    match state {
        State::Running(_) => 2 * u64::from(attempts) - 1,
        State::Ready { .. } | State::Delayed { .. } | State::Held(_) => 2 * u64::from(attempts),
        State::Completed | State::Failed | State::Cancelled | State::Dead => u64::MAX,
    }
}

/// The text that a client submits for this attempt, so that nobody else's can pass for it.
pub fn result_text(id: TaskId, attempt: u32) -> String {
    format!("{{\"task\":\"{id}\",\"attempt\":{attempt}}}")
}

pub fn learn(facts: &mut Facts, id: TaskId, body: &Arc<Body>, progress: u64, record: Option<ResultRecord>) {
    let fact = facts.entry(id).or_insert(Fact { body: body.clone(), progress: 0, record: None });
    fact.progress = fact.progress.max(progress);
    fact.record = record.or(fact.record.take());
}

/// Checks that all of `told` holds: every task is there, as far as its client saw it come or further, whole.
/// Gives every task among `ids`.
pub async fn hold(bench: &Bench, told: &Facts, ids: &BTreeSet<TaskId>) -> BTreeMap<TaskId, Task> {
    let named: Vec<TaskRef> = ids.iter().map(|id| bench.named(*id)).collect();
    let found = bench.ask("get", bench.store().get(named)).await;
    let tasks: BTreeMap<TaskId, Task> = found.into_iter().flatten().map(|task| (task.id, task)).collect();
    for (id, fact) in told {
        let task = tasks.get(id).unwrap_or_else(|| panic!("{id} was acknowledged and is gone: {fact:?}"));
        assert_eq!(task.body, fact.body, "the body of {id}");
        assert!(progress(&task.state, task.attempts) >= fact.progress, "{id} fell back: {fact:?}\n{task:?}");
    }
    for task in tasks.values() {
        let record = whole(bench, task).await;
        if let Some(Fact { record: Some(expected), .. }) = told.get(&task.id) {
            assert_eq!(record.as_ref(), Some(expected), "the result of {}", task.id);
        }
    }
    tasks
}

/// As [`hold`], where `ids` has every task there ever was: those of which a client would only have heard
/// later are there whole or not at all. Gives what the store says now.
pub async fn check(bench: &Bench, told: &Facts, ids: &BTreeSet<TaskId>) -> Facts {
    let tasks = hold(bench, told, ids).await;
    counted(bench, tasks.values()).await;
    called_back(bench, tasks.values()).await;
    let mut facts = Facts::new();
    for task in tasks.values() {
        learn(&mut facts, task.id, &task.body, progress(&task.state, task.attempts), None);
    }
    facts
}

/// A task with its result and its history, which must fit each other.
async fn whole(bench: &Bench, task: &Task) -> Option<ResultRecord> {
    let history = bench.attempts(task.id).await.expect("a task that is there has a history");
    assert_eq!(history.len(), task.attempts.min(20) as usize, "the history of {task:?}: {history:?}");
    assert!(history.iter().rev().skip(1).all(|attempt| attempt.end.is_some()), "{task:?}: {history:?}");
    let is_open = history.last().is_some_and(|attempt| attempt.end.is_none());
    assert_eq!(is_open, task.state.lease().is_some(), "{task:?}: {history:?}");
    match bench.lookup(task.id).await {
        ResultLookup::Pending => {
            assert!(task.state.is_live(), "{task:?} has no result");
            None
        }
        ResultLookup::Done { record, .. } => {
            assert!(!task.state.is_live(), "{task:?} has a result: {record:?}");
            if task.state == State::Completed {
                assert_eq!(record.result.as_deref(), Some(&*result_text(task.id, task.attempts)));
            }
            Some(record)
        }
        ResultLookup::NotFound => panic!("{} is there and its result is unknown", task.id),
    }
}

/// The counts of every queue are what counting its tasks gives.
async fn counted(bench: &Bench, tasks: impl Iterator<Item = &Task>) {
    let mut expected: BTreeMap<QueueKey, [u64; 4]> = BTreeMap::new();
    for task in tasks {
        let counts = expected.entry(QueueKey::new(&task.body.tenant, &task.body.command)).or_default();
        match task.state {
            State::Ready { .. } => counts[0] += 1,
            State::Delayed { .. } => counts[1] += 1,
            State::Running(_) => counts[2] += 1,
            State::Dead => counts[3] += 1,
            State::Held(_) | State::Completed | State::Failed | State::Cancelled => {}
        }
    }
    expected.retain(|_, counts| *counts != [0; 4]);
    let mut found: BTreeMap<QueueKey, [u64; 4]> = BTreeMap::new();
    for stats in bench.ask("queues", bench.store().queues(None)).await {
        let counts = [stats.ready_total(), stats.delayed, stats.in_progress, stats.dead];
        if counts != [0; 4] {
            found.insert(QueueKey::new(&stats.tenant, &stats.command), counts);
        }
    }
    assert_eq!(found, expected, "ready, delayed, running, dead");
}

/// Every end of a task with a webhook has its callback, and nothing else has one.
async fn called_back(bench: &Bench, tasks: impl Iterator<Item = &Task>) {
    let ended = tasks.filter(|task| task.body.webhook.is_some() && !task.state.is_live());
    let expected: BTreeSet<TaskId> = ended.map(|task| task.id).collect();
    let asked = bench.store().deliveries(Some(bench.tenant.clone()), false, 0, usize::MAX);
    let found = bench.ask("deliveries", asked).await;
    assert_eq!(found.len(), expected.len(), "one callback each");
    assert_eq!(found.iter().map(|delivery| delivery.task_id).collect::<BTreeSet<_>>(), expected);
}

/// Every ready task can be claimed once, the more urgent first, and every key still names its task.
pub async fn usable(bench: &Bench, facts: &Facts) {
    let ready: u64 =
        bench.ask("queues", bench.store().queues(None)).await.iter().map(|q| q.ready_total()).sum();
    let mut claimed: Vec<Task> = Vec::new();
    loop {
        let more = bench.claim_any(20).await;
        if more.is_empty() {
            break;
        }
        claimed.extend(more);
    }
    assert_eq!(claimed.len() as u64, ready, "what is counted as ready can be claimed");
    let ids: BTreeSet<TaskId> = claimed.iter().map(|task| task.id).collect();
    assert_eq!(ids.len(), claimed.len(), "nothing is lent twice");
    assert!(claimed.is_sorted_by_key(|task| std::cmp::Reverse(task.priority)));
    for (id, fact) in facts.iter().filter(|(_, fact)| fact.body.idempotency_key.is_some()) {
        let key = fact.body.idempotency_key.as_deref().expect("looked at just now");
        let again = bench.make(New::of(&fact.body.command).key(key)).await;
        assert!(again.is_replay && again.task.id == *id, "the key of {id} names {again:?}");
    }
}
