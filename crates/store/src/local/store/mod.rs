//! The embedded store as a [`Store`]: every verb goes to the shards it concerns.

pub(in crate::local) mod batching;
pub(in crate::local) mod by_id;
pub(in crate::local) mod imports;
pub(in crate::local) mod listing;
pub(in crate::local) mod lookups;
pub(in crate::local) mod routes;
pub(in crate::local) mod scheduling;

use super::shard::{Part, Reply, Turn};
use crate::local::directory::backup;
use crate::local::directory::manifest::Manifest;
use crate::local::engine::handle::ShardHandle;
use crate::local::engine::inbox::Lane;
use crate::local::rows::readers::Pools;
use crate::local::store::by_id::{ById, FoundAnswer, ask_about, ask_by_id, import_all};
use crate::local::store::lookups::{act_on_named, after, cleanup_on};
use crate::local::store::routes::{Shards, StopWaiting, each_shard};
use crate::local::store::scheduling::Directory;
use codeq_queue::delivery::DeliveryReport;
use codeq_queue::order::{ReadyCommands, ReadyQuestion};
use codeq_queue::store::{
    Abandon, Answer, Beat, Cancel, Claim, Created, Health, Heartbeat, Import, Items, Nack, OutboxCounts,
    Pieces, Position, ResultLookup, Returned, Submit, TaskRef, Wait,
};
use codeq_queue::subscription::{NewSubscription, Subscription};
use codeq_queue::topic::{Policy, Topic, TopicPut};
use codeq_queue::{
    Attempt, AuditEntry, AuditPage, Audited, Batches, CatalogueStore, Delivery, Failure, Listed, NewTask,
    Operation, OperatorStore, Page, Policies, QueueKey, QueueStats, Refusal, ResultRecord, Schedules, Store,
    Task, TaskStore, Time,
};
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

pub struct LocalStore {
    shards: Shards,
    directory: Directory,
    pools: Pools,
    tokens: AtomicU64,
    is_closed: AtomicBool,
    manifest: Manifest,
    lock: Mutex<Option<File>>,
    /// Held by who imports.
    importing: Arc<tokio::sync::Mutex<()>>,
}

/// A verb that takes as many items as a turn has room for.
type BatchVerb<I, T> = fn(&mut Turn<'_>, Vec<I>, Reply<Part<T, I>>);

impl LocalStore {
    pub(super) fn new(
        shards: Vec<ShardHandle>,
        pools: Pools,
        manifest: Manifest,
        lock: Option<File>,
    ) -> LocalStore {
        let shards: Shards = shards.into_iter().map(Arc::new).collect();
        LocalStore {
            directory: Directory::new(shards.clone()),
            shards,
            pools,
            tokens: AtomicU64::new(1),
            is_closed: AtomicBool::new(false),
            manifest,
            lock: Mutex::new(lock),
            importing: Arc::default(),
        }
    }

    fn count(&self) -> u32 {
        self.shards.len() as u32
    }

    /// Items, each to the shard of its task. What a turn leaves over is asked for again.
    fn by_id<I: ById, T: FoundAnswer>(
        &self,
        lane: Lane,
        items: Vec<I>,
        act: BatchVerb<I, T>,
    ) -> Answer<Vec<T>> {
        let ask = move |shard: Arc<ShardHandle>, share: Vec<I>| -> Answer<Vec<T>> {
            Box::pin(async move {
                let (mut answers, mut rest) = (Vec::new(), share);
                loop {
                    shard.room(lane).await;
                    let asked = shard.ask(lane, move |turn, reply| match turn.must_wait(lane) {
                        true => turn.answer(reply, Part { done: Vec::new(), rest }),
                        false => act(turn, rest, reply),
                    });
                    let part = asked.await.map_err(|failure| after(!answers.is_empty(), failure))?;
                    match answers.is_empty() {
                        true => answers = part.done,
                        false => answers.extend(part.done),
                    }
                    rest = part.rest;
                    if rest.is_empty() {
                        return Ok(answers);
                    }
                }
            })
        };
        ask_by_id(&self.shards, items, ask)
    }

    fn on<T: Send + 'static>(
        &self,
        shard: u32,
        act: impl FnOnce(&mut Turn<'_>, Reply<T>) + Send + 'static,
    ) -> Answer<T> {
        let shard = self.shards[shard as usize].clone();
        Box::pin(async move { shard.ask(Lane::Other, act).await })
    }

    pub(super) fn directory(&self) -> &Directory {
        &self.directory
    }

    pub(super) fn shards(&self) -> &Shards {
        &self.shards
    }

    /// Asks the shard of a queue.
    pub(super) fn on_queue<T: Send + 'static>(
        &self,
        queue: &QueueKey,
        act: impl FnOnce(&mut Turn<'_>, Reply<T>) + Send + 'static,
    ) -> Answer<T> {
        self.on(queue.shard(self.count()), act)
    }

    fn token(&self) -> u64 {
        self.tokens.fetch_add(1, Ordering::Relaxed)
    }

    /// Blocks until everything is durable and the directory is free.
    fn shut(&self) {
        if self.is_closed.swap(true, Ordering::AcqRel) {
            return;
        }
        for shard in self.shards.iter() {
            shard.close();
        }
        self.pools.close();
        drop(self.lock.lock().expect("no one panics holding the lock").take());
    }

    /// Room that the store takes on disk.
    pub fn disk_bytes(&self) -> u64 {
        let of = |shard: &Arc<ShardHandle>| {
            let journal = shard.journal.as_ref().map_or(0, |journal| journal.disk_bytes());
            journal + shard.links.library.tables.disk_bytes()
        };
        self.shards.iter().map(of).sum()
    }

    /// Bytes of records that the tables do not have yet.
    pub fn unsettled_bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.links.unsettled_bytes.load(Ordering::Relaxed)).sum()
    }
}

