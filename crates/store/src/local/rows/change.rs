//! What a transition means for the tables. The feeder gathers changes and writes them in large batches.

use crate::local::format::records::{Counters, Final, IdemKey, QueueRow, TaskHead};
use codeq_queue::{Attempt, QueueKey, State, Time};
use std::sync::Arc;

pub enum Change {
    Created {
        no: u64,
        seed: TaskHead,
    },
    State {
        no: u64,
        image: Image,
    },
    /// A live task got another body.
    Replaced {
        no: u64,
        seed: TaskHead,
    },
    Final(Arc<Final>),
    /// A task that had failed lives again: its row moves back to the live ones.
    Reopened(Box<Reopened>),
    Removed {
        no: u64,
        expires: Time,
        is_dead: bool,
        key: Option<IdemKey>,
    },
    Record {
        key: Vec<u8>,
        value: Option<Vec<u8>>,
    },
    Queue {
        queue: QueueKey,
        row: Option<QueueRow>,
    },
}

pub struct Reopened {
    pub no: u64,
    pub seed: TaskHead,
    pub image: Image,
    pub expires: Time,
    /// It was a dead letter.
    pub is_dead: bool,
    pub key: Option<IdemKey>,
}

/// The changing part of a live task after a transition.
pub struct Image {
    pub updated_at: Time,
    pub attempts: u32,
    pub refunds: u32,
    pub max_attempts: u32,
    pub state: State,
    /// `None` keeps the last one.
    pub error: Option<Arc<str>>,
    /// `None` keeps the last one.
    pub checkpoint: Option<Arc<str>>,
    /// Attempts that ended here, or all of them if `is_whole`.
    pub attempts_ended: Vec<Attempt>,
    /// Error and history are all there is, not additions to what the tables have.
    pub is_whole: bool,
}

/// The changes of one group, durable in the journal at `position`.
pub struct Fed {
    pub position: u64,
    pub changes: Vec<Change>,
    pub counters: Counters,
}
