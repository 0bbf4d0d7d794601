//! Checks of what opening would bring back into memory: every live task is in exactly one place and counted
//! once.

use crate::local::directory::verify::Check;
use crate::local::directory::verify::rows::name_of;
use crate::local::format::ids::place_of;
use crate::local::format::records::idem_key;
use crate::local::shard::slots::{Slot, SlotId};
use crate::local::shard::{Queue, Shard};
use codeq_queue::State;
use std::collections::{HashMap, HashSet};

impl Check<'_> {
    pub(super) fn live(&mut self, shard: &Shard) {
        let mut lined_up = HashSet::new();
        for queue in shard.queues.iter() {
            self.ready_lists(shard, queue, &mut lined_up);
        }
        for (batch, (counted, found)) in shard.batches.shares() {
            self.expect(counted == found, || {
                format!("batch {batch} counts {counted} live members, has {found}")
            });
        }
        let mut counts: HashMap<u32, (u64, u64)> = HashMap::new();
        let (mut delayed, mut running) = (0, 0);
        for (slot_id, slot) in shard.slots.iter() {
            self.place(shard, slot_id, slot, &lined_up);
            self.names(shard, slot);
            let counts = counts.entry(slot.queue).or_default();
            match &slot.state {
                State::Delayed { .. } => (counts.0, delayed) = (counts.0 + 1, delayed + 1),
                State::Running(_) => (counts.1, running) = (counts.1 + 1, running + 1),
                _ => {}
            }
        }
        for (id, (delayed, running)) in counts {
            let queue = shard.queues.at(id);
            let (counted, name) = ((queue.delayed, queue.running), name_of(&queue.key));
            let found = (delayed, running);
            self.expect(counted == found, || {
                format!("queue {name} counts {counted:?} delayed and running, has {found:?}")
            });
        }
        let sums = shard.queues.iter().map(|queue| (queue.ready, queue.delayed, queue.running));
        let (ready, counted_delayed, counted_running) =
            sums.fold((0, 0, 0), |sum, queue| (sum.0 + queue.0, sum.1 + queue.1, sum.2 + queue.2));
        self.same("delayed", counted_delayed, delayed, shard.delayed.len());
        self.same("running", counted_running, running, shard.leases.len());
        let lined_up = lined_up.len() as u64;
        self.expect(ready == lined_up, || {
            format!("queues count {ready} ready tasks, {lined_up} are lined up")
        });
        self.verified.live += shard.slots.len() as u64;
        self.verified.ready += lined_up;
        self.verified.delayed += delayed;
        self.verified.running += running;
    }

    fn same(&mut self, what: &str, counted: u64, found: u64, indexed: usize) {
        let holds = counted == found && indexed as u64 == found;
        self.expect(holds, || {
            format!("{found} tasks are {what}, {counted} are counted, {indexed} are indexed")
        });
    }

    /// Every list of a queue and of its lanes holds ready tasks of its own, in the order of their becoming ready.
    fn ready_lists(&mut self, shard: &Shard, queue: &Queue, lined_up: &mut HashSet<SlotId>) {
        let plain = (0..).zip(queue.lists);
        let of_lanes = queue.flow.iter().flat_map(|flow| flow.lists());
        for (priority, list) in plain.chain(of_lanes) {
            let (mut at, mut count, mut last) = (list.first(), 0, None);
            while let Some(slot_id) = at {
                let slot = shard.slots.at(slot_id);
                let is_own = shard.queues.at(slot.queue).key == queue.key && slot.priority == priority;
                self.expect(is_own, || {
                    format!("task {} is in the list of another queue or priority", slot.no)
                });
                let seq = if let State::Ready { seq } = slot.state { Some(seq) } else { None };
                self.expect(seq.is_some() && seq > last, || {
                    format!("task {} is lined up out of order", slot.no)
                });
                let is_new = lined_up.insert(slot_id);
                self.expect(is_new, || format!("task {} is lined up twice", slot.no));
                if !is_new {
                    return;
                }
                (at, count, last) = (shard.slots.next(slot_id), count + 1, seq.or(last));
            }
            let name = name_of(&queue.key);
            self.expect(count == list.len, || {
                format!("queue {name} counts {}, has {count} at {priority}", list.len)
            });
        }
    }

    /// A live task is where its state says, and nowhere else.
    fn place(&mut self, shard: &Shard, slot_id: SlotId, slot: &Slot, lined_up: &HashSet<SlotId>) {
        let is_lined_up = lined_up.contains(&slot_id);
        let holds = match &slot.state {
            State::Ready { seq } => is_lined_up && *seq < shard.counters.next_seq,
            State::Delayed { until } => !is_lined_up && shard.delayed.contains(&(*until, slot.no)),
            State::Running(lease) => !is_lined_up && shard.leases.contains(&(lease.acts_at(), slot.no)),
            State::Held(_) => !is_lined_up,
            State::Completed | State::Failed | State::Cancelled | State::Dead => false,
        };
        self.expect(holds, || format!("task {} is not where its state says: {:?}", slot.no, slot.state));
    }

    /// Its number was given out, its id leads here, and its key names it.
    fn names(&mut self, shard: &Shard, slot: &Slot) {
        let no = slot.no;
        let next = shard.counters.next_no;
        let has_number = no < next || shard.imports.are_there();
        self.expect(has_number, || format!("task {no} is live, but the next number is {next}"));
        let id = shard.ids.encode(no, slot.tail);
        let leads_here = id.shard(shard.shards) == shard.index || shard.imports.has_strays();
        self.expect(leads_here, || format!("task {no} has the id of another shard: {id}"));
        let is_at_place = shard.imports.places().contains(&place_of(slot.tail));
        self.expect(is_at_place, || format!("task {no} lies where nobody looks for {id}"));
        let queue = &shard.queues.at(slot.queue).key;
        self.expect(queue.shard(shard.shards) == shard.index, || {
            format!("task {no} of queue {} is on the shard of others", name_of(queue))
        });
        if let Some(text) = slot.extra.as_ref().and_then(|extra| extra.key.as_deref()) {
            let named = shard.keys.get(&idem_key(&shard.queues.at(slot.queue).key, text)).copied();
            self.expect(named == Some(no), || format!("the key of task {no} names {named:?}"));
        }
    }
}
