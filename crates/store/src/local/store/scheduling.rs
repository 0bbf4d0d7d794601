//! Schedules over the shards.
//!
//! A schedule lives on the shard of its task's queue, so that a tick and its task are one transition. The shard of
//! its name has a directory entry with the command, which is written before the schedule and removed after it: one
//! that leads nowhere is harmless, and the next put of that name replaces it.

use crate::local::engine::handle::ShardHandle;
use crate::local::engine::inbox::Lane;
use crate::local::format::schedules::ScheduleName;
use crate::local::shard::{Reply, Turn};
use crate::local::store::LocalStore;
use crate::local::store::routes::{Shards, each_shard};
use codeq_queue::audit::unnoted;
use codeq_queue::schedule::{
    Backfill, Backfilled, Definition, Schedule, SchedulePut, Schedules, directory_shard,
};
use codeq_queue::store::Answer;
use codeq_queue::{Failure, QueueKey, Refusal, Task};
use std::sync::Arc;
use tokio::sync::{Mutex, MutexGuard};

/// Puts and deletes of one name happen one after the other, those of different names mostly side by side.
const LOCKS: usize = 64;

/// Where the schedules of a store are.
#[derive(Clone)]
pub struct Directory {
    shards: Shards,
    locks: Arc<[Mutex<()>; LOCKS]>,
}

impl Directory {
    pub fn new(shards: Shards) -> Directory {
        Directory { shards, locks: Arc::new(std::array::from_fn(|_| Mutex::new(()))) }
    }

    fn count(&self) -> u32 {
        self.shards.len() as u32
    }

    fn shard(&self, index: u32) -> &Arc<ShardHandle> {
        &self.shards[index as usize]
    }

    async fn lock(&self, name: &ScheduleName) -> MutexGuard<'_, ()> {
        let index = directory_shard(&name.0, &name.1, LOCKS as u32);
        self.locks[index as usize].lock().await
    }

    async fn place(&self, name: &ScheduleName) -> Result<Option<Arc<str>>, Failure> {
        let shard = self.shard(directory_shard(&name.0, &name.1, self.count()));
        let name = name.clone();
        shard.ask(Lane::Read, move |turn, reply| turn.schedule_place(&name, reply)).await
    }

    /// Whose deed it is, is told with the schedule itself: a put may still be refused.
    async fn set_place(&self, name: &ScheduleName, command: Option<Arc<str>>) -> Result<(), Failure> {
        let shard = self.shard(directory_shard(&name.0, &name.1, self.count()));
        let name = name.clone();
        let set = shard.ask(Lane::Other, move |turn, reply| turn.set_schedule_place(&name, command, reply));
        unnoted(set).await
    }

    /// The shard on which the schedule lives if there is one.
    async fn home(&self, name: &ScheduleName) -> Result<Option<&Arc<ShardHandle>>, Failure> {
        let command = self.place(name).await?;
        Ok(command.map(|command| self.home_of(name, command)))
    }

    fn home_of(&self, name: &ScheduleName, command: Arc<str>) -> &Arc<ShardHandle> {
        let queue = QueueKey { tenant: name.0.clone(), command };
        self.shard(queue.shard(self.count()))
    }

    async fn find(&self, name: &ScheduleName) -> Result<Option<Schedule>, Failure> {
        let Some(home) = self.home(name).await? else { return Ok(None) };
        let name = name.clone();
        home.ask(Lane::Read, move |turn, reply| turn.schedule(&name, reply)).await
    }

    /// Asks the shard of a schedule.
    async fn on_home<T: Send + 'static>(
        &self,
        name: &ScheduleName,
        act: impl FnOnce(&mut Turn<'_>, Reply<Result<T, Refusal>>) + Send + 'static,
    ) -> Result<Result<T, Refusal>, Failure> {
        match self.home(name).await? {
            Some(home) => home.ask(Lane::Other, act).await,
            None => Ok(Err(Refusal::ScheduleNotFound)),
        }
    }

    async fn put(
        &self,
        name: ScheduleName,
        definition: Definition,
    ) -> Result<Result<(Schedule, SchedulePut), Refusal>, Failure> {
        let _turn = self.lock(&name).await;
        let command = definition.queue().command;
        let place = self.place(&name).await?;
        let is_new = place.as_ref() != Some(&command);
        if is_new {
            if place.is_some() && self.find(&name).await?.is_some() {
                return Ok(Err(Refusal::ScheduleCommandFixed));
            }
            self.set_place(&name, Some(command.clone())).await?;
        }
        let home = self.home_of(&name, command).clone();
        let known = name.clone();
        home.room(Lane::Create).await;
        let put = home.ask(Lane::Other, move |turn, reply| turn.put_schedule(&known, definition, reply));
        let put = put.await?;
        if put.is_err() && is_new {
            self.set_place(&name, None).await?;
        }
        Ok(put)
    }

    async fn delete(&self, name: ScheduleName) -> Result<bool, Failure> {
        let _turn = self.lock(&name).await;
        let Some(home) = self.home(&name).await? else { return Ok(false) };
        let known = name.clone();
        let is_gone = home.ask(Lane::Other, move |turn, reply| turn.delete_schedule(&known, reply)).await?;
        self.set_place(&name, None).await?;
        Ok(is_gone)
    }
}

