//! What operators do to single tasks and queues.

use super::produce::reference;
use super::{Broker, Error};
use codeq_queue::queue::check_command;
use codeq_queue::store::Cancel;
use codeq_queue::task::reason_text;
use codeq_queue::{QueueKey, QueueStats, Refusal, State, Task, limits};
use std::sync::Arc;
use std::time::Duration;

impl Broker {
    /// Ends a task that has not ended, or asks its owner to stop within the grace.
    pub async fn cancel(
        &self,
        tenant: &Arc<str>,
        id: &str,
        grace_seconds: i64,
        reason: Option<&str>,
    ) -> Result<Task, Error> {
        let grace = u64::try_from(grace_seconds).ok().filter(|seconds| *seconds <= limits::GRACE_SECONDS);
        let grace = Duration::from_secs(grace.ok_or(Refusal::InvalidGrace)?);
        let cancel = Cancel { task: reference(tenant, id)?, grace, reason: reason_text(reason) };
        let cancelled = self.store.cancel(vec![cancel]).await?.pop();
        let task = cancelled.ok_or(Refusal::NotFound)??;
        if let Some(lease) = task.state.lease() {
            let attempt = (task.id, task.attempts);
            self.stops.tell(tenant, attempt, lease);
            let others = self.shared().zip(self.stops.write(tenant, attempt, lease));
            others.into_iter().for_each(|(shared, notice)| shared.send_notice(notice));
        }
        Ok(task)
    }

    /// Gives a task that has failed another set of attempts.
    pub async fn requeue(
        &self,
        tenant: &Arc<str>,
        command: &str,
        id: &str,
        max_attempts: Option<i64>,
    ) -> Result<Task, Error> {
        self.of_command(tenant, command, id).await?;
        let requeued =
            self.store.requeue(vec![reference(tenant, id)?], attempts_given(max_attempts)).await?.pop();
        Ok(requeued.ok_or(Refusal::NotFound)??)
    }

    /// Makes a task ready that waits for its time.
    pub async fn run_now(&self, tenant: &Arc<str>, id: &str) -> Result<Task, Error> {
        let made = self.store.run_now(vec![reference(tenant, id)?]).await?.pop();
        Ok(made.ok_or(Refusal::NotFound)??)
    }

    /// Removes a dead letter for good.
    pub async fn remove(&self, tenant: &Arc<str>, command: &str, id: &str) -> Result<(), Error> {
        self.dead_letter(tenant, command, id).await?;
        let removed = self.store.remove(vec![reference(tenant, id)?]).await?.pop();
        Ok(removed.ok_or(Refusal::NotFound)??)
    }

    async fn of_command(&self, tenant: &Arc<str>, command: &str, id: &str) -> Result<Task, Error> {
        let task = self.get(tenant, id).await?;
        match task.body.command.eq_ignore_ascii_case(command) {
            true => Ok(task),
            false => Err(Refusal::NotFound.into()),
        }
    }

    async fn dead_letter(&self, tenant: &Arc<str>, command: &str, id: &str) -> Result<(), Error> {
        match self.of_command(tenant, command, id).await?.state {
            State::Dead => Ok(()),
            _ => Err(Refusal::NotDead.into()),
        }
    }

    /// Claims pass a paused queue over; everything else goes on.
    pub async fn pause(&self, tenant: &str, command: &str, is_paused: bool) -> Result<QueueStats, Error> {
        let queue = QueueKey::new(tenant, check_command(command)?);
        Ok(match is_paused {
            true => self.store.pause(queue).await?,
            false => self.store.resume(queue).await?,
        })
    }
}

/// The attempts that an operator gives; nothing positive keeps the old number.
pub fn attempts_given(given: Option<i64>) -> Option<u32> {
    given.filter(|count| *count > 0).map(|count| u32::try_from(count).unwrap_or(u32::MAX))
}
