//! Telling what has happened: to the observer, to those who wait in this process, and to the other processes.

use crate::kvrocks::context::known::Memory;
use crate::kvrocks::coordination::presence::Presence;
use crate::kvrocks::coordination::signal::Publisher;
use crate::kvrocks::coordination::waiting::WaitingClaims;
use crate::kvrocks::coordination::watchers::Watchers;
use crate::kvrocks::format::record::Stored;
use codeq_queue::event::What;
use codeq_queue::{AttemptOutcome, Event, Observer, Owner, QueueKey, State, Task, TaskId, Time};
use std::sync::Arc;

pub struct EventSink {
    pub observer: Option<Observer>,
    pub claims: Arc<WaitingClaims>,
    pub watchers: Arc<Watchers>,
    pub publisher: Publisher,
    pub presence: Presence,
    /// Told when tasks have moved to another shard.
    pub moved: tokio::sync::Notify,
    pub memory: Arc<Memory>,
}

impl EventSink {
    pub fn tell(&self, events: Vec<Event>) {
        if let Some(observer) = &self.observer {
            observer(&events);
        }
        for event in &events {
            match (&event.what, event.task) {
                (What::Ended { .. }, Some(id)) => {
                    self.watchers.tell(id);
                    if self.presence.is_awaited() {
                        self.publisher.ended(id);
                    }
                }
                (What::Ended { .. } | What::Claimed { .. } | What::Paused | What::Progress { .. }, _) => {}
                _ => {
                    self.claims.ring(&event.queue);
                    if event.has_filled || event.what == What::Resumed {
                        self.publisher.filled(&event.queue);
                    }
                }
            }
        }
    }
}

impl EventSink {
    /// Something of a queue may start now that a limit or an order held back before.
    pub fn freed(&self, queue: &QueueKey) {
        self.claims.ring(queue);
        self.publisher.filled(queue);
    }
}

/// What is told of a task: a record as it was before the transition, without its payload.
pub struct Told {
    pub id: TaskId,
    pub queue: QueueKey,
    pub command: Arc<str>,
    pub attempt: u32,
    pub owner: Option<Arc<Owner>>,
    pub created_at: Time,
    pub has_webhook: bool,
}

impl Told {
    pub fn of(task: &Task) -> Told {
        Told {
            id: task.id,
            queue: QueueKey::new(&task.body.tenant, &task.body.command),
            command: (&*task.body.command).into(),
            attempt: task.attempts,
            owner: task.state.lease().map(|lease| lease.owner.clone()),
            created_at: task.created_at,
            has_webhook: task.body.webhook.is_some(),
        }
    }

    pub fn parse(text: &[u8]) -> Option<Told> {
        let stored: Stored<'_> = serde_json::from_slice(text).ok()?;
        Some(Told::of(&stored.task()?))
    }

    pub fn event(&self, at: Time, what: What, has_filled: bool) -> Event {
        let (queue, command) = (self.queue.clone(), self.command.clone());
        Event { at, queue, command, task: Some(self.id), what, has_filled }
    }

    pub fn returned(
        &self,
        at: Time,
        outcome: AttemptOutcome,
        error: Option<Arc<str>>,
        has_filled: bool,
    ) -> Event {
        let (attempt, owner) = (self.attempt, self.owner.clone());
        self.event(at, What::Returned { outcome, attempt, owner, error }, has_filled)
    }

    /// Ended by somebody's word.
    pub fn cancelled(&self, at: Time, error: Arc<str>, callbacks: bool) -> Event {
        let outcome = self.owner.as_ref().map(|_| AttemptOutcome::Cancelled);
        self.ended(at, State::Cancelled, outcome, Some(error), callbacks)
    }

    pub fn ended(
        &self,
        at: Time,
        state: State,
        outcome: Option<AttemptOutcome>,
        error: Option<Arc<str>>,
        callbacks: bool,
    ) -> Event {
        let what = What::Ended {
            state,
            outcome,
            attempt: self.attempt,
            owner: self.owner.clone(),
            error,
            created_at: self.created_at,
            has_callback: callbacks && self.has_webhook,
        };
        self.event(at, what, false)
    }
}
