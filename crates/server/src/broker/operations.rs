//! Bulk operations: asked for by an operator, worked off in the background, step by step.
//!
//! A step is stored before it is done and its outcome with the next one, so whoever goes on after a crash
//! repeats one step at most, and of that only the tasks that have not changed since the operation began.
//! Several processes over one store agree by versions: who works on an operation holds it for a while.

use super::repair::attempts_given;
use super::{Broker, Error};
use codeq_queue::audit::Note;
use codeq_queue::operation::Step;
use codeq_queue::schedule::Backfill;
use codeq_queue::store::{Cancel, TaskRef};
use codeq_queue::{
    Failure, Filter, Operation, OperationKind, OperationState, Page, Refusal, State, Task, TaskId, Time,
    Whereabouts, cause,
};
use futures_util::FutureExt;
use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Operations that run at the same time.
const RUNNING: usize = 64;
/// Of those, of one tenant; those about every tenant are one, too.
const TENANT_RUNNING: usize = 8;
/// Operations that are remembered after their end, and for how long.
const REMEMBERED: usize = 1000;
const REMEMBERED_SECONDS: u64 = 7 * 24 * 3600;
/// Tasks of one step.
const STEP: u32 = 500;
/// Steps a second at a given rate.
const STEPS_A_SECOND: u32 = 10;
/// How long an operation is left to the process that works on it without a sign of life.
const HELD: Duration = Duration::from_secs(5);
/// How often abandoned operations are looked for.
const ROUND: Duration = Duration::from_secs(2);
/// Pause after the store has failed.
const RETRY: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub struct BulkRequest {
    pub kind: OperationKind,
    /// `None` is every tenant.
    pub tenant: Option<Arc<str>>,
    pub filter: Filter,
    pub max_attempts: Option<i64>,
    /// Nothing positive is as fast as it goes.
    pub rate_per_second: i64,
    /// The subject of the token.
    pub by: Arc<str>,
}

impl BulkRequest {
    /// The filter narrowed to what this kind of operation can touch.
    fn target(&self) -> Filter {
        match self.kind {
            OperationKind::Cancel | OperationKind::Backfill => self.filter.clone(),
            OperationKind::Requeue => {
                let has_failed = |place: &Whereabouts| {
                    matches!(place, Whereabouts::Dead | Whereabouts::Failed | Whereabouts::Cancelled)
                };
                let place = self.filter.place.filter(has_failed).unwrap_or(Whereabouts::Dead);
                Filter { place: Some(place), ..self.filter.clone() }
            }
            OperationKind::Delete => Filter { place: Some(Whereabouts::Dead), ..self.filter.clone() },
        }
    }
}

/// Whether an operation of this kind has anything to do with a task in this state.
fn is_target(kind: OperationKind, state: &State) -> bool {
    match kind {
        OperationKind::Cancel => state.is_live(),
        OperationKind::Requeue => state.has_failed(),
        OperationKind::Delete => *state == State::Dead,
        // It makes tasks and changes none.
        OperationKind::Backfill => false,
    }
}

impl Broker {
    /// How many tasks the operation would touch.
    pub async fn matched(&self, request: &BulkRequest) -> Result<u64, Error> {
        Ok(self.surveyed(request).await?.0)
    }

    /// How many tasks the operation would touch, and what their errors have in common if it is about one cause.
    async fn surveyed(&self, request: &BulkRequest) -> Result<(u64, Option<String>), Error> {
        let (mut count, mut common) = (0, None);
        let see = |task: &Task| {
            if is_target(request.kind, &task.state) {
                count += 1;
                if common.is_none() && request.filter.group.is_some() {
                    common = task.error.as_deref().map(cause::normalise);
                }
            }
        };
        self.each(request.tenant.clone(), Arc::new(request.target()), see).await?;
        Ok((count, common))
    }

    /// Stores the operation; it is worked off in the background.
    pub async fn start_operation(&self, request: BulkRequest) -> Result<Operation, Error> {
        self.check_running(request.tenant.as_ref()).await?;
        let (matched, cause) = self.surveyed(&request).await?;
        let now = self.now();
        let operation = Operation {
            id: rand::random(),
            filter: request.target(),
            tenant: request.tenant,
            kind: request.kind,
            max_attempts: attempts_given(request.max_attempts),
            rate_per_second: u32::try_from(request.rate_per_second.max(0)).unwrap_or(u32::MAX),
            state: OperationState::Running,
            matched: Some(matched),
            processed: 0,
            failed: 0,
            created_at: now,
            updated_at: now,
            error: None,
            cursor: None,
            step: None,
            version: 1,
            holder: 0,
            held_until: now,
            by: Some(request.by),
            cause,
        };
        self.begin(&operation).await?;
        Ok(operation)
    }

