//! Rows of what operators did.

use crate::local::format::codec::{Corrupt, Reader, Writer};
use crate::local::format::records::AUDIT;
use codeq_queue::{AuditEntry, Time};

/// In the order of time.
pub fn key((at, id): (Time, u64)) -> Vec<u8> {
    let mut key = vec![AUDIT];
    key.extend_from_slice(&at.millis().to_be_bytes());
    key.extend_from_slice(&id.to_be_bytes());
    key
}

pub fn read_key(key: &[u8]) -> Option<(Time, u64)> {
    let at = i64::from_be_bytes(key.get(1..9)?.try_into().ok()?);
    let id = u64::from_be_bytes(key.get(9..17)?.try_into().ok()?);
    Some((Time::from_millis(at), id))
}

pub fn write(entry: &AuditEntry) -> Vec<u8> {
    let mut bytes = Vec::new();
    let w = &mut Writer(&mut bytes);
    w.time(entry.at);
    w.fixed(entry.id);
    w.text(&entry.who);
    w.text(&entry.tenant);
    w.text(&entry.verb);
    w.text(&entry.target);
    w.option(entry.count.as_ref(), |w, count| w.number(*count));
    w.text(&entry.request_id);
    bytes
}

pub fn read(bytes: &[u8]) -> Result<AuditEntry, Corrupt> {
    let r = &mut Reader(bytes);
    Ok(AuditEntry {
        at: r.time()?,
        id: r.fixed()?,
        who: r.text()?.into(),
        tenant: r.text()?.into(),
        verb: r.text()?.into(),
        target: r.text()?.into(),
        count: r.option(Reader::number)?,
        request_id: r.text()?.into(),
    })
}
