//! Rows of batches: what the home shard knows of one, and what every shard has of its members.

use crate::local::format::codec::{Corrupt, Reader, Writer};
use crate::local::format::records::{BATCH, BATCH_SHARE};
use codeq_queue::batch::{Batch, BatchEnd, Counts};
use codeq_queue::{Delay, Held, TaskId};
use std::sync::Arc;
use std::time::Duration;

fn key(kind: u8, id: &TaskId) -> Vec<u8> {
    let mut key = vec![kind];
    key.extend_from_slice(id.as_bytes());
    key
}

pub fn batch_key(id: &TaskId) -> Vec<u8> {
    key(BATCH, id)
}

pub fn share_key(id: &TaskId) -> Vec<u8> {
    key(BATCH_SHARE, id)
}

pub fn read_key(key: &[u8]) -> Option<TaskId> {
    Some(TaskId::from_bytes(key.get(1..)?.try_into().ok()?))
}

pub fn write_id(w: &mut Writer, id: &TaskId) {
    w.wide(u128::from_be_bytes(*id.as_bytes()));
}

pub fn read_id(r: &mut Reader) -> Result<TaskId, Corrupt> {
    Ok(TaskId::from_bytes(r.wide()?.to_be_bytes()))
}

fn write_counts(w: &mut Writer, counts: &Counts) {
    w.number(counts.live);
    w.number(counts.completed);
    w.number(counts.failed);
    w.time(counts.joined_at);
    w.byte(u8::from(counts.is_closed) | u8::from(counts.is_cancelled) << 1);
    w.number(counts.version);
}

fn read_counts(r: &mut Reader) -> Result<Counts, Corrupt> {
    let (live, completed, failed, joined_at) = (r.number()?, r.number()?, r.number()?, r.time()?);
    let flags = r.byte()?;
    let version = r.number()?;
    Ok(Counts {
        live,
        completed,
        failed,
        joined_at,
        is_closed: flags & 1 != 0,
        is_cancelled: flags & 2 != 0,
        version,
    })
}

pub fn write_batch(batch: &Batch) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(96);
    let w = &mut Writer(&mut bytes);
    w.text(&batch.tenant);
    w.optional_text(batch.name.as_deref());
    w.time(batch.created_at);
    w.number(batch.close_after.as_secs());
    w.option(batch.closed_at.as_ref(), |w, at| w.time(*at));
    w.byte(u8::from(batch.is_cancelled));
    w.number(batch.shares.len() as u64);
    for (partition, counts) in &batch.shares {
        w.number(u64::from(*partition));
        write_counts(w, counts);
    }
    w.option(batch.end.as_ref(), |w, end| {
        w.time(end.at);
        w.byte(u8::from(end.is_completed));
        w.time(end.expires);
    });
    bytes
}

pub fn read_batch(id: TaskId, bytes: &[u8]) -> Result<Batch, Corrupt> {
    let r = &mut Reader(bytes);
    let mut batch = Batch {
        id,
        tenant: r.text()?.into(),
        name: r.optional_boxed()?,
        created_at: r.time()?,
        close_after: Duration::from_secs(r.number()?),
        closed_at: r.option(Reader::time)?,
        is_cancelled: r.byte()? != 0,
        shares: Default::default(),
        end: None,
    };
    for _ in 0..r.small()? {
        batch.shares.insert(r.small()?, read_counts(r)?);
    }
    batch.end =
        r.option(|r| Ok(BatchEnd { at: r.time()?, is_completed: r.byte()? != 0, expires: r.time()? }))?;
    Ok(batch)
}

pub fn write_share(tenant: &str, counts: &Counts) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(40);
    let w = &mut Writer(&mut bytes);
    w.text(tenant);
    write_counts(w, counts);
    bytes
}

pub fn read_share(bytes: &[u8]) -> Result<(Arc<str>, Counts), Corrupt> {
    let r = &mut Reader(bytes);
    Ok((r.text()?.into(), read_counts(r)?))
}

/// What a held task waits for, as part of its state.
pub fn write_held(w: &mut Writer, held: &Held) {
    w.number(held.open.len() as u64);
    held.open.iter().for_each(|id| write_id(w, id));
    match held.delay {
        Delay::None => w.byte(0),
        Delay::For(delay) => {
            w.byte(1);
            w.number(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX));
        }
        Delay::Until(at) => {
            w.byte(2);
            w.time(at);
        }
    }
}

pub fn read_held(r: &mut Reader) -> Result<Held, Corrupt> {
    let mut open = Vec::new();
    for _ in 0..r.small()? {
        open.push(read_id(r)?);
    }
    if open.is_empty() {
        return Err(Corrupt("a held task that waits for nothing"));
    }
    let delay = match r.byte()? {
        0 => Delay::None,
        1 => Delay::For(Duration::from_millis(r.number()?)),
        2 => Delay::Until(r.time()?),
        _ => return Err(Corrupt("unknown delay")),
    };
    Ok(Held { open: open.into(), delay })
}

#[cfg(test)]
mod tests {
    use super::*;
    use codeq_queue::Time;
    use codeq_queue::batch::NewBatch;

    #[test]
    fn rows_come_back_as_they_were() {
        let id = TaskId::from_bits(99);
        let new =
            NewBatch { tenant: "acme".into(), name: Some("n".into()), close_after: Duration::from_secs(7) };
        let mut batch = Batch::new(id, new, Time::from_millis(5));
        assert_eq!(read_batch(id, &write_batch(&batch)), Ok(batch.clone()));
        batch.register(3).unwrap();
        batch.register(0).unwrap();
        let mut counts = Counts::default();
        counts.join(Time::from_millis(8));
        counts.close(true);
        batch.hear(3, counts);
        batch.cancel(Time::from_millis(9));
        batch.hear(0, Counts { version: 2, is_closed: true, is_cancelled: true, ..Counts::default() });
        assert_eq!(read_batch(id, &write_batch(&batch)), Ok(batch.clone()));
        counts.end(false);
        batch.hear(3, counts);
        assert!(batch.try_end(Time::from_millis(10), Duration::from_secs(1)));
        assert_eq!(read_batch(id, &write_batch(&batch)), Ok(batch));
        assert_eq!(read_share(&write_share("acme", &counts)), Ok(("acme".into(), counts)));
        assert_eq!(read_key(&batch_key(&id)), Some(id));
    }

    #[test]
    fn held_states_come_back_as_they_were() {
        for delay in [Delay::None, Delay::For(Duration::from_millis(9)), Delay::Until(Time::from_millis(4))] {
            let held = Held { open: [TaskId::from_bits(1), TaskId::from_bits(2)].into(), delay };
            let mut bytes = Vec::new();
            write_held(&mut Writer(&mut bytes), &held);
            assert_eq!(read_held(&mut Reader(&bytes)), Ok(held));
        }
        assert!(read_held(&mut Reader(&[0, 0])).is_err());
    }
}
