//! Held tasks: asking how things stand that they wait for, answering such questions, and what follows from an answer.

use super::produce::TaskLookup;
use super::turn::{ShardContext, Turn};
use super::waits::{Ask, Asker, EndNotice, standing};
use crate::local::format::entry::Entry;
use crate::local::shard::slots::SlotId;
use codeq_queue::dependency::{self, HeldStep};
use codeq_queue::{FailureReason, Held, Standing, State, TaskId, limits};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Turn<'_> {
    /// What held tasks do by themselves.
    pub fn run_held(&mut self) {
        self.ask_due();
        self.act_on_told();
    }

    /// Asks for what held tasks wait for. The questions leave once the tasks are durable.
    fn ask_due(&mut self) {
        // Opening starts one shard after the other.
        if !self.links.has_peers() {
            return;
        }
        let mut asks: BTreeMap<u32, Vec<Ask>> = BTreeMap::new();
        let mut count = 0;
        while count < limits::RELEASES_PER_STEP {
            let Some((no, open)) = self.shard.waits.take_due(self.now) else { break };
            let Some(slot_id) = self.shard.slots.find(no) else { continue };
            let tenant = self.shard.queues.at(self.shard.slots.at(slot_id).queue).key.tenant.clone();
            for id in open {
                count += 1;
                let from = Asker { shard: self.shard.index, no };
                let ask = Ask { tenant: tenant.clone(), id, from, tries: 1 };
                match id.shard(self.shard.shards) {
                    own if own == self.shard.index => self.take_ask(ask),
                    other => asks.entry(other).or_default().push(ask),
                }
            }
        }
        for (shard, asks) in asks {
            self.send_to(shard, move |turn| turn.take_asks(asks));
        }
    }

    /// Posts something to another shard once this group is durable.
    pub fn send_to(&mut self, shard: u32, act: impl FnOnce(&mut Turn<'_>) + Send + 'static) {
        self.group.releases.push(Box::new(move |links| links.post_to(shard, act)));
    }

    pub fn take_asks(&mut self, asks: Vec<Ask>) {
        asks.into_iter().for_each(|ask| self.take_ask(ask));
    }

    /// Answers a held task of any shard, or notes that it is to be told later.
    fn take_ask(&mut self, ask: Ask) {
        let batch = self.shard.batches.get(&ask.tenant, &ask.id).map(|batch| batch.standing());
        let known = match (batch, self.locate(&ask.tenant, &ask.id)) {
            (Some(known), _) => known,
            (None, TaskLookup::Live(_)) => Standing::Open,
            (None, TaskLookup::Recent { ended, .. }) => standing(&ended.sketch.state),
            (None, TaskLookup::Nowhere) => return self.pass_on(ask),
            (None, located @ TaskLookup::Tables { .. }) => return self.look_for(ask, located),
        };
        if known == Standing::Open {
            self.shard.waits.watch(&ask);
        }
        self.shard.waits.tell(self.shard.index, ask.from, ask.id, known);
    }

    /// What is not here may have come from elsewhere and lie on any shard. What is nowhere is gone.
    fn pass_on(&mut self, ask: Ask) {
        match next_shard(&ask, self.shard.index, self.shard.shards) {
            Some(next) => {
                let ask = Ask { tries: ask.tries + 1, ..ask };
                self.send_to(next, move |turn| turn.take_asks(vec![ask]));
            }
            None => self.shard.waits.tell(self.shard.index, ask.from, ask.id, Standing::Failed),
        }
    }

    /// Looks into the tables. If that fails, the question comes again.
    fn look_for(&mut self, ask: Ask, located: TaskLookup) {
        let (now, index, shards) = (self.aged, self.shard.index, self.shard.shards);
        self.group.releases.push(Box::new(move |links| {
            links.send(true, move |links: &Arc<ShardContext>| {
                let Ok(found) = located.last(&links.library, now) else { return };
                let known = found.map(|last| standing(&last.sketch.state));
                match (known, next_shard(&ask, index, shards)) {
                    (None, Some(next)) => {
                        let ask = Ask { tries: ask.tries + 1, ..ask };
                        links.post_to(next, move |turn| turn.take_asks(vec![ask]));
                    }
                    (known, _) => {
                        let standing = known.unwrap_or(Standing::Failed);
                        let told = EndNotice { no: ask.from.no, id: ask.id, standing };
                        links.post_to(ask.from.shard, move |turn| turn.hear_told(vec![told]));
                    }
                }
            });
        }));
    }

    pub fn hear_told(&mut self, told: Vec<EndNotice>) {
        told.into_iter().for_each(|told| self.shard.waits.hear(told));
    }

    /// Tells other shards what has ended here, once that is durable.
    pub fn send_told(&mut self) {
        let mut by_shard: BTreeMap<u32, Vec<EndNotice>> = BTreeMap::new();
        for (shard, told) in self.shard.waits.take_outgoing() {
            by_shard.entry(shard).or_default().push(told);
        }
        for (shard, told) in by_shard {
            self.send_to(shard, move |turn| turn.hear_told(told));
        }
        let partings = self.shard.waits.take_partings();
        let shards = self.shard.shards;
        let mut by_shard: BTreeMap<u32, Vec<Ask>> = BTreeMap::new();
        for parting in partings {
            by_shard.entry(parting.id.shard(shards)).or_default().push(parting);
        }
        for (shard, partings) in by_shard {
            match shard == self.shard.index {
                true => self.take_partings(partings),
                false => self.send_to(shard, move |turn| turn.take_partings(partings)),
            }
        }
    }

    /// Forgets whom to tell, here or wherever the question went. That there is nobody is the usual case where something
    /// has ended just then.
    fn take_partings(&mut self, partings: Vec<Ask>) {
        for parting in partings {
            if self.shard.waits.unwatch(&parting) {
                continue;
            }
            if let Some(next) = next_shard(&parting, self.shard.index, self.shard.shards) {
                let parting = Ask { tries: parting.tries + 1, ..parting };
                self.send_to(next, move |turn| turn.take_partings(vec![parting]));
            }
        }
    }

    /// A task that is held ends without having been told of all it waits for.
    pub fn part(&mut self, slot_id: SlotId, told: Option<TaskId>) {
        let slot = self.shard.slots.at(slot_id);
        let State::Held(held) = &slot.state else { return };
        let (held, from) = (held.clone(), Asker { shard: self.shard.index, no: slot.no });
        let tenant = self.shard.queues.at(slot.queue).key.tenant.clone();
        let open = held.open.iter().copied().filter(|id| Some(*id) != told);
        self.shard.waits.part(&tenant, from, open);
    }

    /// A bounded number at a time, so that commands get their share when very many waited for one task.
    fn act_on_told(&mut self) {
        for _ in 0..limits::RELEASES_PER_STEP {
            if self.is_full() {
                return;
            }
            let Some(told) = self.shard.waits.take_told() else { return };
            let Some(slot_id) = self.shard.slots.find(told.no) else { continue };
            let State::Held(held) = self.shard.slots.at(slot_id).state.clone() else { continue };
            self.act_on(slot_id, &held, &told);
        }
    }

    fn act_on(&mut self, slot_id: SlotId, held: &Held, told: &EndNotice) {
        let slot = self.shard.slots.at(slot_id);
        let no = slot.no;
        let on_failure = slot.options().map(|options| options.on_failure).unwrap_or_default();
        match dependency::after(held, &told.id, told.standing, on_failure) {
            HeldStep::Nothing => {}
            HeldStep::Wait => self.log(Entry::Awaited { no, at: self.now, ended: told.id }),
            HeldStep::Release => {
                let state = match held.delay.visible_at(self.now) {
                    Some(until) => State::Delayed { until },
                    None => State::Ready { seq: self.next_seq() },
                };
                self.log(Entry::Released { no, at: self.now, state });
            }
            HeldStep::Fail => {
                self.part(slot_id, Some(told.id));
                let error = dependency::failed_text(&told.id);
                let record = self.failure(&error, FailureReason::Dependency);
                self.end(slot_id, State::Failed, None, Some(error), record);
            }
        }
    }

    /// How these stand; `None` for what is not here.
    pub fn standings(
        &mut self,
        tasks: &[codeq_queue::store::TaskRef],
        reply: super::Reply<Vec<Option<Standing>>>,
    ) {
        let now = self.aged;
        let found: Vec<Result<Standing, TaskLookup>> = tasks
            .iter()
            .map(|task| match self.shard.batches.get(&task.tenant, &task.id) {
                Some(batch) => Ok(batch.standing()),
                None => match self.locate(&task.tenant, &task.id) {
                    TaskLookup::Live(_) => Ok(Standing::Open),
                    located => Err(located),
                },
            })
            .collect();
        let needs_tables = found.iter().any(|found| found.as_ref().is_err_and(TaskLookup::needs_tables));
        self.answer_from(reply, needs_tables, move |library| {
            let standings = found.into_iter().map(|found| match found {
                Ok(known) => Ok(Some(known)),
                Err(located) => Ok(located.last(library, now)?.map(|last| standing(&last.sketch.state))),
            });
            standings.collect()
        });
    }
}

/// Whom to ask next for what is not here.
fn next_shard(ask: &Ask, own: u32, shards: u32) -> Option<u32> {
    (ask.tries < shards).then(|| (own + 1) % shards)
}

impl super::Shard {
    /// One of what a held task waits for has ended, and others have not.
    pub(super) fn apply_awaited(&mut self, slot_id: SlotId, ended: &TaskId) -> Result<(), &'static str> {
        let State::Held(held) = &self.slots.at(slot_id).state else {
            return Err("an end for a task that is not held");
        };
        let left = held.without(ended).ok_or("a held task that waits for nothing")?;
        self.slots.at_mut(slot_id).state = State::Held(Arc::new(left));
        Ok(())
    }
}