impl Drop for LocalStore {
    fn drop(&mut self) {
        self.shut();
    }
}

impl TaskStore for LocalStore {
    fn create(&self, tasks: Vec<NewTask>) -> Answer<Items<Created>> {
        batching::create(&self.shards, tasks)
    }

    fn get(&self, tasks: Vec<TaskRef>) -> Answer<Vec<Option<Task>>> {
        self.by_id(Lane::Read, tasks, |turn, tasks, reply| turn.get(tasks, reply))
    }

    fn result(&self, task: TaskRef, wait: Wait) -> Answer<ResultLookup> {
        let (shards, token) = (self.shards.clone(), self.token());
        ask_about(&self.shards, task, move |shard, task| {
            let guard = routes::is_waiting(wait).then(|| StopWaiting { shards: shards.clone(), token });
            Box::pin(async move {
                let act = move |turn: &mut Turn<'_>, reply: Reply<_>| turn.result(&task, wait, token, reply);
                let answer = shard.ask(Lane::Other, act).await;
                drop(guard);
                answer
            })
        })
    }

    fn claim(&self, claim: Claim) -> Answer<Vec<Task>> {
        let (shards, token) = (self.shards.clone(), self.token());
        Box::pin(async move {
            let wait = claim.wait;
            if shards.len() == 1 && routes::is_waiting(wait) {
                return routes::claim_waiting(&shards, claim, token).await;
            }
            if !routes::is_waiting(wait) {
                return routes::claim_now(&shards, claim).await;
            }
            let taken = routes::claim_now(&shards, claim.clone()).await?;
            if !taken.is_empty() {
                return Ok(taken);
            }
            routes::claim_waiting(&shards, claim, token).await
        })
    }

    fn heartbeat(&self, beats: Vec<Heartbeat>) -> Answer<Items<Beat>> {
        self.by_id(Lane::Report, beats, |turn, beats, reply| turn.heartbeat(beats, reply))
    }

    fn nack(&self, nacks: Vec<Nack>) -> Answer<Items<Returned>> {
        self.by_id(Lane::Report, nacks, |turn, nacks, reply| turn.nack(nacks, reply))
    }

    fn abandon(&self, abandons: Vec<Abandon>) -> Answer<Items<Returned>> {
        self.by_id(Lane::Report, abandons, |turn, items, reply| turn.abandon(items, reply))
    }

    fn submit(&self, submits: Vec<Submit>) -> Answer<Items<ResultRecord>> {
        self.by_id(Lane::Report, submits, |turn, items, reply| turn.submit(items, reply))
    }
}

