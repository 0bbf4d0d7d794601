//! Requests to create, said briefly: a command and what differs from the ordinary.

use codeq_queue::{
    Body, Delay, NewTask, OnConflict, OnFailure, TaskId, TaskOptions, Time, UniqueRule, UniqueUntil,
};
use std::sync::Arc;
use std::time::Duration;

/// An ordinary task: priority 0, five attempts, visible at once.
#[derive(Clone)]
pub struct New {
    body: Body,
    priority: u8,
    max_attempts: u32,
    delay: Delay,
}

impl New {
    pub fn of(command: &str) -> New {
        let body = Body {
            tenant: "".into(),
            command: command.into(),
            payload: "{}".into(),
            webhook: None,
            headers: Box::new([]),
            idempotency_key: None,
            trace_parent: None,
            trace_state: None,
            options: None,
        };
        New { body, priority: 0, max_attempts: 5, delay: Delay::None }
    }

    pub fn priority(mut self, priority: u8) -> New {
        self.priority = priority;
        self
    }

    pub fn max_attempts(mut self, max_attempts: u32) -> New {
        self.max_attempts = max_attempts;
        self
    }

    pub fn payload(mut self, payload: &str) -> New {
        self.body.payload = payload.into();
        self
    }

    pub fn key(mut self, key: &str) -> New {
        self.body.idempotency_key = Some(key.into());
        self
    }

    pub fn webhook(mut self, url: &str) -> New {
        self.body.webhook = Some(url.into());
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> New {
        let mut headers = self.body.headers.into_vec();
        headers.push((name.into(), value.into()));
        self.body.headers = headers.into();
        self
    }

    pub fn trace(mut self, parent: &str, state: &str) -> New {
        self.body.trace_parent = Some(parent.into());
        self.body.trace_state = Some(state.into());
        self
    }

    fn options(mut self, change: impl FnOnce(&mut TaskOptions)) -> New {
        let mut options = self.body.options.take().map(|boxed| *boxed).unwrap_or_default();
        change(&mut options);
        self.body.options = options.boxed();
        self
    }

    pub fn lane(self, lane: &str) -> New {
        self.options(|options| options.lane = Some(lane.into()))
    }

    pub fn unique(self, key: &str, until: UniqueUntil, on_conflict: OnConflict) -> New {
        let rule = UniqueRule { key: key.into(), until, on_conflict, max_wait: None };
        self.options(|options| options.unique = Some(rule))
    }

    pub fn max_wait(self, wait: Duration) -> New {
        self.options(|options| {
            if let Some(unique) = &mut options.unique {
                unique.max_wait = Some(wait);
            }
        })
    }

    pub fn expires_at(self, at: Time) -> New {
        self.options(|options| options.expires_at = Some(at))
    }

    /// Waits for these.
    pub fn after(self, ids: &[TaskId]) -> New {
        self.options(|options| options.after = ids.into())
    }

    /// Runs though something that it waits for did not succeed.
    pub fn run_anyway(self) -> New {
        self.options(|options| options.on_failure = OnFailure::Run)
    }

    pub fn batch(self, id: TaskId) -> New {
        self.options(|options| options.batch = Some(id))
    }

    pub fn max_run(self, longest: Duration) -> New {
        self.options(|options| options.max_run = Some(longest))
    }

    pub fn delayed_ms(mut self, ms: u64) -> New {
        self.delay = Delay::For(Duration::from_millis(ms));
        self
    }

    pub fn run_at(mut self, at: Time) -> New {
        self.delay = Delay::Until(at);
        self
    }

    pub fn build(self, tenant: &Arc<str>) -> NewTask {
        let body = Body { tenant: tenant.clone(), ..self.body };
        NewTask {
            body: Arc::new(body),
            priority: self.priority,
            max_attempts: self.max_attempts,
            delay: self.delay,
        }
    }
}
