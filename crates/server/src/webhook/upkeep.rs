//! Subscriptions that are over are removed now and then.

use crate::broker::Broker;
use std::sync::Arc;
use std::time::Duration;

/// For ever; to be dropped.
pub async fn run(broker: Arc<Broker>, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        match broker.expire_subscriptions().await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "subscription cleanup removed"),
            Err(failure) => tracing::warn!(err = %failure, "subscription cleanup failed"),
        }
    }
}
