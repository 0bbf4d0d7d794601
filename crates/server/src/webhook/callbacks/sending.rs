//! One attempt of one callback, and what follows from it.

use super::super::door::{Attempt, Message, host_of};
use super::super::outbound::{Beginning, OutboundJob, OutboundMessage};
use super::Callbacks;
use crate::broker::Error;
use crate::metrics::WebhookKind;
use codeq_queue::delivery::DeliveryReport;
use codeq_queue::{Delivery, Failure, Refusal};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long before the end of a hold an attempt must be over where others could take the callback.
const SAFETY: Duration = Duration::from_secs(2);

pub struct Sending {
    owner: Arc<Callbacks>,
    delivery: Delivery,
    /// Known once there is a body.
    command: OnceLock<Arc<str>>,
}

impl OutboundJob for Sending {
    fn message(&self) -> Pin<Box<dyn Future<Output = Option<OutboundMessage>> + Send + '_>> {
        Box::pin(self.tell_message())
    }

    fn span(&self) -> Option<Beginning> {
        let broker = self.owner.sender.broker.clone();
        broker.traces().is_on().then(|| {
            let (delivery, command) = (self.delivery.clone(), self.command());
            let span = async move {
                let host = host_of(&delivery.url);
                let attempt = delivery.attempts + 1;
                broker.traces().task_result(&broker, &delivery, &host, &command, attempt).await
            };
            Box::pin(span) as Beginning
        })
    }

    /// Alone with the outbox, ours is ours. Otherwise only what can be done within the hold is begun; the
    /// rest comes again.
    fn may_start(&self) -> bool {
        let policy = &self.owner.policy;
        if !policy.is_shared {
            return true;
        }
        let end = self.owner.sender.broker.now().plus(policy.timeout + SAFETY);
        let mut state = self.owner.state();
        let is_ours = state.held_until(self.delivery.id).is_some_and(|until| until >= end);
        if !is_ours {
            state.let_go(self.delivery.id);
        }
        is_ours
    }

    fn finished(self: Box<Self>, attempt: Attempt) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.settle(attempt))
    }
}

impl Sending {
    pub fn new(owner: Arc<Callbacks>, delivery: Delivery) -> Sending {
        Sending { owner, delivery, command: OnceLock::new() }
    }

    /// A large body is read only now, and while there is memory for it.
    async fn tell_message(&self) -> Option<OutboundMessage> {
        let delivery = &self.delivery;
        let (body, memory) = match delivery.has_body() {
            true => (delivery.body.clone(), None),
            false => {
                let broker = &self.owner.sender.broker;
                let read = self.owner.large.read(broker.delivery_body(delivery.id)).await;
                let Some((body, memory)) = read.ok().flatten() else {
                    // It comes again when our hold is over, if it is still there.
                    self.owner.state().let_go(delivery.id);
                    return None;
                };
                (body, Some(memory))
            }
        };
        let _ = self.command.set(command(&body));
        let id = format!("msg_{:032x}", delivery.id);
        Some((Message { url: delivery.url.clone(), id, body, trace: None }, memory))
    }

    fn command(&self) -> Arc<str> {
        self.command.get().cloned().unwrap_or_default()
    }

    async fn settle(self: Box<Self>, attempt: Attempt) {
        let (owner, delivery) = (&self.owner, &self.delivery);
        let attempts = delivery.attempts + 1;
        let report = match attempt.error {
            None => DeliveryReport::Delivered,
            Some(error) if attempts >= owner.policy.max_attempts => DeliveryReport::Failed { error },
            Some(error) => {
                let wait = owner.policy.backoff(attempts, rand::random());
                DeliveryReport::Retry { due: owner.sender.broker.now().plus(wait), error }
            }
        };
        let is_taken = report == DeliveryReport::Delivered;
        let broker = &owner.sender.broker;
        // First, so that whoever finds the delivery settled finds the answer with it.
        broker.answers().add(delivery.clone(), broker.now(), is_taken, attempt.answer);
        let told = broker.report_delivery(delivery.id, report.clone()).await;
        let mut state = owner.state();
        state.let_go(delivery.id);
        if let DeliveryReport::Retry { due, .. } = &report {
            state.expect_retry(*due);
            owner.replan.notify_one();
        }
        drop(state);
        self.tell(&report, told, attempts);
    }

    fn tell(&self, report: &DeliveryReport, told: Result<(), Error>, attempts: u32) {
        match told {
            Ok(()) => {}
            // Somebody else has settled it, or we are ending: then it is due again at the next start.
            Err(Error::Refused(Refusal::DeliveryNotFound) | Error::Failed(Failure::Closed)) => return,
            Err(error) => {
                return tracing::error!(op = "report_delivery", err = %error, "storage error");
            }
        }
        let is_success = match report {
            DeliveryReport::Retry { .. } => return,
            DeliveryReport::Delivered => true,
            DeliveryReport::Failed { error } => {
                let delivery = &self.delivery;
                tracing::warn!(
                    deliveryId = format!("{:032x}", delivery.id),
                    taskId = %delivery.task_id,
                    host = &*host_of(&delivery.url),
                    attempts,
                    err = error.as_str(),
                    "result callback failed"
                );
                false
            }
        };
        self.owner.sender.metrics.webhook(WebhookKind::TaskResult, &self.command(), is_success);
    }
}

/// The `eventType` of a body, without reading the rest of it.
pub fn command(body: &str) -> Arc<str> {
    let rest = body.split_once("\"eventType\":").map_or("", |(_, rest)| rest);
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<String>();
    values.next().and_then(Result::ok).unwrap_or_default().into()
}
