//! One attempt of one callback, and what follows from it.

use super::super::door::{Attempt, Message, host_of};
use super::super::outbound::{Beginning, Errand};
use super::Callbacks;
use crate::broker::Error;
use crate::metrics::WebhookKind;
use codeq_queue::delivery::DeliveryReport;
use codeq_queue::{Delivery, Failure, Refusal};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// How long before the end of a hold an attempt must be over where others could take the callback.
const SAFETY: Duration = Duration::from_secs(2);

pub struct Sending {
    pub owner: Arc<Callbacks>,
    pub delivery: Delivery,
}

impl Errand for Sending {
    fn message(&self) -> Message {
        Message {
            url: self.delivery.url.clone(),
            id: format!("msg_{:032x}", self.delivery.id),
            body: self.delivery.body.clone(),
            trace: None,
        }
    }

    fn span(&self) -> Option<Beginning> {
        let broker = self.owner.sender.broker.clone();
        broker.traces().is_on().then(|| {
            let delivery = self.delivery.clone();
            let span = async move {
                let (host, command) = (host_of(&delivery.url), command(&delivery.body));
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
        let told = owner.sender.broker.report_delivery(delivery.id, report.clone()).await;
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
        let command = command(&self.delivery.body);
        self.owner.sender.metrics.webhook(WebhookKind::TaskResult, &command, is_success);
    }
}

/// The `eventType` of a body, without reading the rest of it.
pub fn command(body: &str) -> Arc<str> {
    let rest = body.split_once("\"eventType\":").map_or("", |(_, rest)| rest);
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<String>();
    values.next().and_then(Result::ok).unwrap_or_default().into()
}