fn named(tenant: Arc<str>, name: &str) -> ScheduleName {
    (tenant, name.into())
}

impl Schedules for LocalStore {
    fn put_schedule(
        &self,
        tenant: Arc<str>,
        name: String,
        definition: Definition,
    ) -> Answer<Result<(Schedule, SchedulePut), Refusal>> {
        let directory = self.directory().clone();
        Box::pin(async move { directory.put(named(tenant, &name), definition).await })
    }

    fn schedule(&self, tenant: Arc<str>, name: String) -> Answer<Option<Schedule>> {
        let directory = self.directory().clone();
        Box::pin(async move { directory.find(&named(tenant, &name)).await })
    }

    fn schedules(&self, tenant: Arc<str>, after: Option<String>, limit: usize) -> Answer<Vec<Schedule>> {
        let shards = self.directory().shards.clone();
        Box::pin(async move {
            let ask = |shard: Arc<ShardHandle>| -> Answer<Vec<Schedule>> {
                let (tenant, after) = (tenant.clone(), after.clone());
                let act = move |turn: &mut Turn<'_>, reply: Reply<_>| {
                    turn.schedules(&tenant, after.as_deref(), limit, reply);
                };
                Box::pin(async move { shard.ask(Lane::Read, act).await })
            };
            let mut found: Vec<Schedule> = each_shard(&shards, ask).await?.into_iter().flatten().collect();
            found.sort_by(|a, b| a.name.cmp(&b.name));
            found.truncate(limit);
            Ok(found)
        })
    }

    fn delete_schedule(&self, tenant: Arc<str>, name: String) -> Answer<bool> {
        let directory = self.directory().clone();
        Box::pin(async move { directory.delete(named(tenant, &name)).await })
    }

    fn pause_schedule(
        &self,
        tenant: Arc<str>,
        name: String,
        note: Option<Box<str>>,
    ) -> Answer<Result<Schedule, Refusal>> {
        let (directory, name) = (self.directory().clone(), named(tenant, &name));
        Box::pin(async move {
            let known = name.clone();
            let pause = move |turn: &mut Turn<'_>, reply: Reply<_>| {
                turn.change_schedule(&known, |schedule, _| schedule.pause(note), reply);
            };
            directory.on_home(&name, pause).await
        })
    }

    fn resume_schedule(&self, tenant: Arc<str>, name: String) -> Answer<Result<Schedule, Refusal>> {
        let (directory, name) = (self.directory().clone(), named(tenant, &name));
        Box::pin(async move {
            let known = name.clone();
            let resume = move |turn: &mut Turn<'_>, reply: Reply<_>| {
                turn.change_schedule(&known, Schedule::resume, reply);
            };
            directory.on_home(&name, resume).await
        })
    }

    fn trigger_schedule(&self, tenant: Arc<str>, name: String) -> Answer<Result<Task, Refusal>> {
        let (directory, name) = (self.directory().clone(), named(tenant, &name));
        Box::pin(async move {
            let known = name.clone();
            directory.on_home(&name, move |turn, reply| turn.trigger_schedule(&known, reply)).await
        })
    }

    fn backfill_schedule(&self, backfill: Backfill) -> Answer<Result<Backfilled, Refusal>> {
        let directory = self.directory().clone();
        let name = (backfill.tenant.clone(), backfill.name.clone());
        Box::pin(async move {
            if let Some(home) = directory.home(&name).await? {
                home.room(Lane::Create).await;
            }
            directory.on_home(&name, move |turn, reply| turn.backfill_schedule(&backfill, reply)).await
        })
    }
}
