//! What this process notes of queues; nothing of it is kept.

use codeq_queue::{QueueKey, Time};
use hashbrown::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// Queues of which something is noted; when there are more, everything is forgotten.
const QUEUES: usize = 100_000;

#[derive(Default)]
struct Note {
    spelling: Option<Arc<str>>,
    last_claim: Option<Time>,
}

#[derive(Default)]
pub struct QueueNotes {
    queues: Mutex<HashMap<QueueKey, Note>>,
}

impl QueueNotes {
    fn queues(&self) -> MutexGuard<'_, HashMap<QueueKey, Note>> {
        self.queues.lock().expect("no one panics holding the notes")
    }

    fn note(&self, queue: &QueueKey, change: impl FnOnce(&mut Note)) {
        let mut queues = self.queues();
        if queues.len() >= QUEUES && !queues.contains_key(queue) {
            queues.clear();
        }
        change(queues.entry(queue.clone()).or_default());
    }

    pub fn spelled(&self, queue: &QueueKey, command: &str) {
        self.note(queue, |note| {
            if note.spelling.as_deref() != Some(command) {
                note.spelling = Some(command.into());
            }
        });
    }

    pub fn claimed(&self, queue: &QueueKey, at: Time) {
        self.note(queue, |note| note.last_claim = Some(at));
    }

    pub fn spelling(&self, queue: &QueueKey) -> Option<Arc<str>> {
        self.queues().get(queue)?.spelling.clone()
    }

    pub fn last_claim(&self, queue: &QueueKey) -> Option<Time> {
        self.queues().get(queue)?.last_claim
    }
}
