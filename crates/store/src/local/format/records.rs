//! Tasks as the store holds them, whole or in part, and their rows in the tables.
//!
//! Memory may forget what the tables know: a [`Detail`] is then partial, and [`Detail::fill`] completes it
//! from their rows. Filling twice, or from rows that already include it, changes nothing.

use crate::local::directory::options;
use crate::local::format::codec::{Corrupt, Reader, Writer};
use crate::local::format::ids::IdKey;
use crate::local::format::parts;
use codeq_queue::attempt::remember;
use codeq_queue::{Attempt, Body, QueueKey, ResultRecord, State, Task, Time};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

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

/// The parts of a task that memory may forget once the tables have them.
#[derive(Clone, Default, Debug, PartialEq)]
pub struct Detail {
    pub body: Option<Arc<Body>>,
    /// `None` in a partial detail may mean "see the tables".
    pub error: Option<Arc<str>>,
    pub history: Vec<Attempt>,
    /// What an attempt left for the next one; `None` as for the error.
    pub checkpoint: Option<Arc<str>>,
    /// Error, history and checkpoint are all there is, not additions to what the tables have.
    pub is_whole: bool,
}

impl Detail {
    pub fn of(body: Arc<Body>) -> Detail {
        Detail { body: Some(body), is_whole: true, ..Detail::default() }
    }

    pub fn is_complete(&self) -> bool {
        self.is_whole && self.body.is_some()
    }

    /// Adds what `older` knows and this does not.
    pub fn fill(&mut self, older: Detail) {
        self.body = self.body.take().or(older.body);
        self.error = self.error.take().or(older.error);
        self.checkpoint = self.checkpoint.take().or(older.checkpoint);
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
pub struct PartialTask {
    pub no: u64,
    pub tail: u64,
    pub priority: u8,
    pub state: State,
    pub attempts: u32,
    pub refunds: u32,
    pub max_attempts: u32,
    pub created_at: Time,
    pub updated_at: Time,
    /// What the running attempt told last; never stored.
    pub progress: Option<Arc<str>>,
    pub detail: Detail,
}

impl PartialTask {
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
            checkpoint: self.detail.checkpoint.clone().filter(|_| self.state != State::Completed),
            progress: self.progress.clone(),
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
    pub sketch: PartialTask,
    pub record: Arc<ResultRecord>,
    /// `Time::MAX` is never.
    pub expires: Time,
    pub key: Option<IdemKey>,
    pub tenant: Arc<str>,
}

impl Final {
    pub fn is_visible(&self, now: Time) -> bool {
        self.sketch.state == State::Dead || self.expires > now
    }
}

/// A live task as it was created.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskHead {
    pub tail: u64,
    pub created_at: Time,
    pub priority: u8,
    pub max_attempts: u32,
    pub state: State,
    pub body: Arc<Body>,
}

impl TaskHead {
    /// What opening a store needs to know of a task: everything but payload, headers and trace.
    pub fn write_head(&self, bytes: &mut Vec<u8>) {
        let w = &mut Writer(bytes);
        w.fixed(self.tail);
        w.time(self.created_at);
        w.byte(self.priority);
        w.number(u64::from(self.max_attempts));
        parts::write_state(w, &self.state);
        w.text(&self.body.tenant);
        w.text(&self.body.command);
        w.optional_text(self.body.idempotency_key.as_deref());
        w.optional_text(self.body.webhook.as_deref());
        if let Some(options) = &self.body.options {
            options::write(w, options);
        }
    }

    /// With a body that has only what the head knows of it.
    pub fn read_head(bytes: &[u8]) -> Result<TaskHead, Corrupt> {
        let r = &mut Reader(bytes);
        Ok(TaskHead {
            tail: r.fixed()?,
            created_at: r.time()?,
            priority: parts::read_priority(r)?,
            max_attempts: r.small()?,
            state: parts::read_live_state(r)?,
            body: Arc::new(Body {
                tenant: r.text()?.into(),
                command: r.text()?.into(),
                idempotency_key: r.optional_boxed()?,
                webhook: r.optional_boxed()?,
                payload: Box::default(),
                headers: Box::default(),
                trace_parent: None,
                trace_state: None,
                options: if r.0.is_empty() { None } else { options::read(r)? },
            }),
        })
    }

    pub fn write_body(&self, bytes: &mut Vec<u8>) {
        parts::write_body(&mut Writer(bytes), &self.body);
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
    pub checkpoint: Option<Arc<str>>,
}

/// At the end of a row, and only where there is one.
fn write_checkpoint(w: &mut Writer, checkpoint: Option<&str>) {
    if let Some(text) = checkpoint {
        w.text(text);
    }
}

fn read_checkpoint(r: &mut Reader) -> Result<Option<Arc<str>>, Corrupt> {
    if r.0.is_empty() { Ok(None) } else { Ok(Some(r.text()?.into())) }
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
        write_checkpoint(w, self.checkpoint.as_deref());
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
            checkpoint: read_checkpoint(r)?,
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
        let is_completed = sketch.state == State::Completed;
        write_checkpoint(w, detail.checkpoint.as_deref().filter(|_| !is_completed));
    }

