//! Creating tasks.

use super::batch::Item;
use super::connection::{Command, Reply};
use super::events::Told;
use super::keys::Keys;
use super::known::Known;
use super::record::{self, Beside};
use super::reply::{Answered, string, text};
use super::script::{Call, Script};
use super::store::Keeper;
use codeq_queue::event::What;
use codeq_queue::store::{Created, Items};
use codeq_queue::{Failure, NewTask, QueueKey, Refusal, State, Task, TaskId, Time};
use std::sync::Arc;
use std::time::Duration;

/// Tasks of one queue that one script takes. Lua passes no more than a few thousand values at once.
const PART_TASKS: usize = 100;
/// Bytes of bodies after which a part is closed.
const PART_BYTES: usize = 1 << 20;
/// How often the pointers of tasks that have moved are followed.
const POINTER_ROUNDS: usize = 4;

/// Tasks of one queue that are created by one script, each with its place in the request.
struct Part {
    shard: usize,
    queue: QueueKey,
    tasks: Vec<(usize, Task, u64)>,
    bytes: usize,
}

/// What became of one create.
enum Made {
    Task(Created),
    /// Its key belongs to a task that has moved.
    Elsewhere(String),
}

impl Part {
    fn takes(&self, queue: &QueueKey) -> bool {
        self.queue == *queue && self.tasks.len() < PART_TASKS && self.bytes < PART_BYTES
    }
}

/// What the scripts do not know yet is refused, not ignored.
fn unsupported(new: &NewTask) -> Option<Refusal> {
    let options = new.body.options.as_ref()?;
    if options.unique.is_some() {
        return Some(Refusal::NotSupported("unique keys"));
    }
    if options.expires_at.is_some() {
        return Some(Refusal::NotSupported("expiring tasks"));
    }
    if !options.after.is_empty() {
        return Some(Refusal::NotSupported("dependencies"));
    }
    if options.batch.is_some() {
        return Some(Refusal::NotSupported("batches"));
    }
    options.max_run.map(|_| Refusal::NotSupported("longest runs"))
}

impl Keeper {
    pub async fn create(self: Arc<Self>, tasks: Vec<NewTask>) -> Result<Items<Created>, Failure> {
        let mut created: Vec<Option<Created>> = tasks.iter().map(|_| None).collect();
        let refused: Vec<Option<Refusal>> = tasks.iter().map(unsupported).collect();
        let is_sound = |(at, _): &(usize, NewTask)| refused[*at].is_none();
        let mut left: Vec<(usize, NewTask)> = tasks.into_iter().enumerate().filter(is_sound).collect();
        for _ in 0..POINTER_ROUNDS {
            let keyed: Vec<(usize, NewTask)> =
                left.iter().filter(|(_, new)| new.body.idempotency_key.is_some()).cloned().collect();
            let pointers = self.create_once(left, &mut created).await?;
            left = Vec::new();
            for (at, pointer) in pointers {
                let Some((_, new)) = keyed.iter().find(|(place, _)| *place == at) else { continue };
                let queue = QueueKey::new(&new.body.tenant, &new.body.command);
                let key = new.body.idempotency_key.as_deref().unwrap_or_default();
                match self.follow_pointer(&queue, key, &pointer).await? {
                    Some(task) => created[at] = Some(Created { task, is_replay: true, is_duplicate: false }),
                    None => left.push((at, new.clone())),
                }
            }
            if left.is_empty() {
                let answers = created.into_iter().zip(refused);
                return Ok(answers
                    .filter_map(|(made, refusal)| refusal.map(Err).or_else(|| made.map(Ok)))
                    .collect());
            }
        }
        Err(Failure::unavailable("the task of an idempotency key moves to another shard"))
    }

    /// Gives the pointers that were found in the place of tasks.
    async fn create_once(
        &self,
        tasks: Vec<(usize, NewTask)>,
        created: &mut [Option<Created>],
    ) -> Result<Vec<(usize, String)>, Failure> {
        let now = self.enter().await?;
        let mut parts: Vec<Part> = Vec::new();
        for (at, new) in tasks {
            let queue = QueueKey::new(&new.body.tenant, &new.body.command);
            let shard = self.current_shard(&queue);
            if let Some(key) = new.body.idempotency_key.as_deref().filter(|_| self.shards.len() > 1)
                && let Some(task) = self.find_elsewhere(&queue, key, shard).await?
            {
                created[at] = Some(Created { task, is_replay: true, is_duplicate: false });
                continue;
            }
            let number = self.now.creation();
            let place = parts.iter().position(|part| part.takes(&queue)).unwrap_or_else(|| {
                parts.push(Part { shard, queue, tasks: Vec::new(), bytes: 0 });
                parts.len() - 1
            });
            parts[place].bytes += new.body.bytes();
            let task = new_task(new, now, number, self.shards[shard].spread);
            parts[place].tasks.push((at, task, number));
        }
        let items: Vec<_> = parts.into_iter().map(|part| self.create_part(part, now)).collect();
        let mut pointers = Vec::new();
        for (at, made) in self.run_batch(items).await?.into_iter().flatten() {
            match made {
                Made::Task(made) => created[at] = Some(made),
                Made::Elsewhere(pointer) => pointers.push((at, pointer)),
            }
        }
        Ok(pointers)
    }

