//! The driver: random operations on a store and on the model, one at a time, every answer compared.
//!
//! One seed gives one sequence of draws. A store that makes draws of its own (ids, jitter) may lead the same
//! seed elsewhere; seeds whose rules have no jitter repeat exactly.

use super::state::{Entry, Model};
use crate::testing::campaign::sized;
use crate::testing::exam::bench::PATIENCE;
use crate::testing::exam::request::New;
use crate::testing::exam::{Candidate, Open, START};
use crate::{Clock, Rules};
use codeq_queue::store::{Answer, ResultLookup, TaskRef};
use codeq_queue::{Backoff, BackoffPolicy, Body, State, Store, Task, TaskId, Time};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What differs, in words.
pub type Compared = Result<(), String>;

const CHECK_EVERY: usize = 200;
/// Enough queues to reach every shard of a store with a handful of them.
const PROBES: usize = 32;
const OPERATIONS: usize = 5_000;

pub struct Driver {
    pub(super) candidate: Arc<dyn Candidate>,
    pub(super) model: Model,
    pub(super) rng: SmallRng,
    /// Every task there ever was.
    pub(super) known: Vec<TaskRef>,
    pub(super) doing: String,
    /// The furthest the clock has been.
    latest: Time,
}

/// Rules for a run: every policy comes up, and retention is short enough to matter.
pub fn rules_for(seed: u64) -> Rules {
    let policies = BackoffPolicy::ALL;
    let (_, policy) = policies[usize::try_from(seed % 5).expect("a remainder of five is small")];
    Rules {
        backoff: Backoff { policy, base_seconds: seed % 3, max_seconds: 20 },
        retention: Duration::from_secs(120),
        dead_retention: seed.is_multiple_of(2).then_some(Duration::from_secs(300)),
        cleanup_interval: Duration::from_secs(30),
        ..Rules::default()
    }
}

/// Runs the seed that `CODEQ_MODEL_SEED` names, or a fixed few; `CODEQ_MODEL_OPS` operations each.
pub async fn run_from_environment(open: Open) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    let operations = number("CODEQ_MODEL_OPS").map_or(OPERATIONS, |n| usize::try_from(n).expect("a count"));
    let seeds: Vec<u64> = number("CODEQ_MODEL_SEED").map_or((1..=sized(3, 10)).collect(), |seed| vec![seed]);
    for seed in seeds {
        run(open(rules_for(seed)), seed, operations).await;
    }
}

/// Drives `candidate`, new and empty, and panics at the first difference.
pub async fn run(candidate: Arc<dyn Candidate>, seed: u64, operations: usize) {
    let mut driver = Driver {
        model: Model::new(candidate.rules(), START),
        candidate,
        rng: SmallRng::seed_from_u64(seed),
        known: Vec::new(),
        doing: String::new(),
        latest: START,
    };
    for index in 0..operations {
        let mut compared = driver.operate().await;
        if compared.is_ok() && (index % CHECK_EVERY == CHECK_EVERY - 1 || index + 1 == operations) {
            compared = driver.compare_everything().await;
        }
        if let Err(difference) = compared {
            panic!(
                "seed {seed}, operation {index}, {}: {difference}\nrepeat with: CODEQ_MODEL_SEED={seed} \
                 CODEQ_MODEL_OPS={operations} cargo test -p codeq-store --test it model",
                driver.doing
            );
        }
    }
    driver.store().close().await.expect("the store closes");
}

/// The numbers of a task are the store's own affair; only the order they make is compared.
pub fn unnumbered(mut task: Task) -> Task {
    if task.body.options.as_ref().is_some_and(|options| options.accepted.is_some()) {
        let mut options = task.body.options.as_deref().cloned().unwrap_or_default();
        options.accepted = None;
        task.body = Arc::new(Body { options: options.boxed(), ..(*task.body).clone() });
    }
    if let State::Ready { seq } = &mut task.state {
        *seq = 0;
    }
    task
}

pub fn unnumbered_result(found: ResultLookup) -> ResultLookup {
    match found {
        ResultLookup::Done { task, record } => ResultLookup::Done { task: unnumbered(task), record },
        other => other,
    }
}

pub fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, expected: &T) -> Compared {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}\n   store: {found:?}\n   model: {expected:?}"))
}

impl Driver {
    pub(super) fn store(&self) -> Arc<dyn Store> {
        self.candidate.store()
    }

    pub(super) fn candidate_now(&self) -> Time {
        self.candidate.clock().now()
    }

    pub(super) async fn ask<T>(&self, what: &str, answer: Answer<T>) -> Result<T, String> {
        match tokio::time::timeout(PATIENCE, answer).await {
            Err(_) => Err(format!("no answer to {what} within {PATIENCE:?}")),
            Ok(Err(failure)) => Err(format!("{what} failed: {failure}")),
            Ok(Ok(value)) => Ok(value),
        }
    }

    pub(super) async fn move_clock(&mut self) -> Compared {
        let wanted = self.next_instant();
        let to = self.beyond_the_lag(wanted);
        self.doing = format!("move the clock from {:?} to {to:?}", self.candidate_now());
        if to < self.candidate_now() {
            // Every part of the store sees the time that is about to be taken back.
            self.probe(self.candidate_now()).await?;
        }
        self.candidate.clock().set(to);
        self.settle().await
    }

