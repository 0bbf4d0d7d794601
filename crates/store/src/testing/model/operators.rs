//! What operators do to tasks and queues.

use super::state::Model;
use super::transitions::refused;
use codeq_queue::store::TaskRef;
use codeq_queue::{AttemptOutcome, FailureReason, QueueKey, QueueStats, Refusal, State, Task, TaskId, Time};
use std::sync::Arc;

impl Model {
    pub fn cancel(&mut self, named: &TaskRef) -> Result<Task, Refusal> {
        let entry = self.find(named).ok_or(Refusal::NotFound)?;
        if entry.task.state == State::Cancelled {
            return Ok(entry.task.clone());
        }
        if entry.record.is_some() {
            return Err(Refusal::AlreadyTerminal);
        }
        let error: Arc<str> = "CANCELLED".into();
        self.end_attempt(named.id, AttemptOutcome::Cancelled, None);
        self.entry(named.id).task.error = Some(error.clone());
        self.finish(named.id, State::Cancelled, refused(error, FailureReason::Cancelled, self.now));
        Ok(self.entry(named.id).task.clone())
    }

    fn dead(&self, named: &TaskRef) -> Result<(), Refusal> {
        match self.find(named).ok_or(Refusal::NotFound)?.task.state {
            State::Dead => Ok(()),
            _ => Err(Refusal::NotDead),
        }
    }

    pub fn requeue(&mut self, named: &TaskRef, max_attempts: Option<u32>) -> Result<Task, Refusal> {
        if !self.find(named).ok_or(Refusal::NotFound)?.task.state.has_failed() {
            return Err(Refusal::NotDead);
        }
        self.make_ready(named.id);
        let accepted = self.accept();
        let entry = self.entry(named.id);
        entry.accepted = accepted;
        entry.task.refunds = entry.task.attempts;
        entry.task.max_attempts = max_attempts.unwrap_or(entry.task.max_attempts);
        entry.record = None;
        entry.ends = None;
        Ok(entry.task.clone())
    }

    pub fn run_now(&mut self, named: &TaskRef) -> Result<Task, Refusal> {
        match self.find(named).ok_or(Refusal::NotFound)?.task.state {
            State::Delayed { .. } => self.make_ready(named.id),
            State::Ready { .. } => {}
            _ => return Err(Refusal::NotDelayed),
        }
        Ok(self.entry(named.id).task.clone())
    }

    pub fn remove(&mut self, named: &TaskRef) -> Result<(), Refusal> {
        self.dead(named)?;
        self.forget(named.id);
        Ok(())
    }

    pub fn forget(&mut self, id: TaskId) {
        self.entries.retain(|entry| entry.task.id != id);
    }

    /// What a cleanup may remove.
    pub fn cleanable(&self, tenant: &str, before: Time) -> Vec<TaskId> {
        let ended = self.entries.iter().filter(|entry| {
            *entry.task.body.tenant == *tenant
                && entry.task.state != State::Dead
                && entry.ends.is_some_and(|ends| ends <= before)
        });
        ended.map(|entry| entry.task.id).collect()
    }

    pub fn pause(&mut self, key: &QueueKey) -> QueueStats {
        self.paused.insert(key.clone());
        self.stats(key)
    }

    pub fn resume(&mut self, key: &QueueKey) -> QueueStats {
        self.paused.remove(key);
        self.stats(key)
    }
}
