//! One look at everything a store shows, while nobody is at work.

use super::flows::LIMITED;
use super::ledger::Ledger;
use codeq_queue::batch::Batch;
use codeq_queue::store::{Health, ResultLookup, TaskRef, Wait};
use codeq_queue::{
    Delivery, Failure, Filter, Page, QueueKey, QueueStats, ResultRecord, State, Store, StoredPolicy, Task,
    TaskId, Time,
};
use futures_util::future::try_join_all;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Long enough for a crowded machine; only a broken store uses it up.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct Look {
    pub tasks: BTreeMap<TaskId, Task>,
    /// Ids in the order in which the listing gave them.
    pub listed: Vec<TaskId>,
    /// Of every task that has one.
    pub records: BTreeMap<TaskId, ResultRecord>,
    /// Tasks whose result the store does not know although it knows them.
    pub without_lookup: Vec<TaskId>,
    pub queues: Vec<QueueStats>,
    pub deliveries: Vec<Delivery>,
    /// Of the queue that has one.
    pub policy: Option<StoredPolicy>,
    /// Those that clients know of and that are still there.
    pub batches: BTreeMap<TaskId, Batch>,
}

impl Look {
    /// Dead letters that are removed at or before `by`, sooner or later.
    pub fn overdue(&self, ledger: &Ledger, by: Time) -> impl Iterator<Item = &Task> {
        let dead = self.tasks.values().filter(|task| task.state == State::Dead);
        dead.filter(move |task| {
            let kept = ledger.rules.dead_retention.zip(self.records.get(&task.id));
            kept.is_some_and(|(kept, record)| record.completed_at.plus(kept) <= by)
        })
    }

    /// Whether time should have moved a task on.
    pub fn is_late(&self, now: Time) -> bool {
        self.tasks.values().any(|task| is_over(&task.state, now))
    }

    /// Whether a dead letter went while this look was taken, or may not stay any longer.
    fn is_shifting(&self, ledger: &Ledger) -> bool {
        let lag = i64::try_from(ledger.rules.cleanup_interval.as_millis()).expect("a short interval");
        let by = Time::from_millis(ledger.now.millis() - lag);
        let is_dead = |id: &TaskId| self.tasks[id].state == State::Dead;
        self.without_lookup.iter().any(is_dead)
            || self.overdue(ledger, by).next().is_some()
            || self.is_late(ledger.now)
    }
}

/// Whether time should have moved the task on.
pub fn is_over(state: &State, now: Time) -> bool {
    match state {
        State::Delayed { until } => *until <= now,
        State::Running(lease) => lease.until <= now,
        _ => false,
    }
}

/// Looks, and looks again while dead letters are being removed; while tasks come back that were lent to a
/// caller who had gone, which a thread that reads the tables for the caller finds out at its own pace; and
/// while timers wait for a journal that has no room at the moment.
pub async fn look(store: &dyn Store, ledger: &Ledger) -> Result<Look, Failure> {
    let begun = Instant::now();
    loop {
        let before = store.queues(None).await?;
        let look = look_once(store, ledger).await?;
        let is_shifting = before != look.queues || look.is_shifting(ledger);
        let is_stuck = matches!(store.health(), Health::Unavailable(_));
        if !is_shifting || is_stuck || begun.elapsed() > PATIENCE / 2 {
            return Ok(look);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn look_once(store: &dyn Store, ledger: &Ledger) -> Result<Look, Failure> {
    let listed = list(store).await?;
    let mut named = ledger.known.clone();
    for task in &listed {
        if !ledger.accounts.contains_key(&task.id) {
            named.push(TaskRef { tenant: task.body.tenant.clone(), id: task.id });
        }
    }
    let found = store.get(named).await?.into_iter().flatten();
    let tasks: BTreeMap<TaskId, Task> = found.map(|task| (task.id, task)).collect();
    let (records, without_lookup) = records(store, &tasks).await?;
    let mut deliveries = store.deliveries(None, false, 0, usize::MAX).await?;
    deliveries.extend(store.deliveries(None, true, 0, usize::MAX).await?);
    let queues = store.queues(None).await?;
    let listed = listed.iter().map(|task| task.id).collect();
    let policing = store.policing().expect("an embedded store keeps policies");
    let policy = policing.policy(QueueKey::new(&ledger.tenant, LIMITED)).await?;
    let batches = batches(store, ledger).await?;
    Ok(Look { tasks, listed, records, without_lookup, queues, deliveries, policy, batches })
}

async fn batches(store: &dyn Store, ledger: &Ledger) -> Result<BTreeMap<TaskId, Batch>, Failure> {
    let batching = store.batching().expect("an embedded store keeps batches");
    let known = ledger.batches.keys().map(|id| batching.batch(ledger.tenant.clone(), *id));
    let found = try_join_all(known).await?.into_iter().flatten();
    Ok(found.map(|batch| (batch.id, batch)).collect())
}

async fn list(store: &dyn Store) -> Result<Vec<Task>, Failure> {
    let (mut tasks, mut cursor) = (Vec::new(), None);
    loop {
        let filter = Arc::new(Filter::default());
        let page = Page { tenant: None, filter, is_newest_first: false, cursor, limit: 500 };
        let listed = store.list(page).await?.map_err(|refusal| Failure::Internal(refusal.to_string()))?;
        tasks.extend(listed.tasks);
        match listed.next {
            Some(next) => cursor = Some(next),
            None => return Ok(tasks),
        }
    }
}

async fn records(
    store: &dyn Store,
    tasks: &BTreeMap<TaskId, Task>,
) -> Result<(BTreeMap<TaskId, ResultRecord>, Vec<TaskId>), Failure> {
    let ask = |task: &Task| store.result(TaskRef { tenant: task.body.tenant.clone(), id: task.id }, Wait::No);
    let lookups = try_join_all(tasks.values().map(ask)).await?;
    let (mut records, mut unknown) = (BTreeMap::new(), Vec::new());
    for (id, lookup) in tasks.keys().zip(lookups) {
        match lookup {
            ResultLookup::Done { record, .. } => drop(records.insert(*id, record)),
            ResultLookup::NotFound => unknown.push(*id),
            ResultLookup::Pending => {}
        }
    }
    Ok((records, unknown))
}
