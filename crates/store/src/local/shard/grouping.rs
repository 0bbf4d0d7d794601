//! The verbs of batches, and what they do by themselves.
//!
//! The home of a batch keeps who may have members, whether it is to close, and how it ended. The others tell it their
//! counts: one message is on its way at a time for each batch, and the next one carries whatever has changed meanwhile.

use super::turn::{Reply, Turn};
use crate::local::format::batches;
use crate::local::format::entry::Entry;
use crate::local::shard::slots::SlotId;
use codeq_queue::batch::{Batch, Counts, NewBatch};
use codeq_queue::{Body, NewTask, Refusal, TaskId, TaskOptions, limits};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whether tasks may join here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Joining {
    Open,
    Closed,
    /// The home has to know first.
    Unregistered {
        number: u64,
    },
}

/// What the home answers to counts.
#[derive(Clone, Copy)]
pub enum HomeAnswer {
    Heard {
        version: u64,
        is_closed: bool,
        is_cancelled: bool,
    },
    /// There is nothing to tell any more.
    Over,
}

impl Turn<'_> {
    pub fn create_batch(&mut self, id: TaskId, new: NewBatch, reply: Reply<Result<Batch, Refusal>>) {
        let Some(reply) = self.may_write(reply) else { return };
        let made = self.shard.batches.check_room(&new.tenant).map(|()| Batch::new(id, new, self.now));
        if let Ok(batch) = &made {
            self.put_batch(batch);
        }
        self.answer(reply, made);
    }

    fn put_batch(&mut self, batch: &Batch) {
        let value = Some(batches::write_batch(batch));
        self.log(Entry::Record { key: batches::batch_key(&batch.id), value });
    }

    /// Stores a batch that has changed, and ends it if nothing is left to wait for.
    fn keep_batch(&mut self, mut batch: Batch) {
        let has_ended = batch.try_end(self.now, self.shard.rules.retention);
        self.put_batch(&batch);
        if has_ended {
            for shard in batch.shares.into_keys() {
                let answers = vec![(batch.id, HomeAnswer::Over)];
                self.send_to(shard, move |turn| turn.hear_home(answers));
            }
        }
    }

    pub fn batch(&mut self, tenant: &Arc<str>, id: &TaskId, reply: Reply<Option<Batch>>) {
        let found = self.shard.batches.get(tenant, id).cloned();
        self.answer(reply, found);
    }

    /// Lets a shard have members.
    pub fn register(
        &mut self,
        tenant: &Arc<str>,
        id: &TaskId,
        shard: u32,
        reply: Reply<Result<(), Refusal>>,
    ) {
        let Some(reply) = self.may_write(reply) else { return };
        let answer = match self.shard.batches.get(tenant, id).cloned() {
            None => Err(Refusal::BatchNotFound),
            Some(mut batch) => batch.register(shard).map(|is_new| {
                if is_new {
                    self.put_batch(&batch);
                }
            }),
        };
        self.answer(reply, answer);
    }

    /// Closes a batch, and cancels it if asked to.
    pub fn close_batch(
        &mut self,
        tenant: &Arc<str>,
        id: &TaskId,
        cancels: bool,
        reply: Reply<Result<Batch, Refusal>>,
    ) {
        let Some(reply) = self.may_write(reply) else { return };
        let Some(mut batch) = self.shard.batches.get(tenant, id).cloned() else {
            return self.answer(reply, Err(Refusal::BatchNotFound));
        };
        let is_changed = match cancels {
            true => batch.cancel(self.now),
            false => batch.close(self.now),
        };
        if is_changed {
            self.keep_batch(batch);
        }
        self.answer_batch(tenant, id, reply);
    }

    fn answer_batch(&mut self, tenant: &Arc<str>, id: &TaskId, reply: Reply<Result<Batch, Refusal>>) {
        let batch = self.shard.batches.get(tenant, id).cloned();
        self.answer(reply, batch.ok_or(Refusal::BatchNotFound));
    }

    /// Takes in counts that were asked for.
    pub fn gather(
        &mut self,
        tenant: &Arc<str>,
        id: &TaskId,
        counts: Vec<(u32, Counts)>,
        reply: Reply<Result<Batch, Refusal>>,
    ) {
        let Some(reply) = self.may_write(reply) else { return };
        for (shard, counts) in counts {
            self.hear_one(shard, *id, counts);
        }
        self.answer_batch(tenant, id, reply);
    }

    fn hear_one(&mut self, shard: u32, id: TaskId, counts: Counts) -> HomeAnswer {
        let Some(mut batch) = self.shard.batches.by_id(&id).filter(|batch| batch.end.is_none()).cloned()
        else {
            return HomeAnswer::Over;
        };
        if !batch.shares.contains_key(&shard) {
            return HomeAnswer::Over;
        }
        if batch.hear(shard, counts) {
            self.keep_batch(batch);
        }
        match self.shard.batches.by_id(&id) {
            Some(batch) if batch.end.is_none() => HomeAnswer::Heard {
                version: counts.version,
                is_closed: batch.closed_at.is_some(),
                is_cancelled: batch.is_cancelled,
            },
            _ => HomeAnswer::Over,
        }
    }

    /// Counts of another shard. While nothing can be written they are not answered, and come again.
    pub fn hear_counts(&mut self, shard: u32, mut news: Vec<(TaskId, Counts)>) {
        if self.unwritable.is_some() {
            return;
        }
        let mut answers = Vec::with_capacity(news.len());
        while let Some((id, counts)) = news.pop() {
            if self.is_full() {
                news.push((id, counts));
                self.links.inbox.post(move |turn| turn.hear_counts(shard, news));
                break;
            }
            answers.push((id, self.hear_one(shard, id, counts)));
        }
        self.send_to(shard, move |turn| turn.hear_home(answers));
    }

    pub fn hear_home(&mut self, mut answers: Vec<(TaskId, HomeAnswer)>) {
        if self.unwritable.is_some() {
            return;
        }
        while let Some((id, answer)) = answers.pop() {
            if self.is_full() {
                answers.push((id, answer));
                self.links.inbox.post(move |turn| turn.hear_home(answers));
                return;
            }
            match answer {
                HomeAnswer::Over => self.drop_share(id),
                HomeAnswer::Heard { version, is_closed, is_cancelled } => {
                    self.shard.batches.answered(&id, version);
                    if is_closed && self.shard.batches.share(&id).is_some() {
                        self.shut_share(id, None, is_cancelled);
                    }
                }
            }
        }
    }

    /// The batch has ended. A member that was given another life before this was heard belongs to none from now on.
    fn drop_share(&mut self, id: TaskId) {
        self.shard.batches.forget_pending(&id);
        if self.shard.batches.share(&id).is_none() {
            return;
        }
        while let Some(no) = self.shard.batches.first_member(&id) {
            if self.is_full() {
                self.links.inbox.post(move |turn| turn.hear_home(vec![(id, HomeAnswer::Over)]));
                return;
            }
            let slot_id = self.shard.slots.find(no).expect("a member that is listed lives");
            let slot = self.shard.slots.at(slot_id);
            match slot.detail.as_ref().and_then(|kept| kept.detail.body.clone()) {
                Some(body) => self.take_out_of_batch(slot_id, &body),
                None => return self.read_member(slot_id, id),
            }
        }
        self.log(Entry::Record { key: batches::share_key(&id), value: None });
    }

    fn take_out_of_batch(&mut self, slot_id: SlotId, body: &Body) {
        let slot = self.shard.slots.at(slot_id);
        let options = body.options.as_deref().cloned().unwrap_or_default();
        let options = TaskOptions { batch: None, ..options }.boxed();
        let body = Arc::new(Body { options, ..body.clone() });
        self.log(Entry::Replaced { no: slot.no, at: self.now, body, state: slot.state.clone() });
    }

    /// Goes on when the tables have given the body of a member. If they cannot, the home is told again later.
    fn read_member(&mut self, slot_id: SlotId, batch: TaskId) {
        let slot = self.shard.slots.at(slot_id);
        let tenant = self.shard.queues.at(slot.queue).key.tenant.clone();
        let (mut sketch, links) = (slot.sketch(), self.links.clone());
        self.links.pools.lookups.submit(&tenant, move || {
            if !links.library.complete(&mut sketch).unwrap_or(false) {
                return;
            }
            let Some(body) = sketch.detail.body else { return };
            links.inbox.post(move |turn| {
                if turn.unwritable.is_some() {
                    return;
                }
                let slot_id = turn.shard.slots.find(sketch.no);
                let is_member = |slot_id: &SlotId| {
                    let options = turn.shard.slots.at(*slot_id).options();
                    options.and_then(|options| options.batch) == Some(batch)
                };
                if let Some(slot_id) = slot_id.filter(is_member) {
                    turn.take_out_of_batch(slot_id, &body);
                }
                turn.drop_share(batch);
            });
        });
    }

    fn put_share(&mut self, id: TaskId, tenant: &str, counts: &Counts) {
        let value = Some(batches::write_share(tenant, counts));
        self.log(Entry::Record { key: batches::share_key(&id), value });
    }

    /// Whether tasks may join a batch here.
    pub fn joining(&mut self, tenant: &Arc<str>, id: TaskId, reply: Reply<Joining>) {
        let answer = match self.shard.batches.share(&id) {
            Some(share) if share.tenant != *tenant => Joining::Unregistered { number: 0 },
            Some(share) if share.counts.is_closed => Joining::Closed,
            Some(_) => Joining::Open,
            None => {
                let fresh = self.draw() | 1;
                Joining::Unregistered { number: self.shard.batches.prepare(id, fresh) }
            }
        };
        self.answer(reply, answer);
    }

    /// The home knows of this shard: tasks may join, unless it has all been over meanwhile.
    pub fn open_share(&mut self, tenant: &Arc<str>, id: TaskId, number: u64, reply: Reply<()>) {
        let Some(reply) = self.may_write(reply) else { return };
        if self.shard.batches.is_pending(&id, number) {
            self.put_share(id, tenant, &Counts::default());
        }
        self.answer(reply, ());
    }

    /// The home did not take the registration.
    pub fn refuse_share(&mut self, id: &TaskId, number: u64) {
        if self.shard.batches.is_pending(id, number) {
            self.shard.batches.forget_pending(id);
        }
    }

    /// Refuses joins from now on.
    pub fn close_share(&mut self, id: TaskId, tenant: &Arc<str>, cancels: bool, reply: Reply<Counts>) {
        let Some(reply) = self.may_write(reply) else { return };
        let counts = self.shut_share(id, Some(tenant), cancels);
        self.answer(reply, counts);
    }

    fn shut_share(&mut self, id: TaskId, tenant: Option<&Arc<str>>, cancels: bool) -> Counts {
        let share = self.shard.batches.share(&id).map(|share| (share.tenant.clone(), share.counts));
        let Some((tenant, mut counts)) = share.or(tenant.map(|tenant| (tenant.clone(), Counts::default())))
        else {
            return Counts::default();
        };
        if counts.close(cancels) {
            self.put_share(id, &tenant, &counts);
        }
        counts
    }

    pub fn share_counts(&mut self, id: &TaskId, reply: Reply<Option<Counts>>) {
        let counts = self.shard.batches.share(id).map(|share| share.counts);
        self.answer(reply, counts);
    }

    /// Refuses a new member of a batch that takes no more.
    pub fn check_join(&self, task: &NewTask) -> Result<(), Refusal> {
        let Some(batch) = task.body.batch() else { return Ok(()) };
        match self.shard.batches.share(&batch) {
            Some(share) if share.tenant == task.body.tenant && !share.counts.is_closed => Ok(()),
            _ => Err(Refusal::BatchClosed),
        }
    }

    /// What batches do by themselves: close, go, and tell who has members; and their members end when they are cancelled.
    pub fn run_batches(&mut self) {
        if !self.links.has_peers() {
            return;
        }
        for _ in 0..limits::RELEASES_PER_STEP {
            let Some(batch) = self.shard.batches.first_due(self.now).cloned() else { break };
            if self.is_full() {
                return;
            }
            self.look_after(batch);
        }
        self.shard.batches.tell_again(self.now);
        for _ in 0..limits::RELEASES_PER_STEP {
            let Some(no) = self.shard.batches.first_cancelled() else { break };
            if self.is_full() {
                return;
            }
            let slot_id = self.shard.slots.find(no).expect("a member that is listed lives");
            self.end_cancelled(slot_id, None);
        }
    }

    fn look_after(&mut self, mut batch: Batch) {
        if batch.end.is_some() {
            return self.log(Entry::Record { key: batches::batch_key(&batch.id), value: None });
        }
        if batch.close(self.now) {
            return self.keep_batch(batch);
        }
        let (id, is_cancelled) = (batch.id, batch.is_cancelled);
        for shard in batch.behind() {
            let tenant = batch.tenant.clone();
            self.send_to(shard, move |turn| {
                if turn.unwritable.is_none() {
                    turn.shut_share(id, Some(&tenant), is_cancelled);
                }
            });
        }
        self.shard.batches.plan(id, Some(self.now.plus(limits::ASK_AGAIN)));
    }

    /// Tells the homes of batches what has changed here, once that is durable.
    pub fn send_counts(&mut self) {
        if !self.links.has_peers() {
            return;
        }
        let due = self.now.plus(limits::ASK_AGAIN);
        let mut by_home: BTreeMap<u32, Vec<(TaskId, Counts)>> = BTreeMap::new();
        for _ in 0..limits::RELEASES_PER_STEP {
            let Some((id, counts)) = self.shard.batches.take_news(due) else { break };
            by_home.entry(id.shard(self.shard.shards)).or_default().push((id, counts));
        }
        let own = self.shard.index;
        for (home, news) in by_home {
            self.send_to(home, move |turn| turn.hear_counts(own, news));
        }
    }
}
