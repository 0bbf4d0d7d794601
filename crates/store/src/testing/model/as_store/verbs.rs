//! Every verb of a store, passed on to the model or to the small things kept beside it.

use super::ModelStore;
use crate::Clock;
use codeq_queue::delivery::DeliveryReport;
use codeq_queue::store::{
    Abandon, Answer, Beat, Cancel, Claim, Created, Health, Heartbeat, Import, Items, Nack, OutboxCounts,
    Pieces, Position, ResultLookup, Returned, Submit, TaskRef, Wait,
};
use codeq_queue::subscription::{NewSubscription, Subscription, check_count, ttl};
use codeq_queue::topic::{self, Policy, Topic, TopicPut};
use codeq_queue::{
    Attempt, AuditEntry, AuditPage, Audited, CatalogueStore, Delivery, DeliveryState, Listed, NewTask,
    Operation, OperatorStore, Page, QueueKey, QueueStats, Refusal, ResultRecord, Store, Task, TaskId,
    TaskStore, Time,
};
use rand::Rng;
use std::sync::Arc;
use std::time::Duration;

impl TaskStore for ModelStore {
    fn create(&self, tasks: Vec<NewTask>) -> Answer<Items<Created>> {
        self.each(tasks, |inner, new| {
            let id = TaskId::from_bits(inner.rng.random());
            let created = inner.model.create(&new, id);
            inner.serve();
            Ok(created)
        })
    }

    fn get(&self, tasks: Vec<TaskRef>) -> Answer<Vec<Option<Task>>> {
        self.each(tasks, |inner, named| inner.model.get(&named))
    }

    fn result(&self, task: TaskRef, wait: Wait) -> Answer<ResultLookup> {
        self.later(|inner, sender| inner.watches.push((task, wait, sender)))
    }

    fn claim(&self, claim: Claim) -> Answer<Vec<Task>> {
        self.later(|inner, sender| inner.claims.push((claim, sender)))
    }

    fn heartbeat(&self, beats: Vec<Heartbeat>) -> Answer<Items<Beat>> {
        self.each(beats, |inner, beat| inner.model.heartbeat(&beat))
    }

    fn nack(&self, nacks: Vec<Nack>) -> Answer<Items<Returned>> {
        self.each(nacks, |inner, nack| {
            let rng = &mut inner.rng;
            inner.model.nack(&nack, &mut |_, low, high| rng.random_range(low..=high))
        })
    }

    fn abandon(&self, abandons: Vec<Abandon>) -> Answer<Items<Returned>> {
        self.each(abandons, |inner, abandon| inner.model.abandon(&abandon))
    }

    fn submit(&self, submits: Vec<Submit>) -> Answer<Items<ResultRecord>> {
        self.each(submits, |inner, submit| inner.model.submit(&submit))
    }
}

impl OperatorStore for ModelStore {
    fn attempts(&self, task: TaskRef) -> Answer<Option<Vec<Attempt>>> {
        self.now(|inner| inner.model.attempts(&task))
    }

    fn cancel(&self, cancels: Vec<Cancel>) -> Answer<Items<Task>> {
        self.each(cancels, |inner, cancel| inner.model.cancel(&cancel.task))
    }

    fn requeue(&self, tasks: Vec<TaskRef>, max_attempts: Option<u32>) -> Answer<Items<Task>> {
        self.each(tasks, |inner, named| inner.model.requeue(&named, max_attempts))
    }

    fn run_now(&self, tasks: Vec<TaskRef>) -> Answer<Items<Task>> {
        self.each(tasks, |inner, named| {
            let made = inner.model.run_now(&named);
            inner.serve();
            made
        })
    }

    fn remove(&self, tasks: Vec<TaskRef>) -> Answer<Items<()>> {
        self.each(tasks, |inner, named| inner.model.remove(&named))
    }

    fn cleanup(&self, tenant: Arc<str>, before: Time, limit: usize) -> Answer<u64> {
        self.now(|inner| {
            let mut ids = inner.model.cleanable(&tenant, before);
            ids.truncate(limit);
            ids.iter().for_each(|id| inner.model.forget(*id));
            ids.len() as u64
        })
    }

    fn pause(&self, queue: QueueKey) -> Answer<QueueStats> {
        self.now(|inner| inner.model.pause(&queue))
    }