impl OperatorStore for LocalStore {
    fn attempts(&self, task: TaskRef) -> Answer<Option<Vec<Attempt>>> {
        let sketch = ask_about(&self.shards, task, |shard, task| {
            Box::pin(
                async move { shard.ask(Lane::Other, move |turn, reply| turn.sketch(&task, reply)).await },
            )
        });
        Box::pin(async move { Ok(sketch.await?.map(|sketch| sketch.attempts())) })
    }

    fn cancel(&self, cancels: Vec<Cancel>) -> Answer<Items<Task>> {
        self.by_id(Lane::Other, cancels, |turn, items, reply| turn.cancel(items, reply))
    }

    fn requeue(&self, tasks: Vec<TaskRef>, max_attempts: Option<u32>) -> Answer<Items<Task>> {
        let ask = move |shard, share| -> Answer<Items<Task>> {
            Box::pin(act_on_named(shard, share, move |turn, named, as_of, reply| {
                turn.requeue(named, as_of, max_attempts, reply)
            }))
        };
        ask_by_id(&self.shards, tasks, ask)
    }

    fn run_now(&self, tasks: Vec<TaskRef>) -> Answer<Items<Task>> {
        self.by_id(Lane::Other, tasks, |turn, items, reply| turn.run_now(items, reply))
    }

    fn remove(&self, tasks: Vec<TaskRef>) -> Answer<Items<()>> {
        let ask = |shard, share| -> Answer<Items<()>> {
            Box::pin(act_on_named(shard, share, |turn, named, as_of, reply| turn.remove(named, as_of, reply)))
        };
        ask_by_id(&self.shards, tasks, ask)
    }

    fn cleanup(&self, tenant: Arc<str>, before: Time, limit: usize) -> Answer<u64> {
        let shards = self.shards.clone();
        Box::pin(async move {
            let mut removed = 0;
            for shard in shards.iter() {
                let left = limit - usize::try_from(removed).unwrap_or(limit);
                if left > 0 {
                    removed += cleanup_on(shard, tenant.clone(), before, left).await?;
                }
            }
            Ok(removed)
        })
    }

    fn pause(&self, queue: QueueKey) -> Answer<QueueStats> {
        self.on(queue.shard(self.count()), move |turn, reply| turn.pause(&queue, true, reply))
    }

    fn resume(&self, queue: QueueKey) -> Answer<QueueStats> {
        self.on(queue.shard(self.count()), move |turn, reply| turn.pause(&queue, false, reply))
    }

    fn ready_commands(&self, asked: ReadyQuestion) -> Answer<ReadyCommands> {
        let shards = self.shards.clone();
        Box::pin(async move {
            let most = asked.most;
            let ask = |shard: Arc<ShardHandle>| -> Answer<ReadyCommands> {
                let asked = asked.clone();
                Box::pin(async move {
                    shard.ask(Lane::Other, move |turn, reply| turn.ready_commands(&asked, reply)).await
                })
            };
            let found = each_shard(&shards, ask).await?;
            Ok(ReadyCommands::merge(found, most, rand::random::<u64>))
        })
    }

