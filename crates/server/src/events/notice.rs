//! What the stream tells of an event, and who wants it.

use codeq_api::events::EventBody;
use codeq_queue::event::What;
use codeq_queue::{Event, Owner, QueueKey, State, TaskId, Time};
use std::sync::Arc;

pub const KINDS: [&str; 14] = [
    "created",
    "claimed",
    "progress",
    "completed",
    "failed",
    "requeued",
    "dead",
    "cancelled",
    "promoted",
    "released",
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
    /// What a running task told; exact JSON text.
    pub progress: Option<Arc<str>>,
    /// Whose tick it was, what became of it, and how many ticks it is about.
    pub tick: Option<Box<Tick>>,
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
            What::Progress { owner, attempt, .. } => (Some(*attempt), owner.as_ref(), None),
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
            What::Ticked { schedule, outcome, scheduled_for, count } => Some(Box::new(Tick {
                schedule: schedule.clone(),
                outcome: outcome.word().into(),
                scheduled_for: *scheduled_for,
                count: *count,
            })),
            _ => None,
        };
        let progress = match &event.what {
            What::Progress { progress, .. } => Some(progress.clone()),
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
            progress,
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
            progress: body.progress.as_ref().map(|progress| progress.to_string().into()),
            tick: read_tick(body).map(Box::new),
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
            progress: self.progress.as_deref().and_then(|text| serde_json::from_str(text).ok()),
            schedule: self.tick.as_ref().map(|tick| (&*tick.schedule).into()),
            outcome: self.tick.as_ref().map(|tick| (&*tick.outcome).into()),
            scheduled_for: self.tick.as_ref().map(|tick| tick.scheduled_for.to_utc().into()),
            count: self.tick.as_ref().map(|tick| tick.count).filter(|count| *count > 1),
        }
    }

    /// Of the task, after what happened.
    fn status(&self) -> Option<&'static str> {
        match self.kind {
            "created" | "promoted" | "released" | "requeued" | "ticked" => Some("PENDING"),
            "claimed" | "progress" => Some("IN_PROGRESS"),
            "completed" => Some("COMPLETED"),
            "failed" | "dead" | "cancelled" => Some("FAILED"),
            _ => None,
        }
    }
}

fn read_tick(body: &EventBody<'_>) -> Option<Tick> {
    let scheduled_for = body.scheduled_for.as_deref().and_then(crate::stamp::parse);
    Some(Tick {
        schedule: body.schedule.as_deref()?.into(),
        outcome: body.outcome.as_deref().unwrap_or_default().into(),
        scheduled_for: scheduled_for.unwrap_or(Time::ZERO),
        count: body.count.unwrap_or(1),
    })
}

/// The word for what happened.
fn kind_of(what: &What) -> &'static str {
    match what {
        What::Created => "created",
        What::Claimed { .. } => "claimed",
        What::Returned { .. } | What::Reopened => "requeued",
        What::Progress { .. } => "progress",
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

    fn told_percent(kind: &str) -> Option<Option<u64>> {
        (kind == "progress").then_some(Some(40))
    }

    #[test]
    fn what_another_process_tells_is_what_it_would_tell_itself() {
        for state in [State::Completed, State::Failed, State::Dead, State::Cancelled] {
            let notice = Notice::of(&ended(state.clone()));
            let body = notice.body(notice.at.to_utc());
            assert_eq!(body.status.as_deref(), Some(state.status().word()));
            assert_eq!(Notice::read(&body), Some(notice.clone()));
        }
        let (owner, progress) = (Some(Arc::new(Owner::new("", "w"))), r#"{"percent":40}"#.into());
        let told = [
            (What::Released, "released", "PENDING"),
            (What::Progress { attempt: 2, owner, progress }, "progress", "IN_PROGRESS"),
        ];
        for (what, kind, status) in told {
            let notice = Notice::of(&Event { what, ..ended(State::Completed) });
            let body = notice.body(notice.at.to_utc());
            assert_eq!((&*body.kind, body.status.as_deref()), (kind, Some(status)));
            assert_eq!(body.progress.as_ref().map(|told| told["percent"].as_u64()), told_percent(kind));
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
