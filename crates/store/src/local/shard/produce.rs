//! The producer's verbs: create, get, result.

use super::turn::{Part, Reply, TooLarge, Turn};
use super::unique::Holder;
use super::{Recent, Shard};
use crate::local::engine::inbox::Lane;
use crate::local::format::entry::Entry;
use crate::local::format::records::{Final, IdemKey, PartialTask, idem_key};
use crate::local::rows::library::{PlaceBits, TaskReader};
use crate::local::shard::slots::SlotId;
use crate::local::tables::Version;
use codeq_queue::store::{Created, ResultLookup, TaskRef, Wait};
use codeq_queue::{Body, Failure, Held, NewTask, OnConflict, QueueKey, Refusal, State, Task, TaskId};
use std::sync::Arc;

/// A task to create, with what the tables had under its idempotency key.
pub struct KeyedTask {
    pub task: NewTask,
    pub key: Option<IdemKey>,
    pub prior: Option<Arc<Final>>,
    /// What it has to wait for, or why it is refused unless it is a replay.
    pub open: Result<Box<[TaskId]>, Refusal>,
}

/// Where a task is, as far as memory knows.
#[derive(Clone)]
pub enum TaskLookup {
    Live(SlotId),
    Recent {
        tenant: Arc<str>,
        id: TaskId,
        ended: Arc<Final>,
    },
    /// Known to be gone, or never this store's.
    Nowhere,
    /// In these tables or nowhere.
    Tables {
        tenant: Arc<str>,
        id: TaskId,
        places: PlaceBits,
        version: Arc<Version>,
    },
}

impl TaskLookup {
    pub fn needs_tables(&self) -> bool {
        match self {
            TaskLookup::Live(_) | TaskLookup::Nowhere => false,
            TaskLookup::Recent { ended, .. } => !ended.sketch.detail.is_complete(),
            TaskLookup::Tables { .. } => true,
        }
    }

    /// The final record, if there is one.
    pub fn last(self, library: &TaskReader, now: codeq_queue::Time) -> Result<Option<Arc<Final>>, Failure> {
        match self {
            TaskLookup::Live(_) | TaskLookup::Nowhere => Ok(None),
            TaskLookup::Recent { tenant, id, ended } => library.find_recent(&tenant, &id, ended, now),
            TaskLookup::Tables { tenant, id, places, version } => {
                library.find(&version, (&tenant, &id), places, now)
            }
        }
    }
}

/// The created tasks, and what is to be tried again after another look into the tables.
pub type CreateAnswer = Part<Result<Created, Refusal>, KeyedTask>;

enum Made {
    New(PartialTask),
    Replay(PartialTask),
    /// The unique key was taken.
    Duplicate(PartialTask),
    /// By a task that has ended.
    DuplicateOf(TaskLookup),
}

/// What the unique key of a create means for it.
enum UniqueKey {
    /// A task is made.
    Free,
    /// The same, and this holder is cancelled for it.
    Cancels(SlotId),
    /// No task is made.
    Taken(Made),
}

impl Shard {
    pub fn locate(&self, tenant: &str, id: &TaskId) -> TaskLookup {
        let mut unknown: PlaceBits = 0;
        for place in self.imports.places() {
            let (no, tail) = self.ids.at(id, place);
            if let Some(slot_id) = self.slots.find(no) {
                let slot = self.slots.at(slot_id);
                if slot.tail == tail && &*self.queues.at(slot.queue).key.tenant == tenant {
                    return TaskLookup::Live(slot_id);
                }
                continue;
            }
            match self.recent.get(&no) {
                Some(Recent::Final { ended, .. })
                    if ended.sketch.tail == tail && *ended.tenant == *tenant =>
                {
                    return TaskLookup::Recent { tenant: tenant.into(), id: *id, ended: ended.clone() };
                }
                // Another's, or gone.
                Some(_) => {}
                // Numbers above the last one given out belong to no one.
                None if no >= self.counters.next_no && !self.imports.are_there() => {}
                None => unknown |= 1 << place,
            }
        }
        match unknown {
            0 => TaskLookup::Nowhere,
            places => {
                let (tenant, id, version) = (tenant.into(), *id, self.version.clone());
                TaskLookup::Tables { tenant, id, places, version }
            }
        }
    }

