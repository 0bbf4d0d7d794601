//! A span for every attempt, as a child of the create of its task. Needs the feature `otel`.

use crate::worker::{End, Job, Outcome};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use opentelemetry::context::FutureExt as _;
use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId, Tracer,
};
use opentelemetry::{Context, KeyValue};

/// A layer for [`Worker::around`](crate::Worker::around). The span is the current one while the handler runs.
///
/// ```
/// use codeq_client::{Worker, otel};
///
/// let worker = Worker::http("http://127.0.0.1:8080", "dev-token")
///     .around(otel::spans(opentelemetry::global::tracer("codeq")));
/// ```
pub fn spans<T>(
    tracer: T,
) -> impl Fn(Job<()>, BoxFuture<'static, Outcome>) -> BoxFuture<'static, Outcome> + Send + Sync + 'static
where
    T: Tracer<Span: Send + Sync> + Send + Sync + 'static,
{
    move |job, next| {
        let builder = tracer.span_builder(format!("process {}", job.command));
        let builder = builder.with_kind(SpanKind::Consumer).with_attributes([
            KeyValue::new("messaging.system", "codeq"),
            KeyValue::new("messaging.operation.type", "process"),
            KeyValue::new("messaging.destination.name", job.command.clone()),
            KeyValue::new("messaging.message.id", job.id.clone()),
            KeyValue::new("codeq.attempt", i64::from(job.attempt)),
        ]);
        let context = Context::new().with_span(builder.start_with_context(&tracer, &parent(&job)));
        async move {
            let outcome = next.with_context(context.clone()).await;
            let span = context.span();
            if let End::Fail(text) | End::Nack { reason: text, .. } = &outcome.0 {
                span.set_status(Status::error(text.clone()));
            }
            span.end();
            outcome
        }
        .boxed()
    }
}

/// The trace of the create: as the server kept it, or as the producer put it into the headers.
fn parent(job: &Job<()>) -> Context {
    let header = |wanted: &str| {
        let found = job.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map_or("", |(_, value)| value.as_str())
    };
    let (parent, state) = match job.trace_parent.as_str() {
        "" => (header("traceparent"), header("tracestate")),
        kept => (kept, job.trace_state.as_str()),
    };
    let context = Context::new();
    match read(parent, state) {
        Some(parent) => context.with_remote_span_context(parent),
        None => context,
    }
}

/// What W3C writes as `traceparent` and `tracestate`. What cannot be read is none.
fn read(parent: &str, state: &str) -> Option<SpanContext> {
    let mut parts = parent.trim().split('-');
    let mut part = |bytes: usize| parts.next().filter(|part| part.len() == bytes);
    let _version = part(2).filter(|version| *version != "ff")?;
    let (trace, span) = (TraceId::from_hex(part(32)?).ok()?, SpanId::from_hex(part(16)?).ok()?);
    let flags = TraceFlags::new(u8::from_str_radix(part(2)?, 16).ok()?);
    let context = SpanContext::new(trace, span, flags, true, state.parse().unwrap_or_default());
    context.is_valid().then_some(context)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::InlineQueue;
    use crate::{NewTask, Worker};
    use opentelemetry::trace::TracerProvider;
    use opentelemetry_sdk::error::OTelSdkResult;
    use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
    use std::sync::{Arc, Mutex};

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    /// Keeps what has ended.
    #[derive(Clone, Debug, Default)]
    struct Kept(Arc<Mutex<Vec<SpanData>>>);

    impl SpanExporter for Kept {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            self.0.lock().unwrap().extend(batch);
            Ok(())
        }
    }

    #[tokio::test]
    async fn an_attempt_is_a_child_of_the_create_of_its_task() {
        let kept = Kept::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(kept.clone()).build();
        let worker = Worker::http("http://127.0.0.1:1", "token")
            .around(spans(provider.tracer("codeq")))
            .handle("mail", |job: Job<u32>| async move {
                let current = Context::current().span().span_context().trace_id();
                if job.payload == 0 { Err("no".to_owned()) } else { Ok(current.to_string()) }
            });
        let mut queue = InlineQueue::new(worker);
        queue.create(NewTask::new("mail", &1).header("traceparent", PARENT)).unwrap();
        queue.create(NewTask::new("mail", &0).max_attempts(1)).unwrap();
        queue.drain().await;
        let seen = queue.completed("mail")[0].result.clone().unwrap();
        assert!(seen.contains("0af7651916cd43dd8448eb211c80319c"), "{seen}");
        let ended = kept.0.lock().unwrap();
        let [child, root] = &ended[..] else { panic!("{ended:?}") };
        assert_eq!(
            (&*child.name, child.parent_span_id.to_string()),
            ("process mail", "b7ad6b7169203331".into())
        );
        assert_eq!((child.status.clone(), child.span_kind.clone()), (Status::Unset, SpanKind::Consumer));
        assert_eq!((root.parent_span_id, root.status.clone()), (SpanId::INVALID, Status::error("no")));
    }

    #[test]
    fn what_cannot_be_read_is_no_parent() {
        assert!(read(PARENT, "vendor=1").is_some_and(|parent| parent.is_sampled()));
        let zero = "00-00000000000000000000000000000000-b7ad6b7169203331-01";
        for text in ["", "x", &PARENT[..40], zero, "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"]
        {
            assert!(read(text, "").is_none(), "{text}");
        }
    }
}
