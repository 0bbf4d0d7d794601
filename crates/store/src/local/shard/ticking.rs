//! The verbs of schedules, and what they do by themselves.
//!
//! What a tick does is written in one turn, and so in one frame of the journal: the task it makes, the end of the
//! task before and the progress of the schedule are all there after a crash, or none of them.

use super::turn::{Reply, Turn};
use super::{Shard, produce::TaskLookup};
use crate::local::format::entry::Entry;
use crate::local::format::records;
use crate::local::format::schedules::{self, ScheduleName};
use codeq_queue::event::{Event, TickOutcome, What};
use codeq_queue::schedule::{
    Backfill, BackfillMark, Backfilled, Definition, Overlap, Progress, Schedule, SchedulePut, due,
};
use codeq_queue::{NewTask, Refusal, Task, TaskId, Time};
use std::sync::Arc;

/// Ticks per turn, so that commands get their share when very many fall due at once.
const TICKS_PER_TURN: usize = 256;
/// Tasks that one part of a backfill makes.
const BACKFILLED_PER_TURN: u64 = 250;

impl Turn<'_> {
    /// In the order of their ticks.
    pub fn tick_due(&mut self) {
        for _ in 0..TICKS_PER_TURN {
            if self.is_full() {
                return;
            }
            let Some(schedule) = self.shard.schedules.first_due(self.now).cloned() else { return };
            self.tick(&schedule);
        }
    }

    fn tick(&mut self, schedule: &Schedule) {
        let Some(due) = due(schedule, self.now, self.shard.open_since) else { return };
        let mut progress = schedule.progress.clone();
        progress.next_at = due.next_at;
        progress.missed += due.missed;
        if due.missed > 0 {
            let first = schedule.progress.next_at.unwrap_or(self.now);
            self.tell(schedule, None, (TickOutcome::Missed, first), due.missed);
        }
        if let Some(tick) = due.fires {
            self.fire(schedule, tick, &mut progress);
        }
        self.advance(schedule, &progress);
    }

    fn fire(&mut self, schedule: &Schedule, tick: Time, progress: &mut Progress) {
        let last = progress.last_task.map(|id| self.locate(&schedule.tenant, &id));
        match (schedule.definition.overlap, last) {
            (Overlap::Skip, Some(TaskLookup::Live(_))) => {
                progress.skipped += 1;
                return self.tell(schedule, None, (TickOutcome::Skipped, tick), 1);
            }
            (Overlap::Cancel, Some(TaskLookup::Live(slot_id))) => {
                self.end_cancelled(slot_id, None);
            }
            _ => {}
        }
        match self.make_for(schedule, schedule.jittered(tick, self.now), (TickOutcome::Fired, tick)) {
            Ok(id) => (progress.last_at, progress.last_task) = (Some(tick), Some(id)),
            // Only a journal of smaller segments than the one it was put in has no room for its task.
            Err(_) => progress.skipped += 1,
        }
    }

    /// Makes a task of a schedule and tells of it.
    fn make_for(
        &mut self,
        schedule: &Schedule,
        task: NewTask,
        tick: (TickOutcome, Time),
    ) -> Result<TaskId, Refusal> {
        let no = self.make(self.by_policy(schedule, task))?;
        let slot_id = self.shard.slots.find(no).expect("a created task is live");
        let id = self.shard.ids.encode(no, self.shard.slots.at(slot_id).tail);
        self.tell(schedule, Some(id), tick, 1);
        Ok(id)
    }

    fn by_policy(&self, schedule: &Schedule, task: NewTask) -> NewTask {
        let queue = schedule.definition.queue();
        let known = self.shard.queues.find(&queue.tenant, &queue.command);
        let policy = known.and_then(|id| self.shard.queues.at(id).policy());
        schedule.definition.by_policy(task, policy.and_then(|stored| stored.policy.max_attempts))
    }

    fn advance(&mut self, schedule: &Schedule, progress: &Progress) {
        if *progress != schedule.progress {
            let key = schedules::progress_key(&(schedule.tenant.clone(), schedule.name.clone()));
            self.log(Entry::Record { key, value: Some(schedules::write_progress(progress)) });
        }
    }

    fn tell(
        &mut self,
        schedule: &Schedule,
        task: Option<TaskId>,
        (outcome, scheduled_for): (TickOutcome, Time),
        count: u64,
    ) {
        if self.links.observer.is_none() {
            return;
        }
        let body = &schedule.definition.task.body;
        let queue = schedule.definition.queue();
        let (command, schedule) = ((*body.command).into(), schedule.name.clone());
        let what = What::Ticked { schedule, outcome, scheduled_for, count };
        self.group.events.push(Event { at: self.now, queue, command, task, what, has_filled: false });
    }

    pub fn put_schedule(
        &mut self,
        name: &ScheduleName,
        definition: Definition,
        reply: Reply<Result<(Schedule, SchedulePut), Refusal>>,
    ) {
        let Some(reply) = self.may_write(reply) else { return };
        let answer = self.define(name, definition);
        self.answer(reply, answer);
    }

    fn define(
        &mut self,
        name: &ScheduleName,
        definition: Definition,
    ) -> Result<(Schedule, SchedulePut), Refusal> {
        // A tick writes its task, the end of the one before and the progress: together no more than one entry may.
        let (all, task) = (definition.bytes() + 4096, definition.task.body.bytes());
        if all > self.room.entry || task > self.room.entry / 4 * 3 {
            return Err(Refusal::PayloadTooLarge);
        }
        self.shard.schedules.check_room(name, &definition)?;
        let known = self.shard.schedules.get(name);
        let (schedule, did) = Schedule::put(known, &name.0, &name.1, definition, self.now)?;
        if did != SchedulePut::Same {
            let value = schedules::write_definition(&schedule);
            self.shard.unsettled(super::settle::NO_TASK, value.len());
            self.log(Entry::Record { key: schedules::definition_key(name), value: Some(value) });
            let value = Some(schedules::write_progress(&schedule.progress));
            self.log(Entry::Record { key: schedules::progress_key(name), value });
        }
        Ok((schedule, did))
    }

    pub fn schedule(&mut self, name: &ScheduleName, reply: Reply<Option<Schedule>>) {
        let schedule = self.shard.schedules.get(name).cloned();
        self.answer(reply, schedule);
    }

    pub fn schedules(
        &mut self,
        tenant: &Arc<str>,
        after: Option<&str>,
        limit: usize,
        reply: Reply<Vec<Schedule>>,
    ) {
        let found = self.shard.schedules.after(tenant, after).take(limit).cloned().collect();
        self.answer(reply, found);
    }

    pub fn delete_schedule(&mut self, name: &ScheduleName, reply: Reply<bool>) {
        let Some(reply) = self.may_write(reply) else { return };
        let is_there = self.shard.schedules.get(name).is_some();
        if is_there {
            self.log(Entry::Record { key: schedules::progress_key(name), value: None });
            self.log(Entry::Record { key: schedules::definition_key(name), value: None });
        }
        self.answer(reply, is_there);
    }

    /// Changes the progress of a schedule as `change` says.
    pub fn change_schedule(
        &mut self,
        name: &ScheduleName,
        change: impl FnOnce(&Schedule, Time) -> Progress,
        reply: Reply<Result<Schedule, Refusal>>,
    ) {
        let Some(reply) = self.may_write(reply) else { return };
        let Some(schedule) = self.shard.schedules.get(name).cloned() else {
            return self.answer(reply, Err(Refusal::ScheduleNotFound));
        };
        let progress = change(&schedule, self.now);
        self.advance(&schedule, &progress);
        self.answer(reply, Ok(Schedule { progress, ..schedule }));
    }

    pub fn trigger_schedule(&mut self, name: &ScheduleName, reply: Reply<Result<Task, Refusal>>) {
        let Some(reply) = self.may_write(reply) else { return };
        let Some(schedule) = self.shard.schedules.get(name).cloned() else {
            return self.answer(reply, Err(Refusal::ScheduleNotFound));
        };
        match self.make_for(&schedule, schedule.task(self.now, self.now), (TickOutcome::Triggered, self.now))
        {
            Err(refusal) => self.answer(reply, Err(refusal)),
            Ok(id) => {
                let TaskLookup::Live(slot_id) = self.locate(&name.0, &id) else {
                    unreachable!("a created task is live")
                };
                let sketch = self.shard.slots.at(slot_id).sketch();
                self.answer_from(reply, false, move |library| library.task(sketch).map(Ok));
            }
        }
    }

    pub fn backfill_schedule(&mut self, backfill: &Backfill, reply: Reply<Result<Backfilled, Refusal>>) {
        let Some(reply) = self.may_write(reply) else { return };
        let name = (backfill.tenant.clone(), backfill.name.clone());
        let answer = match self.shard.schedules.get(&name).cloned() {
            Some(schedule) => Ok(self.backfill_part(&schedule, backfill)),
            None => Err(Refusal::ScheduleNotFound),
        };
        self.answer(reply, answer);
    }

    /// Makes the tasks of the next ticks and notes in the same turn how far that was.
    fn backfill_part(&mut self, schedule: &Schedule, backfill: &Backfill) -> Backfilled {
        let mut progress = schedule.progress.clone();
        let start = BackfillMark { operation: backfill.operation, reached: backfill.from, made: 0 };
        let mut mark = progress.backfill(backfill.operation).copied().unwrap_or(start);
        let enough = mark.made + BACKFILLED_PER_TURN;
        let is_done = loop {
            let before = Time::from_millis(mark.reached.millis().saturating_sub(1));
            let next = schedule.definition.plan.next(before).filter(|tick| *tick < backfill.to);
            let Some(tick) = next else { break true };
            if mark.made >= enough || self.is_full() {
                break false;
            }
            let made =
                self.make_for(schedule, schedule.task(tick, self.now), (TickOutcome::Backfilled, tick));
            mark.reached = Time::from_millis(tick.millis() + 1);
            mark.made += u64::from(made.is_ok());
        };
        progress.mark(mark);
        self.advance(schedule, &progress);
        Backfilled { made: mark.made, is_done }
    }

    /// The command of the schedule of this name, as the directory has it.
    pub fn schedule_place(&mut self, name: &ScheduleName, reply: Reply<Option<Arc<str>>>) {
        let command = self.shard.schedules.place(name).cloned();
        self.answer(reply, command);
    }

    pub fn set_schedule_place(&mut self, name: &ScheduleName, command: Option<Arc<str>>, reply: Reply<()>) {
        let Some(reply) = self.may_write(reply) else { return };
        if self.shard.schedules.place(name) != command.as_ref() {
            let value = command.map(|command| command.as_bytes().to_vec());
            self.log(Entry::Record { key: schedules::place_key(name), value });
        }
        self.answer(reply, ());
    }
}

impl Shard {
    /// A row of a schedule as the entry or the tables say.
    pub fn apply_schedule(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), &'static str> {
        let name = schedules::read_key(key).ok_or("a schedule without name")?;
        match (key[0], value) {
            (records::SCHEDULE, Some(value)) => {
                let schedule = schedules::read_definition(&name, value);
                self.schedules.define(name, schedule.map_err(|_| "a schedule that cannot be read")?);
            }
            (records::SCHEDULE, None) => self.schedules.remove(&name),
            (records::SCHEDULE_PROGRESS, Some(value)) => {
                let progress = schedules::read_progress(value);
                let progress = progress.map_err(|_| "a schedule's progress that cannot be read")?;
                if !self.schedules.advance(&name, progress) {
                    return Err("progress of a schedule that is not there");
                }
            }
            (records::SCHEDULE_PROGRESS, None) => {}
            (_, value) => {
                let command = value.map(|value| String::from_utf8(value.to_vec())).transpose();
                let command = command.map_err(|_| "a command that is not text")?;
                self.schedules.set_place(name, command.map(Into::into));
            }
        }
        Ok(())
    }
}
