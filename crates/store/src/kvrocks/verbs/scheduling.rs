//! Schedules over the shards.
//!
//! A schedule lives on the shard of its task's queue, so that a tick and its task are one script. Its directory entry
//! (see [`crate::kvrocks::context::directory`]) is written before the schedule and removed after it. Every change says what was read
//! before; if somebody was quicker it is tried again on what is there now.

use crate::kvrocks::redis::connection::{Command, Reply};
use crate::kvrocks::redis::patience::ask_all;
use crate::kvrocks::redis::reply::{Answered, found, list, strings};
use crate::kvrocks::redis::script::{Call, Script};
use crate::kvrocks::store::{KvrocksStore, StoreContext};
use crate::kvrocks::verbs::schedules::{
    FullName, HeldSchedule, SchedulePlace, field, new_edition, write_definition, write_progress,
};
use codeq_queue::schedule::{Backfill, Backfilled, Definition, Progress, Schedule, SchedulePut, Schedules};
use codeq_queue::store::Answer;
use codeq_queue::{Failure, QueueKey, Refusal, Task, Time, limits};
use std::sync::Arc;

/// How often a change is tried that others were quicker with.
const TRIES: usize = 32;

impl StoreContext {
    /// Where a schedule may be that its directory entry leads to: a spread shard may be on its way.
    fn placed_shards(&self, place: &SchedulePlace) -> Result<Vec<usize>, Failure> {
        let known = self.place_of(&place.shard);
        let known = known
            .ok_or_else(|| Failure::unavailable(format!("shard \"{}\" is not configured", place.shard)))?;
        Ok(self.shards[known].spread.map_or_else(|| vec![known], |spread| self.spread.all(spread)))
    }

    /// Schedules of a shard as they are now, each at one instant.
    pub async fn held_schedules(
        &self,
        shard: usize,
        names: &[FullName],
    ) -> Result<Vec<Option<HeldSchedule>>, Failure> {
        let at = &self.shards[shard];
        let all = |key: &str| {
            let fields = names.iter().map(field);
            fields.fold(Command::new("HMGET").arg(at.keys.of(key)), Command::arg)
        };
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let commands =
            [Command::new("MULTI"), all("schedules"), all("schedules:progress"), Command::new("EXEC")];
        let mut both = list(at.read(&commands).await?.pop().unwrap_or(Reply::Nil)).into_iter();
        let mut texts = || list(both.next().unwrap_or(Reply::Nil)).into_iter().map(found);
        let (definitions, progresses) = (texts(), texts());
        let held = |((name, definition), progress): ((&FullName, Option<Vec<u8>>), _)| {
            let text = |bytes: Option<Vec<u8>>| String::from_utf8(bytes?).ok();
            HeldSchedule::parse(name, text(definition)?, text(progress)?)
        };
        Ok(names.iter().zip(definitions).zip(progresses).map(held).collect())
    }

    pub async fn held_schedule(
        &self,
        shard: usize,
        name: &FullName,
    ) -> Result<Option<HeldSchedule>, Failure> {
        Ok(self.held_schedules(shard, std::slice::from_ref(name)).await?.pop().flatten())
    }

    /// A schedule and the shard that it lives on.
    async fn find_schedule(&self, name: &FullName) -> Result<Option<(usize, HeldSchedule)>, Failure> {
        match self.schedule_entry(name).await?.place {
            Some(place) => self.held_where(&place, name).await,
            None => Ok(None),
        }
    }

    async fn held_where(
        &self,
        place: &SchedulePlace,
        name: &FullName,
    ) -> Result<Option<(usize, HeldSchedule)>, Failure> {
        for home in self.placed_shards(place)? {
            if let Some(held) = self.held_schedule(home, name).await? {
                return Ok(Some((home, held)));
            }
        }
        Ok(None)
    }

    async fn put_schedule(
        self: Arc<Self>,
        name: FullName,
        definition: Definition,
    ) -> Result<Result<(Schedule, SchedulePut), Refusal>, Failure> {
        for _ in 0..TRIES {
            let now = self.enter().await?;
            if let Some(put) = self.try_put(&name, &definition, now).await? {
                return Ok(put);
            }
        }
        Err(busy())
    }

