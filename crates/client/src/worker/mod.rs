//! Workers: handlers by command, run under leases that are kept alive.
//!
//! Start with [`Worker`]. Inside, `claim` gets tasks into free slots, `crew` runs a job from its handler to the
//! answer to its report, `lease` keeps it ours meanwhile, and `link` is the transport.

mod claim;
mod context;
mod crew;
mod fate;
mod handlers;
mod http;
mod identity;
mod job;
mod lease;
mod link;
mod outcome;
mod pulse;
mod ready;
mod results;
mod stop;
mod stream;
mod turns;

pub(crate) use context::{Context, Said, Teller};
pub(crate) use handlers::Handlers;
pub use job::Job;
pub(crate) use link::Assigned;
pub(crate) use outcome::End;
pub use outcome::{Hold, IntoOutcome, Outcome};
pub use stop::Stop;
pub(crate) use stop::StopSignal;

use crate::http::Http;
use crate::pipe::Pipe;
use crate::time::whole_seconds;
use crate::{Connection, Error, Token, limits};
use claim::Claims;
use crew::{JobSet, Links};
use fate::Fate;
use futures_util::future::BoxFuture;
use http::HttpLink;
use identity::Identity;
use link::Link;
use pulse::Pulse;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stream::{Dialer, Reports};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use turns::Turns;

/// Runs handlers for tasks.
///
/// ```no_run
/// use codeq_client::{Job, Outcome, Worker};
/// use std::time::Duration;
///
/// #[derive(serde::Deserialize)]
/// struct RenderVideo { video: u64 }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), codeq_client::Error> {
/// Worker::http("http://127.0.0.1:8080", "dev-token")
///     .concurrency(8)
///     .lease(Duration::from_secs(30))
///     .handle("render_video", |job: Job<RenderVideo>| async move {
///         match job.payload.video {
///             0 => Outcome::fail("there is no video 0"),
///             1 => Outcome::nack("not uploaded yet").after(Duration::from_secs(60)),
///             video => Outcome::complete(serde_json::json!({"frames": video * 240})),
///         }
///     })
///     .handle("add", |job: Job<Vec<i64>>| async move { Ok::<_, String>(job.payload.iter().sum::<i64>()) })
///     .run_until(tokio::signal::ctrl_c())
///     .await
/// # }
/// ```
///
/// Delivery is at least once: a handler may see a task again after its lease ran out or its report was lost, so
/// what it does should be safe to repeat. Run CPU-heavy handlers in
/// `tokio::task::spawn_blocking`, so that they do not block others; heartbeats have a thread of their own.
pub struct Worker {
    connection: Connection,
    handlers: Handlers,
    worker_id: String,
    concurrency: usize,
    batch: usize,
    lease: Duration,
    grace: Duration,
    is_strict: bool,
    weights: BTreeMap<String, u8>,
}

impl Worker {
    /// A worker that claims by long polls.
    pub fn http(base_url: impl Into<String>, token: impl Into<Token>) -> Worker {
        Worker::new(&Connection::new(token).http(base_url))
    }

    /// A worker on the worker stream.
    pub fn stream(address: impl Into<String>, token: impl Into<Token>) -> Worker {
        Worker::new(&Connection::new(token).worker_stream(address))
    }

    /// A worker on the worker stream if its address is set, else over HTTP.
    pub fn new(connection: &Connection) -> Worker {
        Worker {
            connection: connection.clone(),
            handlers: Handlers::default(),
            worker_id: String::new(),
            concurrency: 8,
            batch: usize::MAX,
            lease: Duration::from_secs(60),
            grace: limits::GRACE,
            is_strict: false,
            weights: BTreeMap::new(),
        }
    }

