//! Telling what happened: an event for every entry that someone outside may want to know of.

use super::Shard;
use crate::local::format::entry::Entry;
use crate::local::shard::slots::SlotId;
use codeq_queue::event::{Event, What};
use codeq_queue::{Owner, TaskId, Time};
use std::sync::Arc;

/// What is known of an entry before it is applied.
pub struct EventDraft {
    at: Time,
    queue: u32,
    /// Ready tasks of the queue before.
    ready: u64,
    task: Option<TaskId>,
    what: What,
}

impl Shard {
    /// `None` for entries that nobody watches.
    pub fn witness(&mut self, entry: &Entry) -> Option<EventDraft> {
        match entry {
            Entry::Created { no, tail, at, body, .. } => {
                let queue = self.queues.intern(&body.tenant, &body.command);
                let task = Some(self.ids.encode(*no, *tail));
                Some(EventDraft {
                    at: *at,
                    queue,
                    ready: self.queues.at(queue).ready,
                    task,
                    what: What::Created,
                })
            }
            Entry::Claimed { no, at, attempts, owner, .. } => {
                let ready_at = self.slots.at(self.slots.find(*no)?).updated_at;
                self.witness_of(
                    *no,
                    *at,
                    What::Claimed { owner: owner.clone(), attempt: *attempts, ready_at },
                )
            }
            Entry::Returned { no, at, outcome, error, .. } => {
                let (attempt, owner) = self.running(*no)?;
                let what = What::Returned { outcome: *outcome, attempt, owner, error: error.clone() };
                self.witness_of(*no, *at, what)
            }
            Entry::Released { no, at, .. } => self.witness_of(*no, *at, What::Released),
            Entry::Promoted { no, at, .. } => self.witness_of(*no, *at, What::Promoted),
            Entry::Ended(ended) => {
                let (attempt, owner) = self.running(ended.no)?;
                let what = What::Ended {
                    state: ended.state.clone(),
                    outcome: ended.outcome,
                    attempt,
                    owner,
                    error: ended.error.clone(),
                    created_at: self.slots.at(self.slots.find(ended.no)?).created_at,
                    has_callback: ended.delivery.is_some(),
                };
                self.witness_of(ended.no, ended.at, what)
            }
            Entry::Reopened { no, at, letter, .. } => {
                let sketch = &letter.as_ref()?.sketch;
                let body = sketch.detail.body.as_ref()?;
                let queue = self.queues.intern(&body.tenant, &body.command);
                let task = Some(self.ids.encode(*no, sketch.tail));
                Some(EventDraft {
                    at: *at,
                    queue,
                    ready: self.queues.at(queue).ready,
                    task,
                    what: What::Reopened,
                })
            }
            Entry::Imported(imported) if imported.end.is_none() => {
                let sketch = &imported.sketch;
                let body = sketch.detail.body.as_ref()?;
                let queue = self.queues.intern(&body.tenant, &body.command);
                let task = Some(self.ids.encode(sketch.no, sketch.tail));
                let ready = self.queues.at(queue).ready;
                Some(EventDraft { at: imported.at, queue, ready, task, what: What::Created })
            }
            Entry::Paused { queue, is_paused } => {
                let queue = self.queues.intern(&queue.tenant, &queue.command);
                let what = if *is_paused { What::Paused } else { What::Resumed };
                let ready = self.queues.at(queue).ready;
                Some(EventDraft { at: self.counters.last, queue, ready, task: None, what })
            }
            Entry::Extended { .. }
            | Entry::Awaited { .. }
            | Entry::Checkpointed { .. }
            | Entry::CancelAsked { .. }
            | Entry::Replaced { .. }
            | Entry::Removed { .. }
            | Entry::Record { .. }
            | Entry::DeliveryMoved { .. }
            | Entry::DeliveryDone { .. }
            | Entry::Imported(_) => None,
        }
    }

    fn witness_of(&self, no: u64, at: Time, what: What) -> Option<EventDraft> {
        let slot = self.slots.at(self.slots.find(no)?);
        let task = Some(self.ids.encode(slot.no, slot.tail));
        Some(EventDraft { at, queue: slot.queue, ready: self.queues.at(slot.queue).ready, task, what })
    }

    /// A running task tells how far it is.
    pub fn progress_event(&self, slot_id: SlotId, at: Time, progress: Arc<str>) -> Event {
        let slot = self.slots.at(slot_id);
        let owner = slot.state.lease().map(|lease| lease.owner.clone());
        let what = What::Progress { attempt: slot.attempts, owner, progress };
        let (task, ready) = (Some(self.ids.encode(slot.no, slot.tail)), self.queues.at(slot.queue).ready);
        self.event(EventDraft { at, queue: slot.queue, ready, task, what })
    }

    /// The attempt of a live task, and who runs it.
    fn running(&self, no: u64) -> Option<(u32, Option<Arc<Owner>>)> {
        let slot = self.slots.at(self.slots.find(no)?);
        Some((slot.attempts, slot.state.lease().map(|lease| lease.owner.clone())))
    }

    /// The event, once the entry has been applied.
    pub fn event(&self, witness: EventDraft) -> Event {
        let queue = self.queues.at(witness.queue);
        Event {
            at: witness.at,
            queue: queue.key.clone(),
            command: queue.spelling.clone(),
            task: witness.task,
            what: witness.what,
            has_filled: witness.ready == 0 && queue.ready > 0,
        }
    }
}
