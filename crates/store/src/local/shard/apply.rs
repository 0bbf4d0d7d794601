//! Applying entries: the only code that changes tasks in memory, live and at replay alike.

use super::settle::NO_TASK;
use super::{Recent, Shard};
use crate::local::format::entry::{Ended, Entry};
use crate::local::format::records::{Detail, Final, IdemKey, QueueRow, TaskHead, idem_key};
use crate::local::rows::change::{Change, Image, Reopened};
use crate::local::shard::slots::{EndFields, Kept, NewSlot, Slot, SlotId};
use codeq_queue::attempt::{AttemptEnd, remember};
use codeq_queue::{
    Attempt, AttemptOutcome, Body, Lease, OnFailure, QueueKey, State, TaskOptions, Time, UniqueUntil,
};
use std::sync::Arc;

impl Shard {
    /// Changes the state as the entry says. `Err` names an entry that does not fit the state, which only
    /// a damaged or foreign journal can hold.
    pub fn apply(&mut self, entry: Entry) -> Result<(), &'static str> {
        self.change(entry)?;
        self.arrange_touched();
        Ok(())
    }

    fn change(&mut self, entry: Entry) -> Result<(), &'static str> {
        match entry {
            Entry::Created { no, tail, at, body, priority, max_attempts, state } => {
                self.saw(at);
                self.counters.next_no = self.counters.next_no.max(no + 1);
                let seed = TaskHead { tail, created_at: at, priority, max_attempts, state, body };
                self.admit(no, &seed, Detail::of(seed.body.clone()));
                self.take_unique(no, &seed);
                self.count_joined(&seed.body, at);
                self.changes.push(Change::Created { no, seed });
            }
            Entry::Claimed { no, at, attempts, owner, until } => {
                let slot_id = self.slots.find(no).ok_or("claim of an unknown task")?;
                self.saw(at);
                let lease = Lease::new(owner, until, at);
                self.release_unique(slot_id, UniqueUntil::Started);
                self.shift(slot_id, at, State::Running(Arc::new(lease)), |slot| slot.attempts = attempts);
                let queue = self.slots.at(slot_id).queue;
                self.queues.at_mut(queue).last_claim = Some(at);
                self.use_up(slot_id, at);
                self.push_image(slot_id, None, None);
            }
            Entry::Extended { no, at, until } => {
                let slot_id = self.slots.find(no).ok_or("heartbeat of an unknown task")?;
                self.saw(at);
                let State::Running(lease) = &self.slots.at(slot_id).state else {
                    return Err("heartbeat of a task that does not run");
                };
                let lease = Lease { until, ..(**lease).clone() };
                self.shift(slot_id, at, State::Running(Arc::new(lease)), |_| {});
                self.push_image(slot_id, None, None);
            }
            Entry::Checkpointed { no, at, checkpoint } => {
                let slot_id = self.slots.find(no).ok_or("checkpoint of an unknown task")?;
                self.saw(at);
                self.note(slot_id, None, None, Some(checkpoint.clone()));
                self.push_checkpoint(slot_id, checkpoint);
            }
            Entry::CancelAsked { no, at, cancel } => {
                let slot_id = self.slots.find(no).ok_or("cancel of an unknown task")?;
                self.saw(at);
                let State::Running(lease) = &self.slots.at(slot_id).state else {
                    return Err("cancel request for a task that does not run");
                };
                let lease = Lease { cancel: Some(cancel), ..(**lease).clone() };
                self.shift(slot_id, at, State::Running(Arc::new(lease)), |_| {});
                self.push_image(slot_id, None, None);
            }
            Entry::Replaced { no, at, body, state } => {
                let slot_id = self.slots.find(no).ok_or("another body for an unknown task")?;
                self.saw(at);
                self.replace(slot_id, at, body, state);
            }
            Entry::Returned { no, at, outcome, refunds, state, error } => {
                let slot_id = self.slots.find(no).ok_or("return of an unknown task")?;
                self.saw(at);
                let attempt = self.end_attempt(slot_id, at, outcome, error.as_deref());
                self.shift(slot_id, at, state, |slot| slot.refunds = refunds);
                self.note(slot_id, error.clone(), attempt.clone(), None);
                self.push_image(slot_id, error, attempt);
            }
            Entry::Promoted { no, at, seq } => {
                let slot_id = self.slots.find(no).ok_or("promotion of an unknown task")?;
                self.saw(at);
                self.shift(slot_id, at, State::Ready { seq }, |_| {});
                self.push_image(slot_id, None, None);
            }
            Entry::Released { no, at, state } => {
                let slot_id = self.slots.find(no).ok_or("release of an unknown task")?;
                self.saw(at);
                self.shift(slot_id, at, state, |_| {});
                self.push_image(slot_id, None, None);
            }
            Entry::Awaited { no, at, ended } => {
                let slot_id = self.slots.find(no).ok_or("an end for an unknown task")?;
                self.saw(at);
                self.apply_awaited(slot_id, &ended)?;
                self.slots.at_mut(slot_id).updated_at = at;
                self.push_image(slot_id, None, None);
            }
            Entry::Ended(ended) => {
                let slot_id = self.slots.find(ended.no).ok_or("end of an unknown task")?;
                self.saw(ended.at);
                self.end(slot_id, *ended);
            }
            Entry::Reopened { no, at, seq, refunds, max_attempts, letter } => {
                let letter = letter.ok_or("a failed task that is not there")?;
                self.saw(at);
                self.reopen(no, at, seq, refunds, max_attempts, &letter)?;
            }
            Entry::Removed { no, at, expires, dead_in, key } => {
                self.saw(at);
                self.forget(no, expires, dead_in, key);
            }
            Entry::Paused { queue, is_paused } => {
                let id = self.queues.intern(&queue.tenant, &queue.command);
                self.queues.at_mut(id).is_paused = is_paused;
                if !is_paused {
                    self.clear_holds(id);
                }
                self.queues.head_changed(id, &self.slots, self.counters.last);
                self.push_queue(id);
                self.fed.push(id);
            }
            Entry::Record { key, value } => {
                self.apply_record(&key, value.as_deref())?;
                self.changes.push(Change::Record { key, value });
            }
            Entry::DeliveryMoved { id, state, attempts, error } => {
                let change = self.outbox.shift(id, state, attempts, error);
                self.changes.extend(change);
            }
            Entry::DeliveryDone { id } => self.changes.extend(self.outbox.done(id)),
            Entry::Imported(imported) => {
                self.saw(imported.at);
                self.apply_import(*imported)?;
            }
        }
        Ok(())
    }

    fn saw(&mut self, at: Time) {
        self.counters.last = self.counters.last.max(at);
    }

    /// Puts a live task into memory and into the index that its state names.
    pub(super) fn admit(&mut self, no: u64, seed: &TaskHead, detail: Detail) -> SlotId {
        let slot_id = self.place(no, seed);
        let bytes = seed.body.bytes();
        self.unsettled(no, bytes);
        self.cache(bytes);
        let kept = Kept { detail, changed: self.position, bytes };
        self.slots.at_mut(slot_id).detail = Some(Box::new(kept));
        if matches!(seed.state, State::Ready { .. }) {
            self.line_up(slot_id);
        }
        slot_id
    }

    /// Gives a live task its slot, with nothing of its body in memory. A ready task is still to be lined
    /// up.
    pub fn place(&mut self, no: u64, seed: &TaskHead) -> SlotId {
        let body = &seed.body;
        let queue = self.queues.intern(&body.tenant, &body.command);
        if *self.queues.at(queue).spelling != *body.command {
            self.queues.at_mut(queue).spelling = (*body.command).into();
        }
        if let Some(text) = &body.idempotency_key {
            let key = idem_key(&self.queues.at(queue).key, text);
            self.keys.insert(key, no);
        }
        let lane = self.lane_of(queue, body.options.as_ref().and_then(|options| options.lane.as_deref()));
        if let Some(batch) = body.batch() {
            self.batches.enlist(batch, no);
        }
        let slot_id = self.slots.insert(NewSlot {
            no,
            tail: seed.tail,
            created_at: seed.created_at,
            queue,
            lane,
            priority: seed.priority,
            max_attempts: seed.max_attempts,
            state: seed.state.clone(),
            extra: extra_of(body),
            detail: None,
        });
        if !matches!(seed.state, State::Ready { .. }) {
            self.enter(slot_id);
        }
        slot_id
    }

    /// Puts a ready task at the end of its list.
    pub fn line_up(&mut self, slot_id: SlotId) {
        self.enter(slot_id);
    }

    /// Gives a live task another body.
    fn replace(&mut self, slot_id: SlotId, at: Time, body: Arc<Body>, state: State) {
        let bytes = body.bytes();
        let position = self.position;
        let is_delayed = matches!(state, State::Delayed { .. });
        match is_delayed {
            true => self.shift(slot_id, at, state, |_| {}),
            false => self.slots.at_mut(slot_id).updated_at = at,
        }
        self.leave_batch(slot_id, &body);
        let slot = self.slots.at_mut(slot_id);
        let no = slot.no;
        if let Some(extra) = &mut slot.extra {
            extra.options.clone_from(&body.options);
        }
        let (before, detail) = match slot.detail.take() {
            Some(kept) => (kept.bytes, kept.detail),
            // The tables have what there is besides the body.
            None => (0, Detail { is_whole: slot.attempts == 0, ..Detail::default() }),
        };
        let detail = Detail { body: Some(body.clone()), ..detail };
        slot.detail = Some(Box::new(Kept { detail, changed: position, bytes }));
        let seed = TaskHead {
            tail: slot.tail,
            created_at: slot.created_at,
            priority: slot.priority,
            max_attempts: slot.max_attempts,
            state: slot.state.clone(),
            body,
        };
        self.uncache(before);
        self.cache(bytes);
        self.unsettled(no, bytes);
        self.changes.push(Change::Replaced { no, seed });
        self.push_image(slot_id, None, None);
    }

    /// Moves a live task from one index to another.
    fn shift(&mut self, slot_id: SlotId, at: Time, state: State, change: impl FnOnce(&mut Slot)) {
        self.leave(slot_id);
        let slot = self.slots.at_mut(slot_id);
        if !matches!(state, State::Running(_))
            && let Some(extra) = &mut slot.extra
        {
            extra.progress = None;
        }
        slot.state = state;
        slot.updated_at = at;
        change(slot);
        self.enter(slot_id);
    }

    /// The history entry of the attempt that ends now.
    fn end_attempt(
        &self,
        slot_id: SlotId,
        at: Time,
        outcome: AttemptOutcome,
        error: Option<&str>,
    ) -> Option<Attempt> {
        let slot = self.slots.at(slot_id);
        let lease = slot.state.lease()?;
        Some(Attempt {
            attempt: slot.attempts,
            worker_id: lease.owner.worker_id.clone(),
            claimed_at: lease.claimed_at,
            end: Some(AttemptEnd::new(at, outcome, error)),
        })
    }

    /// Remembers a failed attempt, or a checkpoint, of a task that goes on living.
    fn note(
        &mut self,
        slot_id: SlotId,
        error: Option<Arc<str>>,
        attempt: Option<Attempt>,
        checkpoint: Option<Arc<str>>,
    ) {
        let position = self.position;
        let texts = [&error, &checkpoint].into_iter().flatten();
        let added = 128 + texts.map(|text| text.len()).sum::<usize>();
        let slot = self.slots.at_mut(slot_id);
        let no = slot.no;
        // The tables have nothing to add for a first attempt.
        let is_whole = slot.attempts <= 1;
        let kept = slot.detail.get_or_insert_with(|| {
            let detail = Detail { is_whole, ..Detail::default() };
            Box::new(Kept { detail, changed: 0, bytes: 0 })
        });
        kept.changed = position;
        kept.bytes += added;
        if let Some(attempt) = attempt {
            remember(&mut kept.detail.history, attempt);
        }
        kept.detail.error = error.or(kept.detail.error.take());
        kept.detail.checkpoint = checkpoint.or(kept.detail.checkpoint.take());
        self.cache(added);
        self.unsettled(no, added);
    }

    fn push_image(&mut self, slot_id: SlotId, error: Option<Arc<str>>, attempt: Option<Attempt>) {
        let image = Image { error, attempts_ended: attempt.into_iter().collect(), ..self.image(slot_id) };
        self.changes.push(Change::State { no: self.slots.at(slot_id).no, image });
    }

    fn push_checkpoint(&mut self, slot_id: SlotId, checkpoint: Arc<str>) {
        let image = Image { checkpoint: Some(checkpoint), ..self.image(slot_id) };
        self.changes.push(Change::State { no: self.slots.at(slot_id).no, image });
    }

    /// What memory has of a live task's changing part, adding nothing to its history.
    fn image(&self, slot_id: SlotId) -> Image {
        let slot = self.slots.at(slot_id);
        Image {
            updated_at: slot.updated_at,
            attempts: slot.attempts,
            refunds: slot.refunds,
            max_attempts: slot.max_attempts,
            state: slot.state.clone(),
            error: None,
            checkpoint: None,
            attempts_ended: Vec::new(),
            is_whole: false,
        }
    }

    pub fn push_queue(&mut self, id: u32) {
        let queue = self.queues.at(id);
        let row = QueueRow { spelling: queue.spelling.clone(), dead: queue.dead, is_paused: queue.is_paused };
        let row = (row.dead > 0 || row.is_paused).then_some(row);
        self.changes.push(Change::Queue { queue: queue.key.clone(), row });
    }

    fn end(&mut self, slot_id: SlotId, ended: Ended) {
        let attempt = ended
            .outcome
            .and_then(|outcome| self.end_attempt(slot_id, ended.at, outcome, ended.error.as_deref()));
        self.leave(slot_id);
        self.tell_end(slot_id, &ended.state);
        self.count_ended(slot_id, &ended.state);
        self.release_unique(slot_id, UniqueUntil::Ended);
        let slot = self.slots.at_mut(slot_id);
        slot.state = ended.state;
        slot.updated_at = ended.at;
        let (queue, is_whole) = (slot.queue, slot.attempts <= 1);
        let (kept, bytes) = match slot.detail.take() {
            Some(kept) => (kept.detail, kept.bytes),
            None => (Detail { is_whole, ..Detail::default() }, 0),
        };
        let mut detail = kept;
        if let Some(attempt) = attempt {
            remember(&mut detail.history, attempt);
        }
        detail.error = ended.error.or(detail.error.take());
        let sketch = self.slots.at(slot_id).sketch_with(detail);
        let (extra, _) = self.slots.remove(slot_id);
        let key = extra.and_then(|extra| Some(idem_key(&self.queues.at(queue).key, extra.key.as_deref()?)));
        self.uncache(bytes);
        let held = 256 + bytes + ended.record.result.as_ref().map_or(0, |text| text.len());
        self.unsettled(ended.no, held);
        if sketch.state == State::Dead {
            self.queues.at_mut(queue).dead += 1;
            self.push_queue(queue);
        }
        let tenant = self.queues.at(queue).key.tenant.clone();
        let last = Arc::new(Final { sketch, record: ended.record, expires: ended.expires, key, tenant });
        self.count_failed(queue, &last, true, ended.at);
        self.recent.insert(ended.no, Recent::Final { ended: last.clone(), changed: self.position });
        self.changes.push(Change::Final(last.clone()));
        self.ended.push(last);
        if let Some(delivery) = ended.delivery {
            self.unsettled(NO_TASK, delivery.body.len());
            self.changes.extend(self.outbox.insert(delivery, self.position));
        }
    }

    fn reopen(
        &mut self,
        no: u64,
        at: Time,
        seq: u64,
        refunds: u32,
        max_attempts: u32,
        letter: &Final,
    ) -> Result<(), &'static str> {
        let sketch = &letter.sketch;
        let body = sketch.detail.body.clone().ok_or("a failed task without body")?;
        let is_member = body.batch().is_some_and(|batch| self.batches.share(&batch).is_some());
        let body = for_another_life(accepted_again(body, self.accepted_now()), is_member);
        self.count_reopened(&body);
        let is_dead = sketch.state == State::Dead;
        let key = letter.key.clone();
        let seed = TaskHead {
            tail: sketch.tail,
            created_at: sketch.created_at,
            priority: sketch.priority,
            max_attempts,
            state: State::Ready { seq },
            body,
        };
        let detail = Detail { body: Some(seed.body.clone()), ..sketch.detail.clone() };
        let slot_id = self.admit(no, &seed, detail);
        if self.unique_again(sketch, at).is_some() {
            self.take_unique(no, &seed);
        }
        let slot = self.slots.at_mut(slot_id);
        (slot.attempts, slot.refunds, slot.updated_at) = (sketch.attempts, refunds, at);
        let queue = slot.queue;
        if is_dead {
            self.queues.at_mut(queue).dead -= 1;
            self.push_queue(queue);
        }
        self.count_failed(queue, letter, false, at);
        self.recent.insert(no, Recent::Gone { changed: self.position });
        let image = Image {
            updated_at: at,
            attempts: sketch.attempts,
            refunds,
            max_attempts,
            state: State::Ready { seq },
            error: sketch.detail.error.clone(),
            checkpoint: sketch.detail.checkpoint.clone(),
            attempts_ended: sketch.detail.history.clone(),
            is_whole: true,
        };
        let reopened = Reopened { no, seed, image, expires: letter.expires, is_dead, key };
        self.changes.push(Change::Reopened(Box::new(reopened)));
        Ok(())
    }

    fn forget(&mut self, no: u64, expires: Time, dead_in: Option<QueueKey>, key: Option<IdemKey>) {
        if let Some(queue) = &dead_in {
            let id = self.queues.intern(&queue.tenant, &queue.command);
            self.queues.at_mut(id).dead -= 1;
            self.push_queue(id);
        }
        if let Some(key) = &key
            && self.keys.get(key) == Some(&no)
        {
            self.keys.remove(key);
        }
        self.recent.insert(no, Recent::Gone { changed: self.position });
        self.unsettled(no, 64);
        self.changes.push(Change::Removed { no, expires, is_dead: dead_in.is_some(), key });
    }
}

