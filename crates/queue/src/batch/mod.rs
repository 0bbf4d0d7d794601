//! Batches: groups of tasks that end together.
//!
//! A batch lives on the home shard of its id. Every storage partition that has members keeps absolute [`Counts`] of
//! them, changed together with the members, under a version that grows; what the home hears of a partition counts if
//! its version is higher than what it knew. A partition is registered before its first member, and a batch that is to
//! close has closed when every registered partition refuses joins. It ends when it has closed and no member lives.

mod keeper;
mod request;

pub use keeper::{Batches, NewBatch};
pub use request::{BatchRequest, check_close_after};

use crate::dependency::Standing;
use crate::id::TaskId;
use crate::refusal::Refusal;
use crate::time::Time;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What a partition has of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Members that have not ended.
    pub live: u64,
    /// Members that ended as completed.
    pub completed: u64,
    /// Members that ended in any other way.
    pub failed: u64,
    /// When the last member joined there.
    pub joined_at: Time,
    /// It takes no more members.
    pub is_closed: bool,
    /// Its members are being cancelled.
    pub is_cancelled: bool,
    /// Grows with every change.
    pub version: u64,
}

impl Counts {
    /// A task has become a member.
    pub fn join(&mut self, at: Time) {
        self.live += 1;
        self.joined_at = self.joined_at.max(at);
        self.version += 1;
    }

    /// A member has ended.
    pub fn end(&mut self, is_completed: bool) {
        self.live = self.live.saturating_sub(1);
        match is_completed {
            true => self.completed += 1,
            false => self.failed += 1,
        }
        self.version += 1;
    }

    /// A member that had failed lives again.
    pub fn reopen(&mut self) {
        self.failed = self.failed.saturating_sub(1);
        self.live += 1;
        self.version += 1;
    }

    /// A member that lives again counts no more: the batch had ended.
    pub fn leave(&mut self) {
        self.live = self.live.saturating_sub(1);
        self.version += 1;
    }

    /// Takes no more members, and has those cancelled that live; whether that changed anything.
    pub fn close(&mut self, is_cancelled: bool) -> bool {
        let is_new = !self.is_closed || is_cancelled && !self.is_cancelled;
        if is_new {
            self.is_closed = true;
            self.is_cancelled |= is_cancelled;
            self.version += 1;
        }
        is_new
    }
}

/// How far a batch is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BatchState {
    /// Tasks may join.
    Open,
    /// It is to take no more members; some partitions may not know yet, or members live.
    Closed,
    /// Every member completed, or there was none.
    Completed,
    /// A member did not complete, or the batch was cancelled.
    Failed,
}

impl BatchState {
    /// The word of the wire.
    pub fn word(self) -> &'static str {
        match self {
            BatchState::Open => "open",
            BatchState::Closed => "closed",
            BatchState::Completed => "completed",
            BatchState::Failed => "failed",
        }
    }

    /// Whether nothing changes any more.
    pub fn has_ended(self) -> bool {
        matches!(self, BatchState::Completed | BatchState::Failed)
    }
}

/// How a batch ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchEnd {
    /// When it was closed everywhere and no member lived any more.
    pub at: Time,
    /// No member failed and nobody cancelled the batch.
    pub is_completed: bool,
    /// When it is forgotten.
    pub expires: Time,
}

/// Tasks that are counted together, as the home shard keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    /// Its home shard follows from it.
    pub id: TaskId,
    /// To every other tenant the batch is unknown.
    pub tenant: Arc<str>,
    /// For people to read; `None` if the producer gave none.
    pub name: Option<Box<str>>,
    /// When its home shard stored it.
    pub created_at: Time,
    /// It closes when nobody has joined for this long.
    pub close_after: Duration,
    /// When it was told to close, or closed by itself; `None` while tasks may join.
    pub closed_at: Option<Time>,
    /// Its members are to end as cancelled, and it ends as failed.
    pub is_cancelled: bool,
    /// By partition: those that may have members.
    pub shares: BTreeMap<u32, Counts>,
    /// `None` until it is closed everywhere and no member lives.
    pub end: Option<BatchEnd>,
}

