//! What operators do to single tasks and queues.

use super::produce::reference;
use super::{Broker, Error};
use codeq_queue::queue::check_command;
use codeq_queue::{QueueKey, QueueStats, Refusal, State, Task};
use std::sync::Arc;

impl Broker {
    /// Ends a task that has not ended.
    pub async fn cancel(&self, tenant: &Arc<str>, id: &str) -> Result<Task, Error> {
        let cancelled = self.store.cancel(vec![reference(tenant, id)?]).await?.pop();
        Ok(cancelled.ok_or(Refusal::NotFound)??)
    }

    /// Gives a dead letter another set of attempts.
    pub async fn requeue(
        &self,
        tenant: &Arc<str>,
        command: &str,
        id: &str,
        max_attempts: Option<i64>,
    ) -> Result<Task, Error> {
        self.dead_letter(tenant, command, id).await?;
        let requeued =
            self.store.requeue(vec![reference(tenant, id)?], attempts_given(max_attempts)).await?.pop();
        Ok(requeued.ok_or(Refusal::NotFound)??)
    }

    /// Removes a dead letter for good.
    pub async fn remove(&self, tenant: &Arc<str>, command: &str, id: &str) -> Result<(), Error> {
        self.dead_letter(tenant, command, id).await?;
        let removed = self.store.remove(vec![reference(tenant, id)?]).await?.pop();
        Ok(removed.ok_or(Refusal::NotFound)??)
    }

    async fn dead_letter(&self, tenant: &Arc<str>, command: &str, id: &str) -> Result<(), Error> {
        let task = self.get(tenant, id).await?;
        if !task.body.command.eq_ignore_ascii_case(command) {
            return Err(Refusal::NotFound.into());
        }
        match task.state {
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
