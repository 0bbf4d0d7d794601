//! What storage promises.
//!
//! A [`Store`] keeps tasks and everything that belongs to them. Every verb is one whole, atomic
//! transition per item: it happens with all its index entries, result, key and callback, or not at all.
//! Verbs take batches; items are independent and answered in order, and one item's refusal does not touch
//! the others. An `Ok` answer is released only when everything it tells of is durable at the configured
//! level, refusals and reads included. A [`Failure`] loses nothing that was acknowledged before; whether
//! the failed call itself took effect may be unknown, and repeating it is safe.
//!
//! Not promised: an order between calls that overlap, and atomicity across the items of a batch.

use crate::TaskId;
use crate::attempt::Attempt;
use crate::audit::{AuditEntry, AuditPage, Audited};
use crate::batch::Batches;
use crate::create::NewTask;
use crate::delivery::{Delivery, DeliveryReport};
use crate::filter::{Listed, Page};
use crate::lease::Owner;
use crate::operation::Operation;
use crate::order::{ReadyCommands, ReadyQuestion};
use crate::policy::Policies;
use crate::queue::{Commands, QueueKey, QueueStats};
use crate::refusal::{Failure, Refusal};
pub use crate::report::{Abandon, Beat, Heartbeat, Nack, Report, Returned, Submit};
use crate::result::ResultRecord;
use crate::schedule::Schedules;
use crate::shared::Shared;
use crate::subscription::{NewSubscription, Subscription};
use crate::task::Task;
use crate::time::Time;
use crate::topic::{Policy, Topic, TopicPut};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A pending answer. Dropping it gives up waiting; what was asked may still happen, except that a waiting
/// claim then takes nothing (a task already taken for it is returned with a refund).
pub type Answer<T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>;

/// One answer per item.
pub type Items<T> = Vec<Result<T, Refusal>>;

/// What a create came to: the task that was made, or the one that was there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Created {
    /// As it is now.
    pub task: Task,
    /// The idempotency key named a task that existed already.
    pub is_replay: bool,
    /// The unique key was taken; the task is its holder.
    pub is_duplicate: bool,
}

/// How long to hold a call that finds nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// It is answered at once.
    No,
    /// Until something comes, but not beyond this instant.
    Until(Time),
    /// Until something comes or the caller drops the answer.
    Forever,
}

/// What a worker asks for.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Whose queues.
    pub tenant: Arc<str>,
    /// Which of them.
    pub commands: Commands,
    /// Who will hold the leases.
    pub owner: Arc<Owner>,
    /// How long the leases last, if no policy shortens them.
    pub lease: Duration,
    /// The caller did not say how long: a queue may have a default of its own.
    pub is_default_lease: bool,
    /// How many tasks at most; a waiting claim is answered as soon as there is one.
    pub count: usize,
    /// What to do if there is nothing.
    pub wait: Wait,
}

/// A task that is to end.
#[derive(Clone, Debug)]
pub struct Cancel {
    /// Which task.
    pub task: TaskRef,
    /// How long a running task may go on.
    pub grace: Duration,
    /// Kept in the error text; `None` is none.
    pub reason: Option<Arc<str>>,
}

impl Cancel {
    /// At once.
    pub fn now(task: TaskRef) -> Cancel {
        Cancel { task, grace: Duration::ZERO, reason: None }
    }
}

/// What a producer finds when it asks for a result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ResultLookup {
    /// No such task in the tenant.
    NotFound,
    /// Not terminal, also at the end of the wait.
    Pending,
    /// The task has ended.
    Done {
        /// As it is now.
        task: Task,
        /// How it ended.
        record: ResultRecord,
    },
}

/// A task named within a tenant; a foreign id behaves like an unknown one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskRef {
    /// The only tenant that it is looked for in.
    pub tenant: Arc<str>,
    /// The id that the create answered with.
    pub id: TaskId,
}

/// How far a ready task is from its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// Tasks of the same priority in front of it; `None` if they are too many to count.
    pub ahead: Option<u64>,
    /// Tasks of higher priority.
    pub ahead_at_higher_priority: u64,
}

/// A task from elsewhere, with its result if it has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Import {
    /// Under its own id and tenant.
    pub task: Task,
    /// `None` if the task lives.
    pub record: Option<ResultRecord>,
}

/// Callbacks in the outbox.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OutboxCounts {
    /// To be sent, now or later.
    pub pending: u64,
    /// Out of attempts.
    pub failed: u64,
}

/// A backup, piece by piece. Asking for the next one may block on the disk.
pub type Pieces = Box<dyn Iterator<Item = Result<Vec<u8>, Failure>> + Send>;

/// Why the store does not take writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Health {
    /// It takes everything.
    Ready,
    /// Some of the servers that it lives on are away; the names of their shards. All else works.
    Degraded(Vec<String>),
    /// Comes back by itself (disk full).
    Unavailable(String),
    /// Needs a restart (a failed sync).
    Poisoned(String),
    /// It was told to close.
    Closed,
}

