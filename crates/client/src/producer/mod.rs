//! Creating tasks and waiting for their results.
//!
//! A create is repeated while its outcome is unknown, always with the same idempotency key, so that it makes
//! one task however often it is sent.

mod batches;
mod http;
mod schedules;
mod stream;

use crate::backoff::Backoff;
use crate::http::{Http, json, parse, segment};
use crate::pipe::Pipe;
use crate::task::{Created, Finished, NewTask, Task};
use crate::time::whole_seconds;
use crate::{Connection, Error, Token, limits};
use rand::Rng;
use reqwest::Method;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Creates tasks. Cheap to clone; clones share their connections.
///
/// ```no_run
/// use codeq_client::{NewTask, Producer};
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), codeq_client::Error> {
/// let producer = Producer::http("http://127.0.0.1:8080", "dev-token");
/// let created = producer.create(NewTask::new("add", &[1, 2, 3])).await?;
/// let finished = producer.wait_for_result(&created.id, Duration::from_secs(30)).await?;
/// println!("{:?}", finished.result);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Producer {
    shared: Arc<Shared>,
}

struct Shared {
    http: Result<Http, Error>,
    stream: Option<Pipe<stream::Creates>>,
    give_up_after: Duration,
}

impl Producer {
    /// Everything over HTTP.
    pub fn http(base_url: impl Into<String>, token: impl Into<Token>) -> Producer {
        Producer::new(&Connection::new(token).http(base_url))
    }

    /// Creates over a stream. To read tasks and results as well, use [`Producer::new`] with both addresses.
    pub fn stream(address: impl Into<String>, token: impl Into<Token>) -> Producer {
        Producer::new(&Connection::new(token).producer_stream(address))
    }

    /// Creates over the stream if its address is set, the rest over HTTP. Settings that cannot work are
    /// reported by the first call.
    pub fn new(connection: &Connection) -> Producer {
        let creates = |address: &String| Pipe::new(stream::Creates::new(address, connection));
        let shared = Shared {
            http: Http::new(connection),
            stream: connection.producer_stream.as_ref().map(creates),
            give_up_after: connection.give_up_after,
        };
        Producer { shared: Arc::new(shared) }
    }

    /// Creates one task. `Ok` means that it is durable; after `Unavailable` the outcome is unknown.
    pub async fn create(&self, task: NewTask) -> Result<Created, Error> {
        let mut created = self.create_all(vec![task]).await;
        created.pop().unwrap_or_else(|| Err(Error::unavailable("no answer")))
    }

    /// Creates many tasks in as few requests as the transport allows: 100 to one over HTTP, 1000 over a
    /// stream. The answers are in the order of the tasks; one that is refused does not stop the others.
    pub async fn create_all(&self, tasks: impl IntoIterator<Item = NewTask>) -> Vec<Result<Created, Error>> {
        let (tasks, is_ours): (Vec<NewTask>, Vec<bool>) = tasks.into_iter().map(with_key).unzip();
        let mut answers = self.create_until_known(&tasks).await;
        // Under a key that nobody else has, what was there already is what we made.
        for (answer, is_ours) in answers.iter_mut().zip(is_ours) {
            if let (Ok(created), true) = (answer, is_ours) {
                created.replayed = false;
            }
        }
        answers
    }

    async fn create_until_known(&self, tasks: &[NewTask]) -> Vec<Result<Created, Error>> {
        let mut answers = vec![Err(Error::unavailable("not sent")); tasks.len()];
        let started = Instant::now();
        let mut backoff = Backoff::default();
        let mut open: Vec<usize> = (0..tasks.len()).collect();
        while !open.is_empty() {
            let again: Vec<&NewTask> = open.iter().map(|index| &tasks[*index]).collect();
            for (index, answer) in open.iter().zip(self.create_once(&again).await) {
                answers[*index] = answer;
            }
            open.retain(|index| matches!(&answers[*index], Err(error) if error.is_retryable()));
            let asked = open.iter().filter_map(|index| answers[*index].as_ref().err()?.retry_after()).max();
            let pause = backoff.next(asked);
            if open.is_empty() || started.elapsed() + pause >= self.shared.give_up_after {
                break;
            }
            tokio::time::sleep(pause).await;
        }
        answers
    }

    async fn create_once(&self, tasks: &[&NewTask]) -> Vec<Result<Created, Error>> {
        match (&self.shared.stream, &self.shared.http) {
            (Some(pipe), _) => stream::create(pipe, tasks).await,
            (None, Ok(http)) => http::create(http, tasks).await,
            (None, Err(Error::NeedsHttp)) => {
                vec![Err(Error::Settings("neither a base URL nor a stream address".into())); tasks.len()]
            }
            (None, Err(error)) => vec![Err(error.clone()); tasks.len()],
        }
    }

