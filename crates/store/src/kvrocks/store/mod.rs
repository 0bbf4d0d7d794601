//! The store as its users see it: every verb of the trait, handed to the part that knows it.

pub(in crate::kvrocks) mod open;
pub(in crate::kvrocks) mod options;

use crate::Rules;
use crate::kvrocks::context::former::Former;
use crate::kvrocks::context::known::Memory;
use crate::kvrocks::context::notes::QueueNotes;
use crate::kvrocks::context::shard::{Server, Shard};
use crate::kvrocks::context::spread::SpreadPlaces;
use crate::kvrocks::coordination::events::EventSink;
use crate::kvrocks::store::options::{Sharding, Timing};
use crate::kvrocks::timers::carrying::Carrier;
use crate::kvrocks::timers::clock::Now;
use crate::kvrocks::timers::ticking::Watch;
use crate::kvrocks::verbs::policies::KnownPolicies;
use crate::kvrocks::verbs::rate::Servers;
use codeq_queue::batch::Batches;
use codeq_queue::delivery::DeliveryReport;
use codeq_queue::schedule::Schedules;
use codeq_queue::store::{
    Abandon, Answer, Beat, Cancel, Claim, Created, Health, Heartbeat, Import, Items, Nack, OutboxCounts,
    Pieces, Position, ResultLookup, Returned, ShardView, Submit, TaskRef, Wait,
};
use codeq_queue::subscription::{NewSubscription, Subscription};
use codeq_queue::topic::{Policy, Topic, TopicPut};
use codeq_queue::{
    Attempt, AuditEntry, AuditPage, Audited, CatalogueStore, Delivery, Failure, Listed, NewTask, Operation,
    OperatorStore, Page, Policies, QueueKey, QueueStats, Refusal, ResultRecord, Shared, Store, Task,
    TaskStore, Time,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::sync::watch;

/// What all parts of the store share.
pub struct StoreContext {
    pub(super) me: Weak<StoreContext>,
    /// Tells this process from the others.
    pub(super) name: String,
    pub(super) shards: Vec<Shard>,
    /// Shards that share what has no queue: the same keys of the same server.
    pub(super) keyspaces: Vec<Vec<usize>>,
    /// For each call.
    pub(super) timeout: Duration,
    pub(super) default_shard: usize,
    pub(super) sharding: Sharding,
    pub(super) spread: SpreadPlaces,
    pub(super) rules: Rules,
    /// The delays of the policy, as scripts read them.
    pub(super) backoff_ranges: String,
    pub(super) inspect_limit: u32,
    pub(super) timing: Timing,
    pub(super) now: Now,
    pub(super) memory: Arc<Memory>,
    pub(super) notes: Arc<QueueNotes>,
    pub(super) teller: Arc<EventSink>,
    /// True from the first call of close.
    pub(super) is_closed: watch::Sender<bool>,
    /// Up to when everything due has acted, where the clock is moved by hand.
    pub(super) stepped_to: tokio::sync::Mutex<Time>,
    /// Why a keyspace cannot be swept, by keyspace.
    pub(super) trouble: Mutex<BTreeMap<usize, String>>,
    pub(super) rate_servers: Servers,
    pub(super) former: Former,
    pub(super) known_policies: tokio::sync::Mutex<KnownPolicies>,
    pub(super) watch: Mutex<Watch>,
    pub(super) carrier: Arc<Carrier>,
}

impl StoreContext {
    pub fn me(&self) -> Arc<StoreContext> {
        self.me.upgrade().expect("whoever calls holds the store")
    }

    /// Every verb begins here: the store must be open. Gives the time.
    pub async fn enter(&self) -> Result<Time, Failure> {
        if *self.is_closed.borrow() {
            return Err(Failure::Closed);
        }
        let now = self.now.get();
        if self.is_stepped() {
            let mut stepped_to = self.stepped_to.lock().await;
            if now > *stepped_to {
                self.sweep(now).await?;
                self.retain(now).await?;
                *stepped_to = now;
            }
        }
        Ok(now)
    }

    pub fn is_stepped(&self) -> bool {
        self.timing == Timing::Stepped
    }

    /// Whose clock ends leases, as scripts are told.
    pub fn lease_clock(&self) -> &'static str {
        if self.is_stepped() { "caller" } else { "store" }
    }

    pub async fn closed(&self) {
        let mut is_closed = self.is_closed.subscribe();
        let _ = is_closed.wait_for(|is_closed| *is_closed).await;
    }

    /// The shard of subscriptions, topics, operations and wake-ups.
    pub fn home(&self) -> &Shard {
        &self.shards[self.default_shard]
    }

    pub fn noted_health(&self, keyspace: usize, failure: Option<Failure>) {
        let reason = failure.map(|failure| failure.to_string());
        let mut trouble = self.trouble.lock().expect("no one panics holding the reason");
        if let Some(reason) = reason.as_ref().filter(|reason| trouble.get(&keyspace) != Some(reason)) {
            tracing::warn!(err = reason, "sweep failed");
        }
        match reason {
            Some(reason) => trouble.insert(keyspace, reason),
            None => trouble.remove(&keyspace),
        };
    }

    fn health(&self) -> Health {
        if *self.is_closed.borrow() {
            return Health::Closed;
        }
        let troubles = self.troubles();
        match troubles.first_key_value() {
            None => Health::Ready,
            Some((_, reason)) if troubles.len() == self.keyspaces.len() => {
                Health::Unavailable(reason.clone())
            }
            Some(_) => Health::Degraded(self.names_of(&troubles.keys().copied().collect())),
        }
    }

    /// Why keyspaces do not serve: their server is away, or refuses. That replicas do not confirm is no reason:
    /// reads and heartbeats go on.
    fn troubles(&self) -> BTreeMap<usize, String> {
        let mut troubles = self.trouble.lock().expect("no one panics holding the reason").clone();
        troubles.retain(|_, reason| !reason.contains("replicat"));
        for (keyspace, shards) in self.keyspaces.iter().enumerate() {
            match self.shards[shards[0]].server.gate.away() {
                Some(reason) => drop(troubles.insert(keyspace, reason)),
                // It is back; the next sweep will say so.
                None => troubles.retain(|at, reason| *at != keyspace || is_refusal(reason)),
            }
        }
        troubles
    }

    fn shard_views(&self) -> Vec<ShardView> {
        let troubles = self.troubles();
        let view = |(at, shard): (usize, &Shard)| {
            let away = troubles.get(&self.keyspace_of(at)).cloned();
            let (address, server) = match shard.server.gate.survey() {
                Some((address, server)) => (address, Some(server).filter(|_| away.is_none())),
                None => (shard.server.reads.target().backend.address.clone(), None),
            };
            ShardView { name: shard.name.to_string(), address, away, server }
        };
        self.shards.iter().enumerate().filter(|(at, _)| self.is_in_use(*at)).map(view).collect()
    }

    fn close(&self) {
        if !self.is_closed.send_replace(true)
            && let (Some(keeper), Ok(runtime)) = (self.me.upgrade(), tokio::runtime::Handle::try_current())
        {
            runtime.spawn(async move { keeper.release_sweeps().await });
        }
        self.teller.claims.close();
        self.teller.watchers.tell_all();
    }

    fn shard_index(&self, name: &str) -> usize {
        self.shards.iter().position(|shard| *shard.name == *name).unwrap_or(self.default_shard)
    }

    /// Where new tasks of a queue go.
    pub fn current_shard(&self, queue: &QueueKey) -> usize {
        let name = self.sharding.tenant_overrides.get(&*queue.tenant);
        let name = name.or_else(|| self.sharding.command_mappings.get(&*queue.command));
        match name {
            Some(name) => self.shard_index(name),
            None if self.sharding.spread => {
                self.spread_index(crate::kvrocks::context::spread::shard_of(queue))
            }
            None => self.default_shard,
        }
    }

    /// Where a spread shard lives.
    pub fn spread_index(&self, spread: usize) -> usize {
        self.spread.current(spread)
    }

    /// The shard of a name, where it lives.
    pub fn place_of(&self, name: &str) -> Option<usize> {
        match crate::kvrocks::context::spread::parse(name).filter(|_| self.sharding.spread) {
            Some(spread) => Some(self.spread.current(spread)),
            None => self.shards.iter().position(|shard| *shard.name == *name),
        }
    }

    /// Whether something lives at a place: a spread shard may be at several, and is at one.
    pub fn is_in_use(&self, at: usize) -> bool {
        self.shards[at].spread.is_none_or(|spread| self.spread.is_current(spread, at))
    }

    /// Everywhere tasks of a queue may be: its former places, then where it lives now.
    pub fn queue_shards(&self, queue: &QueueKey) -> Vec<usize> {
        let mut shards = self.former.of(queue);
        shards.push(self.current_shard(queue));
        shards
    }

    /// Every server once: shards share them.
    fn servers(&self) -> impl Iterator<Item = &Arc<Server>> {
        let is_first = |(at, shard): &(usize, &Shard)| {
            !self.shards[..*at].iter().any(|other| Arc::ptr_eq(&other.server, &shard.server))
        };
        self.shards.iter().enumerate().filter(is_first).map(|(_, shard)| &shard.server)
    }

    /// The keyspace of a shard.
    pub fn keyspace_of(&self, shard: usize) -> usize {
        self.keyspaces.iter().position(|shards| shards.contains(&shard)).unwrap_or(0)
    }
}