    /// `None` if others were quicker.
    async fn try_put(
        &self,
        name: &FullName,
        definition: &Definition,
        now: Time,
    ) -> Result<Option<Result<(Schedule, SchedulePut), Refusal>>, Failure> {
        let (entry, queue) = (self.schedule_entry(name).await?, definition.queue());
        let known = match &entry.place {
            Some(place) => self.held_where(place, name).await?,
            None => None,
        };
        // One that leads nowhere may lead elsewhere.
        let home = known.as_ref().map_or_else(|| self.current_shard(&queue), |(home, _)| *home);
        let known = known.map(|(_, held)| held);
        let put = Schedule::put(
            known.as_ref().map(|held| &held.schedule),
            &name.0,
            &name.1,
            definition.clone(),
            now,
        );
        let (schedule, did) = match put {
            Ok(put) => put,
            Err(refusal) => return Ok(Some(Err(refusal))),
        };
        let place =
            SchedulePlace { shard: self.shards[home].name.to_string(), command: queue.command.to_string() };
        if entry.place.as_ref() != Some(&place)
            && !self.set_schedule_entry(name, &entry, Some(&place)).await?
        {
            return Ok(None);
        }
        if did == SchedulePut::Same {
            return Ok(Some(Ok((schedule, did))));
        }
        Ok(match self.store_schedule(home, name, known.as_ref(), Some(&schedule)).await?.as_str() {
            "OK" => Some(Ok((schedule, did))),
            "TOO_MANY" => Some(Err(Refusal::TooManySchedules(limits::SCHEDULES))),
            _ => None,
        })
    }

    /// Puts a schedule in the place of what was read, or deletes that. Gives what became of it.
    pub async fn store_schedule(
        &self,
        shard: usize,
        name: &FullName,
        read: Option<&HeldSchedule>,
        schedule: Option<&Schedule>,
    ) -> Result<String, Failure> {
        let next = schedule.and_then(|schedule| schedule.progress.next_at);
        self.store_schedule_until(shard, name, read, schedule, next).await
    }

    /// The same with another instant of the next tick, or none: then it does not tick.
    pub async fn store_schedule_until(
        &self,
        shard: usize,
        name: &FullName,
        read: Option<&HeldSchedule>,
        schedule: Option<&Schedule>,
        next: Option<Time>,
    ) -> Result<String, Failure> {
        let bytes = |schedule: &Schedule| i64::try_from(schedule.definition.bytes()).unwrap_or(i64::MAX / 4);
        let more = schedule.map_or(0, bytes) - read.map_or(0, |read| bytes(&read.schedule));
        let at = &self.shards[shard];
        let call = Call::new(Script::SchedulePut, vec![at.keys.of("tasks")])
            .arg(field(name))
            .arg(&*name.0)
            .arg(&*name.1)
            .arg(read.map(|read| read.definition.as_str()).unwrap_or_default())
            .arg(read.map(|read| read.progress.as_str()).unwrap_or_default())
            .arg(schedule.map(write_definition).unwrap_or_default())
            .arg(
                schedule
                    .map(|schedule| write_progress(&schedule.progress, new_edition()))
                    .unwrap_or_default(),
            )
            .arg(next.map(|at| at.millis().to_string()).unwrap_or_default())
            .number(more)
            .number(limits::SCHEDULES)
            .number(limits::SCHEDULES_BYTES);
        at.writer.run(vec![self.noted(shard, call)], |replies| Ok((word(replies)?, Vec::new()))).await
    }

    async fn delete_schedule(self: Arc<Self>, name: FullName) -> Result<bool, Failure> {
        for _ in 0..TRIES {
            self.enter().await?;
            let entry = self.schedule_entry(&name).await?;
            let Some(place) = &entry.place else { return Ok(false) };
            let held = self.held_where(place, &name).await?;
            let is_there = held.is_some();
            let is_gone = match &held {
                Some((home, held)) => self.store_schedule(*home, &name, Some(held), None).await? == "OK",
                None => true,
            };
            if is_gone {
                // Whoever has written another one in the meantime puts the schedule anew.
                self.set_schedule_entry(&name, &entry, None).await?;
                return Ok(is_there);
            }
        }
        Err(busy())
    }

    /// Changes the progress of a schedule as `change` says.
    async fn change_schedule(
        self: Arc<Self>,
        name: FullName,
        change: impl Fn(&Schedule, Time) -> Progress + Send + Sync,
    ) -> Result<Result<Schedule, Refusal>, Failure> {
        for _ in 0..TRIES {
            let now = self.enter().await?;
            let Some((home, held)) = self.find_schedule(&name).await? else {
                return Ok(Err(Refusal::ScheduleNotFound));
            };
            let progress = change(&held.schedule, now);
            if progress == held.schedule.progress || self.advance(home, &held, &progress, now).await? {
                return Ok(Ok(Schedule { progress, ..held.schedule }));
            }
        }
        Err(busy())
    }

    async fn trigger_schedule(self: Arc<Self>, name: FullName) -> Result<Result<Task, Refusal>, Failure> {
        for _ in 0..TRIES {
            let now = self.enter().await?;
            let Some((home, held)) = self.find_schedule(&name).await? else {
                return Ok(Err(Refusal::ScheduleNotFound));
            };
            if let Some(task) = self.trigger(home, &held, now).await? {
                return Ok(Ok(task));
            }
        }
        Err(busy())
    }

