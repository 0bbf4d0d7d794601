//! Availability notifications: tell subscribers that an empty queue has got work.
//!
//! At most once per trigger: one attempt, nothing stored, nothing repeated. Triggers of one queue that come
//! together count as one. Where several processes notify, the store chooses for all of them. A subscriber that was
//! chosen counts as notified, even if the rate limit of its address then drops the notification.

use super::Sender;
use super::callbacks::address_key;
use super::choice::{Chooser, View};
use super::door::{Attempt, Message, host_of};
use super::outbound::{Beginning, OutboundJob, OutboundMessage};
use crate::metrics::{Metrics, WebhookKind};
use crate::rate::RateScope;
use crate::stamp::utc_seconds;
use crate::telemetry::traces::Traces;
use codeq_queue::subscription::Subscription;
use codeq_queue::{QueueKey, TaskId, Time};
use serde::Serialize;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Pause between two rounds; queues that fill meanwhile are handled together.
const PAUSE: Duration = Duration::from_millis(10);
/// How old our view of the subscriptions may be when nothing tells us that it changed.
const VIEW_AGE: Duration = Duration::from_secs(1);
/// Spend at most 1/`VIEW_SHARE` of the time reading subscriptions.
const VIEW_SHARE: u32 = 10;
/// Notifications that wait for one host.
const WAITING: usize = 2000;
/// How limits call it.
const READY: &str = "queue_ready";

pub struct Notifier {
    pub sender: Sender,
}

/// What a round knows from the ones before.
struct Memory {
    view: View,
    changes: u64,
    read_at: Option<Instant>,
    /// Not to be read again before.
    rests_until: Instant,
    chooser: Chooser,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    event_type: &'a str,
    available: bool,
    queue_depth: u64,
    claim_url: &'static str,
    sent_at: &'a str,
    notification_id: &'a str,
}

