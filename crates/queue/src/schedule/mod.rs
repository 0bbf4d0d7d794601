//! Schedules: plans that make tasks.
//!
//! A [`Plan`] says when, a [`Definition`] what is made then and what happens about the task before, about ticks
//! that nobody was there for, and so on. [`Schedule`] adds what has come of it so far. What becomes of a tick that
//! is due is decided in [`due`].

pub mod cron;
mod due;
mod keeper;
mod plan;
mod request;

pub use due::{Due, due};
pub use keeper::{Backfill, Backfilled, Schedules};
pub use plan::{Passed, Plan, Rhythm, Zone};
pub use request::{REFUSED_FIELDS, ScheduleRequest};

use crate::create::{Delay, NewTask};
use crate::id::{self, TaskId};
use crate::limits;
use crate::queue::QueueKey;
use crate::refusal::Refusal;
use crate::task::Body;
use crate::time::Time;
use std::sync::Arc;
use std::time::Duration;

/// The headers of a task that a schedule made.
pub use crate::filter::SCHEDULE_HEADER;
/// Of which tick a task is.
pub const SCHEDULED_FOR_HEADER: &str = "codeq-scheduled-for";

/// What happens to a tick while the task of the last one lives.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Overlap {
    /// No new task.
    #[default]
    Skip,
    /// Another task is made beside it.
    Allow,
    /// The task that lives is cancelled.
    Cancel,
}

impl Overlap {
    /// All of them.
    pub const ALL: [Overlap; 3] = [Overlap::Skip, Overlap::Allow, Overlap::Cancel];

    /// The word of the wire.
    pub fn word(self) -> &'static str {
        match self {
            Overlap::Skip => "skip",
            Overlap::Allow => "allow",
            Overlap::Cancel => "cancel",
        }
    }
}

/// What is done about ticks that came while nothing ran.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum CatchUp {
    /// No task is made for them.
    None,
    /// The latest of them ticks.
    #[default]
    One,
    /// Each of them within the window ticks.
    All,
}

impl CatchUp {
    /// All of them.
    pub const ALL: [CatchUp; 3] = [CatchUp::None, CatchUp::One, CatchUp::All];

    /// The word of the wire.
    pub fn word(self) -> &'static str {
        match self {
            CatchUp::None => "none",
            CatchUp::One => "one",
            CatchUp::All => "all",
        }
    }
}

/// What a producer asked for, checked.
#[derive(Clone, Debug)]
pub struct Definition {
    /// When it ticks.
    pub plan: Plan,
    /// What every tick makes, without its headers.
    pub task: NewTask,
    /// The producer said how many attempts there are. Otherwise the policy of the queue may, when a task is made.
    pub has_attempts: bool,
    /// The task as the producer wrote it; exact JSON text.
    pub task_text: Box<str>,
    /// How long each task waits for a worker.
    pub expire_after: Option<Duration>,
    /// What happens while the task of the last tick lives.
    pub overlap: Overlap,
    /// What is done about ticks that came while nothing ran.
    pub catch_up: CatchUp,
    /// Ticks that are older are not caught up.
    pub catch_up_window: Duration,
    /// Each task waits up to this long, by its name and tick; zero is not at all.
    pub jitter: Duration,
    /// Whether it is paused when it is put.
    pub is_paused: bool,
}

impl PartialEq for Definition {
    /// How the task was written does not matter.
    fn eq(&self, other: &Definition) -> bool {
        self.plan == other.plan
            && self.task == other.task
            && self.has_attempts == other.has_attempts
            && self.expire_after == other.expire_after
            && self.overlap == other.overlap
            && self.catch_up == other.catch_up
            && self.catch_up_window == other.catch_up_window
            && self.jitter == other.jitter
            && self.is_paused == other.is_paused
    }
}

impl Definition {
    /// The queue that its tasks go to; a schedule lives where that queue lives.
    pub fn queue(&self) -> QueueKey {
        QueueKey::new(&self.task.body.tenant, &self.task.body.command)
    }

    /// A task of its own with the attempts that the policy of the queue gives, if the producer asked for none.
    pub fn by_policy(&self, task: NewTask, policy_attempts: Option<u32>) -> NewTask {
        match policy_attempts.filter(|_| !self.has_attempts) {
            Some(max_attempts) => NewTask { max_attempts, ..task },
            None => task,
        }
    }

