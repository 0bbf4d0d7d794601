//! Traces: what a request and a task went through, sent to a collector by OTLP/gRPC.
//!
//! Off is `None` inside [`Traces`] and costs one comparison. On, the decision whether a trace is kept is
//! made once, where it begins: by the caller, whose context goes on as it is, or here. A task without a context
//! is one whose trace is not kept. Spans that have ended wait in a queue of [`QUEUE`]; beyond that they are dropped.
//! Nothing here makes a request wait.
//!
//! A task carries the context of its create (`traceParent`, `traceState`), and every later span of the task
//! is a child of that: [`task`] has these spans, [`http`] those of requests, [`webhook`] those of deliveries.

pub mod context;
mod export;
pub mod http;
mod origins;
pub mod task;
pub mod webhook;

use crate::config::Tracing;
use codeq_queue::Body;
use context::Parent;
use opentelemetry::trace::{Span as _, SpanContext, SpanKind, Status, TracerProvider};
use opentelemetry::{Context, InstrumentationScope, KeyValue, trace::Tracer};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use origins::Origins;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Ended spans that wait to be sent.
const QUEUE: usize = 4096;
/// How long the last spans may take when the process ends.
const FLUSH: Duration = Duration::from_secs(3);

/// Cheap to clone; [`Traces::off`] does nothing.
#[derive(Clone, Default)]
pub struct Traces(Option<Arc<On>>);

struct On {
    provider: SdkTracerProvider,
    http: SdkTracer,
    scheduler: SdkTracer,
    repository: SdkTracer,
    results: SdkTracer,
    notifier: SdkTracer,
    result_callback: SdkTracer,
    origins: Origins,
    /// Share of the traces begun here that are kept.
    sample_ratio: f64,
}

/// A span that may be kept. Ends when dropped.
pub struct Span {
    /// `None`: it is not kept, and there is nothing but its context.
    kept: Option<opentelemetry_sdk::trace::Span>,
    context: SpanContext,
}

impl Traces {
    pub fn off() -> Traces {
        Traces(None)
    }

    /// Needs a runtime, which the exporter's connection lives on. The error is a start-up text.
    pub fn start(config: &Tracing) -> Result<Traces, String> {
        if !config.enabled {
            return Ok(Traces::off());
        }
        let provider = export::provider(config).map_err(|error| format!("tracing: {error}"))?;
        let tracer = |name: String| provider.tracer_with_scope(InstrumentationScope::builder(name).build());
        let codeq = |part: &str| tracer(format!("codeq/{part}"));
        Ok(Traces(Some(Arc::new(On {
            http: tracer(format!("{}/http", config.service_name)),
            scheduler: codeq("scheduler"),
            repository: codeq("repository"),
            results: codeq("results"),
            notifier: codeq("notifier"),
            result_callback: codeq("result_callback"),
            origins: Origins::default(),
            sample_ratio: config.sample_ratio,
            provider: provider.clone(),
        }))))
    }

    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Sends what is left, but not for long.
    pub async fn flush(&self) {
        let Some(on) = self.0.clone() else { return };
        let ended = tokio::task::spawn_blocking(move || on.provider.shutdown_with_timeout(FLUSH));
        // The exporter has told what went wrong; the process ends either way.
        let _ = tokio::time::timeout(FLUSH, ended).await;
    }

    /// The context that the create of a task has stored in it.
    pub fn origin_of(body: &Body) -> Parent {
        Parent::of(body.trace_parent.as_deref(), body.trace_state.as_deref())
    }
}

impl On {
    /// Begins a span. What is not kept costs a few random numbers, or nothing where the caller has decided.
    fn begin(
        &self,
        tracer: &SdkTracer,
        name: impl FnOnce() -> Cow<'static, str>,
        kind: SpanKind,
        parent: &Parent,
        started: Option<SystemTime>,
    ) -> Span {
        if parent.is_dropped() {
            return Span { kept: None, context: parent.0.clone() };
        }
        if parent.is_none() && rand::random::<f64>() >= self.sample_ratio {
            return Span { kept: None, context: context::dropped() };
        }
        let mut builder = tracer.span_builder(name()).with_kind(kind);
        builder.start_time = started;
        // The context of the thread must not become a parent by accident.
        let kept = tracer.build_with_context(builder, &parent.within(&Context::new()));
        Span { context: kept.span_context().clone(), kept: Some(kept) }
    }
}

impl Span {
    pub fn context(&self) -> &SpanContext {
        &self.context
    }

    pub fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    fn note(&mut self, attributes: impl IntoIterator<Item = KeyValue>) {
        if let Some(kept) = &mut self.kept {
            kept.set_attributes(attributes);
        }
    }

    /// It went wrong, in the stable words of a code.
    fn fail(&mut self, code: impl Into<Cow<'static, str>>) {
        if let Some(kept) = &mut self.kept {
            kept.set_status(Status::error(code));
        }
    }
}

#[cfg(test)]
mod tests;
