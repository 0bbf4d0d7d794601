//! What has happened, for those who watch: metrics, notifications, event streams.
//!
//! Events are told after they are durable, in the order of their queue, and never twice. Watching is best
//! effort and decides nothing: what a store did before it was watched is not told.

use crate::attempt::AttemptOutcome;
use crate::lease::Owner;
use crate::task::State;
use crate::time::Time;
use crate::{QueueKey, TaskId};
use std::sync::Arc;

/// One thing that has happened, once it is durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    pub at: Time,
    pub queue: QueueKey,
    /// Spelled as in the newest create of the queue.
    pub command: Arc<str>,
    /// `None` for what happens to a queue.
    pub task: Option<TaskId>,
    pub what: What,
    /// The queue had no ready task before and has one now.
    pub has_filled: bool,
}

/// What happened to a task, a queue or a schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    Created,
    Claimed {
        owner: Arc<Owner>,
        attempt: u32,
        /// Since when it could be claimed: created, given back, or its delay was over.
        ready_at: Time,
    },
    /// A running attempt ended without a result, and the task goes on.
    Returned {
        outcome: AttemptOutcome,
        attempt: u32,
        owner: Option<Arc<Owner>>,
        error: Option<Arc<str>>,
    },
    /// A running task told how far it is. No transition, and not durable: the next one takes its place.
    Progress {
        attempt: u32,
        owner: Option<Arc<Owner>>,
        /// Exact JSON text.
        progress: Arc<str>,
    },
    /// A delayed task has become ready.
    Promoted,
    /// Everything that a held task waited for has ended: it is ready or delayed.
    Released,
    Ended {
        /// Completed, failed, cancelled or dead.
        state: State,
        /// How the running attempt ended, if one was running.
        outcome: Option<AttemptOutcome>,
        attempt: u32,
        owner: Option<Arc<Owner>>,
        error: Option<Arc<str>>,
        created_at: Time,
        /// A result callback was put into the outbox.
        has_callback: bool,
    },
    /// An operator gave a dead letter another set of attempts.
    Reopened,
    Paused,
    Resumed,
    /// A tick of a schedule made a task, or so many made none.
    Ticked {
        schedule: Arc<str>,
        outcome: TickOutcome,
        /// The tick; of several that were missed, the first.
        scheduled_for: Time,
        count: u64,
    },
}

/// What became of a tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TickOutcome {
    Fired,
    /// The task of the tick before lived.
    Skipped,
    /// Nothing ran when it came.
    Missed,
    /// Asked for besides the plan.
    Triggered,
    Backfilled,
}

impl TickOutcome {
    /// The word of the wire.
    pub fn word(self) -> &'static str {
        match self {
            TickOutcome::Fired => "fired",
            TickOutcome::Skipped => "skipped",
            TickOutcome::Missed => "missed",
            TickOutcome::Triggered => "triggered",
            TickOutcome::Backfilled => "backfilled",
        }
    }

    /// Whether a task was made.
    pub fn is_made(self) -> bool {
        !matches!(self, TickOutcome::Skipped | TickOutcome::Missed)
    }
}

/// Gets everything that became durable together. It is called between two commits and has to be quick.
pub type Observer = Arc<dyn Fn(&[Event]) + Send + Sync>;
