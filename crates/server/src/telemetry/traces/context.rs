//! Trace context on the wire: W3C `traceparent`, `tracestate` and `baggage`.

use axum::http::HeaderMap;
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use opentelemetry_sdk::propagation::TraceContextPropagator;

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";
/// Longest `tracestate` that is carried on; W3C asks for 512 at least.
const STATE_BYTES: usize = 512;
/// Longest `baggage` that is carried on, as W3C limits it.
const BAGGAGE_BYTES: usize = 8192;

/// What a span is a child of; empty begins a trace.
#[derive(Clone, Debug)]
pub struct Parent(pub(super) SpanContext);

/// A context as it is written down.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Written {
    pub trace_parent: String,
    /// Empty if there is none.
    pub trace_state: String,
}

struct Pair<'a>(Option<&'a str>, Option<&'a str>);

impl Extractor for Pair<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            TRACEPARENT => self.0,
            TRACESTATE => self.1,
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec![TRACEPARENT, TRACESTATE]
    }
}

impl Parent {
    pub fn none() -> Parent {
        Parent(SpanContext::empty_context())
    }

    /// What cannot be read is none.
    pub fn of(trace_parent: Option<&str>, trace_state: Option<&str>) -> Parent {
        if trace_parent.is_none() {
            return Parent::none();
        }
        let state = trace_state.filter(|state| state.len() <= STATE_BYTES);
        let found =
            TraceContextPropagator::new().extract_with_context(&Context::new(), &Pair(trace_parent, state));
        Parent(found.span().span_context().clone())
    }

    pub fn of_headers(headers: &HeaderMap) -> Parent {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        Parent::of(text(TRACEPARENT), text(TRACESTATE))
    }

    pub fn is_none(&self) -> bool {
        !self.0.is_valid()
    }

    /// Nothing that follows from it is kept.
    pub fn is_dropped(&self) -> bool {
        self.0.is_valid() && !self.0.is_sampled()
    }

    pub fn written(&self) -> Option<Written> {
        self.0.is_valid().then(|| written(&self.0))
    }

    pub(super) fn within(&self, context: &Context) -> Context {
        match self.0.is_valid() {
            true => context.with_remote_span_context(self.0.clone()),
            false => context.clone(),
        }
    }
}

/// The context of a trace that begins here and is not kept.
pub(super) fn dropped() -> SpanContext {
    // Zero is no id; it comes once in 2^64 times.
    let (trace, span): (u128, u64) = (rand::random(), rand::random());
    let (trace, span) = (TraceId::from(trace.max(1)), SpanId::from(span.max(1)));
    SpanContext::new(trace, span, TraceFlags::default(), false, TraceState::default())
}

/// Whether a written context says that nothing is kept; quicker than reading it.
pub(super) fn is_dropped(trace_parent: &str) -> bool {
    let text = trace_parent.as_bytes();
    let is_hex = |part: &[u8]| part.iter().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
    let is_id = |part: &[u8]| is_hex(part) && part.iter().any(|c| *c != b'0');
    text.len() == 55
        && text.starts_with(b"00-")
        && text.ends_with(b"-00")
        && text[35] == b'-'
        && is_id(&text[3..35])
        && is_id(&text[36..52])
}

impl From<&SpanContext> for Parent {
    fn from(context: &SpanContext) -> Parent {
        Parent(context.clone())
    }
}

pub fn written(context: &SpanContext) -> Written {
    let flags = u8::from(context.is_sampled());
    Written {
        trace_parent: format!("00-{}-{}-{flags:02x}", context.trace_id(), context.span_id()),
        trace_state: context.trace_state().header(),
    }
}

/// The baggage of a request, as it came, if it can be carried on.
pub fn baggage(headers: &HeaderMap) -> Option<String> {
    let mut whole = String::new();
    for value in headers.get_all("baggage") {
        let text = value.to_str().ok()?;
        if !whole.is_empty() {
            whole.push(',');
        }
        whole.push_str(text);
        if whole.len() > BAGGAGE_BYTES {
            return None;
        }
    }
    (!whole.is_empty()).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_read_and_written_alike() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let parent = Parent::of(Some(text), Some("vendor=1,other=2"));
        let written = parent.written().unwrap();
        assert_eq!((written.trace_parent.as_str(), written.trace_state.as_str()), (text, "vendor=1,other=2"));
        assert!(!parent.is_dropped());
        assert!(Parent::of(Some(&text.replace("-01", "-00")), None).is_dropped());
    }

    #[test]
    fn what_cannot_be_read_begins_a_trace() {
        let zero = "00-00000000000000000000000000000000-b7ad6b7169203331-01";
        for text in ["", "x", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331", zero, "ff-1-2-3"] {
            let parent = Parent::of(Some(text), None);
            assert!(parent.is_none() && !parent.is_dropped(), "{text}");
        }
        let long = Parent::of(
            Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            Some(&format!("a={}", "x".repeat(600))),
        );
        assert_eq!(long.written().unwrap().trace_state, "");
    }

    #[test]
    fn dropped_contexts_are_known_at_a_glance() {
        assert!(is_dropped(&written(&dropped()).trace_parent));
        assert!(Parent(dropped()).is_dropped());
        for text in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-00",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-00",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
            "00-0af7651916cd43dd8448eb211c80319c.b7ad6b7169203331-00",
        ] {
            assert!(!is_dropped(text), "{text}");
        }
    }

    #[test]
    fn baggage_is_carried_as_it_came_within_bounds() {
        let mut headers = HeaderMap::new();
        assert_eq!(baggage(&headers), None);
        headers.append("baggage", "user=7".parse().unwrap());
        headers.append("baggage", "plan=gold".parse().unwrap());
        assert_eq!(baggage(&headers).as_deref(), Some("user=7,plan=gold"));
        headers.append("baggage", "x".repeat(9000).parse().unwrap());
        assert_eq!(baggage(&headers), None);
    }
}
