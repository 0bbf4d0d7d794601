//! Rows of bulk operations.

use crate::local::format::batches::{read_id, write_id};
use crate::local::format::codec::{Corrupt, Reader, Writer};
use crate::local::format::parts::HAS_OPTIONS;
use crate::local::format::records::OPERATION;
use codeq_queue::filter::Whereabouts;
use codeq_queue::operation::Step;
use codeq_queue::{Filter, Operation, OperationKind, OperationState, TaskId, TaskStatus, Time};

pub fn key(id: u128) -> Vec<u8> {
    let mut key = vec![OPERATION];
    key.extend_from_slice(&id.to_be_bytes());
    key
}

const STATUSES: [TaskStatus; 4] =
    [TaskStatus::Pending, TaskStatus::InProgress, TaskStatus::Completed, TaskStatus::Failed];

fn write_one_of<T: PartialEq>(w: &mut Writer, all: &[T], one: &T) {
    let index = all.iter().position(|known| known == one).expect("every one is listed");
    w.byte(u8::try_from(index).expect("a handful"));
}

fn read_one_of<T: Copy>(r: &mut Reader, all: &[T]) -> Result<T, Corrupt> {
    all.get(usize::from(r.byte()?)).copied().ok_or(Corrupt("unknown word"))
}

fn write_time(w: &mut Writer, time: Option<Time>) {
    w.option(time.as_ref(), |w, time| w.time(*time));
}

fn read_text(r: &mut Reader) -> Result<Option<String>, Corrupt> {
    Ok(r.optional_text()?.map(str::to_owned))
}

/// Added to the count of headers, too, when the filter names a batch.
const HAS_BATCH: u64 = 2 * HAS_OPTIONS;

fn write_filter(w: &mut Writer, filter: &Filter) {
    w.optional_text(filter.command.as_deref());
    w.option(filter.status.as_ref(), |w, status| write_one_of(w, &STATUSES, status));
    w.option(filter.place.as_ref(), |w, place| write_one_of(w, &Whereabouts::ALL, place));
    w.optional_text(filter.worker_id.as_deref());
    w.optional_text(filter.error.as_deref());
    for time in [filter.created_after, filter.created_before, filter.updated_after, filter.updated_before] {
        write_time(w, time);
    }
    w.optional_text(filter.idempotency_key.as_deref());
    let has_options =
        filter.lane.is_some() || filter.tag.is_some() || filter.schedule.is_some() || filter.batch.is_some();
    let marks =
        if has_options { HAS_OPTIONS } else { 0 } + if filter.batch.is_some() { HAS_BATCH } else { 0 };
    w.number(filter.headers.len() as u64 + marks);
    for (name, value) in &filter.headers {
        w.text(name);
        w.text(value);
    }
    w.optional_text(filter.group.as_deref());
    if has_options {
        w.optional_text(filter.lane.as_deref());
        w.optional_text(filter.tag.as_deref());
        w.optional_text(filter.schedule.as_deref());
    }
    if let Some(batch) = &filter.batch {
        write_id(w, batch);
    }
}

fn read_filter(r: &mut Reader) -> Result<Filter, Corrupt> {
    let mut filter = Filter {
        command: read_text(r)?,
        status: r.option(|r| read_one_of(r, &STATUSES))?,
        place: r.option(|r| read_one_of(r, &Whereabouts::ALL))?,
        worker_id: read_text(r)?,
        error: read_text(r)?,
        created_after: r.option(Reader::time)?,
        created_before: r.option(Reader::time)?,
        updated_after: r.option(Reader::time)?,
        updated_before: r.option(Reader::time)?,
        idempotency_key: read_text(r)?,
        ..Filter::default()
    };
    let count = r.number()?;
    for _ in 0..count % HAS_OPTIONS {
        filter.headers.push((r.text()?.to_owned(), r.text()?.to_owned()));
    }
    filter.group = read_text(r)?;
    if count & HAS_OPTIONS != 0 {
        (filter.lane, filter.tag, filter.schedule) = (read_text(r)?, read_text(r)?, read_text(r)?);
    }
    if count & HAS_BATCH != 0 {
        filter.batch = Some(read_id(r)?);
    }
    Ok(filter)
}

