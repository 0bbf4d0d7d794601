//! Creating tasks.

use super::batch::Item;
use super::connection::{Command, Reply};
use super::events::Told;
use super::known::Known;
use super::record::{self, Beside};
use super::reply::{Answered, found, string};
use super::script::{Call, Script};
use super::store::Keeper;
use codeq_queue::event::What;
use codeq_queue::store::{Created, Items};
use codeq_queue::{Event, Failure, NewTask, QueueKey, State, Task, TaskId, Time};
use std::sync::Arc;

impl Keeper {
    pub async fn create(self: Arc<Self>, tasks: Vec<NewTask>) -> Result<Items<Created>, Failure> {
        let now = self.enter().await?;
        let mut items = Vec::with_capacity(tasks.len());
        for task in tasks {
            items.push(self.create_one(task, now).await?);
        }
        Ok(self.run_batch(items).await?.into_iter().map(Ok).collect())
    }

    async fn create_one(&self, new: NewTask, now: Time) -> Result<Item<Created>, Failure> {
        let queue = QueueKey::new(&new.body.tenant, &new.body.command);
        let current = self.current_shard(&queue);
        if let Some(key) = new.body.idempotency_key.as_deref().filter(|_| self.shards.len() > 1)
            && let Some(task) = self.find_elsewhere(&queue, key, current).await?
        {
            return Ok(Item::Answered(Created { task, is_replay: true }));
        }
        let number = self.now.creation();
        let task = new_task(new, now, number);
        let call = self.enqueue_call(&task, number, &queue, current);
        let known = Arc::new(Known::of(&task, current));
        let (memory, notes) = (self.memory.clone(), self.notes.clone());
        Ok(Item::ask(current, call, move |reply| {
            let mut answer = Answered::of(reply)?;
            if answer.word == "EXISTS" {
                let task = record::parse(&answer.text()).ok_or_else(damaged)?;
                return Ok((Created { task, is_replay: true }, Vec::new()));
            }
            let has_filled = answer.int() == 0 && matches!(task.state, State::Ready { .. });
            memory.remember(task.id, known);
            notes.spelled(&queue, &task.body.command);
            let event: Event = Told::of(&task).event(now, What::Created, has_filled);
            Ok((Created { task, is_replay: false }, vec![event]))
        }))
    }

    fn enqueue_call(&self, task: &Task, number: u64, queue: &QueueKey, shard: usize) -> Call {
        let keys = &self.shards[shard].keys;
        let mut names = keys.with_queue(queue);
        if let Some(key) = task.body.idempotency_key.as_deref() {
            names.push(keys.idempotency(queue, key));
            names.extend(keys.legacy_idempotency(key));
        }
        let visible = match task.state {
            State::Delayed { until } => Some(until),
            _ => None,
        };
        let checked_at = visible.unwrap_or(task.created_at).plus(self.rules.retention);
        Call::new(Script::Enqueue, names)
            .arg(task.id.to_string())
            .arg(record::text_of(task, self.beside(shard, number)))
            .number(task.priority)
            .arg(visible.map(seconds).unwrap_or_default())
            .arg(seconds(checked_at))
            .number(task.created_at.millis())
            .arg(keys.queue_name(queue))
            .arg(record::tenant_text(&queue.tenant))
            .arg(&*queue.command)
    }

    /// What is written beside a task of this shard.
    pub fn beside(&self, shard: usize, number: u64) -> Beside<'_> {
        let shard = if self.shards.len() > 1 { &self.shards[shard].name } else { "" };
        Beside { number, shard, unknown: "" }
    }

    /// A task of this key on a shard that the queue lived on before its mapping changed.
    async fn find_elsewhere(
        &self,
        queue: &QueueKey,
        key: &str,
        current: usize,
    ) -> Result<Option<Task>, Failure> {
        for shard in self.queue_shards(queue).into_iter().filter(|shard| *shard != current) {
            let shard = &self.shards[shard];
            let named = shard.read_one(Command::new("GET").arg(shard.keys.idempotency(queue, key))).await?;
            if named == Reply::Nil {
                continue;
            }
            let get = Command::new("HGET").arg(shard.keys.of("tasks")).arg(string(named));
            if let Some(text) = found(shard.read_one(get).await?) {
                return Ok(record::parse(&text));
            }
        }
        Ok(None)
    }
}

fn new_task(new: NewTask, now: Time, number: u64) -> Task {
    let state = match new.delay.visible_at(now) {
        Some(until) => State::Delayed { until },
        None => State::Ready { seq: number },
    };
    Task {
        id: TaskId::from_bits(rand::random()),
        body: new.body,
        priority: new.priority,
        state,
        attempts: 0,
        refunds: 0,
        max_attempts: new.max_attempts,
        error: None,
        created_at: now,
        updated_at: now,
    }
}

/// An instant as a score in seconds, to the millisecond.
pub fn seconds(at: Time) -> String {
    format!("{}.{:03}", at.millis().div_euclid(1000), at.millis().rem_euclid(1000))
}

pub fn damaged() -> Failure {
    Failure::Internal("a record is damaged".into())
}
