//! Why a task is where it is, in words.

use super::produce::reference;
use super::{Broker, Error};
use codeq_queue::policy::Obstacle;
use codeq_queue::store::{Position, ResultLookup, Wait};
use codeq_queue::{FailureReason, QueueKey, QueueStats, Refusal, ResultRecord, State, Task, TaskId, Time};
use std::sync::Arc;

/// A queue that nobody has claimed from for so long has no worker, as far as one can tell.
const RECENT_SECONDS: u64 = 60;
/// What a held task waits for is told up to so many.
const WAITING_SHOWN: usize = 10;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    Queued {
        position: Option<Position>,
    },
    QueuePaused,
    NoRecentClaimer {
        last_claim: Option<Time>,
    },
    Delayed {
        until: Time,
        is_retry: bool,
    },
    /// A limit of the queue's policy.
    Limited(Obstacle),
    CancelRequested {
        deadline: Time,
    },
    Running {
        worker_id: String,
        attempt: u32,
        lease_until: Time,
    },
    LeaseOverdue {
        lease_until: Time,
    },
    Dead {
        failure_reason: Option<&'static str>,
        error: String,
    },
    Completed,
    Failed {
        /// `None` if a worker said so.
        failure_reason: Option<FailureReason>,
        error: String,
    },
    Cancelled,
    /// Tasks and batches that have not ended, and the first of them.
    WaitingFor {
        count: usize,
        ids: Vec<TaskId>,
    },
}

impl Reason {
    pub fn code(&self) -> &'static str {
        match self {
            Reason::Queued { .. } => "queued",
            Reason::QueuePaused => "queue_paused",
            Reason::NoRecentClaimer { .. } => "no_recent_claimer",
            Reason::Delayed { .. } => "delayed",
            Reason::Limited(obstacle) => obstacle.code(),
            Reason::CancelRequested { .. } => "cancel_requested",
            Reason::Running { .. } => "running",
            Reason::LeaseOverdue { .. } => "lease_overdue",
            Reason::Dead { .. } => "dead",
            Reason::Completed => "completed",
            Reason::Failed { .. } => "failed",
            Reason::Cancelled => "cancelled",
            Reason::WaitingFor { .. } => "waiting_for",
        }
    }

    /// One sentence. Instants are given in UTC.
    pub fn text(&self) -> String {
        match self {
            Reason::Queued { position: Some(Position { ahead: Some(ahead), ahead_at_higher_priority }) } => {
                match ahead + ahead_at_higher_priority {
                    0 => "The task is ready and next in its queue.".into(),
                    1 => "The task is ready; one task is claimed before it.".into(),
                    count => format!(
                        "The task is ready; {count} tasks are claimed before it, {ahead_at_higher_priority} of \
                         them for their higher priority."
                    ),
                }
            }
            Reason::Queued { .. } => "The task is ready; many tasks are claimed before it.".into(),
            Reason::QueuePaused => "The queue is paused: claims pass it over until it is resumed.".into(),
            Reason::NoRecentClaimer { last_claim: None } => {
                "No worker has claimed from this queue since the server started.".into()
            }
            Reason::NoRecentClaimer { last_claim: Some(at) } => {
                format!("No worker has claimed from this queue since {}.", at.to_utc())
            }
            Reason::Delayed { until, is_retry: false } => {
                format!("The task is scheduled for {}.", until.to_utc())
            }
            Reason::Delayed { until, is_retry: true } => {
                format!("The last attempt failed; the next one may start at {}.", until.to_utc())
            }
            Reason::Limited(obstacle) => limited_text(obstacle),
            Reason::CancelRequested { deadline } => {
                format!("The task was asked to stop and has until {}.", deadline.to_utc())
            }
            Reason::Running { worker_id, attempt, lease_until } => format!(
                "Worker {worker_id} runs attempt {attempt} and holds the lease until {}.",
                lease_until.to_utc()
            ),
            Reason::LeaseOverdue { lease_until } => {
                format!("The lease ended at {}; the task is about to go back.", lease_until.to_utc())
            }
            Reason::Dead { error, .. } => format!("The task ran out of attempts: {error}."),
            Reason::Completed => "The task is completed.".into(),
            Reason::Failed { failure_reason: Some(FailureReason::Expired), .. } => {
                "No worker claimed the task before it expired.".into()
            }
            Reason::Failed { failure_reason: Some(FailureReason::Dependency), error } => {
                format!("Something that the task waited for did not succeed: {error}.")
            }
            Reason::Failed { error, .. } => format!("A worker failed the task for good: {error}."),
            Reason::Cancelled => "An operator cancelled the task.".into(),
            Reason::WaitingFor { count: 1, ids } if ids.len() == 1 => {
                format!("The task waits for {} to end.", ids[0])
            }
            Reason::WaitingFor { count, .. } => {
                format!("The task waits for {count} tasks or batches to end.")
            }
        }
    }
}