    /// Closes and opens, or crashes. Not while the clock is behind: how much of a time that is no more a
    /// store remembers is its own affair.
    pub(super) async fn reopen(&mut self) -> Compared {
        if self.candidate_now() < self.latest {
            self.candidate.clock().set(self.latest);
            self.settle().await?;
        }
        let crash = self.one_in(2);
        self.doing = if crash { "crash".into() } else { "reopen".into() };
        if crash {
            self.candidate.crash();
        } else if self.candidate.keeps_on_reopen() {
            if self.one_in(2) {
                self.ask("close", self.store().close()).await?;
                let wanted = self.next_instant().max(self.latest);
                let to = self.beyond_the_lag(wanted);
                self.doing = format!("reopen at {to:?}");
                self.candidate.clock().set(to);
            }
            self.candidate.reopen();
        }
        self.settle().await
    }

    /// Lets the store act on the time, then the model, following the store in what is left to chance.
    async fn settle(&mut self) -> Compared {
        self.ask("queues", self.store().queues(None)).await?;
        let clock = self.candidate_now();
        let now = if clock < self.latest { self.probe(clock).await? } else { clock };
        self.latest = self.latest.max(clock);
        let due = self.model.due(now);
        let (promoted, dead) = (self.among(&due, is_delayed), self.among(&due, is_dead));
        self.await_removal(&dead).await?;
        let seen = self.seen(&due).await?;
        let ready = self.model.advance(now, &mut |id, low, high| match waits(seen.get(&id), now) {
            Some(seconds) if (low..=high).contains(&seconds) => seconds,
            _ => high,
        });
        for id in &due {
            let expected = self.model.by_id(*id).map(|entry| unnumbered(entry.task.clone()));
            let found = seen.get(id).cloned().map(unnumbered);
            same(&format!("what time did to {id}"), &found, &expected)?;
        }
        self.follow_order(&ready, &promoted, &seen)
    }

    fn among(&self, ids: &[TaskId], wanted: fn(&Entry) -> bool) -> Vec<TaskId> {
        ids.iter().copied().filter(|id| self.model.by_id(*id).is_some_and(wanted)).collect()
    }

    /// What the store takes for now while its clock is behind: no earlier than the clock, no later than the
    /// latest it has seen, and the same in all its parts.
    async fn probe(&self, clock: Time) -> Result<Time, String> {
        let probes = (0..PROBES).map(|n| New::of(&format!("probe-{n}")).build(&"probe".into()));
        let mut times = Vec::new();
        for made in self.ask("create", self.store().create(probes.collect())).await? {
            times.push(made.map_err(|refusal| format!("a probe was refused: {refusal}"))?.task.created_at);
        }
        let now = times[0];
        match (clock..=self.latest).contains(&now) && times.iter().all(|time| *time == now) {
            true => Ok(now),
            false => Err(format!("at {clock:?}, after {:?}, tasks were created at {times:?}", self.latest)),
        }
    }

    fn named(&self, ids: &[TaskId]) -> Vec<TaskRef> {
        let entries = ids.iter().filter_map(|id| self.model.by_id(*id));
        entries.map(|e| TaskRef { tenant: e.task.body.tenant.clone(), id: e.task.id }).collect()
    }

    async fn seen(&self, ids: &[TaskId]) -> Result<BTreeMap<TaskId, Task>, String> {
        let found = self.ask("get", self.store().get(self.named(ids))).await?;
        Ok(found.into_iter().flatten().map(|task| (task.id, task)).collect())
    }

    /// The lag of removal is over by the clock; the store may still be at it.
    async fn await_removal(&self, dead: &[TaskId]) -> Compared {
        let deadline = std::time::Instant::now() + PATIENCE;
        while !self.seen(dead).await?.is_empty() {
            if std::time::Instant::now() > deadline {
                return Err(format!("dead letters are not removed: {dead:?}"));
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    /// Tasks that became ready in one step of the clock stand in the store's order, which must keep promoted
    /// tasks of one queue in the order of their instants.
    fn follow_order(
        &mut self,
        ready: &[TaskId],
        promoted: &[TaskId],
        seen: &BTreeMap<TaskId, Task>,
    ) -> Compared {
        let mut order = ready.to_vec();
        order.sort_by_key(|id| match seen.get(id).map(|task| &task.state) {
            Some(State::Ready { seq }) => *seq,
            _ => u64::MAX,
        });
        let lane = |id: &TaskId| {
            let entry = self.model.by_id(*id)?;
            Some((entry.key(), entry.task.body.lane(), entry.task.priority))
        };
        for of in order.iter().map(lane) {
            let of_lane = |ids: &[TaskId]| -> Vec<TaskId> {
                ids.iter().filter(|id| promoted.contains(id) && lane(id) == of).copied().collect()
            };
            same("the order of promotion", &of_lane(&order), &of_lane(promoted))?;
        }
        self.model.reorder(&order);
        Ok(())
    }
}

fn is_delayed(entry: &Entry) -> bool {
    matches!(entry.task.state, State::Delayed { .. })
}

fn is_dead(entry: &Entry) -> bool {
    entry.task.state == State::Dead
}

/// The seconds that a task was seen to be given to wait at `now`.
fn waits(task: Option<&Task>, now: Time) -> Option<u64> {
    match task?.state {
        State::Ready { .. } => Some(0),
        State::Delayed { until } => {
            let ms = u64::try_from(until.millis() - now.millis()).ok()?;
            (ms % 1000 == 0).then_some(ms / 1000)
        }
        _ => None,
    }
}
