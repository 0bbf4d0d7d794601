//! A queue in this process, whose clock stands still unless it is moved.

use crate::task::{InlineFields, NewTask};
use crate::worker::{Assigned, Context, End, Handlers, Outcome, Said, StopSignal, Teller, Worker};
use crate::{Error, limits};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::value::RawValue;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// What the server does if a create does not say.
const MAX_ATTEMPTS: u32 = 5;
/// Attempts of one drain: a handler that creates work without end must not run for ever.
const DRAIN_ATTEMPTS: usize = 100_000;

/// Runs the handlers of a worker in this process, without a server. Retries wait for the pause that the handler asked
/// for, others for nothing, so [`InlineQueue::drain`] sees a task through to its end.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), codeq_client::Error> {
/// use codeq_client::testing::InlineQueue;
/// use codeq_client::{Job, NewTask, Worker};
///
/// let worker = Worker::http("http://127.0.0.1:8080", "dev-token")
///     .handle("add", |job: Job<Vec<i64>>| async move { Ok::<_, String>(job.payload.iter().sum::<i64>()) });
/// let mut queue = InlineQueue::new(worker);
/// queue.create(NewTask::new("add", &[1, 2, 3]))?;
/// queue.drain().await;
/// assert_eq!(queue.completed("add")[0].result.as_deref(), Some(r#"{"value":6}"#));
/// # Ok(())
/// # }
/// ```
pub struct InlineQueue {
    handlers: Handlers,
    tasks: Vec<InlineTask>,
    now: Duration,
}

/// A task of an [`InlineQueue`] and what became of it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct InlineTask {
    /// `inline-1` for the first task, and so on.
    pub id: String,
    /// Spelled as in the create.
    pub command: String,
    /// JSON text.
    pub payload: String,
    /// `PENDING`, `COMPLETED` or `FAILED`.
    pub status: &'static str,
    /// How often its handler has run.
    pub attempts: u32,
    /// Of these, how many do not count.
    pub refunds: u32,
    /// What the handler returned, as JSON text.
    pub result: Option<String>,
    /// What the last attempt failed with; empty if none did.
    pub error: String,
    /// `MAX_ATTEMPTS` if it ran out of them.
    pub failure_reason: Option<&'static str>,
    /// All that was told, as JSON text.
    pub progress: Vec<String>,
    /// What was saved last, as JSON text.
    pub checkpoint: Option<String>,
    /// Names of the artifacts.
    pub artifacts: Vec<String>,
    priority: u8,
    headers: Vec<(String, String)>,
    lane: String,
    tags: Vec<String>,
    max_attempts: u32,
    key: Option<String>,
    due: Duration,
}

impl InlineQueue {
    /// An empty queue for the handlers of this worker; its other settings do not matter.
    pub fn new(worker: Worker) -> InlineQueue {
        InlineQueue { handlers: worker.into_handlers(), tasks: Vec::new(), now: Duration::ZERO }
    }

    /// Puts a task into the queue and gives its id; an idempotency key that is there already gives that of its task.
    pub fn create(&mut self, task: NewTask) -> Result<String, Error> {
        let InlineFields {
            command,
            payload,
            priority,
            headers,
            max_attempts,
            idempotency_key,
            delay,
            lane,
            tags,
        } = task.inline()?;
        if !self.handlers.knows(&command) {
            return Err(Error::Settings(format!("{command} has no handler")));
        }
        let is_held =
            |held: &&InlineTask| held.key.is_some() && held.key == idempotency_key && held.command == command;
        if let Some(held) = self.tasks.iter().find(is_held) {
            return Ok(held.id.clone());
        }
        let id = format!("inline-{}", self.tasks.len() + 1);
        self.tasks.push(InlineTask {
            id: id.clone(),
            command,
            payload,
            status: "PENDING",
            priority,
            headers,
            lane,
            tags,
            max_attempts: max_attempts.unwrap_or(MAX_ATTEMPTS),
            key: idempotency_key,
            due: self.now + delay,
            ..InlineTask::default()
        });
        Ok(id)
    }

    /// Runs everything that is due until nothing is left; how many attempts that was.
    pub async fn drain(&mut self) -> usize {
        let mut count = 0;
        while count < DRAIN_ATTEMPTS
            && let Some(index) = self.next(self.now)
        {
            self.attempt(index).await;
            count += 1;
        }
        count
    }

