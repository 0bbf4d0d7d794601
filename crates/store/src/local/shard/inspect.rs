//! What operators look at: positions, the outbox, operations.

use super::turn::{Reply, Turn};
use super::{Shard, produce::TaskLookup};
use crate::local::format::audit;
use crate::local::format::entry::Entry;
use crate::local::format::operations;
use crate::local::shard::slots::SlotId;
use codeq_queue::audit::KEPT;
use codeq_queue::store::{OutboxCounts, Position, TaskRef};
use codeq_queue::{AuditEntry, AuditPage, Audited, Operation, State, Time, limits};

/// Tasks counted from either end of a list to find a position; the middle of a longer one is not searched.
const COUNTED: u64 = 10_000;
/// Audit records that are forgotten with one that comes.
const FORGOTTEN_AT_ONCE: usize = 16;

impl Shard {
    fn position_of(&self, slot_id: SlotId) -> Option<Position> {
        let slot = self.slots.at(slot_id);
        if !matches!(slot.state, State::Ready { .. }) {
            return None;
        }
        let list = |priority| self.queues.list(slot.queue, slot.lane, priority);
        let higher = (slot.priority + 1..=limits::PRIORITY_MAX).map(|one| u64::from(list(one).len)).sum();
        let before = self.steps(slot_id, |id| self.slots.prev(id));
        let after = || self.steps(slot_id, |id| self.slots.next(id));
        let own = u64::from(list(slot.priority).len);
        let ahead = before.or_else(|| after().map(|behind| own - 1 - behind));
        Some(Position { ahead, ahead_at_higher_priority: higher })
    }

    fn steps(&self, from: SlotId, step: impl Fn(SlotId) -> Option<SlotId>) -> Option<u64> {
        let (mut at, mut count) = (from, 0);
        while let Some(next) = step(at) {
            (at, count) = (next, count + 1);
            if count > COUNTED {
                return None;
            }
        }
        Some(count)
    }
}

impl Turn<'_> {
    pub fn position(&mut self, task: &TaskRef, reply: Reply<Option<Position>>) {
        let position = match self.locate(&task.tenant, &task.id) {
            TaskLookup::Live(slot_id) => self.shard.position_of(slot_id),
            _ => None,
        };
        self.answer(reply, position);
    }

    pub fn outbox(&mut self, reply: Reply<OutboxCounts>) {
        let counts = self.shard.outbox.counts();
        self.answer(reply, counts);
    }

    pub fn put_operation(&mut self, operation: Operation, reply: Reply<bool>) {
        let Some(reply) = self.may_write(reply) else { return };
        let stored = self.shard.operations.get(&operation.id).map_or(0, |known| known.version);
        let is_next = operation.version == stored + 1;
        if is_next {
            let value = Some(operations::write(&operation));
            self.log(Entry::Record { key: operations::key(operation.id), value });
        }
        self.answer(reply, is_next);
    }

    pub fn operations(&mut self, reply: Reply<Vec<Operation>>) {
        let mut all: Vec<Operation> = self.shard.operations.values().cloned().collect();
        all.sort_by_key(|operation| (operation.created_at, operation.id));
        self.answer(reply, all);
    }

    pub fn has_audit(&mut self, place: (Time, u64), reply: Reply<bool>) {
        let is_there = self.shard.audit.contains_key(&place);
        self.answer(reply, is_there);
    }

    pub fn put_audit(&mut self, entry: &AuditEntry, reply: Reply<()>) {
        let Some(reply) = self.may_write(reply) else { return };
        self.keep_audit(entry);
        self.answer(reply, ());
    }

    /// Keeps a record, and forgets some whose time is over.
    pub fn keep_audit(&mut self, entry: &AuditEntry) {
        self.log(Entry::Record { key: audit::key(entry.place()), value: Some(audit::write(entry)) });
        let over = entry.at.millis().saturating_sub(self.shard.rules.audit_retention.as_millis() as i64);
        for _ in 0..FORGOTTEN_AT_ONCE {
            let Some(first) = self.shard.audit.keys().next().copied() else { break };
            if first.0.millis() >= over && self.shard.audit.len() <= KEPT {
                break;
            }
            self.log(Entry::Record { key: audit::key(first), value: None });
        }
    }

    pub fn audit(&mut self, page: &AuditPage, reply: Reply<Audited>) {
        let over = self.now.millis().saturating_sub(self.shard.rules.audit_retention.as_millis() as i64);
        let from = (Time::from_millis(over), 0);
        let to = page.cursor.unwrap_or((Time::MAX, u64::MAX));
        let found = match from < to {
            true => page.take(self.shard.audit.range(from..to).rev().map(|(_, entry)| entry)),
            false => Audited::default(),
        };
        self.answer(reply, found);
    }

    pub fn remove_operation(&mut self, id: u128, reply: Reply<()>) {
        let Some(reply) = self.may_write(reply) else { return };
        if self.shard.operations.contains_key(&id) {
            self.log(Entry::Record { key: operations::key(id), value: None });
        }
        self.answer(reply, ());
    }
}
