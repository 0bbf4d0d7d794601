//! What operators do.

use super::{Broker, Error};
use codeq_queue::topic::{self, Policy, Topic, TopicPut};
use codeq_queue::{Failure, QueueKey, QueueStats, Refusal, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Tasks removed by one cleanup when no limit, or nothing positive, is asked for.
const CLEANUP_LIMIT: usize = 1000;

impl Broker {
    pub async fn queues(&self, tenant: Option<Arc<str>>) -> Result<Vec<QueueStats>, Failure> {
        self.store.queues(tenant).await
    }

    /// Zeros if nothing is known of it.
    pub async fn queue(&self, tenant: &str, command: &str) -> Result<QueueStats, Error> {
        Ok(self.store.queue(QueueKey::new(tenant, command)).await?)
    }

    /// Removes completed and failed tasks whose retention ends at or before `before`; how many.
    /// `None` is every tenant that has a queue.
    pub async fn cleanup(&self, tenant: Option<Arc<str>>, before: Time, limit: i64) -> Result<u64, Failure> {
        let limit = usize::try_from(limit).ok().filter(|limit| *limit > 0).unwrap_or(CLEANUP_LIMIT);
        let tenants = match tenant {
            Some(tenant) => BTreeSet::from([tenant]),
            None => self.queues(None).await?.into_iter().map(|queue| queue.tenant).collect(),
        };
        let mut deleted = 0;
        for tenant in tenants {
            let left = limit.saturating_sub(usize::try_from(deleted).unwrap_or(usize::MAX));
            if left == 0 {
                break;
            }
            deleted += self.store.cleanup(tenant, before, left).await?;
        }
        Ok(deleted)
    }

    pub async fn put_topic(
        &self,
        tenant: Arc<str>,
        name: String,
        policy: Policy,
    ) -> Result<(Topic, TopicPut), Error> {
        topic::check_name(&name)?;
        let policy = policy.check(&name)?;
        Ok(self.store.put_topic(tenant, name, policy).await?)
    }

    pub async fn topic(&self, tenant: Arc<str>, name: String) -> Result<Topic, Error> {
        topic::check_name(&name)?;
        let id = topic::id(&tenant, &name);
        Ok(self.store.topic(tenant, name).await?.ok_or(Refusal::TopicNotFound(id))?)
    }

    /// Repeating it is harmless.
    pub async fn delete_topic(&self, tenant: Arc<str>, name: String) -> Result<(), Error> {
        topic::check_name(&name)?;
        self.store.delete_topic(tenant, name).await?;
        Ok(())
    }
}
