//! Periodic upkeep.

use crate::artifacts::Artifacts;
use crate::broker::Broker;
use std::sync::Arc;
use std::time::Duration;

/// Artifacts expire by the hour.
const ARTIFACT_ROUND: Duration = Duration::from_secs(300);

/// Removes the artifacts of expired tasks; runs until dropped.
pub async fn artifacts(artifacts: Arc<Artifacts>, broker: Arc<Broker>) {
    let mut round = tokio::time::interval(ARTIFACT_ROUND);
    loop {
        round.tick().await;
        match artifacts.expire(broker.now()).await {
            Ok(0) => {}
            Ok(count) => tracing::debug!(count, "artifacts removed"),
            Err(error) => tracing::warn!(err = %error, "artifact cleanup failed"),
        }
    }
}
