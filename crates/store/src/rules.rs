//! The numbers of the rules that a store applies by itself.

use codeq_queue::{Backoff, Time};
use std::sync::Arc;
use std::time::Duration;

/// Prints instants in bodies that are fixed at a transition (result callbacks).
pub type Stamp = Arc<dyn Fn(Time) -> String + Send + Sync>;

#[derive(Clone)]
pub struct Rules {
    pub backoff: Backoff,
    /// How long completed and failed tasks stay readable.
    pub retention: Duration,
    /// How long dead letters stay; `None` for ever.
    pub dead_retention: Option<Duration>,
    /// How often expired dead letters and failed callbacks are looked for.
    pub cleanup_interval: Duration,
    /// Whether terminal tasks with a webhook put a callback into the outbox.
    pub callbacks: bool,
    pub stamp: Stamp,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            backoff: Backoff::default(),
            retention: Duration::from_secs(86_400),
            dead_retention: None,
            cleanup_interval: Duration::from_secs(30),
            callbacks: true,
            stamp: Arc::new(Time::to_utc),
        }
    }
}
