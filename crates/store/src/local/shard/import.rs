//! Taking in tasks from elsewhere, under the ids they have.
//!
//! Every id decodes to a number and random bits, so a foreign id needs no index: its task lies under the
//! number it decodes to. Numbers that this shard may yet give out are not taken.

use super::turn::{Reply, Turn};
use super::{Recent, Shard};
use crate::local::change::{Change, Image};
use crate::local::entry::{Entry, Imported};
use crate::local::records::{Detail, Final, IMPORTED, IdemKey, Seed, Sketch, idem_key};
use codeq_queue::store::{Import, Items};
use codeq_queue::{QueueKey, Refusal, State, Time};
use std::sync::Arc;

/// Numbers below this may be given out one day.
const GIVEN_OUT: u64 = 1 << 44;

/// A task from elsewhere, with what the tree has under its number and its key.
pub struct Arrival {
    pub import: Import,
    pub last: Option<Arc<Final>>,
    pub prior: Option<Arc<Final>>,
}

impl Arrival {
    pub fn key(&self) -> Option<IdemKey> {
        let body = &self.import.task.body;
        let key = body.idempotency_key.as_deref()?;
        Some(idem_key(&QueueKey::new(&body.tenant, &body.command), key))
    }
}

impl Turn<'_> {
    /// `None` if the tree must be read again.
    pub fn import(&mut self, arrivals: Vec<Arrival>, generation: u64, reply: Reply<Option<Items<bool>>>) {
        let Some(reply) = self.may_write(reply) else { return };
        if !self.is_current(generation) {
            return self.answer(reply, None);
        }
        let items = arrivals.into_iter().map(|arrival| self.import_one(arrival)).collect();
        self.answer(reply, Some(items));
    }

    fn import_one(&mut self, arrival: Arrival) -> Result<bool, Refusal> {
        let task = &arrival.import.task;
        let (no, tail) = self.shard.ids.decode(&task.id);
        if let Some(holder) = self.holder_of(no, arrival.last.as_deref()) {
            return if holder == tail { Ok(false) } else { Err(Refusal::IdNotKept) };
        }
        let queue = QueueKey::new(&task.body.tenant, &task.body.command);
        let next = self.shard.counters.next_no;
        let is_mine = queue.shard(self.shard.shards) == self.shard.index;
        if !is_mine || no == 0 || (next..GIVEN_OUT).contains(&no) {
            return Err(Refusal::IdNotKept);
        }
        let key = arrival.key();
        let has_namesake = key.as_ref().is_some_and(|key| self.shard.keys.get(key).is_some())
            || arrival.prior.as_ref().is_some_and(|prior| self.is_still(prior));
        if has_namesake {
            return Err(Refusal::IdempotencyKeyTaken);
        }
        if !self.shard.has_imports && no >= next {
            self.log(Entry::Record { key: vec![IMPORTED], value: Some(Vec::new()) });
        }
        let imported = self.arrived(no, tail, arrival.import);
        self.log(Entry::Imported(Box::new(imported)));
        Ok(true)
    }

    /// The random bits of the task that has this number.
    fn holder_of(&self, no: u64, last: Option<&Final>) -> Option<u64> {
        if let Some(slot_id) = self.shard.slots.find(no) {
            return Some(self.shard.slots.at(slot_id).tail);
        }
        match self.shard.recent.get(&no) {
            Some(Recent::Final { ended, .. }) => {
                Some(ended.sketch.tail).filter(|_| ended.is_visible(self.now))
            }
            Some(Recent::Gone { .. }) => None,
            None => last.filter(|last| last.is_visible(self.now)).map(|last| last.sketch.tail),
        }
    }

    /// The task as it will be here: who ran it elsewhere does not run it here.
    fn arrived(&mut self, no: u64, tail: u64, import: Import) -> Imported {
        let Import { task, record } = import;
        let rules = &self.shard.rules;
        let state = match task.state {
            State::Ready { .. } | State::Running(_) => State::Ready { seq: self.next_seq() },
            other => other,
        };
        let expires = match state {
            State::Dead => rules.dead_retention.map_or(Time::MAX, |kept| self.now.plus(kept)),
            _ => self.now.plus(rules.retention),
        };
        let detail = Detail { body: Some(task.body), error: task.error, history: Vec::new(), is_whole: true };
        let sketch = Sketch {
            no,
            tail,
            priority: task.priority,
            state,
            attempts: task.attempts,
            refunds: task.refunds,
            max_attempts: task.max_attempts,
            created_at: task.created_at,
            updated_at: task.updated_at,
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

    fn admit_import(&mut self, sketch: Sketch, body: Arc<codeq_queue::Body>) {
        let seed = Seed {
            tail: sketch.tail,
            created_at: sketch.created_at,
            priority: sketch.priority,
            max_attempts: sketch.max_attempts,
            state: sketch.state.clone(),
            body,
        };
        let slot_id = self.admit(sketch.no, &seed, sketch.detail.clone());
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
            attempts_ended: Vec::new(),
            is_whole: true,
        };
        self.changes.push(Change::State { no: sketch.no, image });
    }

    fn shelve_import(
        &mut self,
        sketch: Sketch,
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
        let last = Arc::new(Final { sketch, record, expires, key });
        self.recent.insert(no, Recent::Final { ended: last.clone(), changed: self.position });
        self.changes.push(Change::Final(last));
    }
}
