//! Tasks as the store holds them, whole or in part, and their rows in the tree.
//!
//! Memory may forget what the tree knows: a [`Detail`] is then partial, and [`Detail::fill`] completes it
//! from the tree's rows. Filling twice, or from rows that already include it, changes nothing.

use super::codec::{Corrupt, Reader, Writer};
use super::ids::IdKey;
use super::parts;
use codeq_queue::attempt::remember;
use codeq_queue::{Attempt, Body, QueueKey, ResultRecord, State, Task, Time};
use std::sync::Arc;

/// (tenant, command, key) with zero bytes between; neither tenant nor command can hold one.
pub type IdemKey = Box<[u8]>;

pub fn idem_key(queue: &QueueKey, key: &str) -> IdemKey {
    let mut bytes = Vec::with_capacity(queue.tenant.len() + queue.command.len() + key.len() + 2);
    bytes.extend_from_slice(queue.tenant.as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(queue.command.as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(key.as_bytes());
    bytes.into()
}

/// The parts of a task that memory may forget once the tree has them.
#[derive(Clone, Default, Debug, PartialEq)]
pub struct Detail {
    pub body: Option<Arc<Body>>,
    /// `None` in a partial detail may mean "see the tree".
    pub error: Option<Arc<str>>,
    pub history: Vec<Attempt>,
    /// Error and history are all there is, not additions to what the tree has.
    pub is_whole: bool,
}

impl Detail {
    pub fn of(body: Arc<Body>) -> Detail {
        Detail { body: Some(body), error: None, history: Vec::new(), is_whole: true }
    }

    pub fn is_complete(&self) -> bool {
        self.is_whole && self.body.is_some()
    }

    /// Adds the payload to a body that was stored without it.
    pub fn add_payload(&mut self, payload: Vec<u8>) -> Result<(), Corrupt> {
        let head = self.body.take().ok_or(Corrupt("a payload without its body"))?;
        let payload = String::from_utf8(payload).map_err(|_| Corrupt("a payload that is not text"))?.into();
        self.body = Some(Arc::new(Body { payload, ..(*head).clone() }));
        Ok(())
    }

    /// Adds what `older` knows and this does not.
    pub fn fill(&mut self, older: Detail) {
        self.body = self.body.take().or(older.body);
        self.error = self.error.take().or(older.error);
        let first = self.history.first().map_or(u32::MAX, |attempt| attempt.attempt);
        let newer = std::mem::take(&mut self.history);
        for attempt in older.history.into_iter().filter(|attempt| attempt.attempt < first).chain(newer) {
            remember(&mut self.history, attempt);
        }
        self.is_whole |= older.is_whole;
    }
}

/// A task with the parts that are at hand.
#[derive(Clone, Debug, PartialEq)]
pub struct Sketch {
    pub no: u64,
    pub tail: u64,
    pub priority: u8,
    pub state: State,
    pub attempts: u32,
    pub refunds: u32,
    pub max_attempts: u32,
    pub created_at: Time,
    pub updated_at: Time,
    pub detail: Detail,
}

impl Sketch {
    /// The whole task; `None` while its body is not at hand.
    pub fn task(&self, ids: &IdKey) -> Option<Task> {
        Some(Task {
            id: ids.encode(self.no, self.tail),
            body: self.detail.body.clone()?,
            priority: self.priority,
            state: self.state.clone(),
            attempts: self.attempts,
            refunds: self.refunds,
            max_attempts: self.max_attempts,
            error: self.detail.error.clone(),
            created_at: self.created_at,
            updated_at: self.updated_at,
        })
    }

    /// The history with the attempt that is running.
    pub fn attempts(&self) -> Vec<Attempt> {
        let mut history = self.detail.history.clone();
        if let Some(lease) = self.state.lease() {
            let worker_id = lease.owner.worker_id.clone();
            let running =
                Attempt { attempt: self.attempts, worker_id, claimed_at: lease.claimed_at, end: None };
            remember(&mut history, running);
        }
        history
    }
}

/// A task that ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Final {
    pub sketch: Sketch,
    pub record: Arc<ResultRecord>,
    /// `Time::MAX` is never.
    pub expires: Time,
    pub key: Option<IdemKey>,
}

impl Final {
    pub fn is_visible(&self, now: Time) -> bool {
        self.sketch.state == State::Dead || self.expires > now
    }
}

/// A live task as it was created.
#[derive(Clone, Debug, PartialEq)]
pub struct Seed {
    pub tail: u64,
    pub created_at: Time,
    pub priority: u8,
    pub max_attempts: u32,
    pub state: State,
    pub body: Arc<Body>,
}

/// Payloads above this are kept in rows of their own, so that opening a store does not read them.
pub const INLINE_PAYLOAD: usize = 4096;

impl Seed {
    /// The payload, if it is so large that it has a row of its own.
    pub fn payload_apart(&self) -> Option<&str> {
        Some(&*self.body.payload).filter(|payload| payload.len() > INLINE_PAYLOAD)
    }

    pub fn write(&self, bytes: &mut Vec<u8>) {
        let inline = Some(&*self.body.payload).filter(|_| self.payload_apart().is_none());
        let w = &mut Writer(bytes);
        w.fixed(self.tail);
        w.time(self.created_at);
        w.byte(self.priority);
        w.number(u64::from(self.max_attempts));
        parts::write_state(w, &self.state);
        parts::write_body_head(w, &self.body);
        w.optional_text(inline);
    }

    /// The seed, and whether its payload lies in a row of its own (it is then empty here).
    pub fn read(bytes: &[u8]) -> Result<(Seed, bool), Corrupt> {
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
        Ok((Seed { tail, created_at, priority, max_attempts, state, body }, is_apart))
    }
}

/// What changed of a live task since it was created.
#[derive(Clone, Debug, PartialEq)]
pub struct StateRow {
    pub updated_at: Time,
    pub attempts: u32,
    pub refunds: u32,
    pub max_attempts: u32,
    pub state: State,
    pub error: Option<Arc<str>>,
    pub history: Vec<Attempt>,
}

impl StateRow {
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(96);
        let w = &mut Writer(&mut bytes);
        w.time(self.updated_at);
        w.number(u64::from(self.attempts));
        w.number(u64::from(self.refunds));
        w.number(u64::from(self.max_attempts));
        parts::write_state(w, &self.state);
        w.optional_text(self.error.as_deref());
        parts::write_attempts(w, &self.history);
        bytes
    }

    pub fn read(bytes: &[u8]) -> Result<StateRow, Corrupt> {
        let r = &mut Reader(bytes);
        Ok(StateRow {
            updated_at: r.time()?,
            attempts: r.small()?,
            refunds: r.small()?,
            max_attempts: r.small()?,
            state: parts::read_live_state(r)?,
            error: r.optional_shared()?,
            history: parts::read_attempts(r)?,
        })
    }
}

