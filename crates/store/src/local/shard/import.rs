//! Taking in tasks from elsewhere, under the ids they have.
//!
//! Every id decodes to a number and random bits, so a foreign id needs no index: its task lies under the
//! number it decodes to or, where that is another's, at the next place that is free. Numbers that this shard may
//! yet give out are not taken. Who looks for an id looks at as many places as have ever been used.
//!
//! An id belongs to a tenant: the same id may be another tenant's as well, and neither hears of the other.

use super::apply::accepted_again;
use super::produce::TaskLookup;
use super::turn::{Part, Reply, Turn};
use super::{Recent, Shard};
use crate::local::engine::inbox::Lane;
use crate::local::format::entry::{Entry, Imported};
use crate::local::format::ids::{OWN_NUMBERS_END, PLACES};
use crate::local::format::records::{Detail, Final, IdemKey, PartialTask, TaskHead, idem_key};
use crate::local::rows::change::{Change, Image};
use codeq_queue::store::{Import, TaskRef};
use codeq_queue::{Failure, QueueKey, Refusal, State, Time};
use std::sync::Arc;

/// A task from elsewhere, with what the tables have under its numbers and its key.
pub struct ImportCandidate {
    pub import: Import,
    pub neighbours: Vec<Arc<Final>>,
    pub prior: Option<Arc<Final>>,
}

impl ImportCandidate {
    pub fn key(&self) -> Option<IdemKey> {
        let body = &self.import.task.body;
        let key = body.idempotency_key.as_deref()?;
        Some(idem_key(&QueueKey::new(&body.tenant, &body.command), key))
    }
}

/// Where a task from elsewhere may lie.
enum Spot {
    /// It is here already.
    Theirs,
    Free(u32),
    /// All places are taken.
    Nowhere,
}

impl Turn<'_> {
    /// Takes in the first tasks, as many as fit a turn. The others are to be asked for again, all of them if
    /// the tables must be read again.
    pub fn import(
        &mut self,
        arrivals: Vec<ImportCandidate>,
        as_of: u64,
        reply: Reply<Part<Result<bool, Refusal>, Import>>,
    ) {
        let Some(reply) = self.may_write(reply) else { return };
        let may_act = self.is_current(as_of) && !self.must_wait(Lane::Create);
        let (done, rest) = match may_act {
            true => self.each(arrivals, |turn, arrival| turn.import_one(arrival)),
            false => (Vec::new(), arrivals),
        };
        let rest = rest.into_iter().map(|arrival| arrival.import).collect();
        self.answer(reply, Part { done, rest });
    }

    fn import_one(&mut self, arrival: ImportCandidate) -> Result<bool, Refusal> {
        let task = &arrival.import.task;
        let place = match self.place_for(&arrival) {
            Spot::Theirs => return Ok(false),
            Spot::Free(place) => place,
            Spot::Nowhere => return Err(Refusal::IdNotKept),
        };
        let (no, tail) = self.shard.ids.at(&task.id, place);
        let is_stray = task.id.shard(self.shard.shards) != self.shard.index;
        let key = arrival.key();
        let has_namesake = key.as_ref().is_some_and(|key| self.shard.keys.get(key).is_some())
            || arrival.prior.as_ref().is_some_and(|prior| self.is_still(prior));
        if has_namesake {
            return Err(Refusal::IdempotencyKeyTaken);
        }
        if (is_stray || no >= self.shard.counters.next_no)
            && let Some((key, value)) = self.shard.imports.record(place, is_stray)
        {
            self.log(Entry::Record { key, value: Some(value) });
        }
        let imported = self.arrived(no, tail, arrival.import);
        self.try_log(Entry::Imported(Box::new(imported)))?;
        Ok(true)
    }

    /// Where a task from elsewhere is, or may lie.
    fn place_for(&self, arrival: &ImportCandidate) -> Spot {
        let task = &arrival.import.task;
        let next = self.shard.counters.next_no;
        let mut free = None;
        for place in 0..PLACES {
            if free.is_some() && !self.shard.imports.places().contains(&place) {
                break;
            }
            let (no, tail) = self.shard.ids.at(&task.id, place);
            let is_own = no < OWN_NUMBERS_END && (place > 0 || no == 0 || no >= next);
            match self.holder_of(no, &arrival.neighbours) {
                Some((holder, tenant)) if holder == tail && tenant == task.body.tenant => {
                    return Spot::Theirs;
                }
                None if free.is_none() && !is_own => free = Some(place),
                _ => {}
            }
        }
        free.map_or(Spot::Nowhere, Spot::Free)
    }

    /// The tail and the tenant of the task that has this number.
    fn holder_of(&self, no: u64, neighbours: &[Arc<Final>]) -> Option<(u64, Arc<str>)> {
        if let Some(slot_id) = self.shard.slots.find(no) {
            let slot = self.shard.slots.at(slot_id);
            return Some((slot.tail, self.shard.queues.at(slot.queue).key.tenant.clone()));
        }
        let last = match self.shard.recent.get(&no) {
            Some(Recent::Final { ended, .. }) => Some(ended),
            Some(Recent::Gone { .. }) => None,
            None => neighbours.iter().find(|last| last.sketch.no == no),
        };
        let there = last.filter(|last| last.is_visible(self.aged));
        there.map(|last| (last.sketch.tail, last.tenant.clone()))
    }

    /// Which of these tasks are here.
    pub fn holds(&mut self, tasks: Vec<TaskRef>, reply: Reply<Vec<bool>>) {
        let now = self.aged;
        let located: Vec<TaskLookup> = tasks.iter().map(|task| self.locate(&task.tenant, &task.id)).collect();
        let needs_tables = located.iter().any(TaskLookup::needs_tables);
        self.answer_from(reply, needs_tables, move |library| {
            let held = located.into_iter().map(|located| match located {
                TaskLookup::Live(_) => Ok(true),
                located => Ok(located.last(library, now)?.is_some()),
            });
            held.collect::<Result<_, Failure>>()
        });
    }

    /// The task as it will be here: who ran it elsewhere does not run it here.
    fn arrived(&mut self, no: u64, tail: u64, import: Import) -> Imported {
        let Import { task, record } = import;
        let rules = &self.shard.rules;
        let state = match task.state {
            State::Ready { .. } | State::Running(_) => State::Ready { seq: self.next_seq() },
            other => other,
        };
        let expires = rules.kept(&state).map_or(Time::MAX, |kept| self.now.plus(kept));
        let detail = Detail { body: Some(task.body), error: task.error, is_whole: true, ..Detail::default() };
        let sketch = PartialTask {
            no,
            tail,
            priority: task.priority,
            state,
            attempts: task.attempts,
            refunds: task.refunds,
            max_attempts: task.max_attempts,
            created_at: task.created_at,
            updated_at: task.updated_at,
            progress: None,
            detail,
        };
        Imported { at: self.now, sketch, end: record.map(|record| (Arc::new(record), expires)) }
    }
}

