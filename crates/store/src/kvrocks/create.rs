//! Creating tasks.

use super::batch::Item;
use super::connection::{Command, Reply};
use super::events::Told;
use super::keys::Keys;
use super::known::Known;
use super::record::{self, Beside};
use super::reply::{Answered, found, string, text};
use super::script::{Call, Script};
use super::store::Keeper;
use codeq_queue::event::What;
use codeq_queue::store::{Created, Items};
use codeq_queue::{Failure, NewTask, QueueKey, State, Task, TaskId, Time};
use std::sync::Arc;
use std::time::Duration;

/// Tasks of one queue that one script takes. Lua passes no more than a few thousand values at once.
const PART_TASKS: usize = 100;
/// Bytes of bodies after which a part is closed.
const PART_BYTES: usize = 1 << 20;

/// Tasks of one queue that are created by one script, each with its place in the request.
struct Part {
    shard: usize,
    queue: QueueKey,
    tasks: Vec<(usize, Task, u64)>,
    bytes: usize,
}

impl Part {
    fn takes(&self, queue: &QueueKey) -> bool {
        self.queue == *queue && self.tasks.len() < PART_TASKS && self.bytes < PART_BYTES
    }
}

impl Keeper {
    pub async fn create(self: Arc<Self>, tasks: Vec<NewTask>) -> Result<Items<Created>, Failure> {
        let now = self.enter().await?;
        let mut created: Vec<Option<Created>> = tasks.iter().map(|_| None).collect();
        let mut parts: Vec<Part> = Vec::new();
        for (at, new) in tasks.into_iter().enumerate() {
            let queue = QueueKey::new(&new.body.tenant, &new.body.command);
            let shard = self.current_shard(&queue);
            if let Some(key) = new.body.idempotency_key.as_deref().filter(|_| self.shards.len() > 1)
                && let Some(task) = self.find_elsewhere(&queue, key, shard).await?
            {
                created[at] = Some(Created { task, is_replay: true });
                continue;
            }
            let number = self.now.creation();
            let place = parts.iter().position(|part| part.takes(&queue)).unwrap_or_else(|| {
                parts.push(Part { shard, queue, tasks: Vec::new(), bytes: 0 });
                parts.len() - 1
            });
            parts[place].bytes += new.body.bytes();
            parts[place].tasks.push((at, new_task(new, now, number), number));
        }
        let items: Vec<_> = parts.into_iter().map(|part| self.create_part(part, now)).collect();
        for (at, made) in self.run_batch(items).await?.into_iter().flatten() {
            created[at] = Some(made);
        }
        Ok(created.into_iter().flatten().map(Ok).collect())
    }

    fn create_part(&self, part: Part, now: Time) -> Item<Vec<(usize, Created)>> {
        let Part { shard, queue, tasks, .. } = part;
        let keys = &self.shards[shard].keys;
        let written = tasks.iter().map(|(_, task, number)| (task, self.beside(shard, *number)));
        let call = enqueue_call(keys, &queue, written, self.rules.retention);
        let (memory, notes) = (self.memory.clone(), self.notes.clone());
        Item::ask(shard, call, move |reply| {
            let mut answer = Answered::of(reply)?;
            let mut is_empty = answer.int() == 0;
            let (mut created, mut events) = (Vec::with_capacity(tasks.len()), Vec::new());
            let replies = answer.list();
            if replies.len() != tasks.len() {
                return Err(Failure::Internal(format!("{} replies to {} tasks", replies.len(), tasks.len())));
            }
            for ((at, task, _), existing) in tasks.into_iter().zip(replies) {
                let existing = text(existing);
                if !existing.is_empty() {
                    let task = record::parse(&existing).ok_or_else(damaged)?;
                    created.push((at, Created { task, is_replay: true }));
                    continue;
                }
                let has_filled = is_empty && matches!(task.state, State::Ready { .. });
                is_empty &= !has_filled;
                memory.remember(task.id, Arc::new(Known::of(&task, shard)));
                notes.spelled(&queue, &task.body.command);
                events.push(Told::of(&task).event(now, What::Created, has_filled));
                created.push((at, Created { task, is_replay: false }));
            }
            Ok((created, events))
        })
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

/// The call that stores tasks of one queue.
pub fn enqueue_call<'a>(
    keys: &Keys,
    queue: &QueueKey,
    tasks: impl Iterator<Item = (&'a Task, Beside<'a>)>,
    retention: Duration,
) -> Call {
    let mut call = Call::new(Script::Enqueue, keys.with_queue(queue))
        .arg(keys.queue_name(queue))
        .arg(record::tenant_text(&queue.tenant))
        .arg(&*queue.command);
    for (task, beside) in tasks {
        let key = task.body.idempotency_key.as_deref();
        let own = key.map(|key| call.key(keys.idempotency(queue, key)));
        let legacy = key.and_then(|key| keys.legacy_idempotency(key)).map(|key| call.key(key));
        let at = |place: Option<usize>| place.map(|place| place.to_string()).unwrap_or_default();
        let visible = match task.state {
            State::Delayed { until } => Some(until),
            _ => None,
        };
        let checked_at = visible.unwrap_or(task.created_at).plus(retention);
        call = call
            .arg(task.id.to_string())
            .arg(record::text_of(task, beside))
            .number(task.priority)
            .arg(visible.map(seconds).unwrap_or_default())
            .arg(seconds(checked_at))
            .number(task.created_at.millis())
            .arg(at(own))
            .arg(at(legacy));
    }
    call
}

pub fn new_task(new: NewTask, now: Time, number: u64) -> Task {
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
