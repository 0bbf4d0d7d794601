//! Which trace a task belongs to, as far as this process remembers.
//!
//! Reports name a task by its id only. For tasks that were created or lent here the answer is in memory;
//! for others it is in the store. Memory is two generations of bounded size: when the young one is full
//! the old one is forgotten.

use super::context::Parent;
use codeq_queue::TaskId;
use hashbrown::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Tasks of one generation.
const REMEMBERED: usize = 32_768;

/// Where a task comes from.
#[derive(Clone, Debug)]
pub struct Origin {
    pub parent: Parent,
    pub command: Arc<str>,
    /// Of the request that created it; known only to the process that took the request.
    pub baggage: Option<Arc<str>>,
}

/// What is remembered of a task.
#[derive(Clone, Debug)]
pub enum Known {
    Kept(Arc<Origin>),
    /// No span of it is kept.
    Dropped,
}

#[derive(Default)]
pub struct Origins(Mutex<Generations>);

#[derive(Default)]
struct Generations {
    young: HashMap<TaskId, Known>,
    old: HashMap<TaskId, Known>,
}

impl Origins {
    pub fn remember(&self, tasks: impl IntoIterator<Item = (TaskId, Known)>) {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, known) in tasks {
            if generations.young.len() >= REMEMBERED {
                generations.old = std::mem::take(&mut generations.young);
            }
            let Generations { young, old } = &mut *generations;
            // What the create knew (its baggage) is more than what a claim can tell.
            young.entry(id).or_insert_with(|| old.remove(&id).unwrap_or(known));
        }
    }

    pub fn recall(&self, id: TaskId) -> Option<Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id)
    }
}

impl Generations {
    fn get(&self, id: TaskId) -> Option<Known> {
        self.young.get(&id).or_else(|| self.old.get(&id)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_keeps_the_newest() {
        let origins = Origins::default();
        let id = |number: usize| TaskId::from_bits(number as u128);
        origins.remember((0..REMEMBERED * 3).map(|number| (id(number), Known::Dropped)));
        assert!(origins.recall(id(0)).is_none());
        assert!(origins.recall(id(REMEMBERED * 3 - 1)).is_some());
        let generations = origins.0.lock().unwrap();
        assert!(generations.young.len() + generations.old.len() <= 2 * REMEMBERED);
    }
}
