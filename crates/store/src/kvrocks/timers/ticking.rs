//! What schedules do by themselves, and the tasks they make.
//!
//! The process that sweeps a keyspace asks `codeq:ticks` for schedules that are due, decides what becomes of each by
//! the rules, and hands that to one script, which refuses if anybody else has moved the schedule on in the meantime: of
//! any number of processes exactly one makes the task of a tick.

use crate::kvrocks::format::keys::queue_text;
use crate::kvrocks::redis::batch::Item;
use crate::kvrocks::redis::connection::{Command, Reply};
use crate::kvrocks::redis::reply::{Answered, string, strings};
use crate::kvrocks::redis::script::{Call, Script};
use crate::kvrocks::store::StoreContext;
use crate::kvrocks::verbs::create::new_task;
use crate::kvrocks::verbs::schedules::{
    FullName, HeldSchedule, SchedulePlace, field, read_field, write_progress,
};
use codeq_queue::event::{Event, TickOutcome, What};
use codeq_queue::schedule::{Backfill, BackfillMark, Backfilled, Overlap, Progress, Schedule, due};
use codeq_queue::{Failure, NewTask, QueueKey, Task, TaskId, Time};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Schedules that are looked at together.
const TICKS_TOGETHER: usize = 250;
/// Rounds of one sweep; what is left is due in the next.
const ROUNDS: usize = 400;
/// Tasks that one part of a backfill makes.
const BACKFILLED_TOGETHER: u64 = 100;
/// Bytes of such tasks after which the part is closed.
const BACKFILLED_BYTES: usize = 1 << 20;
/// Ticks came while somebody was there if the last look at them was no longer before this process began to watch.
const HANDOVER: Duration = Duration::from_secs(10);

/// Since when this process has watched the time, and since when somebody has watched the ticks of a keyspace, by its
/// first shard.
#[derive(Default)]
pub struct Watch {
    opened: Option<Time>,
    since: BTreeMap<usize, Time>,
}

/// How many attempts policies give to tasks of their queues.
type Attempts = HashMap<QueueKey, u32>;

/// What moves a schedule on.
struct Step {
    progress: Progress,
    /// Instead of it, if the task of the last tick lives and this tick is to be skipped then.
    skipped: Option<Progress>,
    overlap: Overlap,
    /// The ticks that have tasks now, each with its own.
    tasks: Vec<(Time, Task, u64)>,
    outcome: TickOutcome,
    /// Ticks that were missed, and the first of them.
    missed: Option<(Time, u64)>,
}

impl Step {
    fn quiet(progress: Progress) -> Step {
        let (skipped, overlap, outcome) = (None, Overlap::Allow, TickOutcome::Fired);
        Step { progress, skipped, overlap, tasks: Vec::new(), outcome, missed: None }
    }
}

fn told(
    schedule: &Schedule,
    at: Time,
    task: Option<TaskId>,
    (outcome, scheduled_for): (TickOutcome, Time),
    count: u64,
) -> Event {
    let (queue, command) = (schedule.definition.queue(), (*schedule.definition.task.body.command).into());
    let what = What::Ticked { schedule: schedule.name.clone(), outcome, scheduled_for, count };
    Event { at, queue, command, task, what, has_filled: false }
}

