//! The embedded store as a [`Store`]: every verb goes to the shards it concerns.

use super::backup;
use super::handle::ShardHandle;
use super::inbox::Lane;
use super::listing;
use super::lookups::{act_on_named, cleanup_on, create_on, import_on};
use super::manifest::Manifest;
use super::readers::Pools;
use super::records::{Sketch, idem_key};
use super::routes::{self, Shards, StopWaiting, each_shard, scatter};
use super::shard::{KeyedTask, Reply, Turn};
use codeq_queue::delivery::DeliveryReport;
use codeq_queue::store::{
    Abandon, Answer, Claim, Created, Health, Heartbeat, Import, Items, Nack, OutboxCounts, Pieces, Position,
    ResultLookup, Returned, Submit, TaskRef, Wait,
};
use codeq_queue::subscription::{NewSubscription, Subscription};
use codeq_queue::topic::{Policy, Topic, TopicPut};
use codeq_queue::{
    Attempt, Delivery, Failure, Listed, NewTask, Operation, Page, QueueKey, QueueStats, Refusal,
    ResultRecord, Store, Task, Time,
};
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// Creates and results of one batch are posted in pieces of about this size.
const PIECE_BYTES: usize = 1 << 20;

pub struct LocalStore {
    shards: Shards,
    pools: Pools,
    tokens: AtomicU64,
    is_closed: AtomicBool,
    manifest: Manifest,
    lock: Mutex<Option<File>>,
}

impl LocalStore {
    pub(super) fn new(
        shards: Vec<ShardHandle>,
        pools: Pools,
        manifest: Manifest,
        lock: Option<File>,
    ) -> LocalStore {
        LocalStore {
            shards: shards.into_iter().map(Arc::new).collect(),
            pools,
            tokens: AtomicU64::new(1),
            is_closed: AtomicBool::new(false),
            manifest,
            lock: Mutex::new(lock),
        }
    }

    fn count(&self) -> u32 {
        self.shards.len() as u32
    }

    /// Items, each to the shard of its id, in pieces that fit a group. `bytes` is what an item may write.
    fn by_id<I: Send + 'static, T: Send + 'static>(
        &self,
        items: Vec<I>,
        id: fn(&I) -> &codeq_queue::TaskId,
        bytes: fn(&I) -> usize,
        act: fn(&mut Turn<'_>, Vec<I>, Reply<Vec<T>>),
    ) -> Answer<Vec<T>> {
        let count = self.count();
        let ask = move |shard: Arc<ShardHandle>, share: Vec<I>| -> Answer<Vec<T>> {
            if share.iter().map(bytes).sum::<usize>() <= GROUPABLE {
                return Box::pin(async move {
                    shard.ask(Lane::Other, 0, move |turn, reply| act(turn, share, reply)).await
                });
            }
            Box::pin(async move {
                let mut answers = Vec::with_capacity(share.len());
                for (piece, bytes) in pieces(share, bytes) {
                    let asked = shard.ask(Lane::Other, bytes, move |turn, reply| act(turn, piece, reply));
                    answers.extend(asked.await?);
                }
                Ok(answers)
            })
        };
        scatter(&self.shards, items, move |item| id(item).shard(count), ask)
    }

    fn on<T: Send + 'static>(
        &self,
        shard: u32,
        act: impl FnOnce(&mut Turn<'_>, Reply<T>) + Send + 'static,
    ) -> Answer<T> {
        let shard = self.shards[shard as usize].clone();
        Box::pin(async move { shard.ask(Lane::Other, 0, act).await })
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
        for shard in self.shards.iter() {
            shard.links.library.tree.close();
        }
        drop(self.lock.lock().expect("no one panics holding the lock").take());
    }

    /// Room that the store takes on disk.
    pub fn disk_bytes(&self) -> u64 {
        let of = |shard: &Arc<ShardHandle>| {
            let journal = shard.journal.as_ref().map_or(0, |journal| journal.disk_bytes());
            journal + shard.links.library.tree.disk_bytes()
        };
        self.shards.iter().map(of).sum()
    }

    /// Bytes of records that the tree does not have yet.
    pub fn unsettled_bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.links.unsettled_bytes.load(Ordering::Relaxed)).sum()
    }
}

impl Drop for LocalStore {
    fn drop(&mut self) {
        self.shut();
    }
}

fn new_task_bytes(task: &NewTask) -> usize {
    task.body.bytes() + 256
}

