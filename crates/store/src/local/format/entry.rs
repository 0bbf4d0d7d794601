//! Journal entries: what happened, in absolute terms.
//!
//! An entry tells the outcome of one transition, not the request, so replay never decides anything and a
//! later change of the rules cannot change the past. A frame of the journal holds any number of entries.

use crate::local::format::batches;
use crate::local::format::codec::{Corrupt, Reader, Writer};
use crate::local::format::parts;
use crate::local::format::records::{Detail, Final, IdemKey, PartialTask};
use codeq_queue::{
    AttemptOutcome, Body, CancelRequest, Delivery, DeliveryState, Owner, QueueKey, ResultRecord, State,
    TaskId, Time,
};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    Created {
        no: u64,
        tail: u64,
        at: Time,
        body: Arc<Body>,
        priority: u8,
        max_attempts: u32,
        /// Ready or delayed.
        state: State,
    },
    Claimed {
        no: u64,
        at: Time,
        attempts: u32,
        owner: Arc<Owner>,
        until: Time,
    },
    Extended {
        no: u64,
        at: Time,
        until: Time,
    },
    /// A running attempt ended without a result; the task is ready or delayed again.
    Returned {
        no: u64,
        at: Time,
        outcome: AttemptOutcome,
        refunds: u32,
        state: State,
        /// `None` keeps the last one.
        error: Option<Arc<str>>,
    },
    /// A running attempt left something for the next one.
    Checkpointed {
        no: u64,
        at: Time,
        checkpoint: Arc<str>,
    },
    /// A running task is to stop.
    CancelAsked {
        no: u64,
        at: Time,
        cancel: Arc<CancelRequest>,
    },
    /// A task that nobody has claimed got another payload, and a delayed one another time.
    Replaced {
        no: u64,
        at: Time,
        body: Arc<Body>,
        state: State,
    },
    Promoted {
        no: u64,
        at: Time,
        seq: u64,
    },
    /// Everything that a held task waited for has ended; it is ready or delayed.
    Released {
        no: u64,
        at: Time,
        state: State,
    },
    /// Something that a held task waits for has ended, and others have not.
    Awaited {
        no: u64,
        at: Time,
        ended: TaskId,
    },
    Ended(Box<Ended>),
    /// A task that had failed lives again.
    Reopened {
        no: u64,
        at: Time,
        seq: u64,
        refunds: u32,
        max_attempts: u32,
        /// The task as it ended, so that replay needs nothing else. Early builds did not write dead letters: theirs is
        /// taken from where it lies.
        letter: Option<Arc<Final>>,
    },
    /// A finished task or a dead letter is gone before its time.
    Removed {
        no: u64,
        at: Time,
        expires: Time,
        /// Set for a dead letter.
        dead_in: Option<QueueKey>,
        key: Option<IdemKey>,
    },
    Paused {
        queue: QueueKey,
        is_paused: bool,
    },
    /// A record of its own: a topic, a subscription, an operation, the mark of an import.
    Record {
        key: Vec<u8>,
        value: Option<Vec<u8>>,
    },
    DeliveryMoved {
        id: u128,
        state: DeliveryState,
        attempts: u32,
        error: Option<Arc<str>>,
    },
    DeliveryDone {
        id: u128,
    },
    Imported(Box<Imported>),
}

/// A task that came from elsewhere, with its history left behind.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    pub at: Time,
    pub sketch: PartialTask,
    /// The result and when it goes, if the task had ended.
    pub end: Option<(Arc<ResultRecord>, Time)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    pub no: u64,
    pub at: Time,
    pub state: State,
    /// How the running attempt ended; `None` if none was running.
    pub outcome: Option<AttemptOutcome>,
    /// `None` keeps the last one.
    pub error: Option<Arc<str>>,
    pub record: Arc<ResultRecord>,
    /// When the record goes; `Time::MAX` is never.
    pub expires: Time,
    pub delivery: Option<Arc<Delivery>>,
}

/// A reopened task, with the record of its end.
const REVIVED: u8 = 40;
const RELEASED: u8 = 30;
const AWAITED: u8 = 31;

fn write_queue(w: &mut Writer, queue: &QueueKey) {
    w.text(&queue.tenant);
    w.text(&queue.command);
}

fn read_queue(r: &mut Reader) -> Result<QueueKey, Corrupt> {
    Ok(QueueKey { tenant: r.text()?.into(), command: r.text()?.into() })
}