    fn create_part(&self, part: Part, now: Time) -> Item<Vec<(usize, Made)>> {
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
                if existing.starts_with(b">") {
                    created.push((at, Made::Elsewhere(String::from_utf8_lossy(&existing).into_owned())));
                    continue;
                }
                if !existing.is_empty() {
                    let task = record::parse(&existing).ok_or_else(damaged)?;
                    created.push((at, Made::Task(Created { task, is_replay: true, is_duplicate: false })));
                    continue;
                }
                let has_filled = is_empty && matches!(task.state, State::Ready { .. });
                is_empty &= !has_filled;
                memory.remember(task.id, Arc::new(Known::of(&task, shard)));
                notes.spelled(&queue, &task.body.command);
                events.push(Told::of(&task).event(now, What::Created, has_filled));
                created.push((at, Made::Task(Created { task, is_replay: false, is_duplicate: false })));
            }
            Ok((created, events))
        })
    }

    /// What is written beside a task of this shard.
    pub fn beside(&self, shard: usize, number: u64) -> Beside<'_> {
        let shard = if self.shards.len() > 1 { &self.shards[shard].name } else { "" };
        Beside { number, shard, unknown: "" }
    }

    /// A task of this key on a shard that the queue lived on before its mapping changed, or with a key of the
    /// original server, which is not scoped and may be anywhere.
    async fn find_elsewhere(
        &self,
        queue: &QueueKey,
        key: &str,
        current: usize,
    ) -> Result<Option<Task>, Failure> {
        for shard in self.queue_shards(queue).into_iter().filter(|shard| *shard != current) {
            let at = &self.shards[shard];
            let get = Command::new("GET").arg(at.keys.idempotency(queue, key));
            let legacy = at.keys.legacy_idempotency(key).map(|key| Command::new("GET").arg(key));
            let named = at.read(&[get].into_iter().chain(legacy).collect::<Vec<_>>()).await?;
            for named in named.into_iter().filter(|named| *named != Reply::Nil) {
                let named = string(named);
                let id = named.rsplit(' ').next().unwrap_or_default();
                let Some(task) = TaskId::parse(id) else { continue };
                let found = self.find(&[task]).await?.remove(&task).map(|(_, task)| task);
                let is_own = |task: &Task| QueueKey::new(&task.body.tenant, &task.body.command) == *queue;
                if let Some(task) = found.filter(is_own) {
                    return Ok(Some(task));
                }
            }
        }
        Ok(None)
    }

    /// What a pointer of a task that has moved leads to. A task that is gone leaves its key to the next.
    async fn follow_pointer(
        &self,
        queue: &QueueKey,
        key: &str,
        pointer: &str,
    ) -> Result<Option<Task>, Failure> {
        let id = pointer.rsplit(' ').next().and_then(TaskId::parse);
        if let Some(id) = id
            && let Some((_, task)) = self.find(&[id]).await?.remove(&id)
        {
            return Ok(Some(task));
        }
        let at = &self.shards[self.current_shard(queue)];
        let keys = [Some(at.keys.idempotency(queue, key)), at.keys.legacy_idempotency(key)];
        for name in keys.into_iter().flatten() {
            if string(at.read_one(Command::new("GET").arg(name.as_str())).await?) == pointer {
                at.read_one(Command::new("DEL").arg(name)).await?;
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
        .arg(&*queue.tenant)
        .arg(record::tenant_text(&queue.tenant))
        .arg(&*queue.command);
    for (task, beside) in tasks {
        let key = task.body.idempotency_key.as_deref();
        let own = key.map(|key| keys.idempotency(queue, key)).unwrap_or_default();
        let legacy = key.and_then(|key| keys.legacy_idempotency(key)).unwrap_or_default();
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
            .arg(own)
            .arg(legacy);
    }
    call
}

/// The low bits of the first byte of an id say on which of the spread shards it was created.
const SPREAD_SHIFT: u32 = 120;
const SPREAD_BITS: u128 = 0x3f << SPREAD_SHIFT;

/// The spread shard that an id names, whether or not it was created on one.
pub fn spread_of(id: TaskId) -> usize {
    usize::from(id.as_bytes()[0] & 0x3f)
}

pub fn new_task(new: NewTask, now: Time, number: u64, spread: Option<usize>) -> Task {
    let bits: u128 = rand::random();
    let bits = match spread {
        Some(shard) => (bits & !SPREAD_BITS) | ((shard as u128) << SPREAD_SHIFT),
        None => bits,
    };
    let state = match new.delay.visible_at(now) {
        Some(until) => State::Delayed { until },
        None => State::Ready { seq: number },
    };
    Task {
        id: TaskId::from_bits(bits),
        body: new.body,
        priority: new.priority,
        state,
        attempts: 0,
        refunds: 0,
        max_attempts: new.max_attempts,
        error: None,
        checkpoint: None,
        progress: None,
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