    /// Whether another operation of the tenant, or of all, may run.
    pub(super) async fn check_running(&self, tenant: Option<&Arc<str>>) -> Result<(), Error> {
        let all = self.store.operations().await?;
        let running = all.iter().filter(|operation| operation.state == OperationState::Running);
        let own = running.clone().filter(|operation| operation.tenant.as_ref() == tenant);
        for (count, most) in [(own.count(), TENANT_RUNNING), (running.count(), RUNNING)] {
            if count >= most {
                return Err(Refusal::TooManyOperations(most).into());
            }
        }
        Ok(())
    }

    /// Stores a new operation, with the one record of all that it will do, and has it worked off.
    pub(super) async fn begin(&self, operation: &Operation) -> Result<(), Error> {
        if let Some(note) = Note::open() {
            note.amend(|entry| {
                entry.count = operation.matched;
                entry.target = format!("{} (operation {:032x})", entry.target, operation.id).into();
            });
        }
        self.store.put_operation(operation.clone()).await?;
        self.started.notify_one();
        Ok(())
    }

    /// The operations of a tenant, or all, the newest first.
    pub async fn operations(&self, tenant: Option<&Arc<str>>) -> Result<Vec<Operation>, Error> {
        let mut all = self.store.operations().await?;
        all.retain(|operation| tenant.is_none() || operation.tenant.as_ref() == tenant);
        all.reverse();
        Ok(all)
    }

    pub async fn operation(&self, tenant: Option<&Arc<str>>, id: &str) -> Result<Operation, Error> {
        let all = self.operations(tenant).await?;
        let is_it = |operation: &Operation| format!("{:032x}", operation.id) == id;
        Ok(all.into_iter().find(is_it).ok_or(Refusal::OperationNotFound)?)
    }

    /// Stops an operation; what it has done stays done. One that has ended stays as it is.
    pub async fn cancel_operation(&self, tenant: Option<&Arc<str>>, id: &str) -> Result<Operation, Error> {
        loop {
            let operation = self.operation(tenant, id).await?;
            if operation.state != OperationState::Running {
                return Ok(operation);
            }
            let cancelled = next(&operation, OperationState::Cancelled, self.now());
            if self.store.put_operation(cancelled.clone()).await? {
                return Ok(cancelled);
            }
        }
    }
}

/// The operation one version later.
fn next(operation: &Operation, state: OperationState, now: Time) -> Operation {
    Operation { state, updated_at: now, version: operation.version + 1, ..operation.clone() }
}

/// Works off operations until the server drains: those that are asked for here, and those that whoever
/// worked on them has left.
pub async fn work_off(broker: Arc<Broker>) {
    let me: u128 = rand::random();
    let mut under_way: HashSet<u128> = HashSet::new();
    let mut workers: JoinSet<u128> = JoinSet::new();
    loop {
        match broker.store.operations().await {
            Ok(all) => {
                forget_old(&broker, &all).await;
                let now = broker.now();
                let is_free = |operation: &Operation| {
                    operation.state == OperationState::Running && operation.held_until <= now
                };
                for operation in all.into_iter().filter(is_free) {
                    if under_way.len() < RUNNING && under_way.insert(operation.id) {
                        workers.spawn(watched(
                            operation.id,
                            Worker { broker: broker.clone(), me }.run(operation),
                        ));
                    }
                }
            }
            Err(Failure::Closed) => return,
            Err(error) => tracing::warn!(err = %error, "cannot read operations"),
        }
        tokio::select! {
            () = broker.draining.cancelled() => break,
            () = broker.started.notified() => {}
            () = tokio::time::sleep(ROUND) => {}
            Some(ended) = workers.join_next() => {
                if let Ok(id) = ended {
                    under_way.remove(&id);
                }
            }
        }
    }
    // Each one stops before its next step.
    while workers.join_next().await.is_some() {}
}

