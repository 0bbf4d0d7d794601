//! Live tasks in memory: about a hundred bytes each, found by number, chained into ready lists.
//!
//! Slots live in chunks, so that growing to millions never moves everything at once.

mod index;

use crate::local::format::records::{Detail, PartialTask};
use codeq_queue::lane::LaneId;
use codeq_queue::{State, TaskOptions, Time};
use index::Index;
use std::cell::Cell;
use std::sync::Arc;

pub type SlotId = u32;
const NIL: SlotId = u32::MAX;
const CHUNK_SLOTS: usize = 1 << 13;

/// What must stay in memory of a task's body: it is needed to end the task.
pub struct EndFields {
    pub key: Option<Box<str>>,
    pub webhook: Option<Box<str>>,
    pub command: Box<str>,
    pub options: Option<Box<TaskOptions>>,
    /// What the running attempt told last.
    pub progress: Option<Arc<str>>,
}

pub struct Slot {
    pub no: u64,
    pub tail: u64,
    pub created_at: Time,
    pub updated_at: Time,
    pub state: State,
    prev: SlotId,
    next: SlotId,
    pub queue: u32,
    pub attempts: u32,
    pub refunds: u32,
    pub max_attempts: u32,
    pub priority: u8,
    /// Within its queue.
    pub lane: LaneId,
    /// Only for tasks with an idempotency key, a webhook or options.
    pub extra: Option<Box<EndFields>>,
    /// `None`: the tables have it.
    pub detail: Option<Box<Kept>>,
}

/// A detail in memory, and the journal position it was last changed at.
pub struct Kept {
    pub detail: Detail,
    pub changed: u64,
    pub bytes: usize,
}

impl Slot {
    pub fn options(&self) -> Option<&TaskOptions> {
        self.extra.as_ref()?.options.as_deref()
    }

    /// When the task fails unless someone has claimed it.
    pub fn expires_at(&self) -> Option<Time> {
        self.options()?.expires_at.filter(|_| self.attempts == 0)
    }

    pub fn sketch(&self) -> PartialTask {
        let detail = self.detail.as_ref().map(|kept| kept.detail.clone()).unwrap_or_default();
        self.sketch_with(detail)
    }

    pub fn sketch_with(&self, detail: Detail) -> PartialTask {
        PartialTask {
            no: self.no,
            tail: self.tail,
            priority: self.priority,
            state: self.state.clone(),
            attempts: self.attempts,
            refunds: self.refunds,
            max_attempts: self.max_attempts,
            created_at: self.created_at,
            updated_at: self.updated_at,
            progress: self.extra.as_ref().and_then(|extra| extra.progress.clone()),
            detail,
        }
    }
}

/// A new slot's contents; links are the table's business.
pub struct NewSlot {
    pub no: u64,
    pub tail: u64,
    pub created_at: Time,
    pub queue: u32,
    pub lane: LaneId,
    pub priority: u8,
    pub max_attempts: u32,
    pub state: State,
    pub extra: Option<Box<EndFields>>,
    pub detail: Option<Box<Kept>>,
}

/// One ready list: tasks of one priority of one queue, oldest first.
#[derive(Clone, Copy)]
pub struct List {
    head: SlotId,
    tail: SlotId,
    pub len: u32,
}

impl Default for List {
    fn default() -> List {
        List { head: NIL, tail: NIL, len: 0 }
    }
}

impl List {
    #[cfg(test)]
    pub fn sized(len: u32) -> List {
        List { len, ..List::default() }
    }

    pub fn first(&self) -> Option<SlotId> {
        (self.head != NIL).then_some(self.head)
    }
}

pub struct Slots {
    chunks: Vec<Vec<Slot>>,
    free: Vec<SlotId>,
    index: Index,
    len: usize,
    /// The task looked up last: one command asks for the same one several times.
    latest: Cell<(u64, SlotId)>,
}

