//! What the stream tells of an event, and who wants it.

use codeq_api::events::EventBody;
use codeq_queue::event::What;
use codeq_queue::{Event, Owner, QueueKey, State, TaskId, Time};
use std::sync::Arc;

pub const KINDS: [&str; 12] = [
    "created",
    "claimed",
    "completed",
    "failed",
    "requeued",
    "dead",
    "cancelled",
    "promoted",
    "paused",
    "resumed",
    "ticked",
    "tick_skipped",
];

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notice {
    /// One of [`KINDS`].
    pub kind: &'static str,
    pub at: Time,
    pub queue: QueueKey,
    pub command: Arc<str>,
    /// `None` for what happens to a queue.
    pub task: Option<TaskId>,
    pub attempt: Option<u32>,
    pub owner: Option<Arc<Owner>>,
    pub error: Option<Arc<str>>,
    /// Whose tick it was, what became of it, and how many ticks it is about.
    pub tick: Option<Tick>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tick {
    pub schedule: Arc<str>,
    pub outcome: Arc<str>,
    pub scheduled_for: Time,
    pub count: u64,
}

impl Notice {
    pub fn of(event: &Event) -> Notice {
        let (attempt, owner, error) = match &event.what {
            What::Claimed { owner, attempt, .. } => (Some(*attempt), Some(owner), None),
            What::Returned { attempt, owner, error, .. } => (Some(*attempt), owner.as_ref(), error.as_ref()),
            What::Ended { attempt, owner, error, .. } => {
                (Some(*attempt).filter(|attempt| *attempt > 0), owner.as_ref(), error.as_ref())
            }
            What::Created
            | What::Promoted
            | What::Released
            | What::Reopened
            | What::Paused
            | What::Resumed
            | What::Ticked { .. } => (None, None, None),
        };
        let tick = match &event.what {
            What::Ticked { schedule, outcome, scheduled_for, count } => Some(Tick {
                schedule: schedule.clone(),
                outcome: outcome.word().into(),
                scheduled_for: *scheduled_for,
                count: *count,
            }),
            _ => None,
        };
        Notice {
            kind: kind_of(&event.what),
            at: event.at,
            queue: event.queue.clone(),
            command: event.command.clone(),
            task: event.task,
            attempt,
            owner: owner.cloned(),
            error: error.cloned(),
            tick,
        }
    }

    /// As another process has written it; `None` if it is not of our making.
    pub fn read(body: &EventBody<'_>) -> Option<Notice> {
        let task = match &body.task_id {
            Some(id) => Some(TaskId::parse(id)?),
            None => None,
        };
        Some(Notice {
            kind: KINDS.into_iter().find(|kind| *kind == body.kind)?,
            at: crate::stamp::parse(&body.at)?,
            queue: QueueKey::new(&body.tenant_id, &body.command),
            command: (&*body.command).into(),
            task,
            attempt: body.attempt,
            owner: body.worker_id.as_deref().map(|worker| Arc::new(Owner::new("", worker))),
            error: body.error.as_deref().map(Into::into),
            tick: body.schedule.as_deref().map(|schedule| Tick {
                schedule: schedule.into(),
                outcome: body.outcome.as_deref().unwrap_or_default().into(),
                scheduled_for: body
                    .scheduled_for
                    .as_deref()
                    .and_then(crate::stamp::parse)
                    .unwrap_or(Time::ZERO),
                count: body.count.unwrap_or(1),
            }),
        })
    }

    /// As it is told, with the instant as it is to be printed.
    pub fn body(&self, at: String) -> EventBody<'_> {
        EventBody {
            kind: self.kind.into(),
            task_id: self.task.map(|task| task.to_string().into()),
            command: (&*self.command).into(),
            tenant_id: (&*self.queue.tenant).into(),
            at: at.into(),
            attempt: self.attempt,
            worker_id: self.owner.as_ref().map(|owner| (&*owner.worker_id).into()),
            status: self.status().map(Into::into),
            error: self.error.as_deref().map(Into::into),
            schedule: self.tick.as_ref().map(|tick| (&*tick.schedule).into()),
            outcome: self.tick.as_ref().map(|tick| (&*tick.outcome).into()),
            scheduled_for: self.tick.as_ref().map(|tick| tick.scheduled_for.to_utc().into()),
            count: self.tick.as_ref().map(|tick| tick.count).filter(|count| *count > 1),
        }
    }

    /// Of the task, after what happened.
    fn status(&self) -> Option<&'static str> {
        match self.kind {
            "created" | "promoted" | "requeued" | "ticked" => Some("PENDING"),
            "claimed" => Some("IN_PROGRESS"),
            "completed" => Some("COMPLETED"),
            "failed" | "dead" | "cancelled" => Some("FAILED"),
            _ => None,
        }
    }
}

/// The word for what happened.
fn kind_of(what: &What) -> &'static str {
    match what {
        What::Created => "created",
        What::Claimed { .. } => "claimed",
        What::Returned { .. } | What::Reopened => "requeued",
        What::Promoted => "promoted",
        What::Released => "released",
        What::Ended { state, .. } => match state {
            State::Completed => "completed",
            State::Dead => "dead",
            State::Cancelled => "cancelled",
            _ => "failed",
        },
        What::Paused => "paused",
        What::Resumed => "resumed",
        What::Ticked { outcome, .. } if outcome.is_made() => "ticked",
        What::Ticked { .. } => "tick_skipped",
    }
}

/// Which events a reader wants.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub tenant: Arc<str>,
    /// Lower-cased.
    pub command: Option<String>,
    pub task: Option<TaskId>,
    /// Empty is all.
    pub types: Vec<String>,
}

impl Wanted {
    pub fn takes(&self, notice: &Notice) -> bool {
        notice.queue.tenant == self.tenant
            && self.command.as_deref().is_none_or(|command| *notice.queue.command == *command)
            && self.task.is_none_or(|task| notice.task == Some(task))
            && (self.types.is_empty() || self.types.iter().any(|kind| kind == notice.kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codeq_queue::AttemptOutcome;

    fn ended(state: State) -> Event {
        Event {
            at: Time::from_millis(1_772_366_405_250),
            queue: QueueKey::new("acme", "Render"),
            command: "Render".into(),
            task: Some(TaskId::from_bits(7)),
            what: What::Ended {
                state,
                outcome: Some(AttemptOutcome::Failed),
                attempt: 3,
                owner: Some(Arc::new(Owner::new("", "w"))),
                error: Some("broken".into()),
                created_at: Time::ZERO,
                has_callback: false,
            },
            has_filled: false,
        }
    }

    #[test]
    fn what_another_process_tells_is_what_it_would_tell_itself() {
        for state in [State::Completed, State::Failed, State::Dead, State::Cancelled] {
            let notice = Notice::of(&ended(state.clone()));
            let body = notice.body(notice.at.to_utc());
            assert_eq!(body.status.as_deref(), Some(state.status().word()));
            assert_eq!(Notice::read(&body), Some(notice.clone()));
        }
        let paused = Event { task: None, what: What::Paused, ..ended(State::Completed) };
        let notice = Notice::of(&paused);
        let body = notice.body(notice.at.to_utc());
        assert_eq!((&body.task_id, &body.status, &body.attempt), (&None, &None, &None));
        assert_eq!(Notice::read(&body), Some(notice.clone()));
        assert_eq!(Notice::read(&EventBody { kind: "else".into(), ..body.clone() }), None);
        assert_eq!(Notice::read(&EventBody { at: "now".into(), ..body }), None);
    }
}
