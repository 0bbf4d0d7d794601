//! What producers do: create tasks and read what became of them.

use super::{Broker, Error, Items, merge, part};
use codeq_queue::create::CreateRequest;
use codeq_queue::store::{Created, ResultLookup, TaskRef};
use codeq_queue::{NewTask, Refusal, ResultRecord, Task, TaskId};
use std::sync::Arc;
use std::time::Duration;

impl Broker {
    /// Creates each task that passes the rules, in one durable write. Repeating a create with its
    /// idempotency key gives the task that is there.
    pub async fn create(&self, mut requests: Vec<Result<CreateRequest, Refusal>>) -> Items<Created> {
        let spans = self.traces.creating(&mut requests);
        let now = self.now();
        let settings = &self.settings;
        let check = |request: CreateRequest| {
            let asked = request.max_attempts;
            let task = request.check(settings.max_attempts_default, settings.payload_bytes, now)?;
            self.check_links(&task)?;
            self.create_rules.apply(task, asked)
        };
        let (sound, places) = part(requests.into_iter().map(|request| request.and_then(check)));
        let created = match sound.is_empty() {
            true => merge(places, Ok(Vec::new())),
            false => merge(places, self.store.create(sound).await),
        };
        self.traces.created(spans, &created);
        created
    }

    /// Refuses what waits for others, or belongs to a batch, where the store has no such thing.
    fn check_links(&self, task: &NewTask) -> Result<(), Refusal> {
        let Some(options) = task.body.options.as_deref().filter(|_| self.store.batching().is_none()) else {
            return Ok(());
        };
        match (options.after.is_empty(), options.batch) {
            (false, _) => Err(Refusal::NotSupported("dependencies")),
            (true, Some(_)) => Err(Refusal::NotSupported("batches")),
            (true, None) => Ok(()),
        }
    }

    /// A task of the tenant. Ids of another form name no task.
    pub async fn get(&self, tenant: &Arc<str>, id: &str) -> Result<Task, Error> {
        let task = reference(tenant, id)?;
        let found = self.store.get(vec![task]).await?.pop().flatten();
        Ok(found.ok_or(Refusal::NotFound)?)
    }

    /// The end of a task, waited for if asked to; [`Refusal::ResultNotFound`] if it has not come.
    pub async fn result(
        &self,
        tenant: &Arc<str>,
        id: &str,
        wait: Duration,
    ) -> Result<(Task, ResultRecord), Error> {
        let wait = self.until(wait);
        let _place = self.place(tenant, wait)?;
        let answer = self.store.result(reference(tenant, id)?, wait);
        match self.unless_draining(wait, answer).await? {
            Some(ResultLookup::Done { task, record }) => Ok((task, record)),
            Some(ResultLookup::NotFound) => Err(Refusal::NotFound.into()),
            Some(ResultLookup::Pending) | None => Err(Refusal::ResultNotFound.into()),
        }
    }
}

pub fn reference(tenant: &Arc<str>, id: &str) -> Result<TaskRef, Refusal> {
    let id = TaskId::parse(id).ok_or(Refusal::NotFound)?;
    Ok(TaskRef { tenant: tenant.clone(), id })
}