fn read_step(r: &mut Reader) -> Result<Step, Corrupt> {
    let count = r.small()?;
    let task = |_| Ok((r.text()?.into(), TaskId::from_bytes(r.wide()?.to_be_bytes())));
    let tasks = (0..count).map(task).collect::<Result<_, Corrupt>>()?;
    Ok(Step { tasks, next: read_text(r)? })
}

pub fn write(operation: &Operation) -> Vec<u8> {
    let mut bytes = Vec::new();
    let w = &mut Writer(&mut bytes);
    w.wide(operation.id);
    w.optional_text(operation.tenant.as_deref());
    write_one_of(w, &OperationKind::ALL, &operation.kind);
    write_filter(w, &operation.filter);
    w.option(operation.max_attempts.as_ref(), |w, most| w.number(u64::from(*most)));
    w.number(u64::from(operation.rate_per_second));
    write_one_of(w, &OperationState::ALL, &operation.state);
    w.option(operation.matched.as_ref(), |w, matched| w.number(*matched));
    w.number(operation.processed);
    w.number(operation.failed);
    w.time(operation.created_at);
    w.time(operation.updated_at);
    w.optional_text(operation.error.as_deref());
    w.optional_text(operation.cursor.as_deref());
    w.option(operation.step.as_ref(), |w, step| {
        w.number(step.tasks.len() as u64);
        for (tenant, id) in &step.tasks {
            w.text(tenant);
            w.wide(u128::from_be_bytes(*id.as_bytes()));
        }
        w.optional_text(step.next.as_deref());
    });
    w.number(operation.version);
    w.wide(operation.holder);
    w.time(operation.held_until);
    w.optional_text(operation.by.as_deref());
    w.optional_text(operation.cause.as_deref());
    bytes
}

pub fn read(bytes: &[u8]) -> Result<Operation, Corrupt> {
    let r = &mut Reader(bytes);
    let mut operation = Operation {
        id: r.wide()?,
        tenant: r.optional_shared()?,
        kind: read_one_of(r, &OperationKind::ALL)?,
        filter: read_filter(r)?,
        max_attempts: r.option(Reader::small)?,
        rate_per_second: r.small()?,
        state: read_one_of(r, &OperationState::ALL)?,
        matched: r.option(Reader::number)?,
        processed: r.number()?,
        failed: r.number()?,
        created_at: r.time()?,
        updated_at: r.time()?,
        error: read_text(r)?,
        cursor: read_text(r)?,
        step: r.option(read_step)?,
        version: r.number()?,
        holder: r.wide()?,
        held_until: r.time()?,
        by: None,
        cause: None,
    };
    // Rows of earlier versions end here.
    if !r.0.is_empty() {
        (operation.by, operation.cause) = (r.optional_shared()?, read_text(r)?);
    }
    Ok(operation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_they_were() {
        let text = |text: &str| Some(text.to_owned());
        let at = |millis| Some(Time::from_millis(millis));
        let filter = Filter {
            command: text("render"),
            status: Some(TaskStatus::Failed),
            place: Some(Whereabouts::Dead),
            worker_id: text("w"),
            error: text("time"),
            created_after: at(1),
            created_before: at(2),
            updated_after: None,
            updated_before: at(4),
            idempotency_key: text("k"),
            headers: vec![("a".into(), "b".into())],
            group: text("00ff"),
            lane: text("l"),
            tag: None,
            schedule: text("nightly"),
            batch: Some(TaskId::from_bits(8)),
        };
        let operation = Operation {
            id: 7,
            tenant: Some("acme".into()),
            kind: OperationKind::Requeue,
            filter,
            max_attempts: Some(3),
            rate_per_second: 100,
            state: OperationState::Running,
            matched: Some(9),
            processed: 5,
            failed: 1,
            created_at: Time::from_millis(10),
            updated_at: Time::from_millis(11),
            error: None,
            cursor: text("o1f"),
            step: Some(Step { tasks: vec![("acme".into(), TaskId::from_bits(5))], next: None }),
            version: 3,
            holder: 12,
            held_until: Time::from_millis(13),
            by: Some("ann".into()),
            cause: text("timeout after <n> s"),
        };
        let bytes = write(&operation);
        assert_eq!(read(&bytes), Ok(operation.clone()));
        let earlier = &bytes[..bytes.len() - "ann".len() - "timeout after <n> s".len() - 4];
        assert_eq!(read(earlier), Ok(Operation { by: None, cause: None, ..operation }));
    }
}
