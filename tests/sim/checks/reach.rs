//! Every live task can be reached by a claim within a bounded time: the longest lease, delay and backoff.

use super::{Checked, broken};
use crate::sim::look::Look;
use std::time::Duration;

/// How long the clock goes on while everything is claimed that can be.
pub const WITHIN: Duration = Duration::from_secs(600);

pub fn drained(look: &Look) -> Checked {
    match look.tasks.values().find(|task| task.state.is_live()) {
        Some(task) => broken("reach", format!("out of reach for {WITHIN:?}: {task:?}")),
        None => Ok(()),
    }
}