/// Whether a server is there and refuses: full, read-only, loading.
fn is_refusal(reason: &str) -> bool {
    crate::kvrocks::redis::writer::is_passing(reason)
}

/// The handle; the store is closed when it is dropped.
pub struct KvrocksStore {
    pub(super) keeper: Arc<StoreContext>,
}

impl KvrocksStore {
    /// Exchanges with the servers that this store has made for its callers and its sweeps.
    pub fn round_trips(&self) -> u64 {
        let servers = self.keeper.servers();
        servers.map(|server| server.reads.round_trips() + server.writes.round_trips()).sum()
    }

    pub(super) fn run<T, F>(&self, verb: impl FnOnce(Arc<StoreContext>) -> F) -> Answer<T>
    where
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        Box::pin(verb(self.keeper.clone()))
    }
}

impl Drop for KvrocksStore {
    fn drop(&mut self) {
        self.keeper.close();
    }
}

impl TaskStore for KvrocksStore {
    fn create(&self, tasks: Vec<NewTask>) -> Answer<Items<Created>> {
        self.run(|keeper| keeper.create(tasks))
    }

    fn get(&self, tasks: Vec<TaskRef>) -> Answer<Vec<Option<Task>>> {
        self.run(|keeper| keeper.get(tasks))
    }

    fn result(&self, task: TaskRef, wait: Wait) -> Answer<ResultLookup> {
        self.run(|keeper| keeper.result(task, wait))
    }

