//! Spans of what happens to a task.

use super::context::{Parent, is_dropped, written};
use super::origins::{Known, Origin};
use super::{Span, Traces};
use crate::broker::Error;
use codeq_queue::create::CreateRequest;
use codeq_queue::store::Created;
use codeq_queue::{Owner, Refusal, Task, TaskId, Time};
use opentelemetry::KeyValue;
use opentelemetry::trace::SpanKind;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Longest reason of a nack that a span holds.
const REASON_BYTES: usize = 256;

/// A create that the store has not answered yet.
pub struct Creating {
    span: Option<Box<Span>>,
    baggage: Option<Arc<str>>,
}

/// What a worker reports of a task.
#[derive(Clone, Debug)]
pub enum Verb {
    Heartbeat { extend: Duration },
    Abandon,
    Nack { delay_seconds: i64, reason: Option<String> },
    Submit { status: String },
}

/// A report that may need a span.
pub struct Reported {
    /// Which item of the call.
    pub place: usize,
    pub id: TaskId,
    pub owner: Arc<Owner>,
    pub verb: Verb,
    /// `None`: this process does not know, the store does.
    pub origin: Option<Arc<Origin>>,
}

impl Traces {
    /// Begins a span for each create and writes its context into the request; when off, none is kept.
    pub fn creating(&self, requests: &mut [Result<CreateRequest, Refusal>]) -> Vec<Option<Creating>> {
        let Some(on) = &self.0 else {
            for request in requests.iter_mut().flatten() {
                (request.trace_parent, request.trace_state) = (None, None);
            }
            return Vec::new();
        };
        let begin = |request: &mut CreateRequest| {
            let baggage = request.baggage.take();
            if request.trace_parent.as_deref().is_some_and(is_dropped) {
                // The caller has decided; the task carries that on as it is.
                return baggage.map(|baggage| Creating { span: None, baggage: Some(baggage) });
            }
            let parent = Parent::of(request.trace_parent.as_deref(), request.trace_state.as_deref());
            let name = || "codeq.task.create".into();
            let mut span = on.begin(&on.scheduler, name, SpanKind::Producer, &parent, None);
            if !span.is_kept() {
                // Decided here, so nobody else knows of this trace and nothing need be carried on.
                (request.trace_parent, request.trace_state) = (None, None);
                return baggage.map(|baggage| Creating { span: None, baggage: Some(baggage) });
            }
            span.note(asked(request));
            let context = written(span.context());
            request.trace_parent = Some(context.trace_parent);
            request.trace_state = (!context.trace_state.is_empty()).then_some(context.trace_state);
            Some(Creating { span: Some(Box::new(span)), baggage })
        };
        requests.iter_mut().map(|request| request.as_mut().ok().and_then(begin)).collect()
    }

    pub fn created(&self, creating: Vec<Option<Creating>>, answers: &[Result<Created, Error>]) {
        let Some(on) = &self.0 else { return };
        for (creating, answer) in creating.into_iter().zip(answers) {
            let Some(Creating { mut span, baggage }) = creating else { continue };
            let kept = span.as_mut().filter(|span| span.is_kept());
            match (answer, kept) {
                (Err(error), Some(span)) => span.fail(code(error)),
                (Ok(created), Some(span)) => {
                    span.note([KeyValue::new("codeq.task_id", created.task.id.to_string())]);
                }
                (_, None) => {}
            }
            let Ok(created) = answer else { continue };
            if baggage.is_some() && !created.is_replay {
                let origin = Origin { baggage, ..origin(&created.task) };
                on.origins.remember([(created.task.id, Known::Kept(Arc::new(origin)))]);
            }
        }
    }

    /// When a claim was asked for; `None` if nobody wants to know.
    pub fn now(&self) -> Option<SystemTime> {
        self.0.as_ref().map(|_| SystemTime::now())
    }

    /// Spans of tasks that were lent; each begins with the call, or with the task if that is younger.
    pub fn claimed(&self, asked_at: Option<SystemTime>, owner: &Owner, lease: Duration, tasks: &[Task]) {
        let (Some(on), Some(asked_at)) = (&self.0, asked_at) else { return };
        let known = tasks.iter().map(|task| {
            if task.body.trace_parent.as_deref().is_none_or(is_dropped) {
                return (task.id, Known::Dropped);
            }
            let origin = origin(task);
            let started = asked_at.max(system_time(task.created_at));
            let name = || "codeq.task.claim".into();
            let mut span = on.begin(&on.repository, name, SpanKind::Internal, &origin.parent, Some(started));
            if span.is_kept() {
                span.note(named(task.id, &origin.command, &task.body.tenant, owner));
                span.note([KeyValue::new("codeq.lease_seconds", seconds(lease))]);
            }
            (task.id, Known::Kept(Arc::new(origin)))
        });
        on.origins.remember(known);
    }

