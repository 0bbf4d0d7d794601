//! What this process remembers of tasks it has created or lent: enough to name their keys without asking.
//! None of it ever changes, except that an operator may move tasks to another shard: then all is forgotten.

use codeq_queue::{QueueKey, Task, TaskId};
use hashbrown::HashMap;
use std::sync::{Arc, Mutex};

/// Tasks remembered in each of two generations.
const GENERATION: usize = 32_768;

#[derive(Debug)]
pub struct Known {
    pub shard: usize,
    pub queue: QueueKey,
    /// Spelled as the producer did.
    pub command: Arc<str>,
    pub webhook: Option<Arc<str>>,
    pub idempotency_key: Option<Box<str>>,
}

impl Known {
    pub fn of(task: &Task, shard: usize) -> Known {
        let body = &task.body;
        Known {
            shard,
            queue: QueueKey::new(&body.tenant, &body.command),
            command: (&*body.command).into(),
            webhook: body.webhook.as_deref().map(Into::into),
            idempotency_key: body.idempotency_key.clone(),
        }
    }
}

type Generation = HashMap<TaskId, Arc<Known>>;

/// When the young generation, the first, is full the old one is forgotten.
#[derive(Default)]
pub struct Memory {
    generations: Mutex<(Generation, Generation)>,
}

impl Memory {
    pub fn remember(&self, id: TaskId, known: Arc<Known>) {
        let mut generations = self.generations.lock().expect("no one panics holding the memory");
        if generations.0.len() >= GENERATION {
            generations.1 = std::mem::take(&mut generations.0);
        }
        generations.0.insert(id, known);
    }

    pub fn recall(&self, id: TaskId) -> Option<Arc<Known>> {
        let generations = self.generations.lock().expect("no one panics holding the memory");
        generations.0.get(&id).or_else(|| generations.1.get(&id)).cloned()
    }

    pub fn forget(&self, id: TaskId) {
        let mut generations = self.generations.lock().expect("no one panics holding the memory");
        generations.0.remove(&id);
        generations.1.remove(&id);
    }

    pub fn forget_all(&self) {
        *self.generations.lock().expect("no one panics holding the memory") = Default::default();
    }
}