/// One shard of a store that lives on several servers, as this process sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardView {
    /// As the configuration calls it.
    pub name: String,
    /// Where its server is: the master that was found, else where one is looked for.
    pub address: String,
    /// Why its server is away, if it is.
    pub away: Option<String>,
    /// What its server last told.
    pub server: Option<ServerView>,
}

/// One server, as it last told; several shards may live on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerView {
    /// Replicas that are connected to it.
    pub replicas: u64,
    /// How long a question takes to it and back.
    pub round_trip: Duration,
    /// Queues that it holds.
    pub queues: u64,
    /// Tasks that it holds.
    pub tasks: u64,
}

/// The verbs of producers and workers. The promises of the module hold for every method, here and below.
pub trait TaskStore: Send + Sync {
    // Producers.

    /// Stores each task and makes it claimable now or at its time. Of any number of creates with one
    /// (tenant, command, key) exactly one makes a task; the others answer with it.
    fn create(&self, tasks: Vec<NewTask>) -> Answer<Items<Created>>;
    /// Each as it is now; `None` for those that are unknown.
    fn get(&self, tasks: Vec<TaskRef>) -> Answer<Vec<Option<Task>>>;
    /// Waits for the end of the task if asked to.
    fn result(&self, task: TaskRef, wait: Wait) -> Answer<ResultLookup>;

    // Workers.

    /// Lends up to `count` tasks. Empty when there is nothing (left after waiting).
    fn claim(&self, claim: Claim) -> Answer<Vec<Task>>;
    /// Extends leases that have not ended, and says whether the task is to stop.
    fn heartbeat(&self, beats: Vec<Heartbeat>) -> Answer<Items<Beat>>;
    /// Ends failed attempts: each task waits, is ready again, or is dead.
    fn nack(&self, nacks: Vec<Nack>) -> Answer<Items<Returned>>;
    /// Gives tasks back: each is ready again, or dead if that was its last attempt.
    fn abandon(&self, abandons: Vec<Abandon>) -> Answer<Items<Returned>>;
    /// Ends the attempt. Final state, result and callback are stored together or not at all.
    fn submit(&self, submits: Vec<Submit>) -> Answer<Items<ResultRecord>>;
}

/// The verbs of operators, and what is kept of them.
pub trait OperatorStore: Send + Sync {
    /// The last deliveries of a task, oldest first; `None` if the task is unknown.
    fn attempts(&self, task: TaskRef) -> Answer<Option<Vec<Attempt>>>;
    /// Ends each task that lives, or asks its owner to stop within the grace. A cancelled task stays as it is.
    fn cancel(&self, cancels: Vec<Cancel>) -> Answer<Items<Task>>;
    /// Gives tasks that have failed, been cancelled or died a full set of attempts again, of the old size or a new
    /// one. A time by which they had to be claimed no longer counts. Refuses a task whose unique key another one has.
    fn requeue(&self, tasks: Vec<TaskRef>, max_attempts: Option<u32>) -> Answer<Items<Task>>;
    /// Makes tasks ready that wait for their time, a delay or a backoff. A ready task stays as it is.
    fn run_now(&self, tasks: Vec<TaskRef>) -> Answer<Items<Task>>;
    /// Removes dead letters for good.
    fn remove(&self, tasks: Vec<TaskRef>) -> Answer<Items<()>>;
    /// Removes up to `limit` completed or failed tasks whose retention ends at or before `before`.
    fn cleanup(&self, tenant: Arc<str>, before: Time, limit: usize) -> Answer<u64>;
    /// Claims pass a paused queue over; everything else goes on.
    fn pause(&self, queue: QueueKey) -> Answer<QueueStats>;
    /// Claims look at the queue again; holds of nacks are gone.
    fn resume(&self, queue: QueueKey) -> Answer<QueueStats>;
    /// Counts of every known queue, of one tenant or of all.
    fn queues(&self, tenant: Option<Arc<str>>) -> Answer<Vec<QueueStats>>;
    /// Of which commands a claim would get something now.
    fn ready_commands(&self, asked: ReadyQuestion) -> Answer<ReadyCommands> {
        let counted = self.queues(Some(asked.tenant.clone()));
        Box::pin(async move { Ok(ReadyCommands::of(&asked, counted.await?)) })
    }
    /// Counts of one queue; zeros if it is unknown.
    fn queue(&self, queue: QueueKey) -> Answer<QueueStats>;