    /// Whether a task that was written before `has_attempts` was kept beside it says how many attempts there are.
    pub fn names_attempts(task_text: &str) -> bool {
        task_text.contains("\"maxAttempts\"")
    }

    /// Roughly what it occupies in memory.
    pub fn bytes(&self) -> usize {
        512 + self.task.body.bytes() + self.task_text.len()
    }
}

/// What has come of a schedule so far.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Progress {
    /// It does not tick.
    pub is_paused: bool,
    /// Why it was paused.
    pub note: Option<Box<str>>,
    /// `None` if it is paused or its plan has ended.
    pub next_at: Option<Time>,
    /// The last tick that made a task.
    pub last_at: Option<Time>,
    /// The task of that tick; `None` before the first.
    pub last_task: Option<TaskId>,
    /// Ticks that came while nothing ran and made no task.
    pub missed: u64,
    /// Ticks that made no task because the one before lived.
    pub skipped: u64,
    /// How far backfills have come.
    pub backfills: Vec<BackfillMark>,
}

/// How far one backfill of a schedule has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackfillMark {
    /// The id of the operation.
    pub operation: u128,
    /// All ticks before this have their tasks.
    pub reached: Time,
    /// Tasks so far.
    pub made: u64,
}

/// Backfills of one schedule that are remembered; more than can run at a time.
const BACKFILLS: usize = 16;

impl Progress {
    /// How far a backfill has come.
    pub fn backfill(&self, operation: u128) -> Option<&BackfillMark> {
        self.backfills.iter().find(|mark| mark.operation == operation)
    }

    /// Remembers how far a backfill has come, and forgets the oldest if there are too many.
    pub fn mark(&mut self, mark: BackfillMark) {
        self.backfills.retain(|known| known.operation != mark.operation);
        self.backfills.push(mark);
        if self.backfills.len() > BACKFILLS {
            self.backfills.remove(0);
        }
    }
}

/// A definition under its name, with what has come of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Schedule {
    /// Whose schedule.
    pub tenant: Arc<str>,
    /// 1 to 128 of `[A-Za-z0-9_.:-]`; once per tenant.
    pub name: Arc<str>,
    /// What was put last.
    pub definition: Arc<Definition>,
    /// When it was put for the first time.
    pub created_at: Time,
    /// When the definition was last changed.
    pub updated_at: Time,
    /// What has come of it; a new definition keeps the counts.
    pub progress: Progress,
}

/// What a put did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SchedulePut {
    /// There was none of this name.
    Created,
    /// It has another definition now.
    Changed,
    /// Its definition was equal.
    Same,
}

/// 1 to 128 of `[A-Za-z0-9_.:-]`.
pub fn check_name(name: &str) -> Result<(), Refusal> {
    let legal = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b':' | b'-');
    match (1..=limits::SCHEDULE_NAME_BYTES).contains(&name.len()) && name.bytes().all(legal) {
        true => Ok(()),
        false => Err(invalid("name", "must be 1 to 128 of A-Z, a-z, 0-9, '_', '.', ':' and '-'")),
    }
}

/// A note of legal length; blank is none.
pub fn check_note(note: Option<&str>) -> Result<Option<Box<str>>, Refusal> {
    let note = note.filter(|note| !note.trim().is_empty());
    match note.is_some_and(|note| note.len() > limits::SCHEDULE_NOTE_BYTES) {
        true => Err(invalid("note", "must be at most 512 bytes long")),
        false => Ok(note.map(Into::into)),
    }
}

fn invalid(field: &'static str, message: impl Into<String>) -> Refusal {
    Refusal::InvalidSchedule { field, message: message.into() }
}

/// The storage partition that knows where the schedule of this name lives.
pub fn directory_shard(tenant: &str, name: &str, shards: u32) -> u32 {
    id::shard_of(format!("schedule\0{name}\0{tenant}").as_bytes(), shards)
}