    fn queues(&self, tenant: Option<Arc<str>>) -> Answer<Vec<QueueStats>> {
        let shards = self.shards.clone();
        Box::pin(async move {
            let ask = |shard: Arc<ShardHandle>| -> Answer<Vec<QueueStats>> {
                let tenant = tenant.clone();
                Box::pin(async move {
                    let (mut all, mut from) = (Vec::new(), Some(0));
                    while let Some(at) = from {
                        let tenant = tenant.clone();
                        let act = move |turn: &mut Turn<'_>, reply: Reply<_>| {
                            turn.queues(tenant.as_ref(), at, reply);
                        };
                        let (mut some, next) = shard.ask(Lane::Other, act).await?;
                        all.append(&mut some);
                        from = next;
                    }
                    Ok(all)
                })
            };
            Ok(each_shard(&shards, ask).await?.into_iter().flatten().collect())
        })
    }

    fn queue(&self, queue: QueueKey) -> Answer<QueueStats> {
        self.on(queue.shard(self.count()), move |turn, reply| turn.queue(&queue, reply))
    }

    fn list(&self, page: Page) -> Answer<Result<Listed, Refusal>> {
        let shards = self.shards.clone();
        Box::pin(async move { listing::list(&shards, page).await })
    }

    fn position(&self, task: TaskRef) -> Answer<Option<Position>> {
        ask_about(&self.shards, task, |shard, task| {
            Box::pin(
                async move { shard.ask(Lane::Other, move |turn, reply| turn.position(&task, reply)).await },
            )
        })
    }

    fn import(&self, tasks: Vec<Import>) -> Answer<Items<bool>> {
        let (shards, importing) = (self.shards.clone(), self.importing.clone());
        Box::pin(async move {
            let _alone = importing.lock().await;
            import_all(&shards, tasks).await
        })
    }

    fn put_operation(&self, operation: Operation) -> Answer<bool> {
        self.on(0, move |turn, reply| turn.put_operation(operation, reply))
    }

    fn operations(&self) -> Answer<Vec<Operation>> {
        self.on(0, |turn, reply| turn.operations(reply))
    }

    fn put_audit(&self, entry: AuditEntry) -> Answer<()> {
        let shards = self.shards.clone();
        Box::pin(async move {
            let place = entry.place();
            let ask = |shard: Arc<ShardHandle>| -> Answer<bool> {
                Box::pin(async move {
                    shard.ask(Lane::Other, move |turn, reply| turn.has_audit(place, reply)).await
                })
            };
            let there = each_shard(&shards, ask).await?.into_iter().position(|is_there| is_there);
            let shard = &shards[there.unwrap_or(0)];
            shard.ask(Lane::Other, move |turn, reply| turn.put_audit(&entry, reply)).await
        })
    }

    fn audit(&self, page: AuditPage) -> Answer<Audited> {
        let shards = self.shards.clone();
        Box::pin(async move {
            let limit = page.limit;
            let ask = |shard: Arc<ShardHandle>| -> Answer<Audited> {
                let page = page.clone();
                Box::pin(
                    async move { shard.ask(Lane::Other, move |turn, reply| turn.audit(&page, reply)).await },
                )
            };
            Ok(Audited::merged(each_shard(&shards, ask).await?, limit))
        })
    }

    fn remove_operation(&self, id: u128) -> Answer<()> {
        self.on(0, move |turn, reply| turn.remove_operation(id, reply))
    }

    fn backup(&self) -> Answer<Result<Pieces, Refusal>> {
        let (shards, manifest) = (self.shards.clone(), self.manifest);
        Box::pin(async move {
            let versions = backup::one_instant(&shards).await?;
            let pieces: Pieces = Box::new(backup::Pieces::new(manifest, versions));
            Ok(Ok(pieces))
        })
    }
}

impl CatalogueStore for LocalStore {
    fn put_topic(&self, tenant: Arc<str>, name: String, policy: Policy) -> Answer<(Topic, TopicPut)> {
        self.on(0, move |turn, reply| turn.put_topic(&tenant, &name, policy, reply))
    }

    fn topic(&self, tenant: Arc<str>, name: String) -> Answer<Option<Topic>> {
        self.on(0, move |turn, reply| turn.topic(&tenant, &name, reply))
    }

    fn delete_topic(&self, tenant: Arc<str>, name: String) -> Answer<bool> {
        self.on(0, move |turn, reply| turn.delete_topic(&tenant, &name, reply))
    }

    fn subscribe(&self, subscription: NewSubscription) -> Answer<Result<Subscription, Refusal>> {
        self.on(0, move |turn, reply| turn.subscribe(subscription, reply))
    }

    fn renew(&self, tenant: Arc<str>, id: u128, ttl_seconds: i64) -> Answer<Result<Subscription, Refusal>> {
        self.on(0, move |turn, reply| turn.renew(&tenant, id, ttl_seconds, reply))
    }

    fn subscriptions(&self) -> Answer<Vec<Subscription>> {
        self.on(0, |turn, reply| turn.subscriptions(reply))
    }

    fn expire_subscriptions(&self) -> Answer<u64> {
        self.on(0, |turn, reply| turn.expire_subscriptions(reply))
    }

