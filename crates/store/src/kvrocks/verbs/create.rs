//! Creating tasks.

use crate::kvrocks::context::known::Known;
use crate::kvrocks::coordination::events::Told;
use crate::kvrocks::format::record::{self, RecordExtras};
use crate::kvrocks::redis::batch::{Item, whole};
use crate::kvrocks::redis::connection::Reply;
use crate::kvrocks::redis::reply::{Answered, string, text};
use crate::kvrocks::redis::script::{Call, Script};
use crate::kvrocks::store::StoreContext;
use crate::kvrocks::timers::waits::{Linked, is_linked};
use crate::kvrocks::verbs::intake::{Intake, without_endings};
use codeq_queue::event::What;
use codeq_queue::store::{Created, Items};
use codeq_queue::{Event, Failure, Held, NewTask, QueueKey, Refusal, State, Task, TaskId, Time};
use std::sync::Arc;

/// Tasks of one queue that one script takes. Lua passes no more than a few thousand values at once.
const PART_TASKS: usize = 100;
/// Bytes of bodies after which a part is closed.
const PART_BYTES: usize = 1 << 20;
/// How often the pointers of tasks that have moved are followed.
const POINTER_ROUNDS: usize = 4;

/// Tasks of one queue that are created by one script, each with its place in the request.
pub struct Part {
    shard: usize,
    queue: QueueKey,
    tasks: Vec<(usize, Task, u64)>,
    bytes: usize,
    /// Whether tasks are not made unless their unique keys are taken.
    only: bool,
}

/// What became of one create.
pub enum Made {
    Task(Created),
    /// Its key belongs to a task that has moved.
    Elsewhere(String),
    /// It was to be made only if its unique key was taken, which it is not; or it is refused.
    Free,
    /// Its batch takes no more members.
    TooLate,
    /// Its queue takes no more.
    Full,
    /// Its shard lives on another server now.
    Moved,
}

/// What became of each task, by what its caller calls it.
pub type TakenIn<K> = Vec<(K, Made)>;

impl Part {
    /// One task on a shard.
    pub fn of_one(shard: usize, queue: QueueKey, at: usize, task: Task, number: u64) -> Part {
        Part { shard, queue, tasks: vec![(at, task, number)], bytes: 0, only: false }
    }

    /// Not made unless its unique key is taken there.
    pub fn only_if_taken(self) -> Part {
        Part { only: true, ..self }
    }

    /// A unique task comes alone: what it does to the holder of its key, the next one has to see.
    fn takes(&self, queue: &QueueKey, is_unique: bool) -> bool {
        let is_alone = is_unique || self.tasks.iter().any(|(_, task, _)| task.body.unique().is_some());
        self.queue == *queue
            && !is_alone
            && !self.only
            && self.tasks.len() < PART_TASKS
            && self.bytes < PART_BYTES
    }
}

impl StoreContext {
    pub async fn create(self: Arc<Self>, tasks: Vec<NewTask>) -> Result<Items<Created>, Failure> {
        let now = self.enter().await?;
        let mut created: Vec<Option<Result<Created, Refusal>>> = tasks.iter().map(|_| None).collect();
        let links = match self.link(&tasks, now).await {
            Ok(links) => links,
            Err(failure) => {
                for (_, answer) in tasks.iter().zip(&mut created).filter(|(task, _)| is_linked(task)) {
                    *answer = Some(Err(Refusal::Failed(failure.clone())));
                }
                tasks.iter().map(|_| None).collect()
            }
        };
        let open = tasks.into_iter().enumerate();
        let mut left: Vec<(usize, NewTask)> = open.filter(|(at, _)| created[*at].is_none()).collect();
        for _ in 0..POINTER_ROUNDS {
            let can_move = self.spread.can_move();
            let kept: Vec<(usize, NewTask)> = left
                .iter()
                .filter(|(_, new)| can_move || new.body.idempotency_key.is_some())
                .cloned()
                .collect();
            let pointers = self.create_once(left, &links, &mut created).await?;
            left = Vec::new();
            if pointers.iter().any(|(_, pointer)| pointer.is_none()) {
                self.learn_places().await;
            }
            for (at, pointer) in pointers {
                let Some((_, new)) = kept.iter().find(|(place, _)| *place == at) else { continue };
                let Some(pointer) = pointer else {
                    left.push((at, new.clone()));
                    continue;
                };
                let queue = QueueKey::new(&new.body.tenant, &new.body.command);
                let key = new.body.idempotency_key.as_deref().unwrap_or_default();
                match self.follow_pointer(&queue, key, &pointer).await.transpose() {
                    Some(found) => created[at] = Some(found.map(replay).map_err(Refusal::Failed)),
                    None => left.push((at, new.clone())),
                }
            }
            if left.is_empty() {
                break;
            }
        }
        for (at, _) in left {
            let failure = Failure::unavailable("the task of an idempotency key moves to another shard");
            created[at] = Some(Err(Refusal::Failed(failure)));
        }
        whole(created.into_iter().flatten().collect())
    }