impl Notifier {
    /// Tells of queues until the server drains.
    pub async fn run(self) {
        let mut memory = Memory {
            view: View::default(),
            changes: 0,
            read_at: None,
            rests_until: Instant::now(),
            chooser: Chooser::default(),
        };
        loop {
            let filled = tokio::select! {
                filled = self.sender.signals.filled() => filled,
                () = self.sender.draining.cancelled() => return,
            };
            self.refresh(&mut memory).await;
            if !memory.view.is_empty() {
                for (queue, command) in filled {
                    self.tell_of(&mut memory, &queue, &command).await;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Reads the subscriptions again if they have changed or may have. On failure the old ones serve.
    async fn refresh(&self, memory: &mut Memory) {
        let changes = self.sender.broker.subscription_changes();
        let is_fresh = memory.read_at.is_some_and(|at| at.elapsed() < VIEW_AGE);
        if is_fresh && memory.changes == changes {
            return;
        }
        tokio::time::sleep_until(memory.rests_until).await;
        let started = Instant::now();
        let changes = self.sender.broker.subscription_changes();
        match self.sender.broker.subscriptions().await {
            Ok(subscriptions) => {
                memory.view = View::new(subscriptions);
                memory.chooser.keep(&memory.view);
                memory.changes = changes;
                memory.read_at = Some(started);
            }
            Err(failure) => tracing::debug!(err = %failure, "subscriptions cannot be read"),
        }
        memory.rests_until = Instant::now() + started.elapsed() * VIEW_SHARE;
    }

    async fn tell_of(&self, memory: &mut Memory, queue: &QueueKey, command: &Arc<str>) {
        let now = self.sender.broker.now();
        let chosen = self.choose(memory, queue, now).await;
        let chosen = self.within_limits(chosen, now).await;
        if chosen.is_empty() {
            return;
        }
        let depth = match self.sender.broker.queue(&queue.tenant, &queue.command).await {
            Ok(stats) => stats.ready_total(),
            Err(error) => return tracing::debug!(err = %error, "the depth of a queue cannot be read"),
        };
        let sent_at = utc_seconds(self.sender.broker.now());
        for subscription in chosen {
            memory.chooser.told(&subscription, now);
            self.send(subscription, command, depth, &sent_at);
        }
    }

    /// Chooses the subscribers to notify, on behalf of all processes that notify.
    async fn choose(&self, memory: &mut Memory, queue: &QueueKey, now: Time) -> Vec<Arc<Subscription>> {
        let lots = memory.view.lots(queue, now);
        if lots.is_empty() {
            return Vec::new();
        }
        let Some(shared) = self.sender.broker.shared() else {
            return memory.chooser.choose(&lots, queue, now);
        };
        shared.choose(queue.clone(), lots).await.unwrap_or_else(|failure| {
            tracing::debug!(err = %failure, "whom to notify cannot be asked");
            Vec::new()
        })
    }

    /// Drops those whose address has had enough.
    async fn within_limits(&self, chosen: Vec<Arc<Subscription>>, now: Time) -> Vec<Arc<Subscription>> {
        let mut allowed = Vec::with_capacity(chosen.len());
        for subscription in chosen {
            let address = address_key(&subscription.callback_url);
            match self.sender.take(&address, READY, now).await {
                Ok(()) => allowed.push(subscription),
                Err(_) => self.sender.metrics.rate_limited(RateScope::Webhook, READY),
            }
        }
        allowed
    }

    fn send(&self, subscription: Arc<Subscription>, command: &Arc<str>, depth: u64, sent_at: &str) {
        let id = format!("ntf-{}", TaskId::from_bits(rand::random()));
        let body = Body {
            event_type: command,
            available: true,
            queue_depth: depth,
            claim_url: "/v1/codeq/tasks/claim",
            sent_at,
            notification_id: &id,
        };
        let body = serde_json::to_string(&body).expect("a struct of texts and numbers is JSON");
        let host = host_of(&subscription.callback_url);
        let url = Arc::from(&*subscription.callback_url);
        let notification = Notification {
            message: Message { url, id, body: body.into(), trace: None },
            host: host.clone(),
            subscription,
            command: command.clone(),
            metrics: self.sender.metrics.clone(),
            traces: self.sender.broker.traces().clone(),
        };
        let (outcome, tenant) = (notification.outcome(), notification.subscription.tenant.clone());
        if !self.sender.outbound.push(&tenant, &host, Box::new(notification), WAITING) {
            outcome.tell(Some("too many are waiting"));
        }
    }
}

struct Notification {
    message: Message,
    host: Arc<str>,
    subscription: Arc<Subscription>,
    command: Arc<str>,
    metrics: Arc<Metrics>,
    traces: Traces,
}

/// Says how a notification went.
struct Outcome {
    subscription: u128,
    host: Arc<str>,
    command: Arc<str>,
    metrics: Arc<Metrics>,
}

impl Notification {
    fn outcome(&self) -> Outcome {
        Outcome {
            subscription: self.subscription.id,
            host: self.host.clone(),
            command: self.command.clone(),
            metrics: self.metrics.clone(),
        }
    }
}

impl OutboundJob for Notification {
    fn message(&self) -> Pin<Box<dyn Future<Output = Option<OutboundMessage>> + Send + '_>> {
        Box::pin(std::future::ready(Some((self.message.clone(), None))))
    }

    fn may_start(&self) -> bool {
        true
    }

    fn span(&self) -> Option<Beginning> {
        let id = TaskId::from_bytes(self.subscription.id.to_be_bytes());
        let span = self.traces.queue_ready(&self.command, &self.host, id)?;
        Some(Box::pin(std::future::ready(Some(span))))
    }

    fn finished(self: Box<Self>, attempt: Attempt) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.outcome().tell(attempt.error.as_deref());
        Box::pin(std::future::ready(()))
    }
}

impl Outcome {
    fn tell(&self, error: Option<&str>) {
        if let Some(err) = error {
            let id = TaskId::from_bytes(self.subscription.to_be_bytes());
            tracing::warn!(subscriptionId = %id, host = &*self.host, err, "notify failed");
        }
        self.metrics.webhook(WebhookKind::QueueReady, &self.command, error.is_none());
    }
}