impl Store for LocalStore {
    fn create(&self, tasks: Vec<NewTask>) -> Answer<Items<Created>> {
        let count = self.count();
        let ask = |shard: Arc<ShardHandle>, share: Vec<KeyedTask>| -> Answer<Items<Created>> {
            let bytes: usize = share.iter().map(|task| new_task_bytes(&task.task)).sum();
            if bytes <= GROUPABLE {
                return Box::pin(create_on(shard, share, 0));
            }
            Box::pin(async move {
                let mut answers = Vec::with_capacity(share.len());
                for (piece, bytes) in pieces(share, |task| new_task_bytes(&task.task)) {
                    answers.extend(create_on(shard.clone(), piece, bytes).await?);
                }
                Ok(answers)
            })
        };
        let keyed = tasks.into_iter().map(|task| {
            let key = task.body.idempotency_key.as_deref().map(|key| {
                let queue = QueueKey::new(&task.body.tenant, &task.body.command);
                idem_key(&queue, key)
            });
            KeyedTask { task, key, prior: None }
        });
        let shard_of = move |keyed: &KeyedTask| {
            QueueKey::new(&keyed.task.body.tenant, &keyed.task.body.command).shard(count)
        };
        scatter(&self.shards, keyed.collect(), shard_of, ask)
    }

    fn get(&self, tasks: Vec<TaskRef>) -> Answer<Vec<Option<Task>>> {
        self.by_id(tasks, |task| &task.id, |_| 0, |turn, tasks, reply| turn.get(tasks, reply))
    }

