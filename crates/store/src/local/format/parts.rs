//! Encodings that journal entries and tree rows share: bodies, states, results, attempts.

use crate::local::directory::options;
use crate::local::format::batches;
use crate::local::format::codec::{Corrupt, Reader, Writer};
use codeq_queue::attempt::AttemptEnd;
use codeq_queue::result::StoredArtifact;
use codeq_queue::{
    Artifact, Attempt, AttemptOutcome, Body, CancelRequest, Delivery, DeliveryState, FailureReason, Lease,
    Owner, ResultRecord, State, Status, TaskId, Time,
};
use std::sync::Arc;

type Read<T> = Result<T, Corrupt>;

/// Added to the count of headers, of which there are few, when options follow them.
pub const HAS_OPTIONS: u64 = 64;

/// Everything of a body but its payload, which large tasks keep apart.
pub fn write_body_head(w: &mut Writer, body: &Body) {
    w.text(&body.tenant);
    w.text(&body.command);
    w.optional_text(body.idempotency_key.as_deref());
    w.optional_text(body.webhook.as_deref());
    w.optional_text(body.trace_parent.as_deref());
    w.optional_text(body.trace_state.as_deref());
    let mark = if body.options.is_some() { HAS_OPTIONS } else { 0 };
    w.number(body.headers.len() as u64 + mark);
    for (name, value) in &body.headers {
        w.text(name);
        w.text(value);
    }
    if let Some(options) = &body.options {
        options::write(w, options);
    }
}

pub fn read_body_head(r: &mut Reader) -> Read<Body> {
    let tenant = r.text()?.into();
    let command = r.text()?.into();
    let idempotency_key = r.optional_boxed()?;
    let webhook = r.optional_boxed()?;
    let trace_parent = r.optional_boxed()?;
    let trace_state = r.optional_boxed()?;
    let count = r.number()?;
    let has_options = count >= HAS_OPTIONS;
    let mut headers = Vec::new();
    for _ in 0..count % HAS_OPTIONS {
        headers.push((r.text()?.to_owned(), r.text()?.to_owned()));
    }
    let headers = headers.into();
    let payload = Box::default();
    let options = if has_options { options::read(r)? } else { None };
    Ok(Body {
        tenant,
        command,
        payload,
        webhook,
        headers,
        idempotency_key,
        trace_parent,
        trace_state,
        options,
    })
}

pub fn write_body(w: &mut Writer, body: &Body) {
    write_body_head(w, body);
    w.text(&body.payload);
}

pub fn read_body(r: &mut Reader) -> Read<Body> {
    let head = read_body_head(r)?;
    Ok(Body { payload: r.text()?.into(), ..head })
}

pub fn write_owner(w: &mut Writer, owner: &Owner) {
    w.text(&owner.subject);
    w.text(&owner.worker_id);
}

pub fn read_owner(r: &mut Reader) -> Read<Arc<Owner>> {
    Ok(Arc::new(Owner { subject: r.text()?.into(), worker_id: r.text()?.into() }))
}

pub fn write_cancel(w: &mut Writer, cancel: &CancelRequest) {
    w.time(cancel.deadline);
    w.optional_text(cancel.reason.as_deref());
}

pub fn read_cancel(r: &mut Reader) -> Read<CancelRequest> {
    Ok(CancelRequest { deadline: r.time()?, reason: r.optional_shared()? })
}

/// A state that waits for others to end.
const HELD: u8 = 20;

pub fn write_state(w: &mut Writer, state: &State) {
    match state {
        State::Ready { seq } => {
            w.byte(1);
            w.number(*seq);
        }
        State::Delayed { until } => {
            w.byte(2);
            w.time(*until);
        }
        State::Running(lease) => {
            w.byte(if lease.cancel.is_some() { 8 } else { 3 });
            write_owner(w, &lease.owner);
            w.time(lease.until);
            w.time(lease.claimed_at);
            if let Some(cancel) = &lease.cancel {
                write_cancel(w, cancel);
            }
        }
        State::Completed => w.byte(4),
        State::Failed => w.byte(5),
        State::Cancelled => w.byte(6),
        State::Dead => w.byte(7),
        State::Held(held) => {
            w.byte(HELD);
            batches::write_held(w, held);
        }
    }
}

pub fn read_state(r: &mut Reader) -> Read<State> {
    Ok(match r.byte()? {
        1 => State::Ready { seq: r.number()? },
        2 => State::Delayed { until: r.time()? },
        kind @ (3 | 8) => {
            let mut lease = Lease::new(read_owner(r)?, r.time()?, r.time()?);
            if kind == 8 {
                lease.cancel = Some(Arc::new(read_cancel(r)?));
            }
            State::Running(Arc::new(lease))
        }
        4 => State::Completed,
        5 => State::Failed,
        6 => State::Cancelled,
        7 => State::Dead,
        HELD => State::Held(Arc::new(batches::read_held(r)?)),
        _ => return Err(Corrupt("unknown state")),
    })
}

/// The state of a task that lives. Anything else in such a place is damage.
pub fn read_live_state(r: &mut Reader) -> Read<State> {
    match read_state(r)? {
        State::Ready { seq: u64::MAX } => Err(Corrupt("no place in a queue")),
        state if state.is_live() => Ok(state),
        _ => Err(Corrupt("a live task that has ended")),
    }
}

