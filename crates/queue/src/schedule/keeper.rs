//! What a store that keeps schedules promises.

use super::{Definition, Schedule, SchedulePut};
use crate::operation::Operation;
use crate::refusal::Refusal;
use crate::store::Answer;
use crate::task::Task;
use crate::time::Time;
use std::sync::Arc;

/// A part of a backfill to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backfill {
    /// Whose schedule.
    pub tenant: Arc<str>,
    /// The schedule.
    pub name: Arc<str>,
    /// What has been done under this id is not done again.
    pub operation: u128,
    /// Included.
    pub from: Time,
    /// Not included.
    pub to: Time,
}

impl Backfill {
    /// What an operation keeps of it.
    pub fn cursor(&self) -> String {
        format!("{}/{}/{}", self.from.millis(), self.to.millis(), self.name)
    }

    /// The work of an operation; `None` if it has none of this kind.
    pub fn of(operation: &Operation) -> Option<Backfill> {
        let mut parts = operation.cursor.as_deref()?.splitn(3, '/');
        let mut millis = || Some(Time::from_millis(parts.next()?.parse().ok()?));
        let (from, to) = (millis()?, millis()?);
        let name = parts.next()?.into();
        Some(Backfill { tenant: operation.tenant.clone()?, name, operation: operation.id, from, to })
    }
}

/// How far a backfill has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backfilled {
    /// Tasks so far, those of earlier parts included.
    pub made: u64,
    /// No tick of it is left.
    pub is_done: bool,
}

/// Keeps schedules and acts on them.
///
/// A tick, the task it makes and the cancelling of the one before are one transition: all of it is there after a
/// crash, or nothing. Every tick of the plan makes one task, is counted as skipped or is counted as missed.
pub trait Schedules: Send + Sync {
    /// Creates or replaces; see [`Schedule::put`]. Refuses when the tenant has too many.
    fn put_schedule(
        &self,
        tenant: Arc<str>,
        name: String,
        definition: Definition,
    ) -> Answer<Result<(Schedule, SchedulePut), Refusal>>;
    /// `None` if the tenant has none of this name.
    fn schedule(&self, tenant: Arc<str>, name: String) -> Answer<Option<Schedule>>;
    /// In the order of their names, after `after`.
    fn schedules(&self, tenant: Arc<str>, after: Option<String>, limit: usize) -> Answer<Vec<Schedule>>;
    /// Whether there was one. Its tasks stay.
    fn delete_schedule(&self, tenant: Arc<str>, name: String) -> Answer<bool>;
    /// Stops its ticks. Repeating it replaces the note.
    fn pause_schedule(
        &self,
        tenant: Arc<str>,
        name: String,
        note: Option<Box<str>>,
    ) -> Answer<Result<Schedule, Refusal>>;
    /// Lets it tick again, from the next instant of its plan on.
    fn resume_schedule(&self, tenant: Arc<str>, name: String) -> Answer<Result<Schedule, Refusal>>;
    /// Makes a task now, besides the plan.
    fn trigger_schedule(&self, tenant: Arc<str>, name: String) -> Answer<Result<Task, Refusal>>;
    /// Makes the next tasks of a backfill, at least one if there are any.
    fn backfill_schedule(&self, backfill: Backfill) -> Answer<Result<Backfilled, Refusal>>;
}
