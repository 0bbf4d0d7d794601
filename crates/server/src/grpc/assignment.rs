//! Tasks on their way to a worker, written straight from the record.
//!
//! The bytes are those of `workerpb.ServerEvent` with a `TaskAssignment` or a `TaskBatch`. They are written
//! by hand because the generated type would copy every payload and every text of the task once more.

use super::held::Lot;
use crate::stamp::utc_seconds;
use bytes::BufMut;
use codeq_queue::{Task, Time};
use prost::encoding::{WireType, encode_key, encode_varint};

/// Field numbers of `ServerEvent`.
const TASK: u32 = 2;
const TASK_BATCH: u32 = 8;

/// From here on the tasks are the worker's.
pub fn write(mut lot: Lot, buffer: &mut impl BufMut) {
    let outer = if lot.is_batch { TASK_BATCH } else { TASK };
    let tasks = lot.lent.tasks();
    let size = |task: &Task| task.body.bytes() + 256;
    let mut inner = Vec::with_capacity(tasks.iter().map(size).sum());
    let mut record = Vec::new();
    for task in tasks {
        record.clear();
        write_task(task, &mut record);
        put_bytes(1, &record, &mut inner);
    }
    put_bytes(outer, &inner, buffer);
    lot.lent.hand_over();
}

fn write_task(task: &Task, out: &mut Vec<u8>) {
    let body = &*task.body;
    let lease = task.state.lease();
    put_bytes(1, &task.id.text(), out);
    put_text(2, &body.command, out);
    put_text(3, &body.payload, out);
    put_number(4, task.priority.into(), out);
    put_text(5, body.webhook.as_deref().unwrap_or_default(), out);
    put_number(6, task.max_attempts, out);
    put_text(7, task.state.status().word(), out);
    if let Some(lease) = lease {
        put_text(8, &lease.owner.worker_id, out);
        put_text(9, &utc_seconds(lease.until), out);
    }
    put_number(10, task.attempts, out);
    put_text(11, &body.tenant, out);
    put_time(12, task.created_at, out);
    put_time(13, task.updated_at, out);
    for (name, value) in &body.headers {
        let mut entry = Vec::with_capacity(name.len() + value.len() + 8);
        put_text(1, name, &mut entry);
        put_text(2, value, &mut entry);
        put_bytes(14, &entry, out);
    }
    put_text(15, body.trace_parent.as_deref().unwrap_or_default(), out);
    put_text(16, body.trace_state.as_deref().unwrap_or_default(), out);
    put_text(17, body.lane().unwrap_or_default(), out);
    put_text(18, task.checkpoint.as_deref().unwrap_or_default(), out);
    for tag in body.tags() {
        put_text(20, tag, out);
    }
    if let Some(batch) = body.batch() {
        put_text(21, &batch.to_string(), out);
    }
    for id in body.after() {
        put_text(22, &id.to_string(), out);
    }
}

fn put_bytes(field: u32, bytes: &[u8], out: &mut impl BufMut) {
    encode_key(field, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.put_slice(bytes);
}

/// An empty text is not written.
fn put_text(field: u32, text: &str, out: &mut Vec<u8>) {
    if !text.is_empty() {
        put_bytes(field, text.as_bytes(), out);
    }
}

/// An `int32`; zero is not written, and what does not fit is the largest that does.
fn put_number(field: u32, number: u32, out: &mut Vec<u8>) {
    if number != 0 {
        encode_key(field, WireType::Varint, out);
        encode_varint(u64::from(number.min(i32::MAX as u32)), out);
    }
}

fn put_time(field: u32, time: Time, out: &mut Vec<u8>) {
    let stamp = prost_types::Timestamp {
        seconds: time.millis().div_euclid(1000),
        nanos: i32::try_from(time.millis().rem_euclid(1000)).unwrap_or(0) * 1_000_000,
    };
    prost::encoding::message::encode(field, &stamp, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use codeq_api::grpc::worker;
    use codeq_queue::{Body, Lease, Owner, State, TaskId, TaskOptions};
    use prost::Message;
    use std::sync::Arc;

    fn task() -> Task {
        let owner = Arc::new(Owner::new("sub", "w-1"));
        let lease = Lease::new(owner, Time::from_millis(1_772_366_405_250), Time::ZERO);
        let body = Body {
            tenant: "acme".into(),
            command: "Render".into(),
            payload: "{\"a\": 1}".into(),
            webhook: Some("https://x/".into()),
            headers: Box::new([("k".into(), "v".into()), ("empty".into(), String::new())]),
            idempotency_key: None,
            trace_parent: Some("00-1".into()),
            trace_state: Some("s".into()),
            options: TaskOptions {
                lane: Some("l".into()),
                tags: ["a".into(), "b".into()].into(),
                after: [TaskId::from_bits(1), TaskId::from_bits(2)].into(),
                batch: Some(TaskId::from_bits(3)),
                ..TaskOptions::default()
            }
            .boxed(),
        };
        Task {
            id: TaskId::from_bits(7),
            body: Arc::new(body),
            priority: 3,
            state: State::Running(Arc::new(lease)),
            attempts: 2,
            refunds: 0,
            max_attempts: u32::MAX,
            error: None,
            checkpoint: Some("{\"at\":3}".into()),
            progress: None,
            created_at: Time::from_millis(1_250),
            updated_at: Time::from_millis(2_000),
        }
    }

    #[test]
    fn a_task_reads_as_the_generated_type() {
        let (task, mut out) = (task(), Vec::new());
        write_task(&task, &mut out);
        let stamp = |seconds, nanos| Some(prost_types::Timestamp { seconds, nanos });
        let expected = worker::Task {
            id: task.id.to_string(),
            command: "Render".into(),
            payload: "{\"a\": 1}".into(),
            priority: 3,
            webhook: "https://x/".into(),
            max_attempts: i32::MAX,
            status: "IN_PROGRESS".into(),
            worker_id: "w-1".into(),
            lease_until: "2026-03-01T12:00:05Z".into(),
            attempts: 2,
            tenant_id: "acme".into(),
            created_at: stamp(1, 250_000_000),
            updated_at: stamp(2, 0),
            headers: [("k".into(), "v".into()), ("empty".into(), String::new())].into(),
            trace_parent: "00-1".into(),
            trace_state: "s".into(),
            lane: "l".into(),
            checkpoint: "{\"at\":3}".into(),
            tags: vec!["a".into(), "b".into()],
            after: [1, 2].map(|bits| TaskId::from_bits(bits).to_string()).into(),
            batch_id: TaskId::from_bits(3).to_string(),
            ..worker::Task::default()
        };
        assert_eq!(worker::Task::decode(&*out).unwrap(), expected);
    }
}
