//! The verbs, free of protocol.
//!
//! HTTP and gRPC translate; whatever they have in common happens here, once: defaults, rights of the token
//! over commands, waiting that ends at shutdown, and the guard that gives a task back when the caller it
//! was lent to has gone. The rules themselves are in `codeq_queue`, keeping is the store's business.

mod advance;
mod artifacts;
mod audit;
mod batches;
mod explain;
mod fair;
mod held;
mod operate;
pub mod operations;
mod payloads;
mod policies;
mod produce;
mod repair;
mod schedules;
mod search;
mod sighted;
mod subscribe;
mod traced;
mod transfer;
mod webhooks;
mod work;

pub use artifacts::Download;
pub use batches::MadeBatch;
pub use explain::{Explanation, Reason};
pub use operations::BulkRequest;
pub use payloads::Searched;
pub use search::{Group, Groups};
pub use subscribe::SubscribeRequest;
pub use transfer::Moved;
pub use webhooks::DeliveryFilter;
pub use work::{
    AbandonRequest, ArtifactGiven, BeatRequest, ClaimRequest, Lent, NackRequest, ReportRequest, SubmitRequest,
};

use crate::artifacts::Artifacts;
use crate::shares::{Place, Shares, TENANT_POLLS, TENANT_READYS};
use crate::stops::{StopBoard, StopListener};
use crate::telemetry::traces::Traces;
use crate::webhook::AnswerLog;
use crate::workers::Workers;
use codeq_queue::store::{Answer, Health, ShardView, Wait};
use codeq_queue::{Failure, Owner, Refusal, Shared, Store, Time};
use codeq_store::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The numbers of the configuration that the verbs need.
#[derive(Clone, Debug)]
pub struct Settings {
    pub default_lease: Duration,
    pub max_attempts_default: u32,
    pub payload_bytes: usize,
    pub subscription_min_interval: Duration,
    /// In front of the download route in artifact links.
    pub public_base_url: String,
    /// How long completed tasks, and with them their artifacts, are kept.
    pub retention: Duration,
    /// The same of failed ones.
    pub failed_retention: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            default_lease: Duration::from_secs(300),
            max_attempts_default: 5,
            payload_bytes: codeq_queue::limits::PAYLOAD_BYTES,
            subscription_min_interval: Duration::from_secs(5),
            public_base_url: String::new(),
            retention: Duration::from_secs(86_400),
            failed_retention: Duration::from_secs(604_800),
        }
    }
}

/// No, or broken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The artifact of this name could not be stored.
    #[error("artifact {0} upload: storage unavailable")]
    Upload(String),
}

/// One answer per item; a failure touches only the items that reached the store.
pub type Items<T> = Vec<Result<T, Error>>;

pub struct Broker {
    store: Arc<dyn Store>,
    shared: Option<Arc<dyn Shared>>,
    clock: Arc<dyn Clock>,
    settings: Settings,
    artifacts: Arc<Artifacts>,
    /// Cancelled when the server shuts down: whoever waits is answered empty.
    draining: CancellationToken,
    nudges: webhooks::Nudges,
    answers: AnswerLog,
    /// Told when a bulk operation was asked for.
    started: Notify,
    /// Claims that the store holds until there is work.
    held: Arc<AtomicU64>,
    /// Calls that wait over a connection of their own, and Readys that wait.
    polls: Arc<Shares>,
    readys: Arc<Shares>,
    traces: Traces,
    workers: Workers,
    stops: Arc<StopBoard>,
    create_rules: policies::CreateRules,
    /// Held by whoever moves the clock of a test.
    advancing: tokio::sync::Mutex<()>,
}

