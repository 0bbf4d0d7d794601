//! Which tasks an operator means, and pages of them.

use crate::cause;
use crate::id::TaskId;
use crate::limits;
use crate::refusal::Refusal;
use crate::task::{State, Task, TaskStatus};
use crate::time::Time;
use std::sync::Arc;

/// The header that names the schedule of a task.
pub const SCHEDULE_HEADER: &str = "codeq-schedule";

/// Where a task is, in an operator's words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whereabouts {
    /// May be claimed, as far as pauses and limits allow it.
    Ready,
    /// Waits for its time.
    Delayed,
    /// Leased to a worker.
    Running,
    /// A dead letter: out of attempts.
    Dead,
    /// Completed, failed or cancelled.
    Done,
    /// Ended FAILED without being a dead letter or cancelled.
    Failed,
    /// Ended by a cancel.
    Cancelled,
    /// Waits for tasks or batches to end.
    Held,
}

impl Whereabouts {
    /// New ones come last: stores keep the number of a place.
    pub const ALL: [Whereabouts; 8] = [
        Whereabouts::Ready,
        Whereabouts::Delayed,
        Whereabouts::Running,
        Whereabouts::Dead,
        Whereabouts::Done,
        Whereabouts::Failed,
        Whereabouts::Cancelled,
        Whereabouts::Held,
    ];

    /// Whether a task in this state is there. What has failed or was cancelled is also done.
    pub fn holds(self, state: &State) -> bool {
        match self {
            Whereabouts::Ready => matches!(state, State::Ready { .. }),
            Whereabouts::Delayed => matches!(state, State::Delayed { .. }),
            Whereabouts::Running => matches!(state, State::Running(_)),
            Whereabouts::Dead => *state == State::Dead,
            Whereabouts::Done => !state.is_live() && *state != State::Dead,
            Whereabouts::Failed => *state == State::Failed,
            Whereabouts::Cancelled => *state == State::Cancelled,
            Whereabouts::Held => matches!(state, State::Held(_)),
        }
    }

    /// The word of the query.
    pub fn word(self) -> &'static str {
        match self {
            Whereabouts::Ready => "ready",
            Whereabouts::Delayed => "delayed",
            Whereabouts::Running => "running",
            Whereabouts::Dead => "dead",
            Whereabouts::Done => "done",
            Whereabouts::Failed => "failed",
            Whereabouts::Cancelled => "cancelled",
            Whereabouts::Held => "held",
        }
    }

    /// The place that a word names, if it names one.
    pub fn parse(word: &str) -> Option<Whereabouts> {
        Whereabouts::ALL.into_iter().find(|place| place.word() == word)
    }
}

/// Everything that is given must hold. The default means every task.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Filter {
    /// Compared without case.
    pub command: Option<String>,
    /// The status of the wire.
    pub status: Option<TaskStatus>,
    /// Where the task is: more exact than `status`.
    pub place: Option<Whereabouts>,
    /// The worker id that holds the lease.
    pub worker_id: Option<String>,
    /// Part of the error text, compared without case.
    pub error: Option<String>,
    /// Created later than this instant.
    pub created_after: Option<Time>,
    /// Created earlier than this instant.
    pub created_before: Option<Time>,
    /// Changed later than this instant.
    pub updated_after: Option<Time>,
    /// Changed earlier than this instant.
    pub updated_before: Option<Time>,
    /// The whole key, compared with case.
    pub idempotency_key: Option<String>,
    /// Names with values: the task must have each of them.
    pub headers: Vec<(String, String)>,
    /// The whole name of the lane.
    pub lane: Option<String>,
    /// One of the task's tags.
    pub tag: Option<String>,
    /// The name of the schedule that made the task.
    pub schedule: Option<String>,
    /// The batch that the task belongs to.
    pub batch: Option<TaskId>,
    /// The [`cause::group`] of a task that has failed.
    pub group: Option<String>,
}

impl Filter {
    /// Refuses a filter that is larger than anything it could match: operations keep theirs.
    pub fn check(&self) -> Result<(), Refusal> {
        let texts = [
            ("command", &self.command),
            ("workerId", &self.worker_id),
            ("error", &self.error),
            ("idempotencyKey", &self.idempotency_key),
            ("lane", &self.lane),
            ("tag", &self.tag),
            ("schedule", &self.schedule),
            ("group", &self.group),
        ];
        let is_long =
            |text: &Option<String>| text.as_ref().is_some_and(|t| t.len() > limits::FILTER_TEXT_BYTES);
        if let Some((name, _)) = texts.into_iter().find(|(_, text)| is_long(text)) {
            let most = limits::FILTER_TEXT_BYTES;
            return Err(Refusal::InvalidFilter(format!("filter {name} is longer than {most} bytes")));
        }
        if self.headers.len() > limits::HEADERS {
            return Err(Refusal::InvalidFilter(format!("more than {} headers", limits::HEADERS)));
        }
        let header_bytes: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        match header_bytes > limits::HEADERS_BYTES {
            true => {
                let most = limits::HEADERS_BYTES;
                Err(Refusal::InvalidFilter(format!("headers are longer than {most} bytes together")))
            }
            false => Ok(()),
        }
    }