impl StoreContext {
    /// Acts on every schedule of a keyspace that is due.
    pub async fn sweep_ticks(&self, shards: &[usize], now: Time) -> Result<(), Failure> {
        let at = &self.shards[shards[0]];
        let (ticks, seen) = (at.keys.of("ticks"), at.keys.of("ticks:seen"));
        let due = Command::new("ZRANGEBYSCORE").arg(ticks.as_str()).args([
            "-inf",
            &now.millis().to_string(),
            "LIMIT",
            "0",
            &TICKS_TOGETHER.to_string(),
        ]);
        for _ in 0..ROUNDS {
            let size = Command::new("ZCARD").arg(ticks.as_str());
            let get = Command::new("GET").arg(seen.as_str());
            let mut replies = at.read(&[due.clone(), size, get]).await?.into_iter();
            let mut next = || replies.next().unwrap_or(Reply::Nil);
            let (fields, count, seen_at) =
                (strings(next()), crate::kvrocks::redis::reply::int(&next()), string(next()));
            if count == 0 {
                return Ok(());
            }
            let since = self.watched_since(shards[0], seen_at.parse().ok().map(Time::from_millis), now);
            if fields.is_empty() {
                let set = Command::new("SET").arg(seen.as_str()).arg(now.millis().to_string());
                return at.read_one(set).await.map(|_| ());
            }
            if !self.tick_all(shards[0], &fields, now, since).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Since when somebody has been there to see ticks: this process, or one that it took over from.
    fn watched_since(&self, shard: usize, seen: Option<Time>, now: Time) -> Time {
        let mut watch = self.watch.lock().expect("no one panics holding the instants");
        let opened = *watch.opened.get_or_insert(now);
        *watch.since.entry(shard).or_insert_with(|| match seen {
            Some(seen) if seen < opened && opened.since(seen) <= HANDOVER => seen,
            _ => opened,
        })
    }

    /// This process watches the time from now on.
    pub fn begin_watching(&self) {
        self.watch.lock().expect("no one panics holding the instants").opened = Some(self.now.get());
    }

    /// One step for each. False if none of them was moved on.
    async fn tick_all(
        &self,
        shard: usize,
        fields: &[String],
        now: Time,
        since: Time,
    ) -> Result<bool, Failure> {
        let names: Vec<FullName> = fields.iter().filter_map(|field| read_field(field)).collect();
        let (held, entries) = (self.held_schedules(shard, &names).await?, self.first_entries(&names).await);
        let attempts = self.attempts_for(shard, held.iter().flatten()).await?;
        let mut items = Vec::new();
        for ((name, held), entry) in names.iter().zip(held).zip(entries) {
            let Some(held) = held else {
                // Nothing but an entry among the ticks.
                self.store_schedule(shard, name, None, None).await?;
                continue;
            };
            let command = held.schedule.definition.queue().command;
            let leads_here = entry.is_some_and(|place| self.leads_to(&place, shard, &command));
            if leads_here || self.is_ours(shard, &held).await? {
                let step = self.step_of(shard, &held, now, since, &attempts);
                items.push(self.step_item(shard, &held, step, now));
            } else {
                self.store_schedule(shard, name, Some(&held), None).await?;
            }
        }
        let is_idle = items.is_empty();
        let moved = self.run_batch(items).await?;
        Ok(is_idle || moved.into_iter().any(|moved| moved.is_some()))
    }

    fn leads_to(&self, place: &SchedulePlace, shard: usize, command: &str) -> bool {
        let there = self.place_of(&place.shard);
        let is_here = there.is_none_or(|there| self.keyspace_of(there) == self.keyspace_of(shard));
        is_here && *place.command == *command
    }

    /// Whether the directory leads here. Where it leads nowhere the entry is written again; only where it leads to
    /// another schedule of the name this one does not count.
    async fn is_ours(&self, shard: usize, held: &HeldSchedule) -> Result<bool, Failure> {
        let (name, queue) = (held.name(), held.schedule.definition.queue());
        // A directory that does not answer stops no ticks.
        let Ok(entry) = self.schedule_entry(&name).await else { return Ok(true) };
        let home = |place: &SchedulePlace| self.place_of(&place.shard);
        if let Some(place) = &entry.place {
            if self.leads_to(place, shard, &queue.command) {
                return Ok(true);
            }
            let elsewhere = |there: &usize| self.keyspace_of(*there) != self.keyspace_of(shard);
            if let Some(there) = home(place).filter(elsewhere)
                && self.held_schedules(there, std::slice::from_ref(&name)).await?.pop().flatten().is_some()
            {
                return Ok(false);
            }
        }
        let at = self.ticking_shard(shard, &queue);
        let place =
            SchedulePlace { shard: self.shards[at].name.to_string(), command: queue.command.to_string() };
        self.set_schedule_entry(&name, &entry, Some(&place)).await?;
        Ok(true)
    }

    /// What policies say of the tasks of these schedules.
    async fn attempts_for(
        &self,
        home: usize,
        held: impl Iterator<Item = &HeldSchedule>,
    ) -> Result<Attempts, Failure> {
        let open = held.map(|held| &held.schedule.definition).filter(|definition| !definition.has_attempts);
        let queues = open.map(|definition| definition.queue());
        self.attempts_by_policy(queues.map(|queue| (self.ticking_shard(home, &queue), queue))).await
    }

    /// What becomes of a schedule that is due.
    fn step_of(
        &self,
        shard: usize,
        held: &HeldSchedule,
        now: Time,
        since: Time,
        attempts: &Attempts,
    ) -> Step {
        let schedule = &held.schedule;
        let mut progress = schedule.progress.clone();
        let Some(due) = due(schedule, now, since) else { return Step::quiet(progress) };
        let first = progress.next_at.unwrap_or(now);
        progress.next_at = due.next_at;
        progress.missed += due.missed;
        let missed = (due.missed > 0).then_some((first, due.missed));
        let Some(tick) = due.fires else { return Step { missed, ..Step::quiet(progress) } };
        let skipped = Progress { skipped: progress.skipped + 1, ..progress.clone() };
        let (task, number) = self.task_for(shard, schedule, schedule.jittered(tick, now), now, attempts);
        (progress.last_at, progress.last_task) = (Some(tick), Some(task.id));
        Step {
            skipped: Some(skipped),
            overlap: schedule.definition.overlap,
            tasks: vec![(tick, task, number)],
            missed,
            ..Step::quiet(progress)
        }
    }

    fn task_for(
        &self,
        home: usize,
        schedule: &Schedule,
        new: NewTask,
        now: Time,
        attempts: &Attempts,
    ) -> (Task, u64) {
        let queue = schedule.definition.queue();
        let shard = self.ticking_shard(home, &queue);
        let new = schedule.definition.by_policy(new, attempts.get(&queue).copied());
        let number = self.now.creation();
        (new_task(new, now, number, self.shards[shard].spread), number)
    }

    /// The script that does a step: `None` if somebody else was quicker, or it cannot be done now.
    fn step_item(&self, home: usize, held: &HeldSchedule, step: Step, now: Time) -> Item<Option<()>> {
        let schedule = held.schedule.clone();
        let queue = schedule.definition.queue();
        let shard = self.ticking_shard(home, &queue);
        let skipped = step.skipped.as_ref().unwrap_or(&step.progress);
        let call = Call::new(Script::Tick, self.shards[shard].keys.with_queue(&queue));
        let call = self.with_endings(call.number(now.millis()).arg(now.to_utc()), now);
        let call = call
            .arg(field(&held.name()))
            .arg(held.progress.as_str())
            .arg(write_progress(&step.progress, held.edition))
            .arg(step.progress.next_at.map(|at| at.millis().to_string()).unwrap_or_default())
            .arg(step.overlap.word())
            .arg(schedule.progress.last_task.map(|id| id.to_string()).unwrap_or_default())
            .arg(write_progress(skipped, held.edition))
            .arg(queue_text(&queue))
            .arg(self.home().keys.suffix());
        let call = match step.tasks.is_empty() {
            true => call,
            false => {
                let tasks = step.tasks.iter().map(|(_, task, number)| (task, *number));
                self.with_tasks(call, shard, &queue, tasks, false)
            }
        };
        let (keeper, call) = (self.me(), self.noted(shard, call));
        Item::ask(shard, call, move |reply| match Answered::of(reply) {
            Ok(answer) => keeper.stepped(answer, shard, &schedule, step, now),
            Err(failure) => {
                tracing::warn!(err = %failure, schedule = &*schedule.name, "a tick has to wait");
                Ok((None, Vec::new()))
            }
        })
    }

    /// Tells what a step has come to.
    fn stepped(
        &self,
        answer: Answered,
        shard: usize,
        schedule: &Schedule,
        step: Step,
        now: Time,
    ) -> Result<(Option<()>, Vec<Event>), Failure> {
        let mut events = Vec::new();
        if answer.word == "CHANGED" {
            return Ok((None, events));
        }
        if let Some((first, count)) = step.missed {
            events.push(told(schedule, now, None, (TickOutcome::Missed, first), count));
        }
        let ticks: Vec<(Time, TaskId)> = step.tasks.iter().map(|(tick, task, _)| (*tick, task.id)).collect();
        if answer.word == "SKIPPED" {
            let tick = ticks.first().map_or(now, |(tick, _)| *tick);
            events.push(told(schedule, now, None, (TickOutcome::Skipped, tick), 1));
        } else if !ticks.is_empty() {
            let tasks = step.tasks.into_iter().map(|(_, task, _)| ((), task)).collect();
            events.extend(self.taken_in(answer, shard, tasks, now)?.1);
            let tick = |(tick, id)| told(schedule, now, Some(id), (step.outcome, tick), 1);
            events.extend(ticks.into_iter().map(tick));
        }
        Ok((Some(()), events))
    }

    /// Changes nothing but the progress. False if somebody else was quicker.
    pub async fn advance(
        &self,
        home: usize,
        held: &HeldSchedule,
        progress: &Progress,
        now: Time,
    ) -> Result<bool, Failure> {
        let item = self.step_item(home, held, Step::quiet(progress.clone()), now);
        Ok(self.run_batch([item]).await?.into_iter().flatten().next().is_some())
    }

    /// Makes a task now, besides the plan and, as a tick does, however full the queue is. `None` if the schedule has moved
    /// on meanwhile.
    pub async fn trigger(
        &self,
        home: usize,
        held: &HeldSchedule,
        now: Time,
    ) -> Result<Option<Task>, Failure> {
        let schedule = &held.schedule;
        let attempts = self.attempts_for(home, std::iter::once(held)).await?;
        let (task, number) = self.task_for(home, schedule, schedule.task(now, now), now, &attempts);
        let (made, progress) = (task.clone(), schedule.progress.clone());
        let tasks = vec![(now, task, number)];
        let step = Step { tasks, outcome: TickOutcome::Triggered, ..Step::quiet(progress) };
        let moved = self.run_batch([self.step_item(home, held, step, now)]).await?;
        Ok(moved.into_iter().flatten().next().map(|()| made))
    }

    /// Makes the tasks of the next ticks and notes in the same step how far that was. `None` if somebody else was
    /// quicker.
    pub async fn backfill_part(
        &self,
        home: usize,
        held: &HeldSchedule,
        backfill: &Backfill,
        now: Time,
    ) -> Result<Option<Backfilled>, Failure> {
        let schedule = &held.schedule;
        let mut progress = schedule.progress.clone();
        let start = BackfillMark { operation: backfill.operation, reached: backfill.from, made: 0 };
        let mut mark = progress.backfill(backfill.operation).copied().unwrap_or(start);
        let attempts = self.attempts_for(home, std::iter::once(held)).await?;
        let (enough, mut bytes, mut tasks) = (mark.made + BACKFILLED_TOGETHER, 0, Vec::new());
        let is_done = loop {
            let before = Time::from_millis(mark.reached.millis().saturating_sub(1));
            let next = schedule.definition.plan.next(before).filter(|tick| *tick < backfill.to);
            let Some(tick) = next else { break true };
            if mark.made >= enough || bytes >= BACKFILLED_BYTES {
                break false;
            }
            bytes += schedule.definition.bytes();
            let (task, number) = self.task_for(home, schedule, schedule.task(tick, now), now, &attempts);
            tasks.push((tick, task, number));
            mark.reached = Time::from_millis(tick.millis() + 1);
            mark.made += 1;
        };
        progress.mark(mark);
        let done = Backfilled { made: mark.made, is_done };
        if progress == schedule.progress {
            return Ok(Some(done));
        }
        let step = Step { tasks, outcome: TickOutcome::Backfilled, ..Step::quiet(progress) };
        let moved = self.run_batch([self.step_item(home, held, step, now)]).await?;
        Ok(moved.into_iter().flatten().next().map(|()| done))
    }
}