    /// Gives the pointers that were found in the place of tasks; none for a task whose shard has moved.
    async fn create_once(
        &self,
        tasks: Vec<(usize, NewTask)>,
        links: &[Option<Linked>],
        created: &mut [Option<Result<Created, Refusal>>],
    ) -> Result<Vec<(usize, Option<String>)>, Failure> {
        let now = self.enter().await?;
        let mut parts: Vec<Part> = Vec::new();
        for (at, new) in tasks {
            let queue = QueueKey::new(&new.body.tenant, &new.body.command);
            let shard = self.current_shard(&queue);
            if let Some(made) = self.made_elsewhere(&queue, shard, &new, now).await.transpose() {
                created[at] = Some(made.map_err(Refusal::Failed));
                continue;
            }
            let number = self.now.creation();
            let is_unique = new.body.unique().is_some();
            let link = links[at].as_ref();
            if matches!(link, Some(Err(_))) {
                let task = new_task(new, now, number, self.shards[shard].spread);
                parts.push(Part::of_one(shard, queue, at, task, number).only_if_taken());
                continue;
            }
            let open = parts.last().is_some_and(|part| part.takes(&queue, is_unique));
            let known = || parts.iter().position(|part| part.takes(&queue, is_unique));
            let place = if open { Some(parts.len() - 1) } else { known() };
            let place = place.unwrap_or_else(|| {
                parts.push(Part { shard, queue, tasks: Vec::new(), bytes: 0, only: false });
                parts.len() - 1
            });
            parts[place].bytes += new.body.bytes();
            let task = held_task(new, now, number, self.shards[shard].spread, link);
            parts[place].tasks.push((at, task, number));
        }
        let made = self.create_parts(parts, now, created).await;
        let mut pointers = Vec::new();
        for (at, made) in made {
            match made {
                Made::Task(made) => created[at] = Some(Ok(made)),
                Made::Full => created[at] = Some(Err(Refusal::QueueFull)),
                Made::Elsewhere(pointer) => pointers.push((at, Some(pointer))),
                Made::Moved => pointers.push((at, None)),
                Made::TooLate => created[at] = Some(Err(Refusal::BatchClosed)),
                Made::Free => {
                    created[at] = links[at].clone().and_then(Result::err).map(Err);
                }
            }
        }
        Ok(pointers)
    }

    /// What became of the tasks of parts that were taken in. Of the others it is noted why they were not.
    async fn create_parts(
        &self,
        parts: Vec<Part>,
        now: Time,
        created: &mut [Option<Result<Created, Refusal>>],
    ) -> TakenIn<usize> {
        let places: Vec<Vec<usize>> =
            parts.iter().map(|part| part.tasks.iter().map(|(at, ..)| *at).collect()).collect();
        let items: Vec<_> = parts.into_iter().map(|part| self.create_part(part, now)).collect();
        let mut made = Vec::new();
        for (places, taken) in places.into_iter().zip(self.run_each(items).await) {
            match taken {
                Ok(taken) => made.extend(taken),
                Err(failure) => places
                    .into_iter()
                    .for_each(|at| created[at] = Some(Err(Refusal::Failed(failure.clone())))),
            }
        }
        made
    }

    /// What a key leads to, of either kind, where the queue of a task lived before.
    async fn made_elsewhere(
        &self,
        queue: &QueueKey,
        current: usize,
        new: &NewTask,
        now: Time,
    ) -> Result<Option<Created>, Failure> {
        if let Some(key) = new.body.idempotency_key.as_deref().filter(|_| self.shards.len() > 1)
            && let Some(task) = self.find_elsewhere(queue, key).await?
        {
            return Ok(Some(replay(task)));
        }
        match new.body.unique() {
            Some(_) => self.create_where_taken(queue, current, new, now).await,
            None => Ok(None),
        }
    }

    pub fn create_part(&self, part: Part, now: Time) -> Item<Vec<(usize, Made)>> {
        let Part { shard, queue, tasks, only, .. } = part;
        let is_unique = tasks.iter().any(|(_, task, _)| task.body.unique().is_some());
        let call = Call::new(Script::Create, self.shards[shard].keys.with_queue(&queue));
        let call = match is_unique {
            true => self.with_endings(call.number(now.millis()).arg(now.to_utc()), now),
            false => without_endings(call),
        };
        let numbered = tasks.iter().map(|(_, task, number)| (task, *number));
        let call = self.with_tasks(call, shard, &queue, numbered, only);
        let keeper = self.me();
        Item::ask(shard, call, move |reply| {
            let tasks = tasks.into_iter().map(|(at, task, _)| (at, task)).collect();
            keeper.taken_in(Answered::of(reply)?, shard, tasks, now)
        })
    }

    /// Appends tasks of one queue to the call of a script that takes them in.
    pub fn with_tasks<'a>(
        &'a self,
        call: Call,
        shard: usize,
        queue: &'a QueueKey,
        tasks: impl Iterator<Item = (&'a Task, u64)>,
        only: bool,
    ) -> Call {
        let intake = Intake {
            keys: &self.shards[shard].keys,
            queue,
            retention: self.rules.retention,
            home: self.home().keys.suffix(),
            only,
        };
        intake.append(call, tasks.map(|(task, number)| (task, self.beside(shard, number))))
    }

