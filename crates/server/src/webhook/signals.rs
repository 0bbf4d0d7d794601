//! What the store tells the sender. Everything here is quick: it runs between two commits.

use codeq_queue::QueueKey;
use codeq_queue::event::{Event, What};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Maximum number of queues that wait for a notification; beyond it, further queues get none.
const QUEUES: usize = 10_000;

/// Queues that have filled, and their commands as spelled in the newest task.
pub type Filled = HashMap<QueueKey, Arc<str>>;

pub struct ReadyTriggers {
    is_on: bool,
    ended: Notify,
    filled: Notify,
    queues: Mutex<Filled>,
}

impl ReadyTriggers {
    /// `is_on`: webhooks are sent at all.
    pub fn new(is_on: bool) -> ReadyTriggers {
        ReadyTriggers { is_on, ended: Notify::new(), filled: Notify::new(), queues: Mutex::default() }
    }

    pub fn observe(&self, events: &[Event]) {
        if !self.is_on {
            return;
        }
        if events.iter().any(|event| matches!(event.what, What::Ended { has_callback: true, .. })) {
            self.ended.notify_one();
        }
        if events.iter().any(|event| event.has_filled) {
            let mut queues = self.queues();
            for event in events.iter().filter(|event| event.has_filled) {
                if queues.len() < QUEUES || queues.contains_key(&event.queue) {
                    queues.insert(event.queue.clone(), event.command.clone());
                }
            }
            self.filled.notify_one();
        }
    }

    /// Returns after a callback was put into the outbox.
    pub async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Queues that have filled since the last time, at least one.
    pub async fn filled(&self) -> Filled {
        loop {
            self.filled.notified().await;
            let filled = std::mem::take(&mut *self.queues());
            if !filled.is_empty() {
                return filled;
            }
        }
    }

    fn queues(&self) -> MutexGuard<'_, Filled> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
