//! The bench a case works at: one candidate, one tenant, and every verb of a store in its shortest form.
//!
//! Every call is bounded by [`PATIENCE`] and panics with what was awaited. A failure (as opposed to a
//! refusal) is always a panic: no case breaks the storage.

use super::candidate::{Candidate, Open};
use super::request::New;
use crate::{Clock, Rules};
use codeq_queue::store::{
    Abandon, Answer, Beat, Cancel, Claim, Created, Heartbeat, Nack, Report, ResultLookup, Returned, Submit,
    TaskRef, Wait,
};
use codeq_queue::{
    Attempt, Backoff, BackoffPolicy, Commands, Outcome, Owner, QueueKey, QueueStats, Refusal, ResultRecord,
    State, Store, Task, TaskId, Time,
};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Long enough for the slowest disk; only a broken store uses it up.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The lease that [`Bench::claim`] asks for.
pub const LEASE: Duration = Duration::from_secs(60);

pub struct Bench {
    pub candidate: Arc<dyn Candidate>,
    pub tenant: Arc<str>,
    pub owner: Arc<Owner>,
}

/// The default rules with a backoff that leaves nothing to chance: five seconds.
pub fn plain_rules() -> Rules {
    let backoff = Backoff { policy: BackoffPolicy::Fixed, base_seconds: 5, max_seconds: 900 };
    Rules { backoff, ..Rules::default() }
}

/// As [`plain_rules`], but what fails is ready again at once.
pub fn eager_rules() -> Rules {
    let backoff = Backoff { policy: BackoffPolicy::Fixed, base_seconds: 0, max_seconds: 900 };
    Rules { backoff, ..Rules::default() }
}

pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited {PATIENCE:?} in vain: {what}"),
    }
}