impl Entry {
    pub fn write(&self, buffer: &mut Vec<u8>) {
        let w = &mut Writer(buffer);
        match self {
            Entry::Created { no, tail, at, body, priority, max_attempts, state } => {
                head(w, 1, *no, *at);
                w.fixed(*tail);
                w.byte(*priority);
                w.number(u64::from(*max_attempts));
                parts::write_state(w, state);
                parts::write_body(w, body);
            }
            Entry::Claimed { no, at, attempts, owner, until } => {
                head(w, 2, *no, *at);
                w.number(u64::from(*attempts));
                parts::write_owner(w, owner);
                w.time(*until);
            }
            Entry::Extended { no, at, until } => {
                head(w, 3, *no, *at);
                w.time(*until);
            }
            Entry::Returned { no, at, outcome, refunds, state, error } => {
                head(w, 4, *no, *at);
                parts::write_outcome(w, *outcome);
                w.number(u64::from(*refunds));
                parts::write_state(w, state);
                w.optional_text(error.as_deref());
            }
            Entry::Promoted { no, at, seq } => {
                head(w, 5, *no, *at);
                w.number(*seq);
            }
            Entry::Ended(ended) => ended.write(w),
            Entry::Reopened { no, at, seq, refunds, max_attempts, letter } => {
                head(w, if letter.is_some() { REVIVED } else { 7 }, *no, *at);
                w.number(*seq);
                w.number(u64::from(*refunds));
                w.number(u64::from(*max_attempts));
                if let Some(letter) = letter {
                    let detail = &letter.sketch.detail;
                    let mut row = Vec::new();
                    letter.write(detail.body.as_deref().expect("a task is reopened whole"), detail, &mut row);
                    w.bytes(&row);
                }
            }
            Entry::Removed { no, at, expires, dead_in, key } => {
                head(w, 8, *no, *at);
                w.time(*expires);
                w.option(dead_in.as_ref(), write_queue);
                w.option(key.as_ref(), |w, key| w.bytes(key));
            }
            Entry::Paused { queue, is_paused } => {
                w.byte(9);
                write_queue(w, queue);
                w.byte(u8::from(*is_paused));
            }
            Entry::Record { key, value } => {
                w.byte(10);
                w.bytes(key);
                w.option(value.as_deref(), |w, value| w.bytes(value));
            }
            Entry::DeliveryMoved { id, state, attempts, error } => {
                w.byte(11);
                w.wide(*id);
                parts::write_delivery_state(w, *state);
                w.number(u64::from(*attempts));
                w.optional_text(error.as_deref());
            }
            Entry::DeliveryDone { id } => {
                w.byte(12);
                w.wide(*id);
            }
            Entry::Imported(imported) => imported.write(w),
            Entry::Checkpointed { no, at, checkpoint } => {
                head(w, 14, *no, *at);
                w.text(checkpoint);
            }
            Entry::CancelAsked { no, at, cancel } => {
                head(w, 15, *no, *at);
                parts::write_cancel(w, cancel);
            }
            Entry::Released { no, at, state } => {
                head(w, RELEASED, *no, *at);
                parts::write_state(w, state);
            }
            Entry::Awaited { no, at, ended } => {
                head(w, AWAITED, *no, *at);
                batches::write_id(w, ended);
            }
            Entry::Replaced { no, at, body, state } => {
                head(w, 16, *no, *at);
                parts::write_state(w, state);
                parts::write_body(w, body);
            }
        }
    }

    pub fn read(r: &mut Reader) -> Result<Entry, Corrupt> {
        Ok(match r.byte()? {
            1 => Entry::Created {
                no: r.number()?,
                at: r.time()?,
                tail: r.fixed()?,
                priority: parts::read_priority(r)?,
                max_attempts: r.small()?,
                state: parts::read_state(r)?,
                body: Arc::new(parts::read_body(r)?),
            },
            2 => Entry::Claimed {
                no: r.number()?,
                at: r.time()?,
                attempts: r.small()?,
                owner: parts::read_owner(r)?,
                until: r.time()?,
            },
            3 => Entry::Extended { no: r.number()?, at: r.time()?, until: r.time()? },
            4 => Entry::Returned {
                no: r.number()?,
                at: r.time()?,
                outcome: parts::read_outcome(r)?,
                refunds: r.small()?,
                state: parts::read_state(r)?,
                error: r.optional_shared()?,
            },
            5 => Entry::Promoted { no: r.number()?, at: r.time()?, seq: r.number()? },
            6 => Entry::Ended(Box::new(Ended::read(r)?)),
            7 => Entry::Reopened {
                no: r.number()?,
                at: r.time()?,
                seq: r.number()?,
                refunds: r.small()?,
                max_attempts: r.small()?,
                letter: None,
            },
            8 => Entry::Removed {
                no: r.number()?,
                at: r.time()?,
                expires: r.time()?,
                dead_in: r.option(read_queue)?,
                key: r.option(|r| Ok(r.bytes()?.into()))?,
            },
            9 => Entry::Paused { queue: read_queue(r)?, is_paused: r.byte()? != 0 },
            10 => Entry::Record { key: r.bytes()?.to_vec(), value: r.option(|r| Ok(r.bytes()?.to_vec()))? },
            11 => Entry::DeliveryMoved {
                id: r.wide()?,
                state: parts::read_delivery_state(r)?,
                attempts: r.small()?,
                error: r.optional_shared()?,
            },
            12 => Entry::DeliveryDone { id: r.wide()? },
            13 => Entry::Imported(Box::new(Imported::read(r)?)),
            14 => Entry::Checkpointed { no: r.number()?, at: r.time()?, checkpoint: r.text()?.into() },
            15 => Entry::CancelAsked {
                no: r.number()?,
                at: r.time()?,
                cancel: Arc::new(parts::read_cancel(r)?),
            },
            16 => Entry::Replaced {
                no: r.number()?,
                at: r.time()?,
                state: parts::read_live_state(r)?,
                body: Arc::new(parts::read_body(r)?),
            },
            RELEASED => Entry::Released { no: r.number()?, at: r.time()?, state: parts::read_live_state(r)? },
            AWAITED => Entry::Awaited { no: r.number()?, at: r.time()?, ended: batches::read_id(r)? },
            REVIVED => read_revived(r)?,
            _ => return Err(Corrupt("unknown entry")),
        })
    }
}