    /// The task as it is now.
    pub async fn get(&self, id: &str) -> Result<Task, Error> {
        let path = format!("/tasks/{}", segment(id)?);
        let deadline = Instant::now() + self.shared.give_up_after;
        parse(&self.read(&path, deadline, || Duration::ZERO).await?)
    }

    /// Waits until the task has ended, for at most `timeout`; `NotFinished` when the time is up.
    pub async fn wait_for_result(&self, id: &str, timeout: Duration) -> Result<Finished, Error> {
        let path = format!("/tasks/{}/result", segment(id)?);
        let deadline = Instant::now() + timeout;
        loop {
            let asked = Instant::now();
            let left = || deadline.saturating_duration_since(Instant::now());
            match self.read(&path, deadline, || left().min(limits::RESULT_WAIT)).await {
                Ok(text) => return Finished::read(&text),
                Err(error) if error.code() != "result_not_found" => return Err(error),
                Err(_) if left().is_zero() => return Err(Error::NotFinished),
                // A server that shuts down ends its polls early.
                Err(_) if asked.elapsed() < limits::BACKOFF.1.min(left()) => {
                    Backoff::default().pause(None).await;
                }
                Err(_) => {}
            }
        }
    }

    /// Ends a task that nobody wants any more. A running one gets `grace` to end by itself: its worker is told, and
    /// what it reports until then counts.
    pub async fn cancel(&self, id: &str, grace: Duration, reason: &str) -> Result<Task, Error> {
        let body = CancelAsked { grace_seconds: whole_seconds(grace), reason };
        let path = format!("/tasks/{}/cancel", segment(id)?);
        parse(&self.call(Method::POST, &path, Some(json(&body)?)).await?)
    }

    /// The bytes of an artifact that the server keeps.
    pub async fn artifact(&self, id: &str, name: &str) -> Result<Vec<u8>, Error> {
        let path = format!("/tasks/{}/artifacts/{}", segment(id)?, encoded(name));
        let http = self.shared.http.as_ref().map_err(Clone::clone)?;
        let (mut backoff, deadline) = (Backoff::default(), Instant::now() + self.shared.give_up_after);
        loop {
            let error = match http.bytes(&path).await {
                Err(error) if error.is_retryable() => error,
                answer => return answer,
            };
            let pause = backoff.next(error.retry_after());
            if Instant::now() + pause >= deadline {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Calls until there is an answer, for what is safe to repeat.
    async fn call(&self, method: Method, path: &str, body: Option<String>) -> Result<String, Error> {
        let http = self.shared.http.as_ref().map_err(Clone::clone)?;
        let deadline = Instant::now() + self.shared.give_up_after;
        Ok(http.repeat(method, path, body, deadline).await?.text)
    }

    /// Reads until there is an answer, at most until `deadline`.
    async fn read(
        &self,
        path: &str,
        deadline: Instant,
        wait: impl Fn() -> Duration,
    ) -> Result<String, Error> {
        let http = self.shared.http.as_ref().map_err(Clone::clone)?;
        let mut backoff = Backoff::default();
        loop {
            let wait = wait();
            let seconds = whole_seconds(wait);
            let path = if seconds > 0 { format!("{path}?waitSeconds={seconds}") } else { path.to_owned() };
            match http.get(&path, Duration::from_secs(seconds.unsigned_abs())).await {
                Ok(answer) => return Ok(answer.text),
                Err(error) => {
                    let pause = backoff.next(error.retry_after());
                    if !error.is_retryable() || Instant::now() + pause >= deadline {
                        return Err(error);
                    }
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CancelAsked<'a> {
    grace_seconds: i64,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
}

/// A path segment of any text.
fn encoded(text: &str) -> String {
    let mut segment = String::new();
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~') {
            true => segment.push(byte.into()),
            false => segment.push_str(&format!("%{byte:02X}")),
        }
    }
    segment
}

/// A key of our own, 128 random bits, for a task that has none; and whether it had none.
fn with_key(mut task: NewTask) -> (NewTask, bool) {
    let is_ours = task.idempotency_key.as_ref().is_none_or(|key| key.trim().is_empty());
    if is_ours {
        task.idempotency_key = Some(format!("sdk-{:032x}", rand::rng().random::<u128>()));
    }
    (task, is_ours)
}