    async fn backfill_schedule(
        self: Arc<Self>,
        backfill: Backfill,
    ) -> Result<Result<Backfilled, Refusal>, Failure> {
        let name = (backfill.tenant.clone(), backfill.name.clone());
        for _ in 0..TRIES {
            let now = self.enter().await?;
            let Some((home, held)) = self.find_schedule(&name).await? else {
                return Ok(Err(Refusal::ScheduleNotFound));
            };
            if let Some(done) = self.backfill_part(home, &held, &backfill, now).await? {
                return Ok(Ok(done));
            }
        }
        Err(busy())
    }

    async fn list_schedules(
        self: Arc<Self>,
        tenant: Arc<str>,
        after: Option<String>,
        limit: usize,
    ) -> Result<Vec<Schedule>, Failure> {
        self.enter().await?;
        let asked = self
            .keyspaces
            .iter()
            .map(|shards| self.schedules_on(shards[0], &tenant, after.as_deref(), limit));
        let (mut all, mut failure, mut has_answer) = (Vec::new(), None, false);
        for answer in ask_all(asked).await {
            match answer {
                Ok(found) => {
                    has_answer = true;
                    all.extend(found);
                }
                Err(away) => failure = Some(away),
            }
        }
        // A server that is away is passed over, as long as another one answers.
        if let Some(failure) = failure.filter(|_| !has_answer) {
            return Err(failure);
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all.truncate(limit);
        Ok(all)
    }

    async fn schedules_on(
        &self,
        shard: usize,
        tenant: &Arc<str>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Schedule>, Failure> {
        let at = &self.shards[shard];
        let from = after.map_or_else(|| "-".into(), |name| format!("({name}"));
        let range = Command::new("ZRANGEBYLEX").arg(at.keys.of(&format!("schedules:of:{tenant}"))).args([
            from.as_str(),
            "+",
            "LIMIT",
            "0",
            &limit.to_string(),
        ]);
        let names: Vec<FullName> = strings(at.read_one(range).await?)
            .into_iter()
            .map(|name| (tenant.clone(), name.into()))
            .collect();
        let held = self.held_schedules(shard, &names).await?;
        Ok(held.into_iter().flatten().map(|held| held.schedule).collect())
    }

    /// Where the tasks of a schedule go: to the shard of their queue, if that has the same keys.
    pub fn ticking_shard(&self, home: usize, queue: &QueueKey) -> usize {
        let current = self.current_shard(queue);
        let places = match self.shards[current].spread {
            Some(spread) => self.spread.all(spread),
            None => vec![current],
        };
        let own = self.keyspace_of(home);
        places.into_iter().find(|place| self.keyspace_of(*place) == own).unwrap_or(home)
    }
}

pub fn word(replies: Vec<Reply>) -> Result<String, Failure> {
    Ok(Answered::of(replies.into_iter().next().unwrap_or(Reply::Nil))?.word)
}

fn busy() -> Failure {
    Failure::unavailable("the schedule is being changed by others")
}

fn named(tenant: Arc<str>, name: &str) -> FullName {
    (tenant, name.into())
}

impl Schedules for KvrocksStore {
    fn put_schedule(
        &self,
        tenant: Arc<str>,
        name: String,
        definition: Definition,
    ) -> Answer<Result<(Schedule, SchedulePut), Refusal>> {
        self.run(|keeper| keeper.put_schedule(named(tenant, &name), definition))
    }

    fn schedule(&self, tenant: Arc<str>, name: String) -> Answer<Option<Schedule>> {
        self.run(|keeper| async move {
            keeper.enter().await?;
            let found = keeper.find_schedule(&named(tenant, &name)).await?;
            Ok(found.map(|(_, held)| held.schedule))
        })
    }

    fn schedules(&self, tenant: Arc<str>, after: Option<String>, limit: usize) -> Answer<Vec<Schedule>> {
        self.run(|keeper| keeper.list_schedules(tenant, after, limit))
    }

    fn delete_schedule(&self, tenant: Arc<str>, name: String) -> Answer<bool> {
        self.run(|keeper| keeper.delete_schedule(named(tenant, &name)))
    }

    fn pause_schedule(
        &self,
        tenant: Arc<str>,
        name: String,
        note: Option<Box<str>>,
    ) -> Answer<Result<Schedule, Refusal>> {
        self.run(|keeper| {
            let pause = move |schedule: &Schedule, _| schedule.pause(note.clone());
            keeper.change_schedule(named(tenant, &name), pause)
        })
    }

    fn resume_schedule(&self, tenant: Arc<str>, name: String) -> Answer<Result<Schedule, Refusal>> {
        self.run(|keeper| keeper.change_schedule(named(tenant, &name), Schedule::resume))
    }

    fn trigger_schedule(&self, tenant: Arc<str>, name: String) -> Answer<Result<Task, Refusal>> {
        self.run(|keeper| keeper.trigger_schedule(named(tenant, &name)))
    }

    fn backfill_schedule(&self, backfill: Backfill) -> Answer<Result<Backfilled, Refusal>> {
        self.run(|keeper| keeper.backfill_schedule(backfill))
    }
}
