//! Rows of the first format, and what becomes of them.

use crate::local::format::codec::{Corrupt, Reader};
use crate::local::format::parts;
use crate::local::format::records::{
    Counters, Final, TaskHead, body_key, bucket_end, head_key, hint_key, key_hash, record_key, state_key,
    write_until,
};
use crate::local::tables::{BulkTables, Group, TableError};
use codeq_queue::{Body, State, Time};
use std::collections::HashMap;
use std::sync::Arc;

/// A separately ordered set of keys in the first format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Space {
    Meta,
    Task,
    State,
    Payload,
    Dead,
    DeadKey,
    Record,
    /// Final records of the bucket ending at this unix time in milliseconds.
    History(i64),
    /// User keys of the same bucket.
    HistoryKey(i64),
}

impl Space {
    pub const LIVE: [Space; 7] =
        [Space::Meta, Space::Task, Space::State, Space::Payload, Space::Dead, Space::DeadKey, Space::Record];

    /// The end of the bucket this space belongs to, if it belongs to one.
    pub fn end(self) -> Option<i64> {
        match self {
            Space::History(end) | Space::HistoryKey(end) => Some(end),
            _ => None,
        }
    }

    pub fn name(self) -> String {
        match self {
            Space::Meta => "meta".into(),
            Space::Task => "task".into(),
            Space::State => "state".into(),
            Space::Payload => "payload".into(),
            Space::Dead => "dead".into(),
            Space::DeadKey => "dead-key".into(),
            Space::Record => "record".into(),
            Space::History(end) => format!("history.{end}"),
            Space::HistoryKey(end) => format!("history-key.{end}"),
        }
    }

    /// The reverse of `name`; `None` for a name of something else.
    pub fn parse(name: &str) -> Option<Space> {
        let Some((kind, end)) = name.split_once('.') else {
            return Space::LIVE.into_iter().find(|space| space.name() == name);
        };
        let end = end.parse().ok()?;
        match kind {
            "history" => Some(Space::History(end)),
            "history-key" => Some(Space::HistoryKey(end)),
            _ => None,
        }
    }
}

/// Kinds of rows that come side by side in one group.
const BODIES: u8 = 1;
const HEADS: u8 = 2;
const BODIES_APART: u8 = 3;

/// Hints are gathered and sorted up to this number.
const HINTS_MAX: usize = 1 << 20;

/// Makes rows of tables from those of the first format, which come space by space in the order of their keys.
pub struct FormatOneRows {
    pub bulk: BulkTables,
    /// Tasks whose payloads are still to come.
    apart: HashMap<u64, Arc<Body>>,
    hints: Vec<([u8; 16], Time)>,
    hint_tables: u8,
    row: Vec<u8>,
}

fn corrupt(Corrupt(reason): Corrupt) -> TableError {
    TableError::Io(std::io::Error::new(std::io::ErrorKind::InvalidData, reason))
}

fn number(key: &[u8]) -> Result<u64, TableError> {
    key.try_into().map(u64::from_be_bytes).map_err(|_| corrupt(Corrupt("a key that is not a number")))
}

impl FormatOneRows {
    pub fn new(bulk: BulkTables) -> FormatOneRows {
        FormatOneRows { bulk, apart: HashMap::new(), hints: Vec::new(), hint_tables: 0, row: Vec::new() }
    }

    pub fn add(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<(), TableError> {
        match space {
            Space::Meta if key == b"counters" => {
                self.bulk.counters = Counters::read(value).map_err(corrupt)?;
                Ok(())
            }
            // The keys of queues are the same; in the order of keys they come before records and states.
            Space::Meta => self.bulk.put_beside(Group::Rows, 0, key, value),
            Space::Record => self.bulk.put_beside(Group::Rows, 1, &record_key(key), value),
            Space::State => self.bulk.put_beside(Group::Rows, 2, &state_key(number(key)?), value),
            Space::Task => self.add_task(number(key)?, value),
            Space::Payload => self.add_payload(number(key)?, value),
            Space::Dead => self.add_final(Group::Dead, number(key)?, value),
            Space::History(_) => {
                let no = number(key)?;
                let last = Final::read(no, value).map_err(corrupt)?;
                let end = bucket_end(last.sketch.updated_at, last.expires);
                self.add_final(Group::Ended(end), no, value)
            }
            // The records have them.
            Space::DeadKey | Space::HistoryKey(_) => Ok(()),
        }
    }

    fn add_task(&mut self, no: u64, value: &[u8]) -> Result<(), TableError> {
        let (seed, is_apart) = read_seed(value).map_err(corrupt)?;
        self.row.clear();
        seed.write_head(&mut self.row);
        self.bulk.put_beside(Group::Bodies, HEADS, &head_key(no), &self.row)?;
        if is_apart {
            self.apart.insert(no, seed.body);
            return Ok(());
        }
        self.row.clear();
        seed.write_body(&mut self.row);
        self.bulk.put_beside(Group::Bodies, BODIES, &body_key(no), &self.row)
    }

    fn add_payload(&mut self, no: u64, payload: &[u8]) -> Result<(), TableError> {
        let Some(head) = self.apart.remove(&no) else { return Ok(()) };
        let payload =
            std::str::from_utf8(payload).map_err(|_| corrupt(Corrupt("a payload that is not text")))?;
        let body = Body { payload: payload.into(), ..(*head).clone() };
        self.row.clear();
        parts::write_body(&mut crate::local::format::codec::Writer(&mut self.row), &body);
        self.bulk.put_beside(Group::Bodies, BODIES_APART, &body_key(no), &self.row)
    }

    fn add_final(&mut self, group: Group, no: u64, value: &[u8]) -> Result<(), TableError> {
        let last = Final::read(no, value).map_err(corrupt)?;
        debug_assert_eq!(last.sketch.state == State::Dead, group == Group::Dead);
        if let Some(key) = &last.key {
            self.hints.push((hint_key(key_hash(key), no), last.expires));
            if self.hints.len() >= HINTS_MAX {
                self.end_hints()?;
            }
        }
        self.bulk.put(group, &no.to_be_bytes(), value)
    }

    fn end_hints(&mut self) -> Result<(), TableError> {
        self.hints.sort_unstable_by_key(|(key, _)| *key);
        for (key, until) in std::mem::take(&mut self.hints) {
            self.bulk.put_beside(Group::Keys, self.hint_tables, &key, &write_until(until))?;
        }
        self.hint_tables = self.hint_tables.wrapping_add(1);
        Ok(())
    }

    /// Ends the tables, at this journal position.
    pub fn finish(mut self, position: u64) -> Result<(), TableError> {
        if let Some(no) = self.apart.keys().next() {
            tracing::error!(task = no, "a payload is missing");
            return Err(corrupt(Corrupt("a payload is missing")));
        }
        self.end_hints()?;
        self.bulk.finish(position)
    }
}

/// A task as the first format had it, and whether its payload lies in a row of its own.
fn read_seed(bytes: &[u8]) -> Result<(TaskHead, bool), Corrupt> {
    let r = &mut Reader(bytes);
    let tail = r.fixed()?;
    let created_at = r.time()?;
    let priority = parts::read_priority(r)?;
    let max_attempts = r.small()?;
    let state = parts::read_live_state(r)?;
    let head = parts::read_body_head(r)?;
    let payload = r.optional_boxed()?;
    let is_apart = payload.is_none();
    let body = Arc::new(Body { payload: payload.unwrap_or_default(), ..head });
    Ok((TaskHead { tail, created_at, priority, max_attempts, state, body }, is_apart))
}
