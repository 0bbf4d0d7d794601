//! Whole batches of every verb, as large as the rules allow, drawn from bytes.
//!
//! What a caller may ask for must never break a store: it is done, or refused, and the next caller is served.
//! The bytes choose verbs, counts and sizes; sizes lean to the bounds, because that is where sums overflow.

mod rare;

use super::exam::request::New;
use crate::clock::{Clock, ManualClock};
use codeq_queue::store::{
    Abandon, Cancel, Claim, Heartbeat, Import, Items, Nack, Report, Submit, TaskRef, Wait,
};
use codeq_queue::subscription::{DeliveryMode, NewSubscription};
use codeq_queue::{
    Commands, NewTask, OnConflict, Outcome, Owner, QueueKey, Store, Task, TaskId, Time, UniqueUntil, limits,
};
use std::sync::Arc;
use std::time::Duration;

/// Kinds of calls that the bytes choose from.
pub const VERBS: usize = 21;
/// Tasks that later batches act on.
const REMEMBERED: usize = 4096;

/// Draws choices from bytes; zeros when they are used up.
pub struct Bytes<'a>(pub &'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> usize {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        usize::from(*first)
    }

    /// At most `bound`, and often just that.
    fn up_to(&mut self, bound: usize) -> usize {
        match self.next() {
            byte @ 0..=191 => bound * byte / 191 / 8,
            _ => bound,
        }
    }

    fn text(&mut self, bound: usize) -> String {
        // Doubled by escaping, where something escapes it.
        "\"".repeat(self.up_to(bound))
    }
}

/// One caller with everything it has made and taken.
pub struct Caller<'a> {
    pub store: Arc<dyn Store>,
    pub clock: Arc<ManualClock>,
    pub choices: Bytes<'a>,
    /// The largest payload and result.
    pub content_bytes: usize,
    /// The most items of a batch.
    pub batch: usize,
    made: Vec<TaskId>,
    taken: Vec<Task>,
}

