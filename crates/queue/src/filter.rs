//! Which tasks an operator means, and pages of them.

use crate::cause;
use crate::task::{State, Task, TaskStatus};
use crate::time::Time;
use std::sync::Arc;

/// Where a task is, in an operator's words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whereabouts {
    Ready,
    Delayed,
    Running,
    Dead,
    /// Completed, failed or cancelled.
    Done,
}

impl Whereabouts {
    pub const ALL: [Whereabouts; 5] = [
        Whereabouts::Ready,
        Whereabouts::Delayed,
        Whereabouts::Running,
        Whereabouts::Dead,
        Whereabouts::Done,
    ];

    pub fn of(state: &State) -> Whereabouts {
        match state {
            State::Ready { .. } => Whereabouts::Ready,
            State::Delayed { .. } => Whereabouts::Delayed,
            State::Running(_) => Whereabouts::Running,
            State::Dead => Whereabouts::Dead,
            State::Completed | State::Failed | State::Cancelled => Whereabouts::Done,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Whereabouts::Ready => "ready",
            Whereabouts::Delayed => "delayed",
            Whereabouts::Running => "running",
            Whereabouts::Dead => "dead",
            Whereabouts::Done => "done",
        }
    }

    pub fn parse(word: &str) -> Option<Whereabouts> {
        Whereabouts::ALL.into_iter().find(|place| place.word() == word)
    }
}

/// Everything that is given must hold. The default means every task.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Filter {
    /// Compared without case.
    pub command: Option<String>,
    pub status: Option<TaskStatus>,
    pub place: Option<Whereabouts>,
    /// Who holds the lease.
    pub worker_id: Option<String>,
    /// Part of the error text, compared without case.
    pub error: Option<String>,
    pub created_after: Option<Time>,
    pub created_before: Option<Time>,
    pub updated_after: Option<Time>,
    pub updated_before: Option<Time>,
    pub idempotency_key: Option<String>,
    pub headers: Vec<(String, String)>,
    /// A dead letter's [`cause::group`].
    pub group: Option<String>,
}

impl Filter {
    /// Whether a task in this state can match at all; spares looking closer.
    pub fn admits(&self, state: &State) -> bool {
        self.status.is_none_or(|status| state.status() == status)
            && self.place.is_none_or(|place| Whereabouts::of(state) == place)
            && (self.group.is_none() || *state == State::Dead)
            && (self.worker_id.is_none() || state.lease().is_some())
    }

    pub fn matches(&self, task: &Task) -> bool {
        self.admits(&task.state)
            && self.is_in_time(task)
            && self.command.as_deref().is_none_or(|command| task.body.command.eq_ignore_ascii_case(command))
            && self.is_held(task)
            && same(self.idempotency_key.as_deref(), task.body.idempotency_key.as_deref())
            && self.headers.iter().all(|wanted| task.body.headers.contains(wanted))
            && self.error.as_deref().is_none_or(|part| has_part(task.error.as_deref(), part))
            && self.group.as_deref().is_none_or(|group| cause::group_of(task) == group)
    }

    fn is_in_time(&self, task: &Task) -> bool {
        self.created_after.is_none_or(|after| task.created_at > after)
            && self.created_before.is_none_or(|before| task.created_at < before)
            && self.updated_after.is_none_or(|after| task.updated_at > after)
            && self.updated_before.is_none_or(|before| task.updated_at < before)
    }

    fn is_held(&self, task: &Task) -> bool {
        let holder = task.state.lease().map(|lease| &*lease.owner.worker_id);
        same(self.worker_id.as_deref(), holder)
    }
}

fn same(wanted: Option<&str>, found: Option<&str>) -> bool {
    wanted.is_none() || wanted == found
}

fn has_part(text: Option<&str>, part: &str) -> bool {
    let Some(text) = text else { return false };
    part.is_empty() || text.to_lowercase().contains(&part.to_lowercase())
}

/// One page of a listing.
#[derive(Clone, Debug)]
pub struct Page {
    /// `None` is every tenant.
    pub tenant: Option<Arc<str>>,
    pub filter: Arc<Filter>,
    /// Else oldest first.
    pub is_newest_first: bool,
    /// Where the page before ended. What it holds is the store's business.
    pub cursor: Option<String>,
    pub limit: usize,
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Listed {
    pub tasks: Vec<Task>,
    /// Where to go on. A page may be short, or empty, and yet have one.
    pub next: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{Lease, Owner};
    use crate::{Body, TaskId};

    fn task(state: State) -> Task {
        let body = Body {
            tenant: "acme".into(),
            command: "Render".into(),
            payload: "1".into(),
            webhook: None,
            headers: Box::new([("region".into(), "eu".into())]),
            idempotency_key: Some("k".into()),
            trace_parent: None,
            trace_state: None,
        };
        Task {
            id: TaskId::from_bits(7),
            body: Arc::new(body),
            priority: 0,
            state,
            attempts: 1,
            refunds: 0,
            max_attempts: 5,
            error: Some("Time OUT after 30s".into()),
            created_at: Time::from_millis(1_000),
            updated_at: Time::from_millis(2_000),
        }
    }

    #[test]
    fn everything_given_must_hold() {
        let text = |text: &str| Some(text.to_owned());
        let at = |millis| Some(Time::from_millis(millis));
        let dead = task(State::Dead);
        let any = Filter::default;
        let header = |value: &str| vec![("region".to_owned(), value.to_owned())];
        for (filter, is_match) in [
            (any(), true),
            (Filter { command: text("rENDER"), ..any() }, true),
            (Filter { command: text("other"), ..any() }, false),
            (Filter { status: Some(TaskStatus::Failed), ..any() }, true),
            (Filter { status: Some(TaskStatus::Pending), ..any() }, false),
            (Filter { place: Some(Whereabouts::Dead), ..any() }, true),
            (Filter { place: Some(Whereabouts::Done), ..any() }, false),
            (Filter { error: text("time out"), ..any() }, true),
            (Filter { error: text("refused"), ..any() }, false),
            (Filter { created_after: at(999), created_before: at(1_001), ..any() }, true),
            (Filter { created_after: at(1_000), ..any() }, false),
            (Filter { updated_before: at(2_000), ..any() }, false),
            (Filter { idempotency_key: text("k"), ..any() }, true),
            (Filter { idempotency_key: text("K"), ..any() }, false),
            (Filter { headers: header("eu"), ..any() }, true),
            (Filter { headers: header("us"), ..any() }, false),
            (Filter { worker_id: text("w"), ..any() }, false),
            (Filter { group: Some(cause::group_of(&dead)), ..any() }, true),
            (Filter { group: text("0"), ..any() }, false),
        ] {
            assert_eq!(filter.matches(&dead), is_match, "{filter:?}");
        }
    }

    #[test]
    fn a_worker_is_who_holds_the_lease() {
        let owner = Arc::new(Owner::new("s", "w"));
        let lease = Lease { owner, until: Time::ZERO, claimed_at: Time::ZERO };
        let running = task(State::Running(Arc::new(lease)));
        let held_by = |worker: &str| Filter { worker_id: Some(worker.into()), ..Filter::default() };
        assert!(held_by("w").matches(&running));
        assert!(!held_by("v").matches(&running));
    }
}