    fn claim(&self, claim: Claim) -> Answer<Vec<Task>> {
        self.run(|keeper| keeper.claim(claim))
    }

    fn heartbeat(&self, beats: Vec<Heartbeat>) -> Answer<Items<Beat>> {
        self.run(|keeper| keeper.heartbeat(beats))
    }

    fn nack(&self, nacks: Vec<Nack>) -> Answer<Items<Returned>> {
        self.run(|keeper| keeper.nack(nacks))
    }

    fn abandon(&self, abandons: Vec<Abandon>) -> Answer<Items<Returned>> {
        self.run(|keeper| keeper.abandon(abandons))
    }

    fn submit(&self, submits: Vec<Submit>) -> Answer<Items<ResultRecord>> {
        self.run(|keeper| keeper.submit(submits))
    }
}

impl OperatorStore for KvrocksStore {
    fn attempts(&self, task: TaskRef) -> Answer<Option<Vec<Attempt>>> {
        self.run(|keeper| keeper.attempts(task))
    }

    fn cancel(&self, cancels: Vec<Cancel>) -> Answer<Items<Task>> {
        self.run(|keeper| keeper.cancel(cancels))
    }

    fn requeue(&self, tasks: Vec<TaskRef>, max_attempts: Option<u32>) -> Answer<Items<Task>> {
        self.run(|keeper| keeper.requeue(tasks, max_attempts))
    }

    fn run_now(&self, tasks: Vec<TaskRef>) -> Answer<Items<Task>> {
        self.run(|keeper| keeper.run_now(tasks))
    }

    fn remove(&self, tasks: Vec<TaskRef>) -> Answer<Items<()>> {
        self.run(|keeper| keeper.remove(tasks))
    }

    fn cleanup(&self, tenant: Arc<str>, before: Time, limit: usize) -> Answer<u64> {
        self.run(|keeper| keeper.cleanup(tenant, before, limit))
    }

    fn pause(&self, queue: QueueKey) -> Answer<QueueStats> {
        self.run(|keeper| keeper.pause(queue, true))
    }

    fn resume(&self, queue: QueueKey) -> Answer<QueueStats> {
        self.run(|keeper| keeper.pause(queue, false))
    }

    fn queues(&self, tenant: Option<Arc<str>>) -> Answer<Vec<QueueStats>> {
        self.run(|keeper| keeper.queues(tenant))
    }