/// An operation whose work panics is left to whoever looks for abandoned ones next: until then it is held.
async fn watched(id: u128, work: impl Future<Output = u128>) -> u128 {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!(operation = format!("{id:032x}"), "an operation has failed and is begun again");
        id
    })
}

async fn forget_old(broker: &Broker, all: &[Operation]) {
    let now = broker.now();
    let ended: Vec<&Operation> = all.iter().filter(|o| o.state != OperationState::Running).collect();
    let excess = ended.len().saturating_sub(REMEMBERED);
    for (index, operation) in ended.iter().enumerate() {
        if index < excess || operation.updated_at.plus_seconds(REMEMBERED_SECONDS) <= now {
            let _ = broker.store.remove_operation(operation.id).await;
        }
    }
}

struct Worker {
    broker: Arc<Broker>,
    me: u128,
}

/// Why a worker leaves an operation.
enum Left {
    /// It is done, was stopped, or someone else has it.
    Over,
    /// It cannot go on.
    Broken(Refusal),
    /// The store does not answer; it may come back.
    Failed(Failure),
}

impl From<Failure> for Left {
    fn from(failure: Failure) -> Left {
        Left::Failed(failure)
    }
}

impl Worker {
    async fn run(self, mut operation: Operation) -> u128 {
        let id = operation.id;
        let mut pace = Pace::new(&operation);
        // Whoever stored the step may have done it.
        let mut is_unsure = operation.step.is_some();
        while !self.broker.draining.is_cancelled() {
            match self.advance(&mut operation, &mut pace, is_unsure).await {
                Ok(()) => is_unsure = false,
                Err(Left::Over) => break,
                Err(Left::Broken(refusal)) => {
                    let mut broken = next(&operation, OperationState::Failed, self.broker.now());
                    broken.error = Some(refusal.to_string());
                    let _ = self.broker.store.put_operation(broken).await;
                    break;
                }
                Err(Left::Failed(failure)) => {
                    tracing::warn!(operation = format!("{id:032x}"), err = %failure, "operation waits");
                    tokio::select! {
                        () = self.broker.draining.cancelled() => break,
                        () = tokio::time::sleep(RETRY) => {}
                    }
                    // What was under way may or may not have happened.
                    match self.reload(id).await {
                        Some(stored) => (operation, is_unsure) = (stored, true),
                        None => break,
                    }
                }
            }
        }
        id
    }

    async fn reload(&self, id: u128) -> Option<Operation> {
        let all = self.broker.store.operations().await;
        let found = all.unwrap_or_default().into_iter().find(|operation| operation.id == id);
        found.filter(|operation| operation.state == OperationState::Running)
    }

    /// Does the stored step, then finds and stores the next one.
    async fn advance(&self, operation: &mut Operation, pace: &mut Pace, is_unsure: bool) -> Result<(), Left> {
        let mut later = next(operation, OperationState::Running, self.broker.now());
        if operation.kind == OperationKind::Backfill {
            self.backfill(&mut later).await?;
            return self.store(operation, later).await;
        }
        if let Some(step) = operation.step.clone() {
            let refused = self.perform(operation, &step.tasks, is_unsure).await?;
            later.processed += step.tasks.len() as u64 - refused.count;
            later.failed += refused.count;
            // The first reason stands for all: the count says how many there are.
            later.error = later.error.or(refused.reason);
            later.step = None;
            later.cursor = step.next.clone();
            pace.wait(step.tasks.len()).await;
            if step.next.is_none() {
                later.state = OperationState::Done;
            }
        }
        if later.state == OperationState::Running {
            let found = self.find(operation, later.cursor.clone(), pace.step).await?;
            if found.tasks.is_empty() && found.next.is_none() {
                later.state = OperationState::Done;
            } else {
                later.step = Some(found);
            }
        }
        self.store(operation, later).await
    }

    /// Makes the next tasks. The store knows how far it came, so that repeating it makes none twice.
    async fn backfill(&self, later: &mut Operation) -> Result<(), Left> {
        let backfill = Backfill::of(later).ok_or(Left::Broken(Refusal::InvalidCursor))?;
        let asked = match self.broker.store.scheduling() {
            Some(schedules) => schedules.backfill_schedule(backfill),
            None => return Err(Left::Broken(Refusal::NotSupported("schedules"))),
        };
        let done = asked.await?.map_err(Left::Broken)?;
        later.processed = done.made;
        if done.is_done {
            later.state = OperationState::Done;
        }
        Ok(())
    }