    /// Random bits under which task `no` gets an id of this shard.
    pub fn draw_tail(&mut self, no: u64) -> u64 {
        use rand::Rng;
        loop {
            let tail = self.random.random::<u64>() >> (64 - crate::local::format::ids::TAIL_BITS);
            if self.shards == 1 || self.ids.encode(no, tail).shard(self.shards) == self.index {
                return tail;
            }
        }
    }
}

impl Turn<'_> {
    /// Creates the tasks. Gives them back if the tables must be asked again for their keys: something has
    /// left memory for the tables since `as_of`, or there is no room for them yet.
    pub fn create(&mut self, tasks: Vec<KeyedTask>, as_of: u64, reply: Reply<CreateAnswer>) {
        let Some(reply) = self.may_write(reply) else { return };
        let is_stale = !self.is_current(as_of) && tasks.iter().any(|task| task.key.is_some());
        if is_stale || self.must_wait(Lane::Create) {
            return self.answer(reply, Part { done: Vec::new(), rest: tasks });
        }
        let now = self.aged;
        let (made, rest) = self.each(tasks, |turn, task| turn.create_one(task));
        let needs_tables = made.iter().any(|made| match made {
            Ok(Made::New(sketch) | Made::Replay(sketch) | Made::Duplicate(sketch)) => {
                !sketch.detail.is_complete()
            }
            Ok(Made::DuplicateOf(located)) => located.needs_tables(),
            Err(_) => false,
        });
        self.answer_from(reply, needs_tables, move |library| {
            let tasks = made.into_iter().map(|made| {
                let (sketch, is_replay, is_duplicate) = match made {
                    Ok(Made::New(sketch)) => (sketch, false, false),
                    Ok(Made::Replay(sketch)) => (sketch, true, false),
                    Ok(Made::Duplicate(sketch)) => (sketch, false, true),
                    Ok(Made::DuplicateOf(located)) => match located.last(library, now)? {
                        Some(last) => (last.sketch.clone(), false, true),
                        None => {
                            let reason = "the holder of the unique key is being removed";
                            return Err(Failure::unavailable(reason));
                        }
                    },
                    Err(refusal) => return Ok(Err(refusal)),
                };
                Ok(Ok(Created { task: library.task(sketch)?, is_replay, is_duplicate }))
            });
            Ok(Part { done: tasks.collect::<Result<_, Failure>>()?, rest })
        });
    }

    fn create_one(&mut self, new: KeyedTask) -> Result<Made, Refusal> {
        if let Some(key) = &new.key {
            if let Some(sketch) = self.replay(key) {
                return Ok(Made::Replay(sketch));
            }
            if let Some(prior) = new.prior.filter(|prior| self.is_still(prior)) {
                return Ok(Made::Replay(prior.sketch.clone()));
            }
        }
        let cancelled = match self.look_at_unique(&new.task) {
            UniqueKey::Free => None,
            UniqueKey::Cancels(holder) => Some(holder),
            UniqueKey::Taken(made) => return Ok(made),
        };
        let open = new.open?;
        self.check_join(&new.task)?;
        self.admit_create(&new.task, cancelled)?;
        self.shard.check_unique_room(&new.task)?;
        let no = self.make_after(new.task, open)?;
        // Not before: a create that is refused leaves the holder of its key as it is.
        if let Some(holder) = cancelled {
            self.end_cancelled(holder, None);
        }
        let slot_id = self.shard.slots.find(no).expect("a created task is live");
        Ok(Made::New(self.shard.slots.at(slot_id).sketch()))
    }

    /// Refuses a producer's task while too many wait. A task that is cancelled for it makes room if it waits, too.
    fn admit_create(&self, task: &NewTask, cancelled: Option<SlotId>) -> Result<(), Refusal> {
        let queues = &self.shard.queues;
        let Some(id) = queues.find(&task.body.tenant, &task.body.command) else { return Ok(()) };
        let queue = queues.at(id);
        let frees = cancelled.is_some_and(|holder| self.shard.slots.at(holder).state.lease().is_none());
        match queue.policy() {
            None => Ok(()),
            Some(stored) => stored.policy.admit(queue.ready + queue.delayed + queue.held - u64::from(frees)),
        }
    }

    /// Makes a task, ready or delayed; gives its number.
    pub fn make(&mut self, task: NewTask) -> Result<u64, TooLarge> {
        self.make_after(task, Box::default())
    }

    /// Makes a task that waits for others, if there are any.
    fn make_after(&mut self, task: NewTask, open: Box<[TaskId]>) -> Result<u64, TooLarge> {
        let no = self.shard.counters.next_no;
        let state = match task.delay.visible_at(self.now) {
            _ if !open.is_empty() => State::Held(Arc::new(Held { open, delay: task.delay })),
            Some(until) => State::Delayed { until },
            None => State::Ready { seq: self.next_seq() },
        };
        let entry = Entry::Created {
            no,
            tail: self.shard.draw_tail(no),
            at: self.now,
            body: task.body,
            priority: task.priority,
            max_attempts: task.max_attempts,
            state,
        };
        self.try_log(entry)?;
        Ok(no)
    }

    fn look_at_unique(&mut self, new: &NewTask) -> UniqueKey {
        let Some(rule) = new.body.unique() else { return UniqueKey::Free };
        let key = idem_key(&QueueKey::new(&new.body.tenant, &new.body.command), &rule.key);
        let holder = self.shard.unique.get(&key);
        let holds = |holder: &Holder| holder.until.is_none_or(|until| until > self.now);
        let Some(holder) = holder.filter(holds) else { return UniqueKey::Free };
        let Some(slot_id) = self.shard.slots.find(holder.no) else {
            let id = self.shard.ids.encode(holder.no, holder.tail);
            let located = self.locate(&new.body.tenant, &id);
            let is_gone = matches!(located, TaskLookup::Nowhere);
            return match rule.on_conflict != OnConflict::Cancel && !is_gone {
                true => UniqueKey::Taken(Made::DuplicateOf(located)),
                false => UniqueKey::Free,
            };
        };
        match rule.on_conflict {
            OnConflict::Keep => {}
            OnConflict::Replace => self.replace_unclaimed(slot_id, new),
            OnConflict::Cancel => return UniqueKey::Cancels(slot_id),
        }
        UniqueKey::Taken(Made::Duplicate(self.shard.slots.at(slot_id).sketch()))
    }

    /// Gives the holder of a unique key the payload and headers of a later create, unless it has been claimed. A
    /// delayed one gets the later time, too, as far as it may be put off.
    fn replace_unclaimed(&mut self, slot_id: SlotId, new: &NewTask) {
        let slot = self.shard.slots.at(slot_id);
        let extra = slot.extra.as_deref();
        let Some(options) = extra.and_then(|extra| extra.options.clone()).filter(|_| slot.attempts == 0)
        else {
            return;
        };
        let state = match slot.state {
            State::Delayed { .. } => {
                let asked = new.delay.visible_at(self.now).unwrap_or(self.now);
                let longest = options.unique.as_ref().and_then(|unique| unique.max_wait);
                let until = longest.map_or(asked, |longest| asked.min(slot.created_at.plus(longest)));
                State::Delayed { until }
            }
            _ => slot.state.clone(),
        };
        let body = Body {
            webhook: extra.and_then(|extra| extra.webhook.clone()),
            idempotency_key: extra.and_then(|extra| extra.key.clone()),
            options: Some(options),
            ..(*new.body).clone()
        };
        let entry = Entry::Replaced { no: slot.no, at: self.now, body: Arc::new(body), state };
        // One that is too large for this store leaves the holder as it was.
        let _ = self.try_log(entry);
    }

    /// The task that memory has under a key.
    fn replay(&self, key: &IdemKey) -> Option<PartialTask> {
        let no = *self.shard.keys.get(key)?;
        if let Some(slot_id) = self.shard.slots.find(no) {
            return Some(self.shard.slots.at(slot_id).sketch());
        }
        match self.shard.recent.get(&no)? {
            Recent::Final { ended, .. } if ended.is_visible(self.aged) => Some(ended.sketch.clone()),
            _ => None,
        }
    }

    /// Whether a record read from the tables still stands.
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
        is_same && last.is_visible(self.aged)
    }

    pub fn get(&mut self, tasks: Vec<TaskRef>, reply: Reply<Part<Option<Task>, TaskRef>>) {
        let now = self.aged;
        let found: Vec<Result<PartialTask, TaskLookup>> = tasks
            .iter()
            .map(|task| match self.locate(&task.tenant, &task.id) {
                TaskLookup::Live(slot_id) => Ok(self.shard.slots.at(slot_id).sketch()),
                located => Err(located),
            })
            .collect();
        let needs_tables = found.iter().any(|found| match found {
            Ok(sketch) => !sketch.detail.is_complete(),
            Err(located) => located.needs_tables(),
        });
        self.answer_from(reply, needs_tables, move |library| {
            let tasks = found.into_iter().map(|found| match found {
                Ok(sketch) => library.task(sketch).map(Some),
                Err(located) => match located.last(library, now)? {
                    Some(last) => library.task(last.sketch.clone()).map(Some),
                    None => Ok(None),
                },
            });
            Ok(Part { done: tasks.collect::<Result<_, Failure>>()?, rest: Vec::new() })
        });
    }

    /// The sketch of a task wherever it is, for reads that want more than the task.
    pub fn sketch(&mut self, task: &TaskRef, reply: Reply<Option<PartialTask>>) {
        let now = self.aged;
        match self.locate(&task.tenant, &task.id) {
            TaskLookup::Live(slot_id) => {
                let mut sketch = self.shard.slots.at(slot_id).sketch();
                let needs_tables = !sketch.detail.is_complete();
                self.answer_from(reply, needs_tables, move |library| {
                    library.complete(&mut sketch)?;
                    Ok(Some(sketch))
                });
            }
            located => {
                let needs_tables = located.needs_tables();
                self.answer_from(reply, needs_tables, move |library| {
                    Ok(located.last(library, now)?.map(|last| last.sketch.clone()))
                });
            }
        }
    }

    pub fn result(&mut self, task: &TaskRef, wait: Wait, token: u64, reply: Reply<ResultLookup>) {
        let now = self.aged;
        match self.locate(&task.tenant, &task.id) {
            TaskLookup::Live(slot_id) => {
                let no = self.shard.slots.at(slot_id).no;
                let deadline = self.deadline(wait).filter(|_| !self.shard.waiting.is_closed);
                let Some(deadline) = deadline else {
                    return self.answer(reply, ResultLookup::Pending);
                };
                self.shard.waiting.hold_result(no, deadline, token, reply);
            }
            located => {
                let needs_tables = located.needs_tables();
                self.answer_from(reply, needs_tables, move |library| match located.last(library, now)? {
                    Some(last) => done(library, &last),
                    None => Ok(ResultLookup::NotFound),
                });
            }
        }
    }
}

pub fn done(library: &TaskReader, last: &Final) -> Result<ResultLookup, Failure> {
    let task = library.task(last.sketch.clone())?;
    Ok(ResultLookup::Done { task, record: (*last.record).clone() })
}
