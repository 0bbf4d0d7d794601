//! Spans of messages to the outside: one for each attempt.

use super::context::{Written, dropped, written};
use super::origins::{Known, Origin};
use super::{Parent, Span, Traces};
use crate::broker::Broker;
use codeq_queue::{Delivery, TaskId};
use opentelemetry::KeyValue;
use opentelemetry::trace::SpanKind;
use std::sync::Arc;

/// One attempt on its way.
pub struct AttemptSpan {
    span: Span,
    baggage: Option<Arc<str>>,
}

/// What a message tells its receiver of the trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Headers {
    pub context: Written,
    pub baggage: Option<Arc<str>>,
}

impl Traces {
    /// A notification is nobody's child: it tells of a queue, not of a task.
    pub fn queue_ready(&self, command: &str, host: &str, subscription: TaskId) -> Option<AttemptSpan> {
        let on = self.0.as_ref()?;
        let name = || "codeq.webhook.queue_ready".into();
        let mut span = on.begin(&on.notifier, name, SpanKind::Client, &Parent::none(), None);
        if span.is_kept() {
            span.note(message(command, "queue_ready", host));
            span.note([KeyValue::new("codeq.subscription.id", subscription.to_string())]);
        }
        Some(AttemptSpan { span, baggage: None })
    }

    /// `attempt` counts from 1.
    pub async fn task_result(
        &self,
        broker: &Broker,
        delivery: &Delivery,
        host: &str,
        command: &str,
        attempt: u32,
    ) -> Option<AttemptSpan> {
        let on = self.0.as_ref()?;
        let origin = self.source(broker, delivery).await;
        let parent = origin.as_ref().map(|origin| origin.parent.clone()).filter(|parent| !parent.is_none());
        let parent = parent.unwrap_or_else(|| Parent(dropped()));
        let name = || "codeq.webhook.task_result".into();
        let mut span = on.begin(&on.result_callback, name, SpanKind::Client, &parent, None);
        if span.is_kept() {
            span.note(message(command, "task_result", host));
            span.note([KeyValue::new("codeq.webhook.attempt", i64::from(attempt))]);
        }
        Some(AttemptSpan { span, baggage: origin.and_then(|origin| origin.baggage.clone()) })
    }

    /// Where the task of a delivery comes from; `None` if the task is gone.
    async fn source(&self, broker: &Broker, delivery: &Delivery) -> Option<Arc<Origin>> {
        if let Some(Known::Kept(origin)) = self.recall(delivery.task_id) {
            return Some(origin);
        }
        let found = broker.find(&delivery.tenant, vec![delivery.task_id]).await;
        found.into_iter().next().flatten().map(|task| Arc::new(super::task::origin(&task)))
    }
}

impl AttemptSpan {
    pub fn headers(&self) -> Headers {
        Headers { context: written(self.span.context()), baggage: self.baggage.clone() }
    }

    pub fn end(mut self, error: Option<&str>) {
        if let Some(error) = error {
            self.span.fail(error.to_owned());
        }
    }
}

fn message(command: &str, kind: &'static str, host: &str) -> [KeyValue; 3] {
    [
        KeyValue::new("codeq.command", command.to_owned()),
        KeyValue::new("codeq.webhook.kind", kind),
        KeyValue::new("codeq.webhook.host", host.to_owned()),
    ]
}