fn read_revived(r: &mut Reader) -> Result<Entry, Corrupt> {
    let (no, at, seq) = (r.number()?, r.time()?, r.number()?);
    let (refunds, max_attempts) = (r.small()?, r.small()?);
    let letter = Some(Arc::new(Final::read(no, r.bytes()?)?));
    Ok(Entry::Reopened { no, at, seq, refunds, max_attempts, letter })
}

impl Ended {
    fn write(&self, w: &mut Writer) {
        head(w, 6, self.no, self.at);
        parts::write_state(w, &self.state);
        w.option(self.outcome.as_ref(), |w, outcome| parts::write_outcome(w, *outcome));
        w.optional_text(self.error.as_deref());
        parts::write_record(w, &self.record);
        w.time(self.expires);
        w.option(self.delivery.as_deref(), parts::write_delivery);
    }

    fn read(r: &mut Reader) -> Result<Ended, Corrupt> {
        Ok(Ended {
            no: r.number()?,
            at: r.time()?,
            state: parts::read_state(r)?,
            outcome: r.option(parts::read_outcome)?,
            error: r.optional_shared()?,
            record: Arc::new(parts::read_record(r)?),
            expires: r.time()?,
            delivery: r.option(parts::read_delivery)?.map(Arc::new),
        })
    }
}

impl Imported {
    fn write(&self, w: &mut Writer) {
        let sketch = &self.sketch;
        head(w, 13, sketch.no, self.at);
        w.fixed(sketch.tail);
        w.time(sketch.created_at);
        w.time(sketch.updated_at);
        w.byte(sketch.priority);
        w.number(u64::from(sketch.attempts));
        w.number(u64::from(sketch.refunds));
        w.number(u64::from(sketch.max_attempts));
        parts::write_state(w, &sketch.state);
        parts::write_body(w, sketch.detail.body.as_deref().expect("an imported task has its body"));
        w.optional_text(sketch.detail.error.as_deref());
        w.option(self.end.as_ref(), |w, (record, expires)| {
            parts::write_record(w, record);
            w.time(*expires);
        });
    }

    fn read(r: &mut Reader) -> Result<Imported, Corrupt> {
        let (no, at) = (r.number()?, r.time()?);
        let tail = r.fixed()?;
        let (created_at, updated_at) = (r.time()?, r.time()?);
        let priority = parts::read_priority(r)?;
        let (attempts, refunds, max_attempts) = (r.small()?, r.small()?, r.small()?);
        let state = parts::read_state(r)?;
        let body = Some(Arc::new(parts::read_body(r)?));
        let detail = Detail { body, error: r.optional_shared()?, is_whole: true, ..Detail::default() };
        let end = r.option(|r| Ok((Arc::new(parts::read_record(r)?), r.time()?)))?;
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
        Ok(Imported { at, sketch, end })
    }
}

fn head(w: &mut Writer, mark: u8, no: u64, at: Time) {
    w.byte(mark);
    w.number(no);
    w.time(at);
}

/// Bytes of the three entries that one cycle of create, claim and complete writes; for benches.
pub fn sample_cycle(payload: usize, result: usize) -> [usize; 3] {
    let at = Time::from_millis(1_700_000_000_000);
    let body = Body {
        tenant: "bench".into(),
        command: "cycle".into(),
        payload: "p".repeat(payload).into(),
        webhook: None,
        headers: Box::new([]),
        idempotency_key: None,
        trace_parent: None,
        trace_state: None,
        options: None,
    };
    let state = State::Ready { seq: 1 << 20 };
    let (no, tail, body) = (1 << 20, 1, Arc::new(body));
    let created = Entry::Created { no, tail, at, body, priority: 0, max_attempts: 5, state };
    let owner = Arc::new(Owner::new("bench", "worker-100"));
    let claimed = Entry::Claimed { no, at, attempts: 1, owner, until: at };
    let record = ResultRecord {
        status: codeq_queue::Status::Completed,
        result: Some("r".repeat(result).into()),
        error: None,
        failure_reason: None,
        artifacts: Vec::new(),
        completed_at: at,
    };
    let ended = Ended {
        no,
        at,
        state: State::Completed,
        outcome: Some(AttemptOutcome::Completed),
        error: None,
        record: Arc::new(record),
        expires: at,
        delivery: None,
    };
    [created, claimed, Entry::Ended(Box::new(ended))].map(|entry| {
        let mut bytes = Vec::new();
        entry.write(&mut bytes);
        bytes.len()
    })
}