/// Whoever gives a task another life does not want it to expire, nor to wait. It stays a member of a batch that has not
/// ended.
fn for_another_life(body: Arc<Body>, is_member: bool) -> Arc<Body> {
    let Some(options) = body.options.as_deref() else { return body };
    let kept = TaskOptions {
        expires_at: None,
        after: Box::default(),
        on_failure: OnFailure::default(),
        batch: options.batch.filter(|_| is_member),
        ..options.clone()
    };
    match kept == *options {
        true => body,
        false => Arc::new(Body { options: kept.boxed(), ..(*body).clone() }),
    }
}

/// An ordered lane serves a task that comes again, or from elsewhere, as if it had been created then.
pub(super) fn accepted_again(body: Arc<Body>, now: (u64, u64)) -> Arc<Body> {
    let Some(options) = body.options.as_deref().filter(|options| options.lane.is_some()) else {
        return body;
    };
    let options = TaskOptions { accepted: Some(now), ..options.clone() }.boxed();
    Arc::new(Body { options, ..(*body).clone() })
}

fn extra_of(body: &Body) -> Option<Box<EndFields>> {
    if body.idempotency_key.is_none() && body.webhook.is_none() && body.options.is_none() {
        return None;
    }
    let (key, webhook) = (body.idempotency_key.clone(), body.webhook.clone());
    let (command, options) = (body.command.clone(), body.options.clone());
    Some(Box::new(EndFields { key, webhook, command, options, progress: None }))
}
