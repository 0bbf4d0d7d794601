//! What webhooks need: the outbox, and the subscriptions' end.

use super::{Broker, Error};
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

    /// Makes a callback that failed due again, with a full set of attempts.
    pub async fn redeliver(&self, tenant: Arc<str>, id: &str) -> Result<Delivery, Error> {
        let is_id = id.len() == 32 && id.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
        let id = u128::from_str_radix(id, 16).ok().filter(|_| is_id).ok_or(Refusal::DeliveryNotFound)?;
        let delivery = self.store.redeliver(tenant, id).await??;
        self.nudges.redelivered.notify_one();
        Ok(delivery)
    }
}