impl Schedule {
    /// Creates or replaces. An equal definition changes nothing; otherwise ticks that have not fired are dropped.
    pub fn put(
        current: Option<&Schedule>,
        tenant: &Arc<str>,
        name: &str,
        definition: Definition,
        now: Time,
    ) -> Result<(Schedule, SchedulePut), Refusal> {
        if let Some(same) = current.filter(|current| *current.definition == definition) {
            return Ok((same.clone(), SchedulePut::Same));
        }
        if current.is_some_and(|current| current.definition.queue() != definition.queue()) {
            return Err(Refusal::ScheduleCommandFixed);
        }
        let first = definition.plan.next(now).ok_or_else(|| {
            let field = match definition.plan.rhythm {
                Rhythm::Cron(_) => "cron",
                Rhythm::Every { .. } => "everySeconds",
            };
            invalid(field, "the plan never fires")
        })?;
        let mut progress = current.map(|current| current.progress.clone()).unwrap_or_default();
        progress.is_paused = definition.is_paused;
        progress.note = None;
        progress.next_at = (!definition.is_paused).then_some(first);
        let schedule = Schedule {
            tenant: tenant.clone(),
            name: name.into(),
            definition: Arc::new(definition),
            created_at: current.map_or(now, |current| current.created_at),
            updated_at: now,
            progress,
        };
        let did = if current.is_some() { SchedulePut::Changed } else { SchedulePut::Created };
        Ok((schedule, did))
    }

    /// Its ticks are not missed while it is paused.
    pub fn pause(&self, note: Option<Box<str>>) -> Progress {
        Progress { is_paused: true, note, next_at: None, ..self.progress.clone() }
    }

    /// Ticks again, from the next instant of its plan on.
    pub fn resume(&self, now: Time) -> Progress {
        match self.progress.is_paused {
            true => {
                let next_at = self.definition.plan.next(now);
                Progress { is_paused: false, note: None, next_at, ..self.progress.clone() }
            }
            false => self.progress.clone(),
        }
    }

    /// The next ticks of the plan.
    pub fn next(&self, now: Time, count: usize) -> Vec<Time> {
        let plan = &self.definition.plan;
        std::iter::successors(plan.next(now), |tick| plan.next(*tick)).take(count).collect()
    }

    /// The task of a tick, made now.
    pub fn task(&self, tick: Time, now: Time) -> NewTask {
        let task = &self.definition.task;
        let own = [
            (SCHEDULE_HEADER.to_owned(), self.name.to_string()),
            (SCHEDULED_FOR_HEADER.to_owned(), tick.to_utc()),
        ];
        let headers = task.body.headers.iter().cloned().chain(own).collect();
        let mut body = Body { headers, ..(*task.body).clone() };
        if let Some(after) = self.definition.expire_after {
            body.options.get_or_insert_default().expires_at = Some(now.plus(after));
        }
        NewTask { body: Arc::new(body), ..task.clone() }
    }

    /// The task of a tick of the plan: it may have to wait a little longer than others.
    pub fn jittered(&self, tick: Time, now: Time) -> NewTask {
        let task = self.task(tick, now);
        match self.jitter_of(tick) {
            Duration::ZERO => task,
            jitter => {
                let delay = match task.delay {
                    Delay::For(delay) => delay + jitter,
                    Delay::None | Delay::Until(_) => jitter,
                };
                NewTask { delay: Delay::For(delay), ..task }
            }
        }
    }

    /// The same on every process, and different for schedules that tick together.
    fn jitter_of(&self, tick: Time) -> Duration {
        let most = u64::try_from(self.definition.jitter.as_millis()).unwrap_or(u64::MAX);
        if most == 0 {
            return Duration::ZERO;
        }
        let mut bytes = self.name.as_bytes().to_vec();
        bytes.push(0);
        bytes.extend_from_slice(&tick.millis().to_be_bytes());
        // The last bytes hardly reach the upper bits of the hash.
        let hash = id::fnv1a(&bytes);
        let mixed = (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Duration::from_millis((mixed ^ mixed >> 29) % most)
    }

    /// Whether there are ticks in [from, to), and not too many.
    pub fn check_backfill(&self, from: Time, to: Time) -> Result<u64, Refusal> {
        if from >= to {
            return Err(invalid("to", "must be after from"));
        }
        let plan = &self.definition.plan;
        let before = Time::from_millis(from.millis().saturating_sub(1));
        let Some(first) = plan.next(before).filter(|first| *first < to) else { return Ok(0) };
        match plan.pass(first, to, limits::BACKFILL_TICKS + 1).count {
            count if count > limits::BACKFILL_TICKS => {
                Err(invalid("to", format!("more than {} ticks", limits::BACKFILL_TICKS)))
            }
            count => Ok(count),
        }
    }
}

#[cfg(test)]
mod tests;
