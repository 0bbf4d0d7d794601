//! What webhooks need: the outbox, and the subscriptions' end.

use super::{Broker, Error};
use crate::webhook::{AnswerLog, AnsweredAttempt};
use codeq_queue::delivery::{Delivery, DeliveryReport};
use codeq_queue::store::OutboxCounts;
use codeq_queue::{Failure, Refusal, TaskId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// Deliveries looked at for one page.
const EXAMINED: usize = 50_000;
/// Deliveries asked of the store at once.
const ASKED_AT_ONCE: usize = 500;

/// Callbacks that one call makes due again.
const REDELIVERED_AT_ONCE: usize = 1_000;

/// Tells the sender that callers have changed something it keeps in mind.
#[derive(Default)]
pub struct Nudges {
    subscriptions: AtomicU64,
    redelivered: Notify,
}

/// Which deliveries to list.
#[derive(Clone, Debug)]
pub struct DeliveryFilter {
    /// `None` is every tenant.
    pub tenant: Option<Arc<str>>,
    pub is_failed: bool,
    /// `Some(None)`: of a task that cannot exist.
    pub task: Option<Option<TaskId>>,
    pub after: u128,
    pub limit: usize,
}

impl Broker {
    /// Grows when subscriptions were made or renewed through this process.
    pub fn subscription_changes(&self) -> u64 {
        self.nudges.subscriptions.load(Ordering::Acquire)
    }

    pub(super) fn subscriptions_changed(&self) {
        self.nudges.subscriptions.fetch_add(1, Ordering::Release);
    }

    /// Returns after a callback was made due by an operator.
    pub async fn redelivered(&self) {
        self.nudges.redelivered.notified().await;
    }

    /// Callbacks of all tenants that wait, and that failed.
    pub async fn outbox(&self) -> Result<OutboxCounts, Failure> {
        self.store.outbox().await
    }

    pub async fn expire_subscriptions(&self) -> Result<u64, Failure> {
        self.store.expire_subscriptions().await
    }

    /// Due callbacks, ours for `hold`.
    pub async fn take_deliveries(&self, limit: usize, hold: Duration) -> Result<Vec<Delivery>, Failure> {
        self.store.take_deliveries(limit, hold).await
    }

    /// `None`: it is gone by now.
    pub async fn delivery_body(&self, id: u128) -> Result<Option<Arc<str>>, Failure> {
        self.store.delivery_body(id).await
    }

    pub async fn report_delivery(&self, id: u128, report: DeliveryReport) -> Result<(), Error> {
        Ok(self.store.report_delivery(id, report).await??)
    }

    /// A page in the order of ids, and where the next begins if there may be one.
    pub async fn deliveries(&self, filter: DeliveryFilter) -> Result<(Vec<Delivery>, Option<u128>), Error> {
        let (mut found, mut after, mut examined) = (Vec::new(), filter.after, 0);
        while examined < EXAMINED {
            let page =
                self.store.deliveries(filter.tenant.clone(), filter.is_failed, after, ASKED_AT_ONCE).await?;
            let is_last = page.len() < ASKED_AT_ONCE;
            examined += page.len();
            for delivery in page {
                if found.len() == filter.limit {
                    return Ok((found, Some(after)));
                }
                after = delivery.id;
                if filter.task.is_none_or(|task| task == Some(delivery.task_id)) {
                    found.push(delivery);
                }
            }
            if is_last {
                return Ok((found, None));
            }
        }
        Ok((found, Some(after)))
    }

    /// What receivers answered lately.
    pub fn answers(&self) -> &AnswerLog {
        &self.answers
    }

    /// A page of what was delivered lately, the newest first, and where the next begins.
    pub fn delivered(&self, filter: &DeliveryFilter) -> (Vec<Arc<AnsweredAttempt>>, Option<u64>) {
        let before = u64::try_from(filter.after).ok().filter(|before| *before > 0).unwrap_or(u64::MAX);
        let mut found = self.answers.taken(filter.tenant.as_deref(), before);
        found.retain(|attempt| filter.task.is_none_or(|task| task == Some(attempt.delivery.task_id)));
        let has_more = found.len() > filter.limit;
        found.truncate(filter.limit);
        let next = found.last().map(|attempt| attempt.number).filter(|_| has_more);
        (found, next)
    }

    /// Makes callbacks that failed due again, up to a bound: how many, and whether there may be more.
    pub async fn redeliver_all(
        &self,
        tenant: &Arc<str>,
        task: Option<Option<TaskId>>,
    ) -> Result<(u64, bool), Error> {
        let filter = DeliveryFilter {
            tenant: Some(tenant.clone()),
            is_failed: true,
            task,
            after: 0,
            limit: REDELIVERED_AT_ONCE,
        };
        let (found, next) = self.deliveries(filter).await?;
        let mut redelivered = 0;
        for delivery in found {
            match self.store.redeliver(tenant.clone(), delivery.id).await? {
                Ok(_) => redelivered += 1,
                // Somebody else was quicker.
                Err(Refusal::DeliveryNotFound) => {}
                Err(refusal) => return Err(refusal.into()),
            }
        }
        self.nudges.redelivered.notify_one();
        Ok((redelivered, next.is_some()))
    }

    /// Makes a callback that failed due again, with a full set of attempts.
    pub async fn redeliver(&self, tenant: Arc<str>, id: &str) -> Result<Delivery, Error> {
        let is_id = id.len() == 32 && id.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
        let id = u128::from_str_radix(id, 16).ok().filter(|_| is_id).ok_or(Refusal::DeliveryNotFound)?;
        let delivery = self.store.redeliver(tenant, id).await??;
        self.nudges.redelivered.notify_one();
        Ok(delivery)
    }
}