/// Asks again and again until the answer is yes.
pub async fn eventually<F: Future<Output = bool>>(what: &str, mut ask: impl FnMut() -> F) {
    within(what, async {
        while !ask().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

pub fn one<T>(mut items: Vec<T>) -> T {
    assert_eq!(items.len(), 1, "one item is answered by one");
    items.remove(0)
}

/// The instant a delayed task waits for.
pub fn until(task: &Task) -> Time {
    match task.state {
        State::Delayed { until } => until,
        ref other => panic!("expected a delayed task, found {other:?}"),
    }
}

pub fn ids(tasks: &[Task]) -> Vec<TaskId> {
    tasks.iter().map(|task| task.id).collect()
}

impl Bench {
    pub fn new(open: &Open) -> Bench {
        Bench::with(open, plain_rules())
    }

    pub fn with(open: &Open, rules: Rules) -> Bench {
        Bench {
            candidate: open(rules),
            tenant: "acme".into(),
            owner: Arc::new(Owner::new("subject", "worker")),
        }
    }

    /// The same candidate seen by another tenant.
    pub fn tenant(&self, tenant: &str) -> Bench {
        Bench { candidate: self.candidate.clone(), tenant: tenant.into(), owner: self.owner.clone() }
    }

    /// The same candidate used by another worker.
    pub fn worker(&self, subject: &str, worker_id: &str) -> Bench {
        let owner = Arc::new(Owner::new(subject, worker_id));
        Bench { candidate: self.candidate.clone(), tenant: self.tenant.clone(), owner }
    }

    pub fn store(&self) -> Arc<dyn Store> {
        self.candidate.store()
    }

    pub fn now(&self) -> Time {
        self.candidate.clock().now()
    }

    pub fn advance_ms(&self, ms: u64) {
        self.candidate.clock().advance(Duration::from_millis(ms));
    }

    pub fn advance(&self, seconds: u64) {
        self.advance_ms(seconds * 1000);
    }

    pub fn set(&self, now: Time) {
        self.candidate.clock().set(now);
    }

    /// Awaits an answer that must come and must not be a failure.
    pub async fn ask<T>(&self, what: &str, answer: Answer<T>) -> T {
        within(what, answer).await.unwrap_or_else(|failure| panic!("{what}: {failure}"))
    }

    pub fn key(&self, command: &str) -> QueueKey {
        QueueKey::new(&self.tenant, command)
    }

    pub fn named(&self, id: TaskId) -> TaskRef {
        TaskRef { tenant: self.tenant.clone(), id }
    }

    // Producers.

    pub async fn try_make(&self, new: New) -> Result<Created, Refusal> {
        let task = new.build(&self.tenant);
        one(self.ask("create", self.store().create(vec![task])).await)
    }

    pub async fn make(&self, new: New) -> Created {
        self.try_make(new).await.expect("a create is not refused")
    }

    pub async fn create(&self, command: &str) -> Task {
        self.make(New::of(command)).await.task
    }

    pub async fn find(&self, id: TaskId) -> Option<Task> {
        one(self.ask("get", self.store().get(vec![self.named(id)])).await)
    }

    pub async fn get(&self, id: TaskId) -> Task {
        self.find(id).await.unwrap_or_else(|| panic!("task {id} is gone"))
    }

    pub async fn lookup(&self, id: TaskId) -> ResultLookup {
        self.ask("result", self.store().result(self.named(id), Wait::No)).await
    }

    pub async fn record(&self, id: TaskId) -> ResultRecord {
        match self.lookup(id).await {
            ResultLookup::Done { record, .. } => record,
            other => panic!("expected the result of {id}, found {other:?}"),
        }
    }

    // Workers.

    pub fn wish(&self, commands: Commands, count: usize, wait: Wait) -> Claim {
        Claim {
            tenant: self.tenant.clone(),
            commands,
            owner: self.owner.clone(),
            lease: LEASE,
            is_default_lease: false,
            count,
            wait,
        }
    }

    pub async fn claim(&self, commands: &[&str], count: usize) -> Vec<Task> {
        let wish = self.wish(Commands::these(commands.iter().copied()), count, Wait::No);
        self.ask("claim", self.store().claim(wish)).await
    }

    pub async fn claim_any(&self, count: usize) -> Vec<Task> {
        self.ask("claim of any command", self.store().claim(self.wish(Commands::Any, count, Wait::No))).await
    }

    /// Claims the one task that must be there.
    pub async fn take(&self, command: &str) -> Task {
        let mut tasks = self.claim(&[command], 1).await;
        tasks.pop().unwrap_or_else(|| panic!("nothing to claim from {command}"))
    }

    pub async fn create_and_take(&self, new: New) -> Task {
        let created = self.make(new).await.task;
        let taken = self.take(&created.body.command.to_ascii_lowercase()).await;
        assert_eq!(taken.id, created.id, "the only task of the queue is the one claimed");
        taken
    }

    /// Starts a claim that waits, and returns once the store has it.
    pub async fn hold(&self, commands: Commands, wait: Wait) -> JoinHandle<Vec<Task>> {
        let answer = self.store().claim(self.wish(commands, 1, wait));
        let held = tokio::spawn(async move { answer.await.expect("a held claim does not fail") });
        self.settle().await;
        held
    }

    /// A round trip through every part of the store: what was sent before has arrived, and every timer due
    /// by now has acted, because no command is answered before them.
    pub async fn settle(&self) {
        for _ in 0..2 {
            tokio::task::yield_now().await;
            self.ask("round trip", self.store().queues(None)).await;
        }
    }

    pub fn report(&self, task: &Task) -> Report {
        Report { tenant: self.tenant.clone(), id: task.id, owner: self.owner.clone(), attempt: None }
    }

    pub fn fenced(&self, task: &Task) -> Report {
        Report { attempt: Some(task.attempts), ..self.report(task) }
    }

    pub async fn beat(&self, beat: Heartbeat) -> Result<Beat, Refusal> {
        one(self.ask("heartbeat", self.store().heartbeat(vec![beat])).await)
    }

    pub async fn heartbeat(&self, report: Report, extend: Duration) -> Result<(), Refusal> {
        self.beat(Heartbeat::new(report, extend)).await.map(|_| ())
    }

    pub async fn nack(&self, task: &Task, delay_seconds: i64, reason: &str) -> Result<Returned, Refusal> {
        let nack = Nack::new(self.report(task), delay_seconds, Some(reason.into()));
        one(self.ask("nack", self.store().nack(vec![nack])).await)
    }

    pub async fn abandon(&self, task: &Task) -> Result<Returned, Refusal> {
        self.give_back(self.report(task), false).await
    }

    pub async fn refund(&self, task: &Task) -> Result<Returned, Refusal> {
        self.give_back(self.report(task), true).await
    }

    pub async fn give_back(&self, report: Report, refund: bool) -> Result<Returned, Refusal> {
        one(self.ask("abandon", self.store().abandon(vec![Abandon::new(report, refund)])).await)
    }

    pub async fn submit(&self, task: &Task, outcome: Outcome) -> Result<ResultRecord, Refusal> {
        self.submit_as(self.report(task), outcome).await
    }

    pub async fn submit_as(&self, report: Report, outcome: Outcome) -> Result<ResultRecord, Refusal> {
        one(self.ask("submit", self.store().submit(vec![Submit { report, outcome }])).await)
    }

    pub async fn complete(&self, task: &Task) -> ResultRecord {
        self.submit(task, Outcome::completed("{}")).await.expect("the owner may complete its task")
    }

    /// Creates a task in `command` and lets it run out of attempts.
    pub async fn dead(&self, command: &str) -> Task {
        let task = self.create_and_take(New::of(command).max_attempts(1)).await;
        assert_eq!(self.nack(&task, 0, "broken").await, Ok(Returned::Dead));
        self.get(task.id).await
    }

    // Operators.

    pub async fn cancel(&self, id: TaskId) -> Result<Task, Refusal> {
        one(self.ask("cancel", self.store().cancel(vec![Cancel::now(self.named(id))])).await)
    }

    pub async fn requeue(&self, id: TaskId, max_attempts: Option<u32>) -> Result<Task, Refusal> {
        one(self.ask("requeue", self.store().requeue(vec![self.named(id)], max_attempts)).await)
    }

    pub async fn run_now(&self, id: TaskId) -> Result<Task, Refusal> {
        one(self.ask("run now", self.store().run_now(vec![self.named(id)])).await)
    }

    pub async fn remove(&self, id: TaskId) -> Result<(), Refusal> {
        one(self.ask("remove", self.store().remove(vec![self.named(id)])).await)
    }

    pub async fn attempts(&self, id: TaskId) -> Option<Vec<Attempt>> {
        self.ask("attempts", self.store().attempts(self.named(id))).await
    }

    pub async fn stats(&self, command: &str) -> QueueStats {
        self.ask("queue", self.store().queue(self.key(command))).await
    }

    pub async fn pause(&self, command: &str) -> QueueStats {
        self.ask("pause", self.store().pause(self.key(command))).await
    }

    pub async fn resume(&self, command: &str) -> QueueStats {
        self.ask("resume", self.store().resume(self.key(command))).await
    }

    pub async fn cleanup(&self, before: Time, limit: usize) -> u64 {
        self.ask("cleanup", self.store().cleanup(self.tenant.clone(), before, limit)).await
    }
}