    /// Tasks that match, in the order of their creation. An item that is there throughout is on exactly one
    /// page; one page examines a bounded number of records and may come short. Refuses a cursor that is not
    /// one of its own.
    fn list(&self, page: Page) -> Answer<Result<Listed, Refusal>>;
    /// Where a ready task stands in its queue; `None` if it is not ready.
    fn position(&self, task: TaskRef) -> Answer<Option<Position>>;
    /// Stores each task under its own id, unless there is one with that id; whether it was stored. A task
    /// that was running elsewhere is ready here.
    fn import(&self, tasks: Vec<Import>) -> Answer<Items<bool>>;
    /// Stores an operation of a version one above the stored one (1 if there is none). False if another
    /// version is stored: someone else has changed it.
    fn put_operation(&self, operation: Operation) -> Answer<bool>;
    /// All of them, oldest first.
    fn operations(&self) -> Answer<Vec<Operation>>;
    /// Forgets one; repeating it is harmless.
    fn remove_operation(&self, id: u128) -> Answer<()>;

    /// Keeps a record of what an operator did, in place of the one that is at its place, and forgets those whose time is
    /// over. A change that is made within [`noting`](crate::audit::noting) takes its record along by itself.
    fn put_audit(&self, entry: AuditEntry) -> Answer<()>;
    /// Records of what operators did, the newest first.
    fn audit(&self, page: AuditPage) -> Answer<Audited>;

    /// Everything that was acknowledged before, as of one instant. Refused by a store that has its own means.
    fn backup(&self) -> Answer<Result<Pieces, Refusal>>;
}

/// The catalogue of topics and subscriptions, and the outbox of callbacks.
pub trait CatalogueStore: Send + Sync {
    /// Creates or replaces; an equal policy changes nothing.
    fn put_topic(&self, tenant: Arc<str>, name: String, policy: Policy) -> Answer<(Topic, TopicPut)>;
    /// `None` if the tenant has none of this name.
    fn topic(&self, tenant: Arc<str>, name: String) -> Answer<Option<Topic>>;
    /// Whether there was one.
    fn delete_topic(&self, tenant: Arc<str>, name: String) -> Answer<bool>;
    /// Stores it under a new id. Refuses what is not well formed, and what is too much for the tenant.
    fn subscribe(&self, subscription: NewSubscription) -> Answer<Result<Subscription, Refusal>>;
    /// Its life counts from now on; refuses an unknown or expired one. Zero and below mean the default.
    fn renew(&self, tenant: Arc<str>, id: u128, ttl_seconds: i64) -> Answer<Result<Subscription, Refusal>>;
    /// Every subscription that has not expired, in creation order.
    fn subscriptions(&self) -> Answer<Vec<Subscription>>;
    /// Removes what has expired; how many.
    fn expire_subscriptions(&self) -> Answer<u64>;
    /// Takes up to `limit` due callbacks; each is due again after `hold` unless reported on. Here and in lists bodies
    /// above `limits::CALLBACK_BYTES_ALONG` are empty; fewer may come if there are such.
    fn take_deliveries(&self, limit: usize, hold: Duration) -> Answer<Vec<Delivery>>;
    /// The body of a callback, however large; `None` if the callback is gone.
    fn delivery_body(&self, id: u128) -> Answer<Option<Arc<str>>>;
    /// What became of an attempt to send it; refuses a callback that is gone.
    fn report_delivery(&self, id: u128, report: DeliveryReport) -> Answer<Result<(), Refusal>>;
    /// Callbacks of all tenants.
    fn outbox(&self) -> Answer<OutboxCounts>;
    /// Callbacks of a tenant, or of all, in id order after `after`: pending ones, or failed ones.
    fn deliveries(
        &self,
        tenant: Option<Arc<str>>,
        failed: bool,
        after: u128,
        limit: usize,
    ) -> Answer<Vec<Delivery>>;
    /// Makes a failed callback due now, with a full set of attempts.
    fn redeliver(&self, tenant: Arc<str>, id: u128) -> Answer<Result<Delivery, Refusal>>;
}

/// A whole store: all its verbs, and its life in the process.
pub trait Store: TaskStore + OperatorStore + CatalogueStore {
    /// When the next thing happens by itself (a delay is over, a lease runs out); `None` if nothing is planned, or if
    /// the store does not know.
    fn next_due(&self) -> Answer<Option<Time>> {
        Box::pin(async { Ok(None) })
    }
    /// Whether it takes writes, and why not.
    fn health(&self) -> Health;
    /// The shards of a store that lives on several servers; none where there is only one place.
    fn shards(&self) -> Vec<ShardView> {
        Vec::new()
    }
    /// What the processes over one keyspace have in common; `None` where one process has the store alone.
    fn shared(&self) -> Option<Arc<dyn Shared>> {
        None
    }
    /// The schedules of a store that keeps them.
    fn scheduling(&self) -> Option<&dyn Schedules> {
        None
    }
    /// The queue policies of a store that keeps them.
    fn policing(&self) -> Option<&dyn Policies> {
        None
    }
    /// The batches of a store that keeps them, and lets tasks wait for others.
    fn batching(&self) -> Option<&dyn Batches> {
        None
    }
    /// Stops taking calls, makes everything durable and lets go of the storage. Waiting calls are answered
    /// empty. Repeating it is harmless.
    fn close(self: Arc<Self>) -> Answer<()>;
}