    fn take_deliveries(&self, limit: usize, hold: Duration) -> Answer<Vec<Delivery>> {
        let shards = self.shards.clone();
        Box::pin(async move {
            let mut taken: Vec<Delivery> = Vec::new();
            for shard in shards.iter() {
                let left = limit - taken.len();
                if left > 0 {
                    let asked =
                        shard.ask(Lane::Other, move |turn, reply| turn.take_deliveries(left, hold, reply));
                    taken.extend(asked.await?);
                }
            }
            Ok(taken)
        })
    }

    fn delivery_body(&self, id: u128) -> Answer<Option<Arc<str>>> {
        self.on(self.delivery_shard(id), move |turn, reply| turn.delivery_body(id, reply))
    }

    fn report_delivery(&self, id: u128, report: DeliveryReport) -> Answer<Result<(), Refusal>> {
        self.on(self.delivery_shard(id), move |turn, reply| turn.report_delivery(id, report, reply))
    }

    fn outbox(&self) -> Answer<OutboxCounts> {
        let shards = self.shards.clone();
        Box::pin(async move {
            let ask = |shard: Arc<ShardHandle>| -> Answer<OutboxCounts> {
                Box::pin(async move { shard.ask(Lane::Other, |turn, reply| turn.outbox(reply)).await })
            };
            let counts = each_shard(&shards, ask).await?.into_iter();
            Ok(counts.fold(OutboxCounts::default(), |sum, count| OutboxCounts {
                pending: sum.pending + count.pending,
                failed: sum.failed + count.failed,
            }))
        })
    }

    fn deliveries(
        &self,
        tenant: Option<Arc<str>>,
        failed: bool,
        after: u128,
        limit: usize,
    ) -> Answer<Vec<Delivery>> {
        let shards = self.shards.clone();
        Box::pin(async move {
            let ask = |shard: Arc<ShardHandle>| -> Answer<Vec<Delivery>> {
                let tenant = tenant.clone();
                let act = move |turn: &mut Turn<'_>, reply: Reply<_>| {
                    turn.deliveries(tenant.as_ref(), failed, after, limit, reply);
                };
                Box::pin(async move { shard.ask(Lane::Other, act).await })
            };
            let mut found: Vec<Delivery> = each_shard(&shards, ask).await?.into_iter().flatten().collect();
            found.sort_by_key(|delivery| delivery.id);
            found.truncate(limit);
            Ok(found)
        })
    }

    fn redeliver(&self, tenant: Arc<str>, id: u128) -> Answer<Result<Delivery, Refusal>> {
        self.on(self.delivery_shard(id), move |turn, reply| turn.redeliver(&tenant, id, reply))
    }
}

impl Store for LocalStore {
    fn next_due(&self) -> Answer<Option<Time>> {
        let shards = self.shards.clone();
        Box::pin(async move {
            let ask = |shard: Arc<ShardHandle>| -> Answer<Option<Time>> {
                Box::pin(async move { shard.ask(Lane::Other, |turn, reply| turn.next_due(reply)).await })
            };
            Ok(each_shard(&shards, ask).await?.into_iter().flatten().min())
        })
    }

    fn health(&self) -> Health {
        if self.is_closed.load(Ordering::Acquire) {
            return Health::Closed;
        }
        let unwell = self.shards.iter().map(|shard| shard.health()).find(|health| *health != Health::Ready);
        unwell.unwrap_or(Health::Ready)
    }

    fn policing(&self) -> Option<&dyn Policies> {
        Some(self)
    }

    fn scheduling(&self) -> Option<&dyn Schedules> {
        Some(self)
    }

    fn batching(&self) -> Option<&dyn Batches> {
        Some(self)
    }

    fn close(self: Arc<Self>) -> Answer<()> {
        Box::pin(async move {
            let (done, closed) = oneshot::channel();
            std::thread::spawn(move || {
                self.shut();
                let _ = done.send(());
            });
            closed.await.map_err(|_| Failure::Closed)
        })
    }
}

impl LocalStore {
    fn delivery_shard(&self, id: u128) -> u32 {
        u32::try_from(id % u128::from(self.count())).expect("a remainder is below its divisor")
    }
}
