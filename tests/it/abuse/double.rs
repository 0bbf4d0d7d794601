//! A store that can be switched off: the memory store behind a switch.

use codeq_queue::create::NewTask;
use codeq_queue::delivery::DeliveryReport;
use codeq_queue::store::{
    Abandon, Answer, Beat, Cancel, Claim, Created, Health, Heartbeat, Import, Items, Nack, OutboxCounts,
    Pieces, Position, ResultLookup, Returned, Submit, TaskRef, Wait,
};
use codeq_queue::subscription::{NewSubscription, Subscription};
use codeq_queue::topic::{Policy, Topic, TopicPut};
use codeq_queue::{
    Attempt, AuditEntry, AuditPage, Audited, CatalogueStore, Delivery, Failure, Listed, Operation,
    OperatorStore, Page, QueueKey, QueueStats, Refusal, ResultRecord, Store, Task, TaskStore, Time,
};
use codeq_store::memory::{self, MemoryOptions};
use codeq_store::{Rules, SystemClock};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What must never be told to a caller.
pub const SECRET: &str = "/var/lib/secret-place: No space left on device (os error 28)";

pub struct Switched {
    store: Arc<dyn Store>,
    failure: Mutex<Option<Failure>>,
}

impl Switched {
    pub fn open() -> Arc<Switched> {
        let options = MemoryOptions {
            rules: Rules::default(),
            shards: 1,
            clock: Arc::new(SystemClock),
            observer: None,
        };
        Arc::new(Switched {
            store: memory::open(options).expect("memory is there"),
            failure: Mutex::new(None),
        })
    }

    /// From now on every call fails with this, or none does.
    pub fn set(&self, failure: Option<Failure>) {
        *self.failure.lock().expect("nobody panics holding it") = failure;
    }

    fn failure(&self) -> Option<Failure> {
        self.failure.lock().expect("nobody panics holding it").clone()
    }

    fn unless_failing<T: Send + 'static>(&self, ask: impl FnOnce(&dyn Store) -> Answer<T>) -> Answer<T> {
        match self.failure() {
            Some(failure) => Box::pin(async move { Err(failure) }),
            None => ask(&*self.store),
        }
    }
}

macro_rules! switched {
    ($store:ident: $(fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        impl $store for Switched {
            $(fn $name(&self, $($argument: $type),*) -> Answer<$answer> {
                self.unless_failing(|store| store.$name($($argument),*))
            })*
        }
    };
}

impl Store for Switched {
    fn health(&self) -> Health {
        match self.failure() {
            Some(_) => Health::Unavailable(SECRET.to_owned()),
            None => self.store.health(),
        }
    }

    fn close(self: Arc<Self>) -> Answer<()> {
        self.store.clone().close()
    }
}

switched! { TaskStore:
    fn create(tasks: Vec<NewTask>) -> Items<Created>;
    fn get(tasks: Vec<TaskRef>) -> Vec<Option<Task>>;
    fn result(task: TaskRef, wait: Wait) -> ResultLookup;
    fn claim(claim: Claim) -> Vec<Task>;
    fn heartbeat(beats: Vec<Heartbeat>) -> Items<Beat>;
    fn nack(nacks: Vec<Nack>) -> Items<Returned>;
    fn abandon(abandons: Vec<Abandon>) -> Items<Returned>;
    fn submit(submits: Vec<Submit>) -> Items<ResultRecord>;
}

switched! { OperatorStore:
    fn attempts(task: TaskRef) -> Option<Vec<Attempt>>;
    fn cancel(cancels: Vec<Cancel>) -> Items<Task>;
    fn requeue(tasks: Vec<TaskRef>, max_attempts: Option<u32>) -> Items<Task>;
    fn run_now(tasks: Vec<TaskRef>) -> Items<Task>;
    fn remove(tasks: Vec<TaskRef>) -> Items<()>;
    fn cleanup(tenant: Arc<str>, before: Time, limit: usize) -> u64;
    fn pause(queue: QueueKey) -> QueueStats;
    fn resume(queue: QueueKey) -> QueueStats;
    fn queues(tenant: Option<Arc<str>>) -> Vec<QueueStats>;
    fn queue(queue: QueueKey) -> QueueStats;
    fn list(page: Page) -> Result<Listed, Refusal>;
    fn position(task: TaskRef) -> Option<Position>;
    fn import(tasks: Vec<Import>) -> Items<bool>;
    fn put_operation(operation: Operation) -> bool;
    fn operations() -> Vec<Operation>;
    fn remove_operation(id: u128) -> ();
    fn put_audit(entry: AuditEntry) -> ();
    fn audit(page: AuditPage) -> Audited;
    fn backup() -> Result<Pieces, Refusal>;
}

switched! { CatalogueStore:
    fn put_topic(tenant: Arc<str>, name: String, policy: Policy) -> (Topic, TopicPut);
    fn topic(tenant: Arc<str>, name: String) -> Option<Topic>;
    fn delete_topic(tenant: Arc<str>, name: String) -> bool;
    fn subscribe(subscription: NewSubscription) -> Result<Subscription, Refusal>;
    fn renew(tenant: Arc<str>, id: u128, ttl_seconds: i64) -> Result<Subscription, Refusal>;
    fn subscriptions() -> Vec<Subscription>;
    fn expire_subscriptions() -> u64;
    fn take_deliveries(limit: usize, hold: Duration) -> Vec<Delivery>;
    fn delivery_body(id: u128) -> Option<Arc<str>>;
    fn report_delivery(id: u128, report: DeliveryReport) -> Result<(), Refusal>;
    fn outbox() -> OutboxCounts;
    fn deliveries(tenant: Option<Arc<str>>, failed: bool, after: u128, limit: usize) -> Vec<Delivery>;
    fn redeliver(tenant: Arc<str>, id: u128) -> Result<Delivery, Refusal>;
}