    fn resume(&self, queue: QueueKey) -> Answer<QueueStats> {
        self.now(|inner| inner.model.resume(&queue))
    }

    fn queues(&self, tenant: Option<Arc<str>>) -> Answer<Vec<QueueStats>> {
        self.now(|inner| {
            inner.model.keys(tenant.as_deref()).iter().map(|key| inner.model.stats(key)).collect()
        })
    }

    fn queue(&self, queue: QueueKey) -> Answer<QueueStats> {
        self.now(|inner| inner.model.stats(&queue))
    }

    fn list(&self, page: Page) -> Answer<Result<Listed, Refusal>> {
        self.now(|inner| inner.model.list(&page))
    }

    fn position(&self, task: TaskRef) -> Answer<Option<Position>> {
        self.now(|inner| inner.model.position(&task))
    }

    fn import(&self, tasks: Vec<Import>) -> Answer<Items<bool>> {
        self.each(tasks, |inner, import| {
            let imported = inner.model.import(import);
            inner.serve();
            imported
        })
    }

    fn put_operation(&self, operation: Operation) -> Answer<bool> {
        self.now(|inner| {
            let stored = inner.operations.iter().position(|known| known.id == operation.id);
            let version = stored.map_or(0, |at| inner.operations[at].version);
            let is_next = operation.version == version + 1;
            match stored {
                Some(at) if is_next => inner.operations[at] = operation,
                None if is_next => inner.operations.push(operation),
                _ => {}
            }
            is_next
        })
    }

    fn operations(&self) -> Answer<Vec<Operation>> {
        self.now(|inner| {
            let mut all = inner.operations.clone();
            all.sort_by_key(|operation| (operation.created_at, operation.id));
            all
        })
    }

    fn put_audit(&self, entry: AuditEntry) -> Answer<()> {
        self.now(|inner| {
            inner.audit.retain(|known| known.place() != entry.place());
            inner.audit.push(entry);
            inner.audit.sort_by_key(|entry| std::cmp::Reverse(entry.place()));
        })
    }

    fn audit(&self, page: AuditPage) -> Answer<Audited> {
        let now = self.clock.now();
        self.now(|inner| {
            let kept = inner.model.rules.audit_retention;
            let entries = inner.audit.iter().filter(|entry| now.since(entry.at) <= kept);
            page.take(entries.filter(|entry| page.cursor.is_none_or(|cursor| entry.place() < cursor)))
        })
    }

    fn remove_operation(&self, id: u128) -> Answer<()> {
        self.now(|inner| inner.operations.retain(|operation| operation.id != id))
    }

    fn backup(&self) -> Answer<Result<Pieces, Refusal>> {
        self.now(|_| Err(Refusal::BackupElsewhere))
    }
}

impl CatalogueStore for ModelStore {
    fn put_topic(&self, tenant: Arc<str>, name: String, policy: Policy) -> Answer<(Topic, TopicPut)> {
        self.now(|inner| {
            let key = (tenant.clone(), name.clone());
            let put = topic::put(inner.topics.get(&key), &tenant, &name, policy, inner.model.now);
            inner.topics.insert(key, put.0.clone());
            put
        })
    }

    fn topic(&self, tenant: Arc<str>, name: String) -> Answer<Option<Topic>> {
        self.now(|inner| inner.topics.get(&(tenant, name)).cloned())
    }

    fn delete_topic(&self, tenant: Arc<str>, name: String) -> Answer<bool> {
        self.now(|inner| inner.topics.remove(&(tenant, name)).is_some())
    }

    fn subscribe(&self, subscription: NewSubscription) -> Answer<Result<Subscription, Refusal>> {
        self.now(|inner| {
            let (now, tenant) = (inner.model.now, subscription.tenant.clone());
            let made = subscription.accept(inner.rng.random(), now)?;
            let living = |s: &&Subscription| s.tenant == tenant && s.expires_at > now;
            check_count(inner.subscriptions.iter().filter(living).count())?;
            inner.subscriptions.push(made.clone());
            Ok(made)
        })
    }

    fn renew(&self, tenant: Arc<str>, id: u128, ttl_seconds: i64) -> Answer<Result<Subscription, Refusal>> {
        self.now(|inner| {
            let now = inner.model.now;
            let living = |s: &&mut Subscription| s.id == id && s.tenant == tenant && s.expires_at > now;
            let found = inner.subscriptions.iter_mut().find(living).ok_or(Refusal::SubscriptionNotFound)?;
            found.expires_at = now.plus(ttl(ttl_seconds));
            Ok(found.clone())
        })
    }

