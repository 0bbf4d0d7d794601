//! Requests to create, said briefly: a command and what differs from the ordinary.

use codeq_queue::{Body, Delay, NewTask, Time};
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