    /// The reports of a call that may need spans: those of tasks whose trace is not known to be dropped.
    pub fn reporting<R>(
        &self,
        reports: &[R],
        report: impl Fn(&R) -> Option<(TaskId, Arc<Owner>, Verb)>,
    ) -> Vec<Reported> {
        let Some(on) = &self.0 else { return Vec::new() };
        let noted = reports.iter().enumerate().filter_map(|(place, given)| {
            let (id, owner, verb) = report(given)?;
            let origin = match on.origins.recall(id) {
                Some(Known::Dropped) => return None,
                Some(Known::Kept(origin)) => Some(origin),
                None => None,
            };
            Some(Reported { place, id, owner, verb, origin })
        });
        noted.collect()
    }

    /// The span of a report that has been answered, from the beginning of the call until now.
    pub fn reported(&self, report: &Reported, tenant: &str, started: SystemTime, error: Option<&Error>) {
        let (Some(on), Some(origin)) = (&self.0, &report.origin) else { return };
        if origin.parent.is_none() || origin.parent.is_dropped() {
            return on.origins.remember([(report.id, Known::Dropped)]);
        }
        let (tracer, name) = match &report.verb {
            Verb::Heartbeat { .. } => (&on.repository, "codeq.task.heartbeat"),
            Verb::Abandon => (&on.repository, "codeq.task.abandon"),
            Verb::Nack { .. } => (&on.repository, "codeq.task.nack"),
            Verb::Submit { .. } => (&on.results, "codeq.task.submit_result"),
        };
        let name = || name.into();
        let mut span = on.begin(tracer, name, SpanKind::Internal, &origin.parent, Some(started));
        if !span.is_kept() {
            return;
        }
        span.note(named(report.id, &origin.command, tenant, &report.owner));
        span.note(report.verb.attributes());
        if let Some(error) = error {
            span.fail(code(error));
        }
    }

    pub(super) fn recall(&self, id: TaskId) -> Option<Known> {
        self.0.as_ref().and_then(|on| on.origins.recall(id))
    }
}

impl Verb {
    fn attributes(&self) -> Vec<KeyValue> {
        match self {
            Verb::Heartbeat { extend } => vec![KeyValue::new("codeq.extend_seconds", seconds(*extend))],
            Verb::Abandon => Vec::new(),
            Verb::Nack { delay_seconds, reason } => vec![
                KeyValue::new("codeq.delay_seconds", *delay_seconds),
                KeyValue::new("codeq.reason", start(reason.as_deref().unwrap_or_default())),
            ],
            Verb::Submit { status } => vec![KeyValue::new("codeq.submit.status", start(status))],
        }
    }
}

/// Where a task says that it comes from.
pub fn origin(task: &Task) -> Origin {
    Origin { parent: Traces::origin_of(&task.body), command: Arc::from(&*task.body.command), baggage: None }
}

fn asked(request: &CreateRequest) -> [KeyValue; 5] {
    let is_given = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.trim().is_empty());
    [
        KeyValue::new("codeq.command", start(request.command.trim())),
        KeyValue::new("codeq.priority", request.priority),
        KeyValue::new("codeq.has_webhook", is_given(&request.webhook)),
        KeyValue::new("codeq.has_idempotency_key", is_given(&request.idempotency_key)),
        KeyValue::new("codeq.tenant_id", request.tenant.to_string()),
    ]
}

fn named(id: TaskId, command: &str, tenant: &str, owner: &Owner) -> [KeyValue; 4] {
    [
        KeyValue::new("codeq.task_id", id.to_string()),
        KeyValue::new("codeq.command", command.to_owned()),
        KeyValue::new("codeq.tenant_id", tenant.to_owned()),
        KeyValue::new("codeq.worker_id", owner.worker_id.to_string()),
    ]
}

/// The beginning of a text that a caller chose.
fn start(text: &str) -> String {
    let mut end = text.len().min(REASON_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

fn code(error: &Error) -> &'static str {
    match error {
        Error::Refused(refusal) => refusal.code(),
        Error::Failed(_) | Error::Upload(_) => "unavailable",
    }
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

fn system_time(time: Time) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(time.millis()).unwrap_or(0))
}
