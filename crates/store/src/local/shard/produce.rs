//! The producer's verbs: create, get, result.

use super::turn::{Reply, Turn};
use super::{Recent, Shard};
use crate::local::entry::Entry;
use crate::local::library::Library;
use crate::local::records::{Final, IdemKey, Sketch};
use crate::local::slots::SlotId;
use codeq_queue::store::{Created, Items, ResultLookup, TaskRef, Wait};
use codeq_queue::{Failure, NewTask, State, Task, TaskId};
use std::sync::Arc;

/// A task to create, with what the tree had under its idempotency key.
pub struct KeyedTask {
    pub task: NewTask,
    pub key: Option<IdemKey>,
    pub prior: Option<Arc<Final>>,
}

/// Where a task is, as far as memory knows.
#[derive(Clone)]
pub enum Located {
    Live(SlotId),
    Recent {
        tenant: Arc<str>,
        id: TaskId,
        ended: Arc<Final>,
    },
    /// Known to be gone, or never this store's.
    Nowhere,
    /// In the tree or nowhere.
    Tree {
        tenant: Arc<str>,
        id: TaskId,
    },
}

impl Located {
    pub fn needs_tree(&self) -> bool {
        match self {
            Located::Live(_) | Located::Nowhere => false,
            Located::Recent { ended, .. } => !ended.sketch.detail.is_complete(),
            Located::Tree { .. } => true,
        }
    }

    /// The final record, if there is one.
    pub fn last(self, library: &Library, now: codeq_queue::Time) -> Result<Option<Arc<Final>>, Failure> {
        match self {
            Located::Live(_) | Located::Nowhere => Ok(None),
            Located::Recent { tenant, id, ended } => library.find(&tenant, &id, Some(ended), now),
            Located::Tree { tenant, id } => library.find_ended(&tenant, &id, now),
        }
    }
}

/// The created tasks, or what is to be tried again after another look into the tree.
pub type CreateAnswer = Result<Items<Created>, Vec<KeyedTask>>;

enum Made {
    New(Sketch),
    Replay(Sketch),
}

impl Shard {
    pub fn locate(&self, tenant: &str, id: &TaskId) -> Located {
        let (no, tail) = self.ids.decode(id);
        if let Some(slot_id) = self.slots.find(no) {
            let slot = self.slots.at(slot_id);
            let is_it = slot.tail == tail && &*self.queues.at(slot.queue).key.tenant == tenant;
            return if is_it { Located::Live(slot_id) } else { Located::Nowhere };
        }
        match self.recent.get(&no) {
            Some(Recent::Final { ended, .. }) => {
                Located::Recent { tenant: tenant.into(), id: *id, ended: ended.clone() }
            }
            Some(Recent::Gone { .. }) => Located::Nowhere,
            // Numbers above the last one given out belong to no one.
            None if no >= self.counters.next_no && !self.has_imports => Located::Nowhere,
            None => Located::Tree { tenant: tenant.into(), id: *id },
        }
    }

    /// Random bits under which task `no` gets an id of this shard.
    pub fn draw_tail(&mut self, no: u64) -> u64 {
        use rand::Rng;
        loop {
            let tail = self.random.random::<u64>() >> (64 - crate::local::ids::TAIL_BITS);
            if self.shards == 1 || self.ids.encode(no, tail).shard(self.shards) == self.index {
                return tail;
            }
        }
    }
}

