//! Removes expired subscriptions from time to time.

use crate::broker::Broker;
use std::sync::Arc;
use std::time::Duration;

/// Runs until dropped.
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