    fn queue(&self, queue: QueueKey) -> Answer<QueueStats> {
        self.run(|keeper| keeper.queue(queue))
    }

    fn list(&self, page: Page) -> Answer<Result<Listed, Refusal>> {
        self.run(|keeper| keeper.list(page))
    }

    fn position(&self, task: TaskRef) -> Answer<Option<Position>> {
        self.run(|keeper| keeper.position(task))
    }

    fn import(&self, tasks: Vec<Import>) -> Answer<Items<bool>> {
        self.run(|keeper| keeper.import(tasks))
    }

    fn put_operation(&self, operation: Operation) -> Answer<bool> {
        self.run(|keeper| keeper.put_operation(operation))
    }

    fn operations(&self) -> Answer<Vec<Operation>> {
        self.run(StoreContext::operations)
    }

    fn put_audit(&self, entry: AuditEntry) -> Answer<()> {
        self.run(|keeper| keeper.put_audit(entry))
    }

    fn audit(&self, page: AuditPage) -> Answer<Audited> {
        self.run(|keeper| keeper.audit(page))
    }

    fn remove_operation(&self, id: u128) -> Answer<()> {
        self.run(|keeper| keeper.remove_operation(id))
    }

    fn backup(&self) -> Answer<Result<Pieces, Refusal>> {
        Box::pin(std::future::ready(Ok(Err(Refusal::BackupElsewhere))))
    }
}

impl CatalogueStore for KvrocksStore {
    fn put_topic(&self, tenant: Arc<str>, name: String, policy: Policy) -> Answer<(Topic, TopicPut)> {
        self.run(|keeper| keeper.put_topic(tenant, name, policy))
    }

    fn topic(&self, tenant: Arc<str>, name: String) -> Answer<Option<Topic>> {
        self.run(|keeper| keeper.topic(tenant, name))
    }

    fn delete_topic(&self, tenant: Arc<str>, name: String) -> Answer<bool> {
        self.run(|keeper| keeper.delete_topic(tenant, name))
    }

    fn subscribe(&self, subscription: NewSubscription) -> Answer<Result<Subscription, Refusal>> {
        self.run(|keeper| keeper.subscribe(subscription))
    }

    fn renew(&self, tenant: Arc<str>, id: u128, ttl_seconds: i64) -> Answer<Result<Subscription, Refusal>> {
        self.run(|keeper| keeper.renew(tenant, id, ttl_seconds))
    }

    fn subscriptions(&self) -> Answer<Vec<Subscription>> {
        self.run(StoreContext::subscriptions)
    }

    fn expire_subscriptions(&self) -> Answer<u64> {
        self.run(StoreContext::expire_subscriptions)
    }

    fn take_deliveries(&self, limit: usize, hold: Duration) -> Answer<Vec<Delivery>> {
        self.run(|keeper| keeper.take_deliveries(limit, hold))
    }

    fn delivery_body(&self, id: u128) -> Answer<Option<Arc<str>>> {
        self.run(move |keeper| keeper.delivery_body(id))
    }

    fn report_delivery(&self, id: u128, report: DeliveryReport) -> Answer<Result<(), Refusal>> {
        self.run(|keeper| keeper.report_delivery(id, report))
    }

    fn outbox(&self) -> Answer<OutboxCounts> {
        self.run(StoreContext::outbox_counts)
    }

    fn deliveries(
        &self,
        tenant: Option<Arc<str>>,
        failed: bool,
        after: u128,
        limit: usize,
    ) -> Answer<Vec<Delivery>> {
        self.run(|keeper| keeper.deliveries(tenant, failed, after, limit))
    }

    fn redeliver(&self, tenant: Arc<str>, id: u128) -> Answer<Result<Delivery, Refusal>> {
        self.run(|keeper| keeper.redeliver(tenant, id))
    }
}

impl Store for KvrocksStore {
    fn health(&self) -> Health {
        self.keeper.health()
    }

    fn shards(&self) -> Vec<ShardView> {
        self.keeper.shard_views()
    }

    fn shared(&self) -> Option<Arc<dyn Shared>> {
        Some(self.keeper.clone())
    }

    fn scheduling(&self) -> Option<&dyn Schedules> {
        Some(self)
    }

    fn batching(&self) -> Option<&dyn Batches> {
        Some(self)
    }

    fn policing(&self) -> Option<&dyn Policies> {
        Some(self)
    }

    fn close(self: Arc<Self>) -> Answer<()> {
        self.keeper.close();
        Box::pin(std::future::ready(Ok(())))
    }
}