    /// Stores how far the operation has come, and that it is held.
    async fn store(&self, operation: &mut Operation, mut later: Operation) -> Result<(), Left> {
        later.updated_at = self.broker.now();
        (later.holder, later.held_until) = (self.me, later.updated_at.plus(HELD));
        if !self.broker.store.put_operation(later.clone()).await? {
            return Err(Left::Over);
        }
        let is_over = later.state != OperationState::Running;
        *operation = later;
        if is_over { Err(Left::Over) } else { Ok(()) }
    }

    async fn find(&self, operation: &Operation, cursor: Option<String>, limit: usize) -> Result<Step, Left> {
        let mut filter = operation.filter.clone();
        // What has changed since is not this operation's business, what it has touched itself included.
        let began = operation.created_at.plus(Duration::from_millis(1));
        filter.updated_before = Some(filter.updated_before.map_or(began, |before| before.min(began)));
        let page = Page {
            tenant: operation.tenant.clone(),
            filter: Arc::new(filter),
            is_newest_first: false,
            cursor,
            limit,
        };
        let listed = self.broker.store.list(page).await?.map_err(Left::Broken)?;
        // What a server holds that is away is waited for.
        super::search::whole(&listed.missing)?;
        let tasks = listed.tasks.iter().filter(|task| is_target(operation.kind, &task.state));
        let tasks = tasks.map(|task| (task.body.tenant.clone(), task.id)).collect();
        Ok(Step { tasks, next: listed.next })
    }

    /// What became of the tasks that could not be done. If it is unsure whether the step was done
    /// before, tasks that have changed since are taken for done.
    async fn perform(
        &self,
        operation: &Operation,
        tasks: &[(Arc<str>, TaskId)],
        is_unsure: bool,
    ) -> Result<Refused, Left> {
        let store = &self.broker.store;
        let named = |(tenant, id): &(Arc<str>, TaskId)| TaskRef { tenant: tenant.clone(), id: *id };
        let mut refs: Vec<TaskRef> = tasks.iter().map(named).collect();
        if is_unsure {
            let found = store.get(refs.clone()).await?;
            let is_untouched = |task: &Option<Task>| {
                task.as_ref().is_some_and(|task| {
                    is_target(operation.kind, &task.state) && task.updated_at <= operation.created_at
                })
            };
            let untouched = found.iter().map(is_untouched);
            refs = refs.into_iter().zip(untouched).filter(|(_, is)| *is).map(|(task, _)| task).collect();
        }
        Ok(match operation.kind {
            OperationKind::Cancel => {
                Refused::of(store.cancel(refs.into_iter().map(Cancel::now).collect()).await?)
            }
            OperationKind::Requeue => Refused::of(store.requeue(refs, operation.max_attempts).await?),
            OperationKind::Delete => Refused::of(store.remove(refs).await?),
            OperationKind::Backfill => Refused::default(),
        })
    }
}

/// The tasks of a step that could not be done.
#[derive(Default)]
struct Refused {
    count: u64,
    /// Of the first one.
    reason: Option<String>,
}

impl Refused {
    fn of<T>(items: Vec<Result<T, Refusal>>) -> Refused {
        let mut refusals = items.into_iter().filter_map(Result::err).peekable();
        let reason = refusals.peek().map(|refusal| format!("refused: {refusal} ({})", refusal.code()));
        Refused { count: refusals.count() as u64, reason }
    }
}

/// Keeps an operation within its rate.
struct Pace {
    rate: u32,
    /// Tasks of one step.
    step: usize,
    due: Instant,
}

impl Pace {
    fn new(operation: &Operation) -> Pace {
        let rate = operation.rate_per_second;
        let step = match rate {
            0 => STEP,
            rate => (rate / STEPS_A_SECOND).clamp(1, STEP),
        };
        Pace { rate, step: step as usize, due: Instant::now() }
    }

    async fn wait(&mut self, count: usize) {
        if self.rate > 0 {
            self.due += Duration::from_secs_f64(count as f64 / f64::from(self.rate));
            // Time that was lost is not made up for in a burst.
            self.due = self.due.max(Instant::now() - Duration::from_secs(1));
            tokio::time::sleep_until(self.due).await;
        }
    }
}