impl Slots {
    pub fn new() -> Slots {
        let (chunks, free, index) = (Vec::new(), Vec::new(), Index::new());
        Slots { chunks, free, index, len: 0, latest: Cell::new((0, NIL)) }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn at(&self, id: SlotId) -> &Slot {
        &self.chunks[id as usize / CHUNK_SLOTS][id as usize % CHUNK_SLOTS]
    }

    pub fn at_mut(&mut self, id: SlotId) -> &mut Slot {
        &mut self.chunks[id as usize / CHUNK_SLOTS][id as usize % CHUNK_SLOTS]
    }

    pub fn find(&self, no: u64) -> Option<SlotId> {
        let (latest, id) = self.latest.get();
        if latest == no && no != 0 {
            return Some(id);
        }
        let id = self.index.find(no)?;
        self.latest.set((no, id));
        Some(id)
    }

    pub fn insert(&mut self, new: NewSlot) -> SlotId {
        let slot = Slot {
            no: new.no,
            tail: new.tail,
            created_at: new.created_at,
            updated_at: new.created_at,
            state: new.state,
            prev: NIL,
            next: NIL,
            queue: new.queue,
            attempts: 0,
            refunds: 0,
            max_attempts: new.max_attempts,
            priority: new.priority,
            lane: new.lane,
            extra: new.extra,
            detail: new.detail,
        };
        let no = slot.no;
        let id = match self.free.pop() {
            Some(id) => {
                *self.at_mut(id) = slot;
                id
            }
            None => self.append(slot),
        };
        self.index.insert(no, id);
        self.len += 1;
        self.latest.set((no, id));
        id
    }

    fn append(&mut self, slot: Slot) -> SlotId {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK_SLOTS) {
            self.chunks.push(Vec::with_capacity(CHUNK_SLOTS));
        }
        let index = self.chunks.len() - 1;
        let chunk = &mut self.chunks[index];
        chunk.push(slot);
        SlotId::try_from(index * CHUNK_SLOTS + chunk.len() - 1).expect("fewer than four billion live tasks")
    }

    /// Takes the slot out; it must be in no list.
    pub fn remove(&mut self, id: SlotId) -> (Option<Box<EndFields>>, Option<Box<Kept>>) {
        let slot = self.at_mut(id);
        let (no, extra, detail) = (slot.no, slot.extra.take(), slot.detail.take());
        slot.state = State::Completed;
        slot.no = 0;
        self.index.remove(no);
        self.free.push(id);
        self.len -= 1;
        self.latest.set((0, NIL));
        (extra, detail)
    }

    pub fn push_back(&mut self, list: &mut List, id: SlotId) {
        let tail = list.tail;
        let slot = self.at_mut(id);
        slot.prev = tail;
        slot.next = NIL;
        match tail {
            NIL => list.head = id,
            tail => self.at_mut(tail).next = id,
        }
        list.tail = id;
        list.len += 1;
    }

    pub fn unlink(&mut self, list: &mut List, id: SlotId) {
        let slot = self.at_mut(id);
        let (prev, next) = (slot.prev, slot.next);
        (slot.prev, slot.next) = (NIL, NIL);
        match prev {
            NIL => list.head = next,
            prev => self.at_mut(prev).next = next,
        }
        match next {
            NIL => list.tail = prev,
            next => self.at_mut(next).prev = prev,
        }
        list.len -= 1;
    }

    pub fn next(&self, id: SlotId) -> Option<SlotId> {
        let next = self.at(id).next;
        (next != NIL).then_some(next)
    }

    pub fn prev(&self, id: SlotId) -> Option<SlotId> {
        let prev = self.at(id).prev;
        (prev != NIL).then_some(prev)
    }

    pub fn iter(&self) -> impl Iterator<Item = (SlotId, &Slot)> {
        let slots = self.chunks.iter().flatten().enumerate();
        slots.filter(|(_, slot)| slot.no != 0).map(|(index, slot)| (index as SlotId, slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(no: u64) -> NewSlot {
        NewSlot {
            no,
            tail: 0,
            created_at: Time::ZERO,
            queue: 0,
            lane: LaneId::MAX,
            priority: 0,
            max_attempts: 1,
            state: State::Ready { seq: no },
            extra: None,
            detail: None,
        }
    }

    #[test]
    fn a_slot_is_about_a_hundred_bytes() {
        assert!(size_of::<Slot>() <= 96, "{}", size_of::<Slot>());
    }

    #[test]
    fn lists_keep_order_through_removal_in_the_middle() {
        let mut slots = Slots::new();
        let mut list = List::default();
        let ids: Vec<SlotId> = (1..=20_000).map(|no| slots.insert(new(no))).collect();
        for id in &ids {
            slots.push_back(&mut list, *id);
        }
        for id in ids.iter().step_by(2) {
            slots.unlink(&mut list, *id);
            slots.remove(*id);
        }
        let mut seen = Vec::new();
        let mut at = list.first();
        while let Some(id) = at {
            seen.push(slots.at(id).no);
            at = slots.next(id);
        }
        assert_eq!(seen, (2..=20_000).step_by(2).collect::<Vec<u64>>());
        assert_eq!((list.len, slots.len()), (10_000, 10_000));
        assert!(slots.find(1).is_none());
        assert_eq!(slots.at(slots.find(20_000).unwrap()).no, 20_000);
        assert_eq!(slots.iter().count(), 10_000);
    }

    #[test]
    fn freed_slots_are_used_again() {
        let mut slots = Slots::new();
        let first = slots.insert(new(1));
        slots.remove(first);
        assert_eq!(slots.insert(new(2)), first);
        assert!(slots.find(1).is_none());
    }
}
