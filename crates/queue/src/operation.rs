//! Bulk operations: work on many tasks that outlives the request, and the process.
//!
//! Before a step touches tasks their ids are stored, so that whoever goes on after a crash repeats exactly
//! that step. Tasks that changed after the operation began are not its business: what it has touched is
//! therefore never touched again.

use crate::filter::Filter;
use crate::id::TaskId;
use crate::time::Time;
use std::sync::Arc;

/// What is done to each task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperationKind {
    /// Ends tasks that live as cancelled.
    Cancel,
    /// Gives tasks that have failed another set of attempts.
    Requeue,
    /// Removes dead letters for good.
    Delete,
    /// Makes the tasks of ticks that have passed; see [`crate::schedule::Backfill`].
    Backfill,
}

impl OperationKind {
    /// All of them.
    pub const ALL: [OperationKind; 4] =
        [OperationKind::Cancel, OperationKind::Requeue, OperationKind::Delete, OperationKind::Backfill];

    /// The word of the wire.
    pub fn word(self) -> &'static str {
        match self {
            OperationKind::Cancel => "cancel",
            OperationKind::Requeue => "requeue",
            OperationKind::Delete => "delete",
            OperationKind::Backfill => "backfill",
        }
    }
}

/// Whether it goes on, and how it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperationState {
    /// There are tasks left to do.
    Running,
    /// Every task that it found has been done or has refused.
    Done,
    /// An operator stopped it; what it had done stays.
    Cancelled,
    /// It could not go on; `error` says why.
    Failed,
}

impl OperationState {
    /// All of them.
    pub const ALL: [OperationState; 4] =
        [OperationState::Running, OperationState::Done, OperationState::Cancelled, OperationState::Failed];

    /// The word of the wire.
    pub fn word(self) -> &'static str {
        match self {
            OperationState::Running => "running",
            OperationState::Done => "done",
            OperationState::Cancelled => "cancelled",
            OperationState::Failed => "failed",
        }
    }
}

/// Tasks that are being worked on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// With their tenants.
    pub tasks: Vec<(Arc<str>, TaskId)>,
    /// Where the listing goes on after them; `None` if it ends there.
    pub next: Option<String>,
}

/// Bulk work of an operator, and how far it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operation {
    /// 32 lower-case hex digits on the wire.
    pub id: u128,
    /// `None` is every tenant.
    pub tenant: Option<Arc<str>>,
    /// What happens to each task.
    pub kind: OperationKind,
    /// Which tasks, narrowed to those that its kind can touch.
    pub filter: Filter,
    /// For a requeue: the attempts that each task gets instead of its own.
    pub max_attempts: Option<u32>,
    /// Zero is as fast as it goes.
    pub rate_per_second: u32,
    /// Whether it goes on, and how it ended.
    pub state: OperationState,
    /// Tasks or ticks counted when it was asked for; `None` if nobody counted.
    pub matched: Option<u64>,
    /// Tasks done so far; of a backfill, tasks made.
    pub processed: u64,
    /// Tasks that refused.
    pub failed: u64,
    /// When it was asked for: tasks that change later are left alone.
    pub created_at: Time,
    /// When its last step was stored.
    pub updated_at: Time,
    /// The first refusal, or why it stopped; `None` if there was neither.
    pub error: Option<String>,
    /// Where the listing stands; of a backfill, what is to be made.
    pub cursor: Option<String>,
    /// What was found there and is being worked on.
    pub step: Option<Step>,
    /// Raised by every change; a change of an older version is refused.
    pub version: u64,
    /// The process that works on it; 0 before one does.
    pub holder: u128,
    /// Until then other processes leave it alone.
    pub held_until: Time,
    /// The subject of the token that asked for it; `None` if an earlier version stored it.
    pub by: Option<Arc<str>>,
    /// What the errors of its tasks have in common, if it is about one cause.
    pub cause: Option<String>,
}