impl Turn<'_> {
    /// Creates the tasks. Gives them back if the tree must be asked again for their keys: something has
    /// left memory for the tree since `generation`.
    pub fn create(&mut self, tasks: Vec<KeyedTask>, generation: u64, reply: Reply<CreateAnswer>) {
        let Some(reply) = self.may_write(reply) else { return };
        if !self.is_current(generation) && tasks.iter().any(|task| task.key.is_some()) {
            return self.answer(reply, Err(tasks));
        }
        let made: Vec<Made> = tasks.into_iter().map(|task| self.create_one(task)).collect();
        let needs_tree = made.iter().any(|made| match made {
            Made::New(sketch) | Made::Replay(sketch) => !sketch.detail.is_complete(),
        });
        self.answer_from(reply, needs_tree, move |library| {
            let tasks = made.into_iter().map(|made| {
                let (sketch, is_replay) = match made {
                    Made::New(sketch) => (sketch, false),
                    Made::Replay(sketch) => (sketch, true),
                };
                Ok(Ok(Created { task: library.task(sketch)?, is_replay }))
            });
            tasks.collect::<Result<_, Failure>>().map(Ok)
        });
    }

    fn create_one(&mut self, new: KeyedTask) -> Made {
        if let Some(key) = &new.key {
            if let Some(sketch) = self.replay(key) {
                return Made::Replay(sketch);
            }
            if let Some(prior) = new.prior.filter(|prior| self.is_still(prior)) {
                return Made::Replay(prior.sketch.clone());
            }
        }
        let no = self.shard.counters.next_no;
        let state = match new.task.delay.visible_at(self.now) {
            Some(until) => State::Delayed { until },
            None => State::Ready { seq: self.next_seq() },
        };
        let entry = Entry::Created {
            no,
            tail: self.shard.draw_tail(no),
            at: self.now,
            body: new.task.body,
            priority: new.task.priority,
            max_attempts: new.task.max_attempts,
            state,
        };
        self.log(entry);
        let slot_id = self.shard.slots.find(no).expect("a created task is live");
        Made::New(self.shard.slots.at(slot_id).sketch())
    }

    /// The task that memory has under a key.
    fn replay(&self, key: &IdemKey) -> Option<Sketch> {
        let no = *self.shard.keys.get(key)?;
        if let Some(slot_id) = self.shard.slots.find(no) {
            return Some(self.shard.slots.at(slot_id).sketch());
        }
        match self.shard.recent.get(&no)? {
            Recent::Final { ended, .. } if ended.is_visible(self.now) => Some(ended.sketch.clone()),
            _ => None,
        }
    }

    /// Whether a record read from the tree still stands.
    pub fn is_still(&self, last: &Final) -> bool {
        let no = last.sketch.no;
        let is_same = match self.shard.recent.get(&no) {
            None => self.shard.slots.find(no).is_none(),
            Some(Recent::Final { ended, .. }) => {
                let end = |last: &Final| (last.sketch.attempts, last.sketch.updated_at);
                end(ended) == end(last)
            }
            Some(Recent::Gone { .. }) => false,
        };
        is_same && last.is_visible(self.now)
    }

    pub fn get(&mut self, tasks: Vec<TaskRef>, reply: Reply<Vec<Option<Task>>>) {
        let now = self.now;
        let found: Vec<Result<Sketch, Located>> = tasks
            .iter()
            .map(|task| match self.locate(&task.tenant, &task.id) {
                Located::Live(slot_id) => Ok(self.shard.slots.at(slot_id).sketch()),
                located => Err(located),
            })
            .collect();
        let needs_tree = found.iter().any(|found| match found {
            Ok(sketch) => !sketch.detail.is_complete(),
            Err(located) => located.needs_tree(),
        });
        self.answer_from(reply, needs_tree, move |library| {
            let tasks = found.into_iter().map(|found| match found {
                Ok(sketch) => library.task(sketch).map(Some),
                Err(located) => match located.last(library, now)? {
                    Some(last) => library.task(last.sketch.clone()).map(Some),
                    None => Ok(None),
                },
            });
            tasks.collect()
        });
    }

    /// The sketch of a task wherever it is, for reads that want more than the task.
    pub fn sketch(&mut self, task: &TaskRef, reply: Reply<Option<Sketch>>) {
        let now = self.now;
        match self.locate(&task.tenant, &task.id) {
            Located::Live(slot_id) => {
                let mut sketch = self.shard.slots.at(slot_id).sketch();
                let needs_tree = !sketch.detail.is_complete();
                self.answer_from(reply, needs_tree, move |library| {
                    library.complete(&mut sketch)?;
                    Ok(Some(sketch))
                });
            }
            located => {
                let needs_tree = located.needs_tree();
                self.answer_from(reply, needs_tree, move |library| {
                    Ok(located.last(library, now)?.map(|last| last.sketch.clone()))
                });
            }
        }
    }

    pub fn result(&mut self, task: &TaskRef, wait: Wait, token: u64, reply: Reply<ResultLookup>) {
        let now = self.now;
        match self.locate(&task.tenant, &task.id) {
            Located::Live(slot_id) => {
                let no = self.shard.slots.at(slot_id).no;
                if wait == Wait::No
                    || matches!(wait, Wait::Until(at) if at <= now)
                    || self.shard.waiting.is_closed
                {
                    return self.answer(reply, ResultLookup::Pending);
                }
                self.shard.waiting.hold_result(no, wait, token, reply);
            }
            located => {
                let needs_tree = located.needs_tree();
                self.answer_from(reply, needs_tree, move |library| match located.last(library, now)? {
                    Some(last) => done(library, &last),
                    None => Ok(ResultLookup::NotFound),
                });
            }
        }
    }
}

pub fn done(library: &Library, last: &Final) -> Result<ResultLookup, Failure> {
    let task = library.task(last.sketch.clone())?;
    Ok(ResultLookup::Done { task, record: (*last.record).clone() })
}