impl<'a> Caller<'a> {
    pub fn new(store: Arc<dyn Store>, clock: Arc<ManualClock>, choices: &'a [u8]) -> Caller<'a> {
        let (choices, made, taken) = (Bytes(choices), Vec::new(), Vec::new());
        Caller { store, clock, choices, content_bytes: 64 << 10, batch: 100, made, taken }
    }

    fn tenant(&self) -> Arc<str> {
        "acme".into()
    }

    fn owner(&self) -> Arc<Owner> {
        let name = "n".repeat(limits::WORKER_ID_BYTES);
        Arc::new(Owner::new(&name, &name))
    }

    fn command(&mut self) -> String {
        format!("command-{}", self.choices.next() % 4)
    }

    /// Calls until the bytes are used up. Failures are the store's way to say that it is not well.
    pub async fn run(mut self) -> Result<(), codeq_queue::Failure> {
        while !self.choices.0.is_empty() {
            self.call().await?;
        }
        Ok(())
    }

    async fn call(&mut self) -> Result<(), codeq_queue::Failure> {
        match self.choices.next() % VERBS {
            0..=3 => self.create().await,
            4 | 5 => self.claim().await,
            6 => self.submit().await,
            7 => self.nack().await,
            8 => self.beat().await,
            9 => self.cancel().await,
            10 => self.operate().await,
            11 => self.import().await,
            12 => self.subscribe().await,
            13 => self.pause().await,
            14 => {
                self.clock.advance(Duration::from_secs(self.choices.next() as u64 * 60));
                self.store.queues(None).await.map(drop)
            }
            15 => self.clean().await,
            16 => self.group().await,
            17 => self.plan().await,
            18 => self.rule().await,
            19 => self.note().await,
            _ => self.look().await,
        }
    }

    fn new_task(&mut self) -> NewTask {
        let new = self.request();
        self.optional(new).build(&self.tenant())
    }

    fn request(&mut self) -> New {
        let mut new = New::of(&self.command()).max_attempts(1 + self.choices.next() as u32 % 3);
        new = new.payload(&self.choices.text(self.content_bytes));
        if self.choices.next().is_multiple_of(2) {
            new = new.webhook(&format!("http://h/{}", "x".repeat(self.choices.up_to(limits::URL_BYTES - 9))));
        }
        if self.choices.next().is_multiple_of(2) {
            let free = limits::IDEMPOTENCY_KEY_BYTES - 4;
            let (number, filler) = (self.choices.next(), "k".repeat(self.choices.up_to(free)));
            new = new.key(&format!("{number:04}{filler}"));
        }
        if self.choices.next().is_multiple_of(4) {
            new = new.header("h", &self.choices.text(limits::HEADERS_BYTES - 1));
        }
        if self.choices.next().is_multiple_of(8) {
            new = new.delayed_ms(60_000);
        }
        new
    }

    /// With what few tasks have.
    fn optional(&mut self, new: New) -> New {
        let lane = "l".repeat(1 + self.choices.up_to(limits::LANE_BYTES - 1));
        match self.choices.next() % 8 {
            0 => new.lane(&lane).max_run(limits::MAX_RUN),
            1 => new.lane(&lane).expires_at(self.clock.now().plus(Duration::from_secs(90))),
            2 => {
                let key = "u".repeat(1 + self.choices.up_to(limits::UNIQUE_KEY_BYTES - 1));
                let on_conflict = OnConflict::ALL[self.choices.next() % OnConflict::ALL.len()];
                new.unique(&key, UniqueUntil::Ended, on_conflict)
            }
            3 => {
                let count = self.choices.up_to(limits::DEPENDENCIES).min(self.made.len());
                new.after(&self.made[self.made.len() - count..]).run_anyway()
            }
            4 => new.trace(&"t".repeat(limits::TRACE_PARENT_BYTES), &"s".repeat(limits::TRACE_STATE_BYTES)),
            _ => new,
        }
    }

    fn remember(&mut self, ids: impl Iterator<Item = TaskId>) {
        self.made.extend(ids);
        let surplus = self.made.len().saturating_sub(REMEMBERED);
        self.made.drain(..surplus);
    }

    fn count(&mut self) -> usize {
        1 + self.choices.up_to(self.batch - 1)
    }

    async fn create(&mut self) -> Result<(), codeq_queue::Failure> {
        let task = self.new_task();
        let mut tasks = vec![task; self.count()];
        tasks.push(self.new_task());
        let made = self.store.create(tasks).await?;
        self.remember(made.into_iter().flatten().map(|created| created.task.id));
        Ok(())
    }

    async fn claim(&mut self) -> Result<(), codeq_queue::Failure> {
        let commands = match self.choices.next() % 2 {
            0 => Commands::Any,
            _ => Commands::these(["command-0", "command-1", "command-2"]),
        };
        let (tenant, owner, count) = (self.tenant(), self.owner(), self.count() * 10);
        let lease = Duration::from_secs(60);
        let wait = Wait::Until(self.clock.now());
        let taken = self
            .store
            .claim(Claim { tenant, commands, owner, lease, is_default_lease: false, count, wait })
            .await?;
        self.taken.extend(taken);
        Ok(())
    }

    fn report(&self, task: &Task) -> Report {
        Report { tenant: self.tenant(), id: task.id, owner: self.owner(), attempt: Some(task.attempts) }
    }

    fn some_taken(&mut self) -> Vec<Task> {
        let count = self.count().min(self.taken.len());
        self.taken.drain(..count).collect()
    }

    async fn submit(&mut self) -> Result<(), codeq_queue::Failure> {
        let result = format!("\"{}\"", "r".repeat(self.choices.up_to(self.content_bytes)));
        let error = self.choices.text(limits::ERROR_BYTES * 2);
        let is_failure = self.choices.next().is_multiple_of(2);
        let outcome = if is_failure { Outcome::failed(&error) } else { Outcome::completed(&result) };
        let tasks = self.some_taken();
        let submit = |task| Submit { report: self.report(task), outcome: outcome.clone() };
        let submits = tasks.iter().map(submit).collect();
        self.store.submit(submits).await.map(drop)
    }

    async fn nack(&mut self) -> Result<(), codeq_queue::Failure> {
        let (reason, tasks) = (self.choices.text(limits::ERROR_BYTES), self.some_taken());
        let (back, left) = tasks.split_at(tasks.len() / 2);
        let nack = |task| Nack::new(self.report(task), 0, Some(reason.clone()));
        self.store.nack(back.iter().map(nack).collect()).await?;
        let abandon = |task| Abandon::new(self.report(task), true);
        self.store.abandon(left.iter().map(abandon).collect()).await.map(drop)
    }

    async fn beat(&mut self) -> Result<(), codeq_queue::Failure> {
        let extend = Duration::from_secs(600);
        let beats = self.taken.iter().map(|task| Heartbeat::new(self.report(task), extend));
        let beats = beats.collect();
        self.store.heartbeat(beats).await.map(drop)
    }

    fn some_made(&mut self) -> Vec<TaskRef> {
        let count = (self.count() * 4).min(self.made.len());
        let tenant = self.tenant();
        self.made.drain(..count).map(|id| TaskRef { tenant: tenant.clone(), id }).collect()
    }

    async fn cancel(&mut self) -> Result<(), codeq_queue::Failure> {
        let tasks = self.some_made();
        self.store.cancel(tasks.iter().cloned().map(Cancel::now).collect()).await?;
        self.store.get(tasks).await.map(drop)
    }

    async fn operate(&mut self) -> Result<(), codeq_queue::Failure> {
        let tasks = self.some_made();
        let _: Items<Task> = self.store.requeue(tasks.clone(), Some(1)).await?;
        self.store.remove(tasks).await.map(drop)
    }

    async fn import(&mut self) -> Result<(), codeq_queue::Failure> {
        let mut imports = Vec::new();
        for _ in 0..self.count() {
            let new = self.new_task();
            let bits = u128::from_be_bytes(std::array::from_fn(|_| self.choices.next() as u8));
            let now = self.clock.now();
            let task = Task {
                id: TaskId::from_bits(bits),
                body: new.body,
                priority: new.priority,
                state: codeq_queue::State::Ready { seq: 0 },
                attempts: 1,
                refunds: 0,
                max_attempts: 5,
                error: Some(self.choices.text(limits::ERROR_BYTES).into()),
                checkpoint: Some(self.choices.text(limits::CHECKPOINT_BYTES).into()),
                progress: None,
                created_at: now,
                updated_at: now,
            };
            imports.push(Import { task, record: None });
        }
        self.store.import(imports).await.map(drop)
    }

    async fn subscribe(&mut self) -> Result<(), codeq_queue::Failure> {
        let event = "e".repeat(limits::COMMAND_BYTES);
        let subscription = NewSubscription {
            tenant: self.tenant(),
            callback_url: format!("http://h/{}", "x".repeat(limits::URL_BYTES - 9)),
            event_types: vec![event; self.choices.up_to(limits::EVENT_TYPES)],
            mode: DeliveryMode::Fanout,
            group: None,
            ttl_seconds: 60,
            min_interval: Duration::ZERO,
        };
        for _ in 0..self.count() {
            let made = self.store.subscribe(subscription.clone()).await?;
            if let Ok(made) = made {
                let _ = self.store.renew(self.tenant(), made.id, 60).await?;
            }
        }
        self.store.subscriptions().await?;
        self.store.expire_subscriptions().await.map(drop)
    }

    async fn pause(&mut self) -> Result<(), codeq_queue::Failure> {
        let queue = QueueKey::new(&self.tenant(), &self.command());
        self.store.pause(queue.clone()).await?;
        let claim = Claim {
            tenant: self.tenant(),
            commands: Commands::these([&*queue.command]),
            owner: self.owner(),
            lease: Duration::from_secs(60),
            is_default_lease: false,
            count: 10,
            wait: Wait::Forever,
        };
        let held = (0..self.count()).map(|_| tokio::spawn(self.store.claim(claim.clone())));
        let held: Vec<_> = held.collect();
        self.create().await?;
        self.store.resume(queue).await?;
        // Whoever still waits gives up; what it was lent meanwhile goes back.
        held.iter().for_each(|held| held.abort());
        Ok(())
    }

    async fn clean(&mut self) -> Result<(), codeq_queue::Failure> {
        let deliveries = self.store.take_deliveries(self.batch * 10, Duration::from_secs(60)).await?;
        for delivery in deliveries.iter().take(4) {
            let report = codeq_queue::delivery::DeliveryReport::Failed {
                error: self.choices.text(limits::ERROR_BYTES * 2),
            };
            let _ = self.store.report_delivery(delivery.id, report).await?;
        }
        self.store.cleanup(self.tenant(), Time::MAX, 1_000_000).await.map(drop)
    }
}
