//! Listening to what happens.
//!
//! A broken stream is reopened after the last event that was received. Missed events are reported as
//! [`Event::Lagged`]. Best effort: do not base correctness on it.

use crate::backoff::Backoff;
use crate::http::{Http, parse};
use crate::{Connection, Error, Token};
use codeq_api::events::{EventBody, LaggedBody};
use reqwest::Response;
use std::time::Duration;

/// The server says something at least every 15 seconds; silence beyond this is a dead connection.
const SILENCE: Duration = Duration::from_secs(40);
/// Maximum length of an event.
const LONGEST: usize = 1 << 20;

/// An item of the stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Something happened to a task or a queue.
    Happened(Box<Happening>),
    /// Some events were missed.
    Lagged {
        /// How many; 0 if nobody knows.
        missed: u64,
    },
}

/// What happened to a task, a queue or a schedule.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Happening {
    /// `created`, `claimed`, `progress`, `completed`, `failed`, `requeued`, `dead`, `cancelled`, `promoted`, `released`,
    /// `paused`, `resumed`, `ticked` or `tick_skipped`.
    pub kind: String,
    /// `None` for what happens to a queue.
    pub task_id: Option<String>,
    /// Spelled as in the newest create of its queue.
    pub command: String,
    /// RFC 3339.
    pub at: String,
    /// The number of the delivery that it is about.
    pub attempt: Option<u32>,
    /// Who holds that delivery, or held it.
    pub worker_id: Option<String>,
    /// The status of the task afterwards; `None` where there is no task.
    pub status: Option<String>,
    /// What the attempt or the task failed with.
    pub error: Option<String>,
    /// How far the running task is, in its own words.
    pub progress: Option<serde_json::Value>,
    /// The schedule that ticked.
    pub schedule: Option<String>,
    /// What became of the tick: `fired`, `triggered`, `backfilled`, `skipped` or `missed`.
    pub outcome: Option<String>,
    /// The tick (RFC 3339); of several that were missed, the first.
    pub scheduled_for: Option<String>,
    /// How many ticks, if more than one.
    pub count: Option<u64>,
}

/// Listens to the events of the token's tenant.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), codeq_client::Error> {
/// let mut events = codeq_client::Events::http("http://127.0.0.1:8080", "dev-token").command("render");
/// loop {
///     println!("{:?}", events.next().await?);
/// }
/// # }
/// ```
pub struct Events {
    http: Result<Http, Error>,
    query: Vec<(&'static str, String)>,
    last_id: Option<String>,
    stream: Option<Response>,
    heard: Vec<u8>,
    backoff: Backoff,
}

impl Events {
    /// As [`Events::new`], for an address and a token alone.
    pub fn http(base_url: impl Into<String>, token: impl Into<Token>) -> Events {
        Events::new(&Connection::new(token).http(base_url))
    }

    /// Settings that cannot work are told by the first call.
    pub fn new(connection: &Connection) -> Events {
        Events {
            http: Http::new(connection),
            query: Vec::new(),
            last_id: None,
            stream: None,
            heard: Vec::new(),
            backoff: Backoff::default(),
        }
    }

    /// Only of this command.
    pub fn command(mut self, command: impl Into<String>) -> Events {
        self.query.push(("command", command.into()));
        self
    }

    /// Only of this task.
    pub fn task(mut self, id: impl Into<String>) -> Events {
        self.query.push(("taskId", id.into()));
        self
    }

    /// Only of these types, separated by commas.
    pub fn types(mut self, types: impl Into<String>) -> Events {
        self.query.push(("types", types.into()));
        self
    }

    /// The next event, waited for. An error means that the server refuses; a broken connection is mended.
    pub async fn next(&mut self) -> Result<Event, Error> {
        loop {
            if let Some(event) = self.take()? {
                self.backoff.reset();
                return Ok(event);
            }
            if let Err(error) = self.hear().await {
                match error {
                    Error::Unavailable { retry_after, .. } => self.backoff.pause(retry_after).await,
                    refused => return Err(refused),
                }
            }
        }
    }

    /// Reads more, opening the stream if need be.
    async fn hear(&mut self) -> Result<(), Error> {
        if self.stream.is_none() {
            let http = self.http.as_ref().map_err(Clone::clone)?;
            self.heard.clear();
            self.stream = Some(http.listen("/events", &self.query, self.last_id.as_deref()).await?);
        }
        let Some(stream) = &mut self.stream else { return Ok(()) };
        match tokio::time::timeout(SILENCE, stream.chunk()).await {
            Ok(Ok(Some(bytes))) if self.heard.len() + bytes.len() <= LONGEST => {
                self.heard.extend_from_slice(&bytes);
                Ok(())
            }
            _ => {
                self.stream = None;
                Err(Error::unavailable("the stream of events broke off"))
            }
        }
    }

    /// The first whole event of what was heard.
    fn take(&mut self) -> Result<Option<Event>, Error> {
        while let Some(end) = self.heard.windows(2).position(|pair| pair == b"\n\n") {
            let block: Vec<u8> = self.heard.drain(..end + 2).collect();
            let block = String::from_utf8_lossy(&block);
            let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
            if let Some(id) = field("id: ") {
                self.last_id = Some(id.to_owned());
            }
            match (field("event: "), field("data: ")) {
                (Some("lagged"), Some(data)) => {
                    let lagged: LaggedBody<'_> = parse(data)?;
                    return Ok(Some(Event::Lagged { missed: lagged.missed }));
                }
                (Some(_), Some(data)) => return Ok(Some(Event::Happened(Box::new(happening(parse(data)?))))),
                _ => {}
            }
        }
        Ok(None)
    }
}

fn happening(body: EventBody<'_>) -> Happening {
    Happening {
        kind: body.kind.into_owned(),
        task_id: body.task_id.map(Into::into),
        command: body.command.into_owned(),
        at: body.at.into_owned(),
        attempt: body.attempt,
        worker_id: body.worker_id.map(Into::into),
        status: body.status.map(Into::into),
        error: body.error.map(Into::into),
        progress: body.progress,
        schedule: body.schedule.map(Into::into),
        outcome: body.outcome.map(Into::into),
        scheduled_for: body.scheduled_for.map(Into::into),
        count: body.count,
    }
}