pub fn read_priority(r: &mut Reader) -> Read<u8> {
    let priority = r.byte()?;
    if priority > 9 { Err(Corrupt("unknown priority")) } else { Ok(priority) }
}

pub fn write_outcome(w: &mut Writer, outcome: AttemptOutcome) {
    let index = AttemptOutcome::ALL.iter().position(|known| *known == outcome);
    w.byte(index.expect("every outcome is listed") as u8);
}

pub fn read_outcome(r: &mut Reader) -> Read<AttemptOutcome> {
    let index = usize::from(r.byte()?);
    AttemptOutcome::ALL.get(index).copied().ok_or(Corrupt("unknown outcome"))
}

pub fn write_attempts(w: &mut Writer, attempts: &[Attempt]) {
    w.number(attempts.len() as u64);
    for attempt in attempts {
        w.number(u64::from(attempt.attempt));
        w.text(&attempt.worker_id);
        w.time(attempt.claimed_at);
        w.option(attempt.end.as_ref(), |w, end| {
            w.time(end.at);
            write_outcome(w, end.outcome);
            w.optional_text(end.error.as_deref());
        });
    }
}

pub fn read_attempts(r: &mut Reader) -> Read<Vec<Attempt>> {
    let count = r.small()?;
    let mut attempts = Vec::new();
    for _ in 0..count {
        attempts.push(Attempt {
            attempt: r.small()?,
            worker_id: r.text()?.into(),
            claimed_at: r.time()?,
            end: r.option(|r| {
                let (at, outcome) = (r.time()?, read_outcome(r)?);
                Ok(AttemptEnd { at, outcome, error: r.optional_boxed()? })
            })?,
        });
    }
    Ok(attempts)
}

pub fn write_record(w: &mut Writer, record: &ResultRecord) {
    w.byte(match record.status {
        Status::Completed => 1,
        Status::Failed => 2,
    });
    w.optional_text(record.result.as_deref());
    w.optional_text(record.error.as_deref());
    w.byte(match record.failure_reason {
        None => 0,
        Some(FailureReason::MaxAttempts) => 1,
        Some(FailureReason::Cancelled) => 2,
        Some(FailureReason::Expired) => 3,
        Some(FailureReason::Dependency) => 4,
    });
    w.number(record.artifacts.len() as u64);
    for artifact in &record.artifacts {
        w.text(&artifact.name);
        w.text(&artifact.url);
        w.option(artifact.stored.as_ref(), |w, stored| {
            w.text(&stored.key);
            w.optional_text(stored.content_type.as_deref());
        });
    }
    w.time(record.completed_at);
}

pub fn read_record(r: &mut Reader) -> Read<ResultRecord> {
    let status = match r.byte()? {
        1 => Status::Completed,
        2 => Status::Failed,
        _ => return Err(Corrupt("unknown status")),
    };
    let result = r.optional_shared()?;
    let error = r.optional_shared()?;
    let failure_reason = match r.byte()? {
        0 => None,
        1 => Some(FailureReason::MaxAttempts),
        2 => Some(FailureReason::Cancelled),
        3 => Some(FailureReason::Expired),
        4 => Some(FailureReason::Dependency),
        _ => return Err(Corrupt("unknown failure reason")),
    };
    let count = r.small()?;
    let mut artifacts = Vec::new();
    for _ in 0..count {
        artifacts.push(Artifact {
            name: r.text()?.to_owned(),
            url: r.text()?.to_owned(),
            stored: r.option(|r| {
                let key = r.text()?.to_owned();
                Ok(StoredArtifact { key, content_type: r.optional_text()?.map(str::to_owned) })
            })?,
        });
    }
    Ok(ResultRecord { status, result, error, failure_reason, artifacts, completed_at: r.time()? })
}

pub fn write_delivery(w: &mut Writer, delivery: &Delivery) {
    w.wide(delivery.id);
    w.wide(u128::from_be_bytes(*delivery.task_id.as_bytes()));
    w.text(&delivery.tenant);
    w.text(&delivery.url);
    w.text(&delivery.body);
    write_delivery_state(w, delivery.state);
    w.number(u64::from(delivery.attempts));
    w.optional_text(delivery.last_error.as_deref());
    w.time(delivery.created_at);
}

pub fn read_delivery(r: &mut Reader) -> Read<Delivery> {
    Ok(Delivery {
        id: r.wide()?,
        task_id: TaskId::from_bytes(r.wide()?.to_be_bytes()),
        tenant: r.text()?.into(),
        url: r.text()?.into(),
        body: r.text()?.into(),
        state: read_delivery_state(r)?,
        attempts: r.small()?,
        last_error: r.optional_shared()?,
        created_at: r.time()?,
    })
}

pub fn write_delivery_state(w: &mut Writer, state: DeliveryState) {
    let (mark, at) = match state {
        DeliveryState::Pending { due } => (1, due),
        DeliveryState::Failed { at } => (2, at),
    };
    w.byte(mark);
    w.time(at);
}

pub fn read_delivery_state(r: &mut Reader) -> Read<DeliveryState> {
    let mark = r.byte()?;
    let at: Time = r.time()?;
    match mark {
        1 => Ok(DeliveryState::Pending { due: at }),
        2 => Ok(DeliveryState::Failed { at }),
        _ => Err(Corrupt("unknown delivery state")),
    }
}