    /// Whether a task in this state can match at all; spares looking closer.
    pub fn admits(&self, state: &State) -> bool {
        self.status.is_none_or(|status| state.status() == status)
            && self.place.is_none_or(|place| place.holds(state))
            && (self.group.is_none() || state.has_failed())
            && (self.worker_id.is_none() || state.lease().is_some())
    }

    /// Whether a task is one of those that are asked for.
    pub fn matches(&self, task: &Task) -> bool {
        self.admits(&task.state)
            && self.is_in_time(task)
            && self.command.as_deref().is_none_or(|command| task.body.command.eq_ignore_ascii_case(command))
            && self.is_held(task)
            && same(self.idempotency_key.as_deref(), task.body.idempotency_key.as_deref())
            && self.has_options(task)
            && self.headers.iter().all(|wanted| task.body.headers.contains(wanted))
            && self.error.as_deref().is_none_or(|part| has_part(task.error.as_deref(), part))
            && self.group.as_deref().is_none_or(|group| cause::group_of(task) == group)
    }

    fn has_options(&self, task: &Task) -> bool {
        let has_tag = |wanted: &str| task.body.tags().iter().any(|tag| **tag == *wanted);
        let header = task.body.headers.iter().find(|(name, _)| name == SCHEDULE_HEADER);
        same(self.lane.as_deref(), task.body.lane())
            && self.tag.as_deref().is_none_or(has_tag)
            && self.batch.is_none_or(|batch| task.body.batch() == Some(batch))
            && same(self.schedule.as_deref(), header.map(|(_, name)| &**name))
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
    /// Which tasks are on it.
    pub filter: Arc<Filter>,
    /// Else oldest first.
    pub is_newest_first: bool,
    /// Where the page before ended. What it holds is the store's business.
    pub cursor: Option<String>,
    /// Tasks of a full page.
    pub limit: usize,
}

/// One page of a listing.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Listed {
    /// In the order that the page asked for.
    pub tasks: Vec<Task>,
    /// Where to go on. A page may be short, or empty, and yet have one.
    pub next: Option<String>,
    /// Shards whose servers did not answer; what they hold is not here. Going on from `next` brings it once they do.
    pub missing: Vec<String>,
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
            options: None,
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
            checkpoint: None,
            progress: None,
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
    fn a_filter_is_no_larger_than_what_it_could_match() {
        let of = |bytes: usize| Some("x".repeat(bytes));
        let most = limits::FILTER_TEXT_BYTES;
        let sets: [fn(&mut Filter, Option<String>); 8] = [
            |filter, text| filter.command = text,
            |filter, text| filter.worker_id = text,
            |filter, text| filter.error = text,
            |filter, text| filter.idempotency_key = text,
            |filter, text| filter.lane = text,
            |filter, text| filter.tag = text,
            |filter, text| filter.schedule = text,
            |filter, text| filter.group = text,
        ];
        for set in sets {
            let with = |bytes: usize| {
                let mut filter = Filter::default();
                set(&mut filter, of(bytes));
                filter.check()
            };
            assert!(with(most).is_ok());
            assert!(matches!(with(most + 1), Err(Refusal::InvalidFilter(_))));
        }
        let headers = |count: usize, bytes: usize| {
            let headers = vec![("h".to_owned(), "v".repeat(bytes - 1)); count];
            Filter { headers, ..Filter::default() }.check()
        };
        assert!(headers(limits::HEADERS, limits::HEADERS_BYTES / limits::HEADERS).is_ok());
        assert!(headers(limits::HEADERS + 1, 2).is_err());
        assert!(headers(1, limits::HEADERS_BYTES + 1).is_err());
    }

    #[test]
    fn what_has_failed_is_told_apart_and_is_done_all_the_same() {
        use Whereabouts::{Cancelled, Dead, Done, Failed};
        for (state, places) in [
            (State::Failed, vec![Done, Failed]),
            (State::Cancelled, vec![Done, Cancelled]),
            (State::Completed, vec![Done]),
            (State::Dead, vec![Dead]),
        ] {
            let found: Vec<_> = Whereabouts::ALL.into_iter().filter(|place| place.holds(&state)).collect();
            assert_eq!(found, places, "{state:?}");
            let failed = task(state.clone());
            let group = Some(cause::group_of(&failed));
            let is_match = Filter { group, ..Filter::default() }.matches(&failed);
            assert_eq!(is_match, state.has_failed(), "{state:?}");
        }
        for place in Whereabouts::ALL {
            assert_eq!(Whereabouts::parse(place.word()), Some(place));
        }
    }

    #[test]
    fn a_worker_is_who_holds_the_lease() {
        let owner = Arc::new(Owner::new("s", "w"));
        let lease = Lease::new(owner, Time::ZERO, Time::ZERO);
        let running = task(State::Running(Arc::new(lease)));
        let held_by = |worker: &str| Filter { worker_id: Some(worker.into()), ..Filter::default() };
        assert!(held_by("w").matches(&running));
        assert!(!held_by("v").matches(&running));
    }
}