fn limited_text(obstacle: &Obstacle) -> String {
    match obstacle {
        Obstacle::QueueAtConcurrency { limit, running } => {
            format!("{running} tasks of the queue run, and its policy allows {limit} at once.")
        }
        Obstacle::LaneAtConcurrency { lane, limit, running } => {
            format!("{running} tasks of the lane {lane} run, and the policy allows {limit} at once.")
        }
        Obstacle::RateLimited { until } => {
            format!("The rate of the policy is used up; the next start may be at {}.", until.to_utc())
        }
        Obstacle::HeldUntil { until } => {
            format!("A worker asked that nothing starts before {}.", until.to_utc())
        }
        Obstacle::LaneInOrder { task } => {
            format!("The lane is ordered, and task {task} comes first.")
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    pub task: Task,
    pub state: &'static str,
    pub reasons: Vec<Reason>,
    pub next_change_at: Option<Time>,
}

impl Explanation {
    pub fn summary(&self) -> String {
        // What keeps a ready task from running says more than its place.
        let blocking = |reason: &&Reason| {
            matches!(
                reason,
                Reason::QueuePaused
                    | Reason::Limited(_)
                    | Reason::NoRecentClaimer { .. }
                    | Reason::LeaseOverdue { .. }
            )
        };
        let telling = self.reasons.iter().find(blocking).or(self.reasons.first());
        telling.map(Reason::text).unwrap_or_default()
    }
}

impl Broker {
    pub async fn explain(&self, tenant: &Arc<str>, id: &str) -> Result<Explanation, Error> {
        let named = reference(tenant, id)?;
        let task = self.store.get(vec![named.clone()]).await?.pop().flatten().ok_or(Refusal::NotFound)?;
        let queue = self.store.queue(QueueKey::new(tenant, &task.body.command)).await?;
        let position = match task.state {
            State::Ready { .. } => self.store.position(named.clone()).await?,
            _ => None,
        };
        let record = match task.has_result() {
            true => match self.store.result(named.clone(), Wait::No).await? {
                ResultLookup::Done { record, .. } => Some(record),
                ResultLookup::NotFound | ResultLookup::Pending => None,
            },
            false => None,
        };
        let obstacles = match self.store.policing().filter(|_| !task.has_result()) {
            Some(store) => store.obstacles(named).await?.unwrap_or_default(),
            None => Vec::new(),
        };
        Ok(explain(task, &queue, position, obstacles, record.as_ref(), self.now()))
    }
}

fn explain(
    task: Task,
    queue: &QueueStats,
    position: Option<Position>,
    obstacles: Vec<Obstacle>,
    record: Option<&ResultRecord>,
    now: Time,
) -> Explanation {
    let error = || task.error.as_deref().unwrap_or_default().to_owned();
    let (state, reasons, next_change_at) = match &task.state {
        State::Ready { .. } => {
            let opens_at = obstacles.iter().filter_map(Obstacle::until).max();
            ("ready", waiting(queue, position, obstacles, now), opens_at)
        }
        State::Held(held) => {
            let ids = held.open.iter().take(WAITING_SHOWN).copied().collect();
            let mut reasons = vec![Reason::WaitingFor { count: held.open.len(), ids }];
            reasons.extend(queue.is_paused.then_some(Reason::QueuePaused));
            ("held", reasons, None)
        }
        State::Delayed { until } => {
            let mut reasons = vec![Reason::Delayed { until: *until, is_retry: task.attempts > 0 }];
            reasons.extend(queue.is_paused.then_some(Reason::QueuePaused));
            reasons.extend(obstacles.into_iter().map(Reason::Limited));
            ("delayed", reasons, Some(*until))
        }
        State::Running(lease) => {
            let worker_id = lease.owner.worker_id.to_string();
            let running = Reason::Running { worker_id, attempt: task.attempts, lease_until: lease.until };
            let overdue = (lease.until <= now).then_some(Reason::LeaseOverdue { lease_until: lease.until });
            let asked = lease.cancel.as_ref();
            let asked = asked.map(|cancel| Reason::CancelRequested { deadline: cancel.deadline });
            let reasons = std::iter::once(running).chain(asked).chain(overdue).collect();
            ("running", reasons, Some(lease.acts_at()))
        }
        State::Dead => {
            let failure_reason = record.and_then(|record| record.failure_reason).map(|reason| reason.word());
            ("dead", vec![Reason::Dead { failure_reason, error: error() }], None)
        }
        State::Completed => ("completed", vec![Reason::Completed], None),
        State::Failed => {
            let failure_reason = record.and_then(|record| record.failure_reason);
            ("failed", vec![Reason::Failed { failure_reason, error: error() }], None)
        }
        State::Cancelled => ("failed", vec![Reason::Cancelled], None),
    };
    Explanation { task, state, reasons, next_change_at }
}

/// Why a ready task is not running yet.
fn waiting(
    queue: &QueueStats,
    position: Option<Position>,
    obstacles: Vec<Obstacle>,
    now: Time,
) -> Vec<Reason> {
    let mut reasons = vec![Reason::Queued { position }];
    reasons.extend(queue.is_paused.then_some(Reason::QueuePaused));
    reasons.extend(obstacles.into_iter().map(Reason::Limited));
    let is_recent = queue.last_claim.is_some_and(|at| now.since(at).as_secs() < RECENT_SECONDS);
    reasons.extend((!is_recent).then_some(Reason::NoRecentClaimer { last_claim: queue.last_claim }));
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_by_what_failed_the_task() {
        let told =
            |failure_reason, error: &str| Reason::Failed { failure_reason, error: error.into() }.text();
        assert_eq!(told(None, "bad input"), "A worker failed the task for good: bad input.");
        assert_eq!(
            told(Some(FailureReason::Expired), "EXPIRED"),
            "No worker claimed the task before it expired."
        );
        let of_another = told(Some(FailureReason::Dependency), "DEPENDENCY: 7");
        assert_eq!(of_another, "Something that the task waited for did not succeed: DEPENDENCY: 7.");
    }
}
