//! Whether a server is there. One that refuses connections, or does not answer a PING for a second, is away: calls for
//! it fail at once, those on their way too, and it is probed until it answers.

use super::connection::{Probe, Target};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Between two probes.
const PROBE_INTERVAL: Duration = Duration::from_millis(250);
/// A server that does not answer for so long is away.
pub const SILENCE: Duration = Duration::from_secs(1);

/// Shared by all connections to one server.
pub struct Gate(watch::Sender<Option<String>>);

impl Default for Gate {
    fn default() -> Gate {
        Gate(watch::channel(None).0)
    }
}

impl Gate {
    /// Why the server is away, if it is.
    pub fn away(&self) -> Option<String> {
        self.0.borrow().clone()
    }

    /// Returns when the server is away.
    pub async fn shuts(&self) -> String {
        let mut away = self.0.subscribe();
        let reason = away.wait_for(Option::is_some).await.map(|reason| reason.clone().unwrap_or_default());
        reason.unwrap_or_default()
    }

    /// Nothing gets to the server until a probe does.
    pub fn shut(self: &Arc<Self>, target: &Target, reason: &str) {
        let was_shut = self.0.send_replace(Some(reason.to_owned())).is_some();
        if !was_shut {
            tracing::warn!(err = reason, "a server of the store is away");
            tokio::spawn(self.clone().keep_probing(target.clone()));
        }
    }

    async fn keep_probing(self: Arc<Self>, target: Target) {
        // Besides the prober only connections hold it, and maybe a watch.
        while Arc::strong_count(&self) > 1 {
            tokio::time::sleep(PROBE_INTERVAL).await;
            match Probe::dial(&target).await {
                Ok(_) => {
                    self.0.send_replace(None);
                    tracing::info!("a server of the store is back");
                    return;
                }
                Err(reason) => drop(self.0.send_replace(Some(reason))),
            }
        }
    }

    /// Looks for ever whether the server is silent.
    pub async fn watch(self: Arc<Self>, target: Target) {
        let mut line: Option<Probe> = None;
        while Arc::strong_count(&self) > 1 {
            tokio::time::sleep(PROBE_INTERVAL).await;
            if self.away().is_some() {
                line = None;
                continue;
            }
            let answered = match &mut line {
                Some(line) => line.ping().await,
                None => Probe::dial(&target).await.map(|made| line = Some(made)),
            };
            if let Err(reason) = answered {
                // A line that broke is made anew before anything is said about the server.
                match line.take() {
                    Some(_) if !reason.contains("timed out") => {}
                    _ => self.shut(&target, &reason),
                }
            }
        }
    }
}