    fn result(&self, task: TaskRef, wait: Wait) -> Answer<ResultLookup> {
        let shard = self.shards[task.id.shard(self.count()) as usize].clone();
        let (shards, token) = (self.shards.clone(), self.token());
        Box::pin(async move {
            let guard = routes::is_waiting(wait).then_some(StopWaiting { shards, token });
            let answer =
                shard.ask(Lane::Other, 0, move |turn, reply| turn.result(&task, wait, token, reply)).await;
            drop(guard);
            answer
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

    fn heartbeat(&self, beats: Vec<Heartbeat>) -> Answer<Items<()>> {
        self.by_id(beats, |beat| &beat.report.id, |_| 64, |turn, beats, reply| turn.heartbeat(beats, reply))
    }

    fn nack(&self, nacks: Vec<Nack>) -> Answer<Items<Returned>> {
        let size = |nack: &Nack| ENDING_BYTES + end_bytes(nack.reason.as_ref().map_or(0, String::len));
        self.by_id(nacks, |nack| &nack.report.id, size, |turn, nacks, reply| turn.nack(nacks, reply))
    }

    fn abandon(&self, abandons: Vec<Abandon>) -> Answer<Items<Returned>> {
        self.by_id(
            abandons,
            |item| &item.report.id,
            |_| ENDING_BYTES,
            |turn, items, reply| turn.abandon(items, reply),
        )
    }

    fn submit(&self, submits: Vec<Submit>) -> Answer<Items<ResultRecord>> {
        let size = |submit: &Submit| {
            let outcome = &submit.outcome;
            let error = outcome.error.as_ref().map_or(0, |text| text.len());
            // The callback repeats the result.
            ENDING_BYTES + end_bytes(error) + 2 * outcome.result.as_ref().map_or(0, |text| text.len())
        };
        self.by_id(submits, |submit| &submit.report.id, size, |turn, items, reply| turn.submit(items, reply))
    }

    fn attempts(&self, task: TaskRef) -> Answer<Option<Vec<Attempt>>> {
        let shard = task.id.shard(self.count());
        let sketch: Answer<Option<Sketch>> = self.on(shard, move |turn, reply| turn.sketch(&task, reply));
        Box::pin(async move { Ok(sketch.await?.map(|sketch| sketch.attempts())) })
    }

    fn cancel(&self, tasks: Vec<TaskRef>) -> Answer<Items<Task>> {
        self.by_id(tasks, |task| &task.id, |_| ENDING_BYTES, |turn, tasks, reply| turn.cancel(tasks, reply))
    }

    fn requeue(&self, tasks: Vec<TaskRef>, max_attempts: Option<u32>) -> Answer<Items<Task>> {
        let count = self.count();
        let ask = move |shard, share| -> Answer<Items<Task>> {
            Box::pin(act_on_named(shard, share, move |turn, named, generation, reply| {
                turn.requeue(named, generation, max_attempts, reply)
            }))
        };
        scatter(&self.shards, tasks, move |task: &TaskRef| task.id.shard(count), ask)
    }

    fn remove(&self, tasks: Vec<TaskRef>) -> Answer<Items<()>> {
        let count = self.count();
        let ask = |shard, share| -> Answer<Items<()>> {
            Box::pin(act_on_named(shard, share, |turn, named, generation, reply| {
                turn.remove(named, generation, reply)
            }))
        };
        scatter(&self.shards, tasks, move |task: &TaskRef| task.id.shard(count), ask)
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

    fn queues(&self, tenant: Option<Arc<str>>) -> Answer<Vec<QueueStats>> {
        let shards = self.shards.clone();
        Box::pin(async move {
            let ask = |shard: Arc<ShardHandle>| -> Answer<Vec<QueueStats>> {
                let tenant = tenant.clone();
                Box::pin(async move {
                    shard.ask(Lane::Other, 0, move |turn, reply| turn.queues(tenant.as_ref(), reply)).await
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
        self.on(task.id.shard(self.count()), move |turn, reply| turn.position(&task, reply))
    }

    fn import(&self, tasks: Vec<Import>) -> Answer<Items<bool>> {
        let count = self.count();
        let ask = |shard, share| -> Answer<Items<bool>> { Box::pin(import_on(shard, share)) };
        scatter(&self.shards, tasks, move |import: &Import| import.task.id.shard(count), ask)
    }

    fn put_operation(&self, operation: Operation) -> Answer<bool> {
        self.on(0, move |turn, reply| turn.put_operation(operation, reply))
    }

    fn operations(&self) -> Answer<Vec<Operation>> {
        self.on(0, |turn, reply| turn.operations(reply))
    }

    fn remove_operation(&self, id: u128) -> Answer<()> {
        self.on(0, move |turn, reply| turn.remove_operation(id, reply))
    }

    fn backup(&self) -> Answer<Result<Pieces, Refusal>> {
        let (shards, manifest) = (self.shards.clone(), self.manifest);
        Box::pin(async move {
            let mut views = Vec::new();
            for shard in shards.iter() {
                let _ = shard.trough.flush().await;
                let view = shard.search(|links| {
                    let view = links.library.tree.instant();
                    view.map_err(|error| Failure::unavailable(error.to_string()))
                });
                views.push(view.await?);
            }
            let pieces: Pieces = Box::new(backup::Pieces::new(manifest, views));
            Ok(Ok(pieces))
        })
    }

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
                        shard.ask(Lane::Other, 0, move |turn, reply| turn.take_deliveries(left, hold, reply));
                    taken.extend(asked.await?);
                }
            }
            Ok(taken)
        })
    }

    fn report_delivery(&self, id: u128, report: DeliveryReport) -> Answer<Result<(), Refusal>> {
        self.on(self.delivery_shard(id), move |turn, reply| turn.report_delivery(id, report, reply))
    }

    fn outbox(&self) -> Answer<OutboxCounts> {
        let shards = self.shards.clone();
        Box::pin(async move {
            let ask = |shard: Arc<ShardHandle>| -> Answer<OutboxCounts> {
                Box::pin(async move { shard.ask(Lane::Other, 0, |turn, reply| turn.outbox(reply)).await })
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
                Box::pin(async move { shard.ask(Lane::Other, 0, act).await })
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

    fn health(&self) -> Health {
        if self.is_closed.load(Ordering::Acquire) {
            return Health::Closed;
        }
        let unwell = self.shards.iter().map(|shard| shard.health()).find(|health| *health != Health::Ready);
        unwell.unwrap_or(Health::Ready)
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

/// Small enough to share a group with others.
const GROUPABLE: usize = 64 << 10;
/// What ending a task may write besides its texts: the entry, and a callback with its address.
const ENDING_BYTES: usize = 512;

/// What an error text may write: the record, the task, and the callback, where it may be escaped.
fn end_bytes(error: usize) -> usize {
    8 * error.min(codeq_queue::limits::ERROR_BYTES)
}

/// Cuts a batch into pieces that fit a group; gives each with its size.
fn pieces<I>(items: Vec<I>, size: impl Fn(&I) -> usize) -> Vec<(Vec<I>, usize)> {
    let mut pieces: Vec<(Vec<I>, usize)> = Vec::new();
    for item in items {
        let bytes = size(&item);
        match pieces.last_mut() {
            Some((piece, total)) if *total + bytes <= PIECE_BYTES => {
                piece.push(item);
                *total += bytes;
            }
            _ => pieces.push((vec![item], bytes)),
        }
    }
    pieces
}

impl LocalStore {
    fn delivery_shard(&self, id: u128) -> u32 {
        u32::try_from(id % u128::from(self.count())).expect("a remainder is below its divisor")
    }
}