impl Final {
    /// With this body and detail instead of what the sketch has of them.
    pub fn write(&self, body: &Body, detail: &Detail, bytes: &mut Vec<u8>) {
        let sketch = &self.sketch;
        let w = &mut Writer(bytes);
        w.fixed(sketch.tail);
        w.time(self.expires);
        w.time(sketch.created_at);
        w.time(sketch.updated_at);
        w.byte(sketch.priority);
        w.number(u64::from(sketch.attempts));
        w.number(u64::from(sketch.refunds));
        w.number(u64::from(sketch.max_attempts));
        parts::write_state(w, &sketch.state);
        parts::write_body(w, body);
        w.optional_text(detail.error.as_deref());
        parts::write_attempts(w, &detail.history);
        parts::write_record(w, &self.record);
    }

    /// The state alone, without reading the rest.
    pub fn read_state(bytes: &[u8]) -> Result<State, Corrupt> {
        let r = &mut Reader(bytes);
        r.fixed()?;
        for _ in 0..3 {
            r.time()?;
        }
        r.byte()?;
        for _ in 0..3 {
            r.small()?;
        }
        parts::read_state(r)
    }

    pub fn read(no: u64, bytes: &[u8]) -> Result<Final, Corrupt> {
        let r = &mut Reader(bytes);
        let tail = r.fixed()?;
        let expires = r.time()?;
        let created_at = r.time()?;
        let updated_at = r.time()?;
        let priority = parts::read_priority(r)?;
        let attempts = r.small()?;
        let refunds = r.small()?;
        let max_attempts = r.small()?;
        let state = parts::read_state(r)?;
        let body = parts::read_body(r)?;
        let queue = QueueKey::new(&body.tenant, &body.command);
        let key = body.idempotency_key.as_deref().map(|key| idem_key(&queue, key));
        let body = Some(Arc::new(body));
        let error = r.optional_shared()?;
        let history = parts::read_attempts(r)?;
        let detail = Detail { body, error, history, is_whole: true };
        let record = Arc::new(parts::read_record(r)?);
        let sketch = Sketch {
            no,
            tail,
            priority,
            state,
            attempts,
            refunds,
            max_attempts,
            created_at,
            updated_at,
            detail,
        };
        Ok(Final { sketch, record, expires, key })
    }
}