    /// What to do with tasks of a command. The handler returns an [`Outcome`], or a `Result`: `Ok` completes
    /// the task with that result, `Err` is a nack with its text. A panic is a nack, too, and so is a payload that
    /// cannot be read as a `T`, see [`Worker::fail_unreadable`].
    pub fn handle<T, F, R>(mut self, command: impl AsRef<str>, handler: F) -> Worker
    where
        T: DeserializeOwned + Send + 'static,
        F: Fn(Job<T>) -> R + Send + Sync + 'static,
        R: Future<Output: IntoOutcome> + Send + 'static,
    {
        self.handlers.add(command.as_ref(), handler);
        self
    }

    /// Puts a layer around every handler, the first one outermost. It gets the job without its payload and the
    /// handler, or the next layer, as a future that has not begun.
    ///
    /// ```
    /// # use codeq_client::Worker;
    /// let worker = Worker::http("http://127.0.0.1:8080", "dev-token").around(|job, next| async move {
    ///     let outcome = next.await;
    ///     println!("{} attempt {}: {}", job.id, job.attempt, outcome.name());
    ///     outcome
    /// });
    /// ```
    pub fn around<F, R>(mut self, layer: F) -> Worker
    where
        F: Fn(Job<()>, BoxFuture<'static, Outcome>) -> R + Send + Sync + 'static,
        R: Future<Output = Outcome> + Send + 'static,
    {
        self.handlers.add_layer(layer);
        self
    }

    /// Makes a payload that cannot be read fail its task for good. Unless told it is tried again like any error: a
    /// worker of the next release may read it.
    pub fn fail_unreadable(mut self) -> Worker {
        self.handlers.fail_unreadable();
        self
    }

    /// Maximum number of jobs at a time (default: 8).
    pub fn concurrency(mut self, jobs: usize) -> Worker {
        self.concurrency = jobs.clamp(1, limits::CONCURRENCY);
        self
    }

    /// Maximum number of tasks per claim (default: the number of free slots).
    pub fn batch_size(mut self, tasks: usize) -> Worker {
        self.batch = tasks.max(1);
        self
    }

    /// How long a task stays ours without a heartbeat: 1 s to 12 h, in whole seconds (default: 60 s).
    /// Heartbeats are sent after every third of it.
    pub fn lease(mut self, lease: Duration) -> Worker {
        let seconds = Duration::from_secs(whole_seconds(lease).unsigned_abs());
        self.lease = seconds.clamp(limits::LEASE.0, limits::LEASE.1);
        self
    }

    /// How long running jobs may continue after shutdown was requested (default: 25 s).
    pub fn grace(mut self, grace: Duration) -> Worker {
        self.grace = grace;
        self
    }

    /// Takes tasks of the first command with work, in the order in which handlers were added. The others wait, for
    /// ever if need be. By default every claim draws a new order, so that all commands get their share.
    pub fn strict(mut self) -> Worker {
        self.is_strict = true;
        self
    }

    /// How often a command comes first compared with the others, from 1 to 100 (default: 1). A strict worker has
    /// no weights.
    pub fn weight(mut self, command: impl AsRef<str>, weight: u8) -> Worker {
        self.weights.insert(command.as_ref().trim().to_ascii_lowercase(), weight);
        self
    }

    /// The name under which the worker holds its leases and is listed, 1 to 128 visible ASCII characters (default: host
    /// and process).
    pub fn worker_id(mut self, id: impl Into<String>) -> Worker {
        self.worker_id = id.into();
        self
    }

    /// Works until the process ends, or until an error that a retry cannot fix.
    pub async fn run(self) -> Result<(), Error> {
        self.run_until(std::future::pending::<()>()).await
    }

    /// Works until `signal` resolves, then stops claiming, gives back what was not started, and lets running
    /// jobs finish. When the grace is over their tokens are cancelled, and they are given back without counting
    /// the attempt.
    ///
    /// Fails at once if the token is refused or lacks a scope, or the settings cannot work. A server that is
    /// away is waited for without end. When this future is dropped, jobs are given back in the background.
    pub async fn run_until<S: Future>(self, signal: S) -> Result<(), Error> {
        let grace = self.grace;
        let (claims, dialer) = self.claims()?;
        let crew = claims.crew.clone();
        let _end = (crew.fate.stop.clone().drop_guard(), crew.fate.cut.clone().drop_guard());
        let claiming = claims.run(dialer.as_ref());
        tokio::pin!(claiming);
        tokio::select! {
            _ = signal => {
                crew.fate.stop.cancel();
                drain(&crew, grace, claiming).await;
            }
            () = &mut claiming => drain(&crew, grace, std::future::ready(())).await,
        }
        crew.fate.outcome()
    }

    /// Works until SIGTERM or SIGINT, as [`Worker::run_until`]; a second one ends the process at once.
    pub async fn run_until_signal(self) -> Result<(), Error> {
        let signal = crate::signals::first().map_err(|error| Error::Settings(format!("signals: {error}")))?;
        self.run_until(signal).await
    }

    /// What it does, for tests without a server.
    pub(crate) fn into_handlers(self) -> Handlers {
        self.handlers
    }

    fn claims(self) -> Result<(Claims, Option<Dialer>), Error> {
        let commands = self.handlers.commands();
        if commands.is_empty() {
            return Err(Error::Settings("a worker without handlers has nothing to do".into()));
        }
        let turns = Turns::new(self.is_strict, self.weights, &commands)?;
        let fate = Arc::new(Fate::default());
        let identity = Identity::new(self.worker_id, self.concurrency)?;
        let (links, dialer) = links(&self.connection, &identity, &fate)?;
        let crew = JobSet::new(links, self.handlers, fate, self.lease);
        let claims = Claims {
            crew: Arc::new(crew),
            slots: Arc::new(Semaphore::new(self.concurrency)),
            commands,
            turns,
            identity,
            lease_seconds: whole_seconds(self.lease),
            batch: self.batch.min(self.concurrency).min(limits::STREAM_BATCH),
            concurrency: self.concurrency,
        };
        Ok((claims, dialer))
    }
}

fn links(
    connection: &Connection,
    identity: &Identity,
    fate: &Arc<Fate>,
) -> Result<(Links, Option<Dialer>), Error> {
    let pulse = Pulse::start().map_err(|error| Error::Settings(format!("no thread: {error}")))?;
    let http = || Ok::<_, Error>(HttpLink::new(Http::new(connection)?.of_worker(&identity.name)?));
    let Some(address) = connection.worker_stream.clone() else {
        let http = || {
            http().map_err(|error| match error {
                Error::NeedsHttp => Error::Settings("neither a base URL nor a stream address".into()),
                other => other,
            })
        };
        // Connections belong to the runtime that opened them, so the heartbeats have some of their own.
        let (work, beats) = (Arc::new(Link::Http(http()?)), Arc::new(Link::Http(http()?)));
        return Ok((Links { work, beats, pulse }, None));
    };
    crate::stream::endpoint(&address)?;
    let dialer = Dialer { address, identity: identity.clone(), connection: connection.clone() };
    let reports = Reports { dialer: dialer.clone(), fate: fate.clone() };
    let http = connection.base.is_some().then(http).transpose()?;
    let work = Arc::new(Link::Stream(Pipe::on(pulse.runtime.clone(), reports), http));
    Ok((Links { beats: work.clone(), work, pulse }, Some(dialer)))
}

/// Waits for the last claim and then for the jobs, and cuts them off when the grace is over.
async fn drain(crew: &JobSet, grace: Duration, claiming: impl Future<Output = ()>) {
    let settled = async {
        claiming.await;
        crew.jobs.close();
        crew.jobs.wait().await;
    };
    tokio::pin!(settled);
    if timeout(grace, &mut settled).await.is_err() {
        crew.fate.cut.cancel();
        let last = limits::CANCEL_GRACE + limits::LAST_REPORTS + Duration::from_secs(1);
        let _ = timeout(last, settled).await;
    }
}