    /// Moves the clock and runs what falls due, in order of time.
    pub async fn advance(&mut self, time: Duration) -> usize {
        let (end, mut count) = (self.now + time, 0);
        while let Some(index) = self.next(end) {
            self.now = self.now.max(self.tasks[index].due);
            count += self.drain().await;
        }
        self.now = end;
        count
    }

    /// Tasks of a command that completed; of every command if it is empty.
    pub fn completed(&self, command: &str) -> Vec<&InlineTask> {
        self.with("COMPLETED", command)
    }

    /// Tasks of a command that failed for good; of every command if it is empty.
    pub fn failed(&self, command: &str) -> Vec<&InlineTask> {
        self.with("FAILED", command)
    }

    /// Tasks of a command that have not ended; of every command if it is empty.
    pub fn pending(&self, command: &str) -> Vec<&InlineTask> {
        self.with("PENDING", command)
    }

    fn with(&self, status: &str, command: &str) -> Vec<&InlineTask> {
        let is_meant = |task: &&InlineTask| {
            task.status == status && (command.is_empty() || task.command.eq_ignore_ascii_case(command))
        };
        self.tasks.iter().filter(is_meant).collect()
    }

    /// By time, then priority, then the order of the creates.
    fn next(&self, until: Duration) -> Option<usize> {
        let due =
            self.tasks.iter().enumerate().filter(|(_, task)| task.status == "PENDING" && task.due <= until);
        due.min_by_key(|(index, task)| (task.due, u8::MAX - task.priority, *index)).map(|(index, _)| index)
    }

    async fn attempt(&mut self, index: usize) {
        let task = &mut self.tasks[index];
        task.attempts += 1;
        let told = Arc::new(Recorder::default());
        let saved = task.checkpoint.clone().and_then(|text| RawValue::from_string(text).ok());
        let context = Context::new(StopSignal::default(), told.clone(), saved.clone());
        let outcome = self.handlers.run(assigned(task, saved), context.clone()).await;
        let Said { progress, checkpoint } = told.take(&mut task.progress);
        task.progress.extend(progress.map(|value| value.get().to_owned()));
        if let Some(checkpoint) = checkpoint {
            task.checkpoint = Some(checkpoint.get().to_owned());
        }
        task.artifacts = context.take_artifacts().into_iter().map(|artifact| artifact.name).collect();
        end(task, outcome, self.now);
    }
}

fn assigned(task: &InlineTask, checkpoint: Option<Box<RawValue>>) -> Assigned {
    Assigned {
        id: task.id.clone(),
        command: task.command.clone(),
        payload: task.payload.clone(),
        attempt: task.attempts,
        max_attempts: task.max_attempts,
        priority: task.priority,
        headers: task.headers.iter().cloned().collect(),
        lane: task.lane.clone(),
        tags: task.tags.clone(),
        trace_parent: String::new(),
        trace_state: String::new(),
        checkpoint,
        received: Instant::now(),
    }
}

fn end(task: &mut InlineTask, outcome: Outcome, now: Duration) {
    let mut pause = 0;
    match outcome.0 {
        End::Complete(result) => {
            (task.status, task.result) = ("COMPLETED", Some(result.get().to_owned()));
            return;
        }
        End::Fail(text) => {
            (task.status, task.error) = ("FAILED", text);
            return;
        }
        End::Nack { reason, delay_seconds, hold } => {
            (task.error, pause) = (reason, delay_seconds);
            task.refunds += u32::from(hold.is_some());
        }
        End::Abandon { refund } => task.refunds += u32::from(refund),
    }
    if task.attempts - task.refunds >= task.max_attempts {
        (task.status, task.failure_reason) = ("FAILED", Some("MAX_ATTEMPTS"));
    }
    task.due = now + Duration::from_secs(pause.unsigned_abs());
}

/// Keeps what a handler says.
#[derive(Default)]
struct Recorder(Mutex<(Vec<String>, Option<Box<RawValue>>)>);

impl Recorder {
    /// Moves all progress but nothing else, and gives the checkpoint.
    fn take(&self, progress: &mut Vec<String>) -> Said {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        progress.append(&mut held.0);
        Said { progress: None, checkpoint: held.1.take() }
    }
}

impl Teller for Recorder {
    fn tell(&self, said: Said) -> BoxFuture<'_, Result<(), Error>> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.0.extend(said.progress.map(|value| value.get().to_owned()));
        held.1 = said.checkpoint.or(held.1.take());
        std::future::ready(Ok(())).boxed()
    }

    fn until(&self) -> Instant {
        Instant::now() + limits::LEASE.1
    }
}