impl Broker {
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        settings: Settings,
        artifacts: Arc<Artifacts>,
        draining: CancellationToken,
    ) -> Broker {
        Broker {
            shared: store.shared(),
            store,
            clock,
            settings,
            artifacts,
            draining,
            nudges: webhooks::Nudges::default(),
            answers: AnswerLog::default(),
            started: Notify::new(),
            held: Arc::default(),
            polls: Shares::new(TENANT_POLLS),
            readys: Shares::new(TENANT_READYS),
            traces: Traces::off(),
            workers: Workers::default(),
            stops: Arc::default(),
            create_rules: policies::CreateRules::default(),
            advancing: tokio::sync::Mutex::default(),
        }
    }

    /// Where there are so many connections at most.
    pub fn with_seats(self, seats: usize) -> Broker {
        Broker { polls: Shares::of_seats(TENANT_POLLS, seats), ..self }
    }

    /// A place for a call that waits over a connection of its own.
    pub fn poll_place(&self, tenant: &Arc<str>) -> Result<Place, Refusal> {
        self.polls.take(tenant).ok_or(Refusal::TooManyWaiting(self.polls.most()))
    }

    /// A place for a call that waits so; none is needed for one that does not.
    fn place(&self, tenant: &Arc<str>, wait: Wait) -> Result<Option<Place>, Refusal> {
        match wait {
            Wait::No => Ok(None),
            Wait::Until(_) => self.poll_place(tenant).map(Some),
            Wait::Forever => {
                let place = self.readys.take(tenant);
                place.map(Some).ok_or(Refusal::TooManyWaiting(self.readys.most()))
            }
        }
    }

    /// Hears of tasks of this worker that are to stop.
    pub fn listen_for_stops(&self, tenant: &Arc<str>, owner: &Arc<Owner>) -> StopListener {
        self.stops.listen(tenant, owner)
    }

    /// From now on what other processes are asked to stop is told here too.
    pub fn hear_stops(&self) {
        let Some(shared) = self.shared() else { return };
        let stops = Arc::downgrade(&self.stops);
        shared.hear_notices(Arc::new(move |notice: &str| {
            if let Some(stops) = stops.upgrade() {
                stops.hear(notice);
            }
        }));
    }

    pub fn tracing(self, traces: Traces) -> Broker {
        Broker { traces, ..self }
    }

    pub fn traces(&self) -> &Traces {
        &self.traces
    }

    pub fn health(&self) -> Health {
        self.store.health()
    }

    /// The shards of a store on several servers.
    pub fn shards(&self) -> Vec<ShardView> {
        self.store.shards()
    }

    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// How far the wall clock is ahead of [`Broker::now`]; below zero: behind.
    pub fn clock_ahead_ms(&self) -> i64 {
        self.clock.wall_ahead_ms()
    }

    /// What this process has in common with others over the same keyspace, if there may be others.
    pub fn shared(&self) -> Option<&Arc<dyn Shared>> {
        self.shared.as_ref()
    }

    /// Lets go of the storage; everything acknowledged is kept.
    pub async fn close(&self) -> Result<(), Failure> {
        self.store.clone().close().await
    }

    /// Claims that wait for work.
    pub fn claims_waiting(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    fn until(&self, wait: Duration) -> Wait {
        match wait {
            Duration::ZERO => Wait::No,
            _ if self.draining.is_cancelled() => Wait::No,
            Duration::MAX => Wait::Forever,
            _ => Wait::Until(self.clock.now().plus(wait)),
        }
    }

    /// The answer, or `None` once the server drains. Only waiting calls may be cut short.
    async fn unless_draining<T>(&self, wait: Wait, answer: Answer<T>) -> Result<Option<T>, Failure> {
        if wait == Wait::No {
            return answer.await.map(Some);
        }
        tokio::select! {
            biased;
            answered = answer => answered.map(Some),
            () = self.draining.cancelled() => Ok(None),
        }
    }
}

/// Parts the items that go to the store from those that were refused before.
fn part<T>(checked: impl Iterator<Item = Result<T, Refusal>>) -> (Vec<T>, Vec<Result<(), Error>>) {
    let mut sound = Vec::new();
    let places = checked.map(|item| Ok(item.map(|item| sound.push(item))?)).collect();
    (sound, places)
}

/// Why an item was not done. Of a batch over several servers some items may fail alone.
fn not_done(refusal: Refusal) -> Error {
    match refusal {
        Refusal::Failed(failure) => Error::Failed(failure),
        refusal => Error::Refused(refusal),
    }
}

/// Puts the answers of the items that went to the store back into their places.
fn merge<T>(places: Vec<Result<(), Error>>, answer: Result<Vec<Result<T, Refusal>>, Failure>) -> Items<T> {
    let (mut answered, failure) = match answer {
        Ok(items) => (items.into_iter(), None),
        Err(failure) => (Vec::new().into_iter(), Some(failure)),
    };
    let merged = places.into_iter().map(|place| match (place, &failure) {
        (Err(error), _) => Err(error),
        (Ok(()), Some(failure)) => Err(Error::Failed(failure.clone())),
        (Ok(()), None) => answered.next().expect("the store answers every item").map_err(not_done),
    });
    merged.collect()
}
