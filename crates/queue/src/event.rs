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
    /// When the transition happened.
    pub at: Time,
    /// The queue of the task, or the one that was paused or resumed.
    pub queue: QueueKey,
    /// Spelled as in the newest create of the queue.
    pub command: Arc<str>,
    /// `None` for what happens to a queue.
    pub task: Option<TaskId>,
    /// What kind of transition, and what belongs to it.
    pub what: What,
    /// The queue had no ready task before and has one now.
    pub has_filled: bool,
}

/// What happened to a task, a queue or a schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// A task was stored: ready, delayed or held.
    Created,
    /// A worker got the task.
    Claimed {
        /// Who holds the lease.
        owner: Arc<Owner>,
        /// The number of this delivery, 1 for the first.
        attempt: u32,
        /// Since when it could be claimed: created, given back, or its delay was over.
        ready_at: Time,
    },
    /// A running attempt ended without a result, and the task goes on.
    Returned {
        /// How the attempt ended.
        outcome: AttemptOutcome,
        /// The number of the delivery that ended.
        attempt: u32,
        /// Who held the lease; `None` where the store no longer knows.
        owner: Option<Arc<Owner>>,
        /// The new error text; `None` leaves the one that the task had.
        error: Option<Arc<str>>,
    },
    /// A running task told how far it is. No transition, and not durable: the next one takes its place.
    Progress {
        /// The number of the running delivery.
        attempt: u32,
        /// Who holds the lease; `None` where the store does not know.
        owner: Option<Arc<Owner>>,
        /// Exact JSON text.
        progress: Arc<str>,
    },
    /// A delayed task has become ready.
    Promoted,
    /// Everything that a held task waited for has ended: it is ready or delayed.
    Released,
    /// A task ended, whoever or whatever ended it.
    Ended {
        /// Completed, failed, cancelled or dead.
        state: State,
        /// How the running attempt ended, if one was running.
        outcome: Option<AttemptOutcome>,
        /// The number of the last delivery; 0 if there was none.
        attempt: u32,
        /// Who held the lease; `None` if the task was not running.
        owner: Option<Arc<Owner>>,
        /// The task's error text; `None` if it has none.
        error: Option<Arc<str>>,
        /// When the task was created.
        created_at: Time,
        /// A result callback was put into the outbox.
        has_callback: bool,
    },
    /// An operator gave a task that had failed another set of attempts.
    Reopened,
    /// Claims pass the queue over from now on.
    Paused,
    /// Claims look at the queue again.
    Resumed,
    /// A tick of a schedule made a task, or ticks of it made none.
    Ticked {
        /// The name of the schedule.
        schedule: Arc<str>,
        /// The same for all ticks that are counted here.
        outcome: TickOutcome,
        /// The tick; of several that were missed, the first.
        scheduled_for: Time,
        /// How many ticks; 1 if a task was made.
        count: u64,
    },
}

/// What became of a tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TickOutcome {
    /// The plan made a task.
    Fired,
    /// The task of the tick before lived.
    Skipped,
    /// Nothing ran when it came.
    Missed,
    /// Asked for besides the plan.
    Triggered,
    /// Made later, by a backfill.
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