    /// What a script answers that has taken tasks in, each with what it is called by the caller.
    pub fn taken_in<K>(
        &self,
        mut answer: Answered,
        shard: usize,
        tasks: Vec<(K, Task)>,
        now: Time,
    ) -> Result<(TakenIn<K>, Vec<Event>), Failure> {
        if answer.word == "MOVED" {
            let moved = tasks.into_iter().map(|(at, _)| (at, Made::Moved));
            return Ok((moved.collect(), Vec::new()));
        }
        let mut is_empty = answer.int() == 0;
        let (mut created, mut events) = (Vec::with_capacity(tasks.len()), Vec::new());
        let replies = answer.list();
        if replies.len() != tasks.len() {
            return Err(Failure::Internal(format!("{} replies to {} tasks", replies.len(), tasks.len())));
        }
        events.extend(self.replaced(answer.list(), now));
        if let Some((_, task)) = tasks.first().filter(|_| answer.has_freed) {
            self.teller.freed(&QueueKey::new(&task.body.tenant, &task.body.command));
        }
        for ((at, task), existing) in tasks.into_iter().zip(replies) {
            let existing = text(existing);
            let made = match existing.first() {
                None => {
                    let has_filled = is_empty && matches!(task.state, State::Ready { .. });
                    is_empty &= !has_filled;
                    self.memory.remember(task.id, Arc::new(Known::of(&task, shard)));
                    let queue = QueueKey::new(&task.body.tenant, &task.body.command);
                    self.notes.spelled(&queue, &task.body.command);
                    events.push(Told::of(&task).event(now, What::Created, has_filled));
                    Made::Task(Created { task, is_replay: false, is_duplicate: false })
                }
                Some(b'>') => Made::Elsewhere(String::from_utf8_lossy(&existing).into_owned()),
                Some(b'-') => Made::Free,
                Some(b'!') => Made::TooLate,
                Some(b'%') => Made::Full,
                Some(b'=') => {
                    let task = record::parse(&existing[1..]).ok_or_else(damaged)?;
                    Made::Task(Created { task, is_replay: false, is_duplicate: true })
                }
                Some(_) => {
                    let task = record::parse(&existing).ok_or_else(damaged)?;
                    Made::Task(Created { task, is_replay: true, is_duplicate: false })
                }
            };
            created.push((at, made));
        }
        Ok((created, events))
    }

    /// The end of a task that was cancelled for another one.
    fn replaced(&self, told: Vec<Reply>, now: Time) -> Option<Event> {
        let mut told = told.into_iter();
        let (task, error) = (Told::parse(&text(told.next()?))?, string(told.next()?));
        Some(task.cancelled(now, error.into(), self.rules.callbacks))
    }

    /// A unique task whose key is taken on another server, where its queue lived before, is settled there.
    async fn create_where_taken(
        &self,
        queue: &QueueKey,
        current: usize,
        new: &NewTask,
        now: Time,
    ) -> Result<Option<Created>, Failure> {
        let own = self.keyspace_of(current);
        for shard in self.earlier_places(queue).into_iter().filter(|shard| self.keyspace_of(*shard) != own) {
            let number = self.now.creation();
            let task = new_task(new.clone(), now, number, self.shards[shard].spread);
            let part = Part::of_one(shard, queue.clone(), 0, task, number).only_if_taken();
            let made = self.run_batch([self.create_part(part, now)]).await?.into_iter().flatten().next();
            if let Some((_, Made::Task(made))) = made {
                return Ok(Some(made));
            }
        }
        Ok(None)
    }

    /// What is written beside a task of this shard.
    pub fn beside(&self, shard: usize, number: u64) -> RecordExtras<'_> {
        let shard = if self.shards.len() > 1 { &self.shards[shard].name } else { "" };
        RecordExtras { number, shard, unknown: "" }
    }
}

/// The low bits of the first byte of an id say on which of the spread shards it was created.
const SPREAD_SHIFT: u32 = 120;
const SPREAD_BITS: u128 = 0x3f << SPREAD_SHIFT;

/// The spread shard that an id names, whether or not it was created on one.
pub fn spread_of(id: TaskId) -> usize {
    usize::from(id.as_bytes()[0] & 0x3f)
}

fn replay(task: Task) -> Created {
    Created { task, is_replay: true, is_duplicate: false }
}

/// A task that may have to wait for others first.
fn held_task(new: NewTask, now: Time, number: u64, spread: Option<usize>, link: Option<&Linked>) -> Task {
    let delay = new.delay;
    let task = new_task(new, now, number, spread);
    match link {
        Some(Ok(open)) if !open.is_empty() => {
            Task { state: State::Held(Arc::new(Held { open: open.clone(), delay })), ..task }
        }
        _ => task,
    }
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
