//! Webhooks: result callbacks and availability notifications, outside the path of every request.
//!
//! The store says what happened ([`signals`]); [`callbacks`] sees that ends of tasks arrive, [`notifier`]
//! tells subscribers of queues that have filled. Both send through [`outbound`]: a lane per host, and one
//! door ([`door`]) that decides what may be called.
//!
//! Promises: a callback is attempted until it is taken or out of attempts, also across restarts. A slow or
//! dead receiver delays only itself. Nothing here makes a request or the store wait.

mod addresses;
mod callbacks;
mod choice;
mod delivered;
mod door;
mod lanes;
mod notifier;
mod outbound;
mod parked;
mod resolver;
mod sign;
mod signals;
mod upkeep;

pub use delivered::{AnswerLog, AnsweredAttempt};
pub use door::{Aim, ReceiverAnswer, aim};
pub use signals::ReadyTriggers;

use crate::broker::Broker;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::rate::{Limiter, RateScope};
use callbacks::{Callbacks, Policy};
use codeq_queue::Time;
use codeq_store::{Clock, Supervisor};
use door::{DoorOptions, OutboundClient};
use notifier::Notifier;
use outbound::Outbound;
use parked::Key;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// What both senders need.
#[derive(Clone)]
struct Sender {
    broker: Arc<Broker>,
    outbound: Arc<Outbound>,
    metrics: Arc<Metrics>,
    signals: Arc<ReadyTriggers>,
    /// By address.
    limiter: Arc<Limiter>,
    draining: CancellationToken,
}

impl Sender {
    /// Takes one request out of the limit of an address, or tells in how many seconds there will be one.
    async fn take(&self, address: &Key, operation: &'static str, now: Time) -> Result<(), u64> {
        self.limiter.take(self.broker.shared(), address, operation, now).await
    }
}

/// The senders at work.
pub struct Webhooks {
    outbound: Option<Arc<Outbound>>,
    loops: Vec<AbortOnDropHandle<()>>,
}

impl Webhooks {
    /// Starts sending; when webhooks are off, only the upkeep of subscriptions. Once `draining` is
    /// cancelled nothing more is taken. The error is a start-up text.
    pub fn start(
        config: &Config,
        broker: &Arc<Broker>,
        signals: &Arc<ReadyTriggers>,
        metrics: &Arc<Metrics>,
        clock: &Arc<dyn Clock>,
        draining: &CancellationToken,
        supervisor: &Arc<Supervisor>,
    ) -> Result<Webhooks, String> {
        let (tidying, interval) = (broker.clone(), config.webhooks.subscription_cleanup_interval);
        let tidy = supervisor.keep("subscriptions", move || upkeep::run(tidying.clone(), interval));
        let mut loops = vec![AbortOnDropHandle::new(tidy)];
        if !config.webhooks.enabled {
            return Ok(Webhooks { outbound: None, loops });
        }
        let outbound = Outbound::new(OutboundClient::new(door_options(config, clock.clone()))?);
        let sender = Sender {
            broker: broker.clone(),
            outbound: outbound.clone(),
            metrics: metrics.clone(),
            signals: signals.clone(),
            limiter: Arc::new(Limiter::new(RateScope::Webhook, config.rate_limits.webhook)),
            draining: draining.clone(),
        };
        let callbacks = Callbacks::new(sender.clone(), Policy::new(config));
        let kept = [
            supervisor.keep("callbacks", move || callbacks.clone().run()),
            supervisor.keep("notifications", move || Notifier { sender: sender.clone() }.run()),
        ];
        loops.extend(kept.map(AbortOnDropHandle::new));
        Ok(Webhooks { outbound: Some(outbound), loops })
    }

    /// Takes nothing more and lets attempts in flight end, for so long. What is not reported by then is due
    /// again at the next start.
    pub async fn drain(self, patience: Duration) {
        drop(self.loops);
        if let Some(outbound) = self.outbound {
            outbound.drain(patience).await;
        }
    }
}

fn door_options(config: &Config, clock: Arc<dyn Clock>) -> DoorOptions {
    DoorOptions {
        secret: config.webhooks.hmac_secret.expose().to_owned(),
        timeout: config.webhooks.timeout,
        allows_private: config.webhooks.allow_private_addresses,
        lookup: resolver::system(),
        clock,
    }
}

#[cfg(test)]
mod tests;