impl Batch {
    /// An open batch without members.
    pub fn new(id: TaskId, new: NewBatch, now: Time) -> Batch {
        Batch {
            id,
            tenant: new.tenant,
            name: new.name,
            created_at: now,
            close_after: new.close_after,
            closed_at: None,
            is_cancelled: false,
            shares: BTreeMap::new(),
            end: None,
        }
    }

    /// What it is to its members and to whoever looks.
    pub fn state(&self) -> BatchState {
        match (self.end, self.closed_at) {
            (Some(BatchEnd { is_completed: true, .. }), _) => BatchState::Completed,
            (Some(_), _) => BatchState::Failed,
            (None, Some(_)) => BatchState::Closed,
            (None, None) => BatchState::Open,
        }
    }

    /// What it is to tasks that wait for it.
    pub fn standing(&self) -> Standing {
        match self.state() {
            BatchState::Open | BatchState::Closed => Standing::Open,
            BatchState::Completed => Standing::Succeeded,
            BatchState::Failed => Standing::Failed,
        }
    }

    /// Lets a partition have members; whether it is new.
    pub fn register(&mut self, partition: u32) -> Result<bool, Refusal> {
        if self.closed_at.is_some() {
            return Err(Refusal::BatchClosed);
        }
        let known = self.shares.len();
        self.shares.entry(partition).or_default();
        Ok(self.shares.len() > known)
    }

    /// Takes counts in; whether they are news.
    pub fn hear(&mut self, partition: u32, counts: Counts) -> bool {
        match self.shares.get_mut(&partition) {
            Some(known) if known.version < counts.version && self.end.is_none() => {
                *known = counts;
                true
            }
            _ => false,
        }
    }

    /// Closes it; whether that changed anything.
    pub fn close(&mut self, now: Time) -> bool {
        let is_new = self.closed_at.is_none();
        self.closed_at.get_or_insert(now);
        is_new
    }

    /// Closes it and has its members cancelled; whether that changed anything.
    pub fn cancel(&mut self, now: Time) -> bool {
        let is_new = !self.is_cancelled && self.end.is_none();
        if is_new {
            self.close(now);
            self.is_cancelled = true;
        }
        is_new
    }

    /// When it closes by itself.
    pub fn closes_at(&self) -> Option<Time> {
        let joined = self.shares.values().map(|counts| counts.joined_at).max();
        let last = joined.map_or(self.created_at, |joined| joined.max(self.created_at));
        self.closed_at.is_none().then(|| last.plus(self.close_after))
    }

    /// Partitions that do not know yet that it is to close, or was cancelled.
    pub fn behind(&self) -> impl Iterator<Item = u32> + '_ {
        let is_behind = |counts: &Counts| {
            self.closed_at.is_some() && !counts.is_closed || self.is_cancelled && !counts.is_cancelled
        };
        let behind = self.shares.iter().filter(move |(_, counts)| is_behind(counts));
        behind.map(|(partition, _)| *partition)
    }

    /// All members together, without versions.
    pub fn counts(&self) -> Counts {
        self.shares.values().fold(Counts::default(), |sum, share| Counts {
            live: sum.live + share.live,
            completed: sum.completed + share.completed,
            failed: sum.failed + share.failed,
            joined_at: sum.joined_at.max(share.joined_at),
            ..sum
        })
    }

    /// The part of its members that has ended, 0 to 1.
    pub fn progress(&self) -> f64 {
        let counts = self.counts();
        let ended = counts.completed + counts.failed;
        match ended + counts.live {
            0 => f64::from(u8::from(self.end.is_some())),
            all => ended as f64 / all as f64,
        }
    }

    /// Ends it if it has closed everywhere and no member lives; whether it did.
    pub fn try_end(&mut self, now: Time, retention: Duration) -> bool {
        let is_closed = self.closed_at.is_some() && self.behind().next().is_none();
        let counts = self.counts();
        if self.end.is_some() || !is_closed || counts.live > 0 {
            return false;
        }
        let is_completed = counts.failed == 0 && !self.is_cancelled;
        self.end = Some(BatchEnd { at: now, is_completed, expires: now.plus(retention) });
        true
    }
}

#[cfg(test)]
mod tests;
