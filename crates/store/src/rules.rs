//! The numbers of the rules that a store applies by itself.

use codeq_queue::{Backoff, QueuePolicy, State, Time, audit};
use std::sync::Arc;
use std::time::Duration;

/// Prints instants in bodies that are fixed at a transition (result callbacks).
pub type Stamp = Arc<dyn Fn(Time) -> String + Send + Sync>;

#[derive(Clone)]
pub struct Rules {
    pub backoff: Backoff,
    /// How long completed tasks stay readable.
    pub retention: Duration,
    /// How long failed and cancelled tasks stay; `None` as long as completed ones.
    pub failed_retention: Option<Duration>,
    /// How long dead letters stay; `None` is forever.
    pub dead_retention: Option<Duration>,
    /// How long it stays known what operators did.
    pub audit_retention: Duration,
    /// How often expired dead letters and failed callbacks are looked for.
    pub cleanup_interval: Duration,
    /// Whether terminal tasks with a webhook put a callback into the outbox.
    pub callbacks: bool,
    pub stamp: Stamp,
}

impl Rules {
    /// How long a task that has ended so stays; `None` for ever.
    pub fn kept(&self, state: &State) -> Option<Duration> {
        match state {
            State::Dead => self.dead_retention,
            State::Failed | State::Cancelled => Some(self.failed_retention.unwrap_or(self.retention)),
            _ => Some(self.retention),
        }
    }
}

impl Rules {
    /// The same, if the policy of its queue does not say otherwise.
    pub fn kept_by(&self, state: &State, policy: Option<&QueuePolicy>) -> Option<Duration> {
        let own = policy.and_then(|policy| match state {
            State::Dead => None,
            State::Failed | State::Cancelled => policy.failed_retention,
            _ => policy.retention,
        });
        own.or_else(|| self.kept(state))
    }
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            backoff: Backoff::default(),
            retention: Duration::from_secs(86_400),
            failed_retention: None,
            dead_retention: None,
            audit_retention: audit::RETENTION,
            cleanup_interval: Duration::from_secs(30),
            callbacks: true,
            stamp: Arc::new(Time::to_utc),
        }
    }
}