/// Tree keys of numbered tasks.
pub fn no_key(no: u64) -> [u8; 8] {
    no.to_be_bytes()
}

/// Rows of [`super::tree::Space::Record`] begin with what they are.
pub const TOPIC: u8 = b't';
pub const SUBSCRIPTION: u8 = b's';
pub const DELIVERY: u8 = b'd';
pub const OPERATION: u8 = b'o';
/// There once for all: some tasks have numbers that this shard did not give out.
pub const IMPORTED: u8 = b'i';
/// (expiry, number) of dead letters that have one.
pub const DEAD_EXPIRY: u8 = b'x';

pub fn delivery_key(id: u128) -> Vec<u8> {
    let mut key = vec![DELIVERY];
    key.extend_from_slice(&id.to_be_bytes());
    key
}

pub fn dead_expiry_key(expires: Time, no: u64) -> Vec<u8> {
    let mut key = vec![DEAD_EXPIRY];
    key.extend_from_slice(&expires.millis().to_be_bytes());
    key.extend_from_slice(&no.to_be_bytes());
    key
}

/// The counters of a shard, stored with every batch.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct Counters {
    pub next_no: u64,
    pub next_seq: u64,
    /// The latest instant the shard has acted at; time never goes back, restarts included.
    pub last: Time,
}

pub const COUNTERS_KEY: &[u8] = b"counters";

impl Counters {
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let w = &mut Writer(&mut bytes);
        w.number(self.next_no);
        w.number(self.next_seq);
        w.time(self.last);
        bytes
    }

    pub fn read(bytes: &[u8]) -> Result<Counters, Corrupt> {
        let r = &mut Reader(bytes);
        Ok(Counters { next_no: r.number()?, next_seq: r.number()?, last: r.time()? })
    }
}

/// What must be kept of a queue besides its tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueRow {
    pub spelling: Arc<str>,
    pub dead: u64,
    pub is_paused: bool,
}

/// Rows of [`super::tree::Space::Meta`] that are queues.
pub fn queue_row_key(queue: &QueueKey) -> Vec<u8> {
    let mut key = vec![b'q'];
    key.extend_from_slice(&idem_key(queue, ""));
    key
}

pub fn read_queue_row_key(key: &[u8]) -> Result<QueueKey, Corrupt> {
    let text = std::str::from_utf8(key.get(1..).unwrap_or_default()).map_err(|_| Corrupt("queue name"))?;
    let mut parts = text.split('\0');
    match (parts.next(), parts.next()) {
        (Some(tenant), Some(command)) => Ok(QueueKey { tenant: tenant.into(), command: command.into() }),
        _ => Err(Corrupt("queue name")),
    }
}

impl QueueRow {
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let w = &mut Writer(&mut bytes);
        w.text(&self.spelling);
        w.number(self.dead);
        w.byte(u8::from(self.is_paused));
        bytes
    }

    pub fn read(bytes: &[u8]) -> Result<QueueRow, Corrupt> {
        let r = &mut Reader(bytes);
        Ok(QueueRow { spelling: r.text()?.into(), dead: r.number()?, is_paused: r.byte()? != 0 })
    }
}
