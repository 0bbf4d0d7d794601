//! What producers do with schedules.

use super::{Broker, Error};
use codeq_queue::operation::OperationKind;
use codeq_queue::schedule::{
    Backfill, SCHEDULE_HEADER, Schedule, SchedulePut, ScheduleRequest, Schedules, check_name, check_note,
};
use codeq_queue::{Filter, Operation, OperationState, Refusal, Task, Time};
use std::sync::Arc;

impl Broker {
    fn schedule_store(&self) -> Result<&dyn Schedules, Refusal> {
        self.store.scheduling().ok_or(Refusal::NotSupported("schedules"))
    }

    pub async fn put_schedule(
        &self,
        tenant: &Arc<str>,
        name: String,
        request: ScheduleRequest,
    ) -> Result<(Schedule, SchedulePut), Error> {
        let store = self.schedule_store()?;
        check_name(&name)?;
        let settings = &self.settings;
        let (attempts, bytes) = (settings.max_attempts_default, settings.payload_bytes);
        let definition = request.check(&name, attempts, bytes, self.now())?;
        self.create_rules.check(&definition.task)?;
        Ok(store.put_schedule(tenant.clone(), name, definition).await??)
    }

    pub async fn schedule(&self, tenant: &Arc<str>, name: String) -> Result<Schedule, Error> {
        let found = self.schedule_store()?.schedule(tenant.clone(), name).await?;
        Ok(found.ok_or(Refusal::ScheduleNotFound)?)
    }

    /// A page in the order of names, and where to go on.
    pub async fn schedules(
        &self,
        tenant: &Arc<str>,
        after: Option<String>,
        limit: usize,
    ) -> Result<(Vec<Schedule>, Option<String>), Error> {
        let store = self.schedule_store()?;
        if after.as_deref().is_some_and(|name| check_name(name).is_err()) {
            return Err(Refusal::InvalidCursor.into());
        }
        let mut found = store.schedules(tenant.clone(), after, limit + 1).await?;
        let is_more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| is_more).map(|last| last.name.to_string());
        Ok((found, next))
    }

    pub async fn delete_schedule(&self, tenant: &Arc<str>, name: String) -> Result<(), Error> {
        match self.schedule_store()?.delete_schedule(tenant.clone(), name).await? {
            true => Ok(()),
            false => Err(Refusal::ScheduleNotFound.into()),
        }
    }

    pub async fn pause_schedule(
        &self,
        tenant: &Arc<str>,
        name: String,
        note: Option<&str>,
    ) -> Result<Schedule, Error> {
        let note = check_note(note)?;
        Ok(self.schedule_store()?.pause_schedule(tenant.clone(), name, note).await??)
    }

    pub async fn resume_schedule(&self, tenant: &Arc<str>, name: String) -> Result<Schedule, Error> {
        Ok(self.schedule_store()?.resume_schedule(tenant.clone(), name).await??)
    }

    pub async fn trigger_schedule(&self, tenant: &Arc<str>, name: String) -> Result<Task, Error> {
        Ok(self.schedule_store()?.trigger_schedule(tenant.clone(), name).await??)
    }

    /// The next ticks of the plan, also while it is paused.
    pub async fn next_ticks(
        &self,
        tenant: &Arc<str>,
        name: String,
        count: usize,
    ) -> Result<Vec<Time>, Error> {
        Ok(self.schedule(tenant, name).await?.next(self.now(), count))
    }

    /// Has the tasks of the ticks in [from, to) made in the background.
    pub async fn backfill_schedule(
        &self,
        tenant: &Arc<str>,
        name: String,
        from: Time,
        to: Time,
        by: &Arc<str>,
    ) -> Result<Operation, Error> {
        let schedule = self.schedule(tenant, name).await?;
        let count = schedule.check_backfill(from, to)?;
        self.check_running(Some(tenant)).await?;
        let (id, now) = (rand::random(), self.now());
        let name = schedule.name.clone();
        let backfill = Backfill { tenant: tenant.clone(), name, operation: id, from, to };
        let headers = vec![(SCHEDULE_HEADER.to_owned(), schedule.name.to_string())];
        let operation = Operation {
            id,
            tenant: Some(tenant.clone()),
            kind: OperationKind::Backfill,
            filter: Filter { headers, ..Filter::default() },
            max_attempts: None,
            rate_per_second: 0,
            state: OperationState::Running,
            matched: Some(count),
            processed: 0,
            failed: 0,
            created_at: now,
            updated_at: now,
            error: None,
            cursor: Some(backfill.cursor()),
            step: None,
            version: 1,
            holder: 0,
            held_until: now,
            by: Some(by.clone()),
            cause: None,
        };
        self.begin(&operation).await?;
        Ok(operation)
    }
}