    fn subscriptions(&self) -> Answer<Vec<Subscription>> {
        self.now(|inner| {
            let now = inner.model.now;
            inner.subscriptions.iter().filter(|s| s.expires_at > now).cloned().collect()
        })
    }

    fn expire_subscriptions(&self) -> Answer<u64> {
        self.now(|inner| {
            let (now, before) = (inner.model.now, inner.subscriptions.len());
            inner.subscriptions.retain(|s| s.expires_at > now);
            (before - inner.subscriptions.len()) as u64
        })
    }

    fn take_deliveries(&self, limit: usize, hold: Duration) -> Answer<Vec<Delivery>> {
        self.now(|inner| {
            let now = inner.model.now;
            let due = |d: &&mut Delivery| matches!(d.state, DeliveryState::Pending { due } if due <= now);
            let taken = inner.model.callbacks.iter_mut().filter(due).take(limit);
            let taken = taken.map(|delivery| {
                delivery.state = DeliveryState::Pending { due: now.plus(hold) };
                delivery.clone().light()
            });
            taken.collect()
        })
    }

    fn delivery_body(&self, id: u128) -> Answer<Option<Arc<str>>> {
        self.now(|inner| {
            let found = inner.model.callbacks.iter().find(|delivery| delivery.id == id);
            found.map(|delivery| delivery.body.clone())
        })
    }

    fn report_delivery(&self, id: u128, report: DeliveryReport) -> Answer<Result<(), Refusal>> {
        self.now(|inner| {
            let now = inner.model.now;
            let callbacks = &mut inner.model.callbacks;
            let at = callbacks.iter().position(|d| d.id == id).ok_or(Refusal::DeliveryNotFound)?;
            let (state, error) = match report {
                DeliveryReport::Delivered => {
                    callbacks.remove(at);
                    return Ok(());
                }
                DeliveryReport::Retry { due, error } => (DeliveryState::Pending { due }, error),
                DeliveryReport::Failed { error } => (DeliveryState::Failed { at: now }, error),
            };
            callbacks[at].state = state;
            callbacks[at].attempts += 1;
            callbacks[at].last_error = Some(error.into());
            Ok(())
        })
    }

    fn outbox(&self) -> Answer<OutboxCounts> {
        self.now(|inner| {
            let is_failed = |d: &&Delivery| matches!(d.state, DeliveryState::Failed { .. });
            let failed = inner.model.callbacks.iter().filter(is_failed).count() as u64;
            OutboxCounts { pending: inner.model.callbacks.len() as u64 - failed, failed }
        })
    }

    fn deliveries(
        &self,
        tenant: Option<Arc<str>>,
        failed: bool,
        after: u128,
        limit: usize,
    ) -> Answer<Vec<Delivery>> {
        self.now(|inner| {
            let wanted = |d: &&Delivery| {
                let is_failed = matches!(d.state, DeliveryState::Failed { .. });
                let is_theirs = tenant.as_ref().is_none_or(|tenant| d.tenant == *tenant);
                is_theirs && is_failed == failed && d.id > after
            };
            inner.model.callbacks.iter().filter(wanted).take(limit).cloned().map(Delivery::light).collect()
        })
    }

    fn redeliver(&self, tenant: Arc<str>, id: u128) -> Answer<Result<Delivery, Refusal>> {
        self.now(|inner| {
            let due = inner.model.now;
            let mut callbacks = inner.model.callbacks.iter_mut();
            let found = callbacks.find(|d| d.id == id && d.tenant == tenant);
            let found = found.ok_or(Refusal::DeliveryNotFound)?;
            found.state = DeliveryState::Pending { due };
            found.attempts = 0;
            Ok(found.clone())
        })
    }
}

impl Store for ModelStore {
    fn health(&self) -> Health {
        if self.lock().is_closed { Health::Closed } else { Health::Ready }
    }

    fn close(self: Arc<Self>) -> Answer<()> {
        let mut inner = self.lock();
        inner.is_closed = true;
        inner.serve();
        Box::pin(std::future::ready(Ok(())))
    }
}