impl Shard {
    pub fn apply_import(&mut self, imported: Imported) -> Result<(), &'static str> {
        let Imported { sketch, end, .. } = imported;
        let body = sketch.detail.body.clone().ok_or("an imported task without body")?;
        match end {
            None => self.admit_import(sketch, body),
            Some((record, expires)) => self.shelve_import(sketch, &body, record, expires),
        }
        Ok(())
    }

    fn admit_import(&mut self, mut sketch: PartialTask, body: Arc<codeq_queue::Body>) {
        let body = accepted_again(body, self.accepted_now());
        sketch.detail.body = Some(body.clone());
        let seed = TaskHead {
            tail: sketch.tail,
            created_at: sketch.created_at,
            priority: sketch.priority,
            max_attempts: sketch.max_attempts,
            state: sketch.state.clone(),
            body,
        };
        let slot_id = self.admit(sketch.no, &seed, sketch.detail.clone());
        let now = self.counters.last;
        if self.unique_again(&sketch, now).is_some() && !self.is_unique_taken(&sketch, now) {
            self.take_unique(sketch.no, &seed);
        }
        let slot = self.slots.at_mut(slot_id);
        (slot.attempts, slot.refunds, slot.updated_at) = (sketch.attempts, sketch.refunds, sketch.updated_at);
        self.changes.push(Change::Created { no: sketch.no, seed });
        let image = Image {
            updated_at: sketch.updated_at,
            attempts: sketch.attempts,
            refunds: sketch.refunds,
            max_attempts: sketch.max_attempts,
            state: sketch.state,
            error: sketch.detail.error,
            checkpoint: sketch.detail.checkpoint,
            attempts_ended: Vec::new(),
            is_whole: true,
        };
        self.changes.push(Change::State { no: sketch.no, image });
    }

    fn shelve_import(
        &mut self,
        sketch: PartialTask,
        body: &Arc<codeq_queue::Body>,
        record: Arc<codeq_queue::ResultRecord>,
        expires: Time,
    ) {
        let no = sketch.no;
        let queue = self.queues.intern(&body.tenant, &body.command);
        let key = body.idempotency_key.as_deref().map(|key| idem_key(&self.queues.at(queue).key, key));
        if let Some(key) = &key {
            self.keys.insert(key.clone(), no);
        }
        if sketch.state == State::Dead {
            self.queues.at_mut(queue).dead += 1;
            self.push_queue(queue);
        }
        self.unsettled(no, 256 + body.bytes() + record.result.as_ref().map_or(0, |text| text.len()));
        let tenant = body.tenant.clone();
        let last = Arc::new(Final { sketch, record, expires, key, tenant });
        self.count_failed(queue, &last, true, self.counters.last);
        self.recent.insert(no, Recent::Final { ended: last.clone(), changed: self.position });
        self.changes.push(Change::Final(last));
    }
}