    /// Expiry, state and tenant, without reading the rest.
    pub fn peek(bytes: &[u8]) -> Result<(Time, State, &str), Corrupt> {
        let r = &mut Reader(bytes);
        r.fixed()?;
        let expires = r.time()?;
        for _ in 0..2 {
            r.time()?;
        }
        r.byte()?;
        for _ in 0..3 {
            r.small()?;
        }
        Ok((expires, parts::read_state(r)?, r.text()?))
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
        let tenant = body.tenant.clone();
        let body = Some(Arc::new(body));
        let error = r.optional_shared()?;
        let history = parts::read_attempts(r)?;
        let record = Arc::new(parts::read_record(r)?);
        let checkpoint = read_checkpoint(r)?;
        let detail = Detail { body, error, history, checkpoint, is_whole: true };
        let sketch = PartialTask {
            no,
            tail,
            priority,
            state,
            attempts,
            refunds,
            max_attempts,
            created_at,
            updated_at,
            progress: None,
            detail,
        };
        Ok(Final { sketch, record, expires, key, tenant })
    }
}

/// Keys in tables begin with what the row is: in [`Group::Bodies`](crate::local::tables::Group) a head or a body, in
/// `Group::Rows` a state, a queue or a record.
pub const HEAD: u8 = b'h';
pub const BODY: u8 = b'b';
pub const STATE: u8 = b's';
pub const QUEUE: u8 = b'q';
pub const RECORD: u8 = b'r';

fn numbered(kind: u8, no: u64) -> [u8; 9] {
    let mut key = [kind; 9];
    key[1..].copy_from_slice(&no.to_be_bytes());
    key
}

pub fn head_key(no: u64) -> [u8; 9] {
    numbered(HEAD, no)
}

pub fn body_key(no: u64) -> [u8; 9] {
    numbered(BODY, no)
}

pub fn state_key(no: u64) -> [u8; 9] {
    numbered(STATE, no)
}

pub fn record_key(key: &[u8]) -> Vec<u8> {
    [&[RECORD], key].concat()
}

/// Rows of `Group::Keys` begin with the hash of an idempotency key and end with a number. They are hints: the
/// record under the number says whether it has that key.
pub fn key_hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

pub fn hint_key(hash: u64, no: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&hash.to_be_bytes());
    key[8..].copy_from_slice(&no.to_be_bytes());
    key
}

/// Until when a hint is needed, in unix milliseconds.
pub fn write_until(until: Time) -> [u8; 8] {
    until.millis().to_be_bytes()
}

pub fn read_until(row: &[u8]) -> i64 {
    row.try_into().map_or(i64::MAX, i64::from_be_bytes)
}

/// History lies in buckets that are dropped whole. Their ends are multiples of the largest width, ten seconds
/// doubled any number of times, within a sixteenth of the record's life.
const BUCKET_WIDTH_MIN: i64 = 10_000;

/// The end of the bucket for a record that is kept from `ended` until `expires`.
pub fn bucket_end(ended: Time, expires: Time) -> i64 {
    let life = expires.millis().saturating_sub(ended.millis());
    let mut width = BUCKET_WIDTH_MIN;
    while width * 2 <= life / 16 {
        width *= 2;
    }
    expires.millis().div_euclid(width).saturating_add(1).saturating_mul(width)
}

/// Records begin with what they are.
pub const TOPIC: u8 = b't';
pub const SUBSCRIPTION: u8 = b's';
/// A callback whole, as earlier versions wrote it; its head, after that in the order of keys, which counts instead; and
/// its body.
pub const DELIVERY: u8 = b'd';
pub const DELIVERY_HEAD: u8 = b'h';
pub const DELIVERY_BODY: u8 = b'q';
pub const OPERATION: u8 = b'o';
/// What a schedule is, and after it in the order of keys what has come of it.
pub const SCHEDULE: u8 = b'c';
pub const SCHEDULE_PROGRESS: u8 = b'e';
/// On the shard of a schedule's name: the command of its tasks, which leads to where it lives.
pub const SCHEDULE_PLACE: u8 = b'a';
/// A unique key that is taken for some time, whatever becomes of its task.
pub const UNIQUE: u8 = b'u';
/// The policy of a queue.
pub const POLICY: u8 = b'p';
/// How far a queue or a lane has used up its limits.
pub const USAGE: u8 = b'l';
/// What operators did.
pub const AUDIT: u8 = b'w';
/// How many failed tasks of a queue are kept.
pub const FAILED: u8 = b'f';
/// A batch, on the shard of its id, and what a shard has of the members of one.
pub const BATCH: u8 = 41;
pub const BATCH_SHARE: u8 = 40;
/// There once for all: some tasks came from elsewhere. Which places they are at, and whether their ids lead here.
pub const IMPORTED: u8 = b'i';
/// (expiry, number) of dead letters that have one.
pub const DEAD_EXPIRY: u8 = b'x';

pub fn delivery_key(kind: u8, id: u128) -> Vec<u8> {
    let mut key = vec![kind];
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

impl Counters {
    /// Of a shard in which nothing has happened.
    pub fn new() -> Counters {
        Counters { next_no: 1, next_seq: 1, last: Time::ZERO }
    }

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

pub fn queue_row_key(queue: &QueueKey) -> Vec<u8> {
    let mut key = vec![QUEUE];
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
