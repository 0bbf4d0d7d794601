//! Spans of requests.

use super::context::{self, Parent};
use super::{Span, Traces};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header::HOST};
use opentelemetry::KeyValue;
use opentelemetry::trace::SpanKind;
use std::sync::Arc;

/// Routes that make tasks.
const CREATES: [&str; 2] = ["/v1/codeq/tasks", "/v1/codeq/tasks/batch"];

/// What a request brings for whatever it causes.
#[derive(Clone, Debug)]
pub struct Carried {
    pub parent: Parent,
    pub baggage: Option<Arc<str>>,
}

/// One request on its way.
pub struct RequestSpan(Span);

impl Traces {
    /// Begins the span of a request and leaves in its head what follows from it. `name` is
    /// `HTTP <METHOD> <route template>`.
    pub fn request(&self, name: &str, route: &'static str, head: &mut Parts) -> Option<RequestSpan> {
        let on = self.0.as_ref()?;
        let parent = Parent::of_headers(&head.headers);
        let name = || name.to_owned().into();
        let mut span = on.begin(&on.http, name, SpanKind::Server, &parent, None);
        if span.is_kept() {
            let host = head.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
            span.note([
                KeyValue::new("http.method", head.method.as_str().to_owned()),
                KeyValue::new("http.path", head.uri.path().to_owned()),
                KeyValue::new("http.host", host.to_owned()),
                KeyValue::new("http.route", route),
            ]);
        }
        // Nothing but a create passes on what a request carries.
        if CREATES.contains(&route) {
            let baggage = context::baggage(&head.headers).map(Into::into);
            head.extensions.insert(Carried { parent: Parent::from(span.context()), baggage });
        }
        Some(RequestSpan(span))
    }

    /// What the metadata of a stream brings for whatever is created on it.
    pub fn carried(&self, metadata: &HeaderMap) -> Option<Carried> {
        self.0.as_ref()?;
        let baggage = context::baggage(metadata).map(Into::into);
        Some(Carried { parent: Parent::of_headers(metadata), baggage })
    }
}

impl RequestSpan {
    pub fn end(mut self, status: u16) {
        if !self.0.is_kept() {
            return;
        }
        self.0.note([KeyValue::new("http.status_code", i64::from(status))]);
        if status >= 500 {
            self.0.fail("");
        }
    }
}
