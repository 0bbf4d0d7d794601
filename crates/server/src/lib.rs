//! The codeQ server: the process around a store.
//!
//! [`run`] is the whole life of a server, top to bottom: what is opened in which order, when it takes work,
//! and how it ends. `broker` holds the verbs, `http` and `grpc` translate, `auth` says who
//! calls.

mod artifacts;
pub mod auth;
pub mod broker;
mod budget;
pub mod config;
mod events;
pub mod grpc;
mod history;
pub mod http;
mod lengthy;
mod memory;
mod metrics;
pub mod rate;
pub mod seats;
mod shares;
pub mod stamp;
mod stops;
mod stores;
pub mod telemetry;
pub mod tls;
mod upkeep;
mod webhook;
pub mod workers;

use artifacts::Artifacts;
use auth::{Gate, GateOptions, ProviderConfig};
use broker::{Broker, Settings};
use codeq_queue::{Event, Observer, Store};
use codeq_store::kvrocks;
use codeq_store::local::Meters;
use codeq_store::{Clock, SlewedClock, Supervisor, SystemClock};
use config::{AuthProvider, Config, ListenAddress};
use events::Feed;
use history::History;
use http::{Doors, Listening};
use metrics::Metrics;
use seats::Seats;
use shares::{Shares, TENANT_STREAMS};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use telemetry::told::Told;
use telemetry::traces::Traces;
use thiserror::Error;
use tls::Tls;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use webhook::{ReadyTriggers, Webhooks};

pub use stores::{Watchers, kvrocks_options, open_store};
pub use webhook::{Aim, aim};

/// How long requests in flight may take once the server shuts down.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(10);
/// How long the store may take to close after that.
const CLOSE: Duration = Duration::from_secs(5);
/// File handles that are not for connections: the store's, and those of webhooks on their way; half of all
/// where there are fewer than twice as many.
const RESERVED_FILES: u64 = 512;

/// Why a server did not come up, or ended badly.
#[derive(Debug, Error)]
pub enum ServeError {
    #[error("init app: {0}")]
    Init(String),
    #[error("http server: {0}")]
    Http(String),
}

/// A server that takes work.
pub struct Ready {
    pub address: SocketAddr,
    /// Where the gRPC streams are, if they are on.
    pub worker_streams: Option<SocketAddr>,
    pub producer_streams: Option<SocketAddr>,
}

/// Serves until `shutdown` tells a reason, then closes everything.
///
/// `store` is opened here ([`open_store`], usually). Until it is open `/livez` answers and everything else
/// is unavailable; then `ready` is called and work is taken.
pub async fn run<S: Future<Output = Result<Arc<dyn Store>, String>>>(
    config: Config,
    store: impl FnOnce(Watchers) -> S,
    ready: impl FnOnce(&Ready),
    shutdown: impl Future<Output = &'static str>,
) -> Result<(), ServeError> {
    let connections = raise_file_limit();
    let tls = config.tls.as_ref().map(Tls::open).transpose().map_err(ServeError::Init)?.map(Arc::new);
    let (metrics, supervisor) = (Arc::new(Metrics::new()), Arc::<Supervisor>::default());
    if let Some(tls) = tls.clone() {
        let metrics = metrics.clone();
        supervisor.keep("certificates", move || tls.clone().keep_current(metrics.clone()));
    }
    let doors = Doors { seats: Seats::new(connections), tls };
    // Tokens expire by the wall clock; tasks live by one that does not step.
    let clock = stores::clock(&config);
    let draining = CancellationToken::new();
    let gate = Gate::new(gate_options(&config, Arc::new(SystemClock))).map_err(ServeError::Init)?;
    let gate = Arc::new(gate);
    let feed = Arc::new(Feed::new());
    let traces = Traces::start(&config.tracing).map_err(ServeError::Init)?;
    let app =
        http::App::new(&config, gate.clone(), metrics.clone(), feed.clone(), clock.clone(), draining.clone());
    let app = Arc::new(app.tracing(traces.clone()).supervised(supervisor.clone()));
    let listening = listen(&config.listen, http::Entry::new(app.clone()), &doors).await?;
    let scraped = match &config.metrics {
        Some(address) => Some(listen(address, http::Entry::metrics(app.clone()), &doors).await?),
        None => None,
    };
    let streams = grpc::bind(&config).await.map_err(ServeError::Init)?;
    let signals = Arc::new(ReadyTriggers::new(config.webhooks.enabled));
    let (told, teller) = telemetry::told::pair();
    supervisor.keep("log of expiries", move || teller.clone().run());
    let observer = observer(metrics.clone(), signals.clone(), feed.clone(), told, app.history.clone());
    let watchers = watchers(observer, &metrics, supervisor.clone());
    tokio::pin!(shutdown);
    let store = tokio::select! {
        store = store(watchers) => store.map_err(ServeError::Init)?,
        _ = &mut shutdown => return Ok(()),
    };
    let artifacts = Arc::new(Artifacts::open(&config.artifacts).map_err(ServeError::Init)?);
    let broker = Broker::new(store, clock.clone(), settings(&config), artifacts.clone(), draining.clone());
    let broker = Arc::new(broker.tracing(traces.clone()).with_seats(connections));
    // Over a store that is shared they are read again all the time.
    if let Err(error) = broker.load_policies().await
        && broker.shared().is_none()
    {
        return Err(ServeError::Init(error.to_string()));
    }
    broker.hear_stops();
    let background = background(&supervisor, &broker, &feed, artifacts, &app);
    let working_off = broker.clone();
    let operations = supervisor.keep("operations", move || broker::operations::work_off(working_off.clone()));
    let webhooks = Webhooks::start(&config, &broker, &signals, &metrics, &clock, &draining, &supervisor);
    let webhooks = webhooks.map_err(ServeError::Init)?;
    app.open(broker.clone());
    let office = grpc::StreamContext {
        gate,
        broker: broker.clone(),
        metrics: metrics.clone(),
        budget: app.budget.clone(),
        lobby: grpc::Lobby::default(),
        shares: Shares::of_seats(TENANT_STREAMS, connections),
        draining: draining.clone(),
        end_at_token_expiry: config.streams.end_at_token_expiry,
    };
    let streams = streams.serve(office, &doors).map_err(|error| ServeError::Http(error.to_string()))?;
    tracing::info!(addr = %listening.address, "listening");
    ready(&Ready {
        address: listening.address,
        worker_streams: streams.worker,
        producer_streams: streams.producer,
    });

    let signal = shutdown.await;
    tracing::info!(signal, "shutting down");
    draining.cancel();
    let operations = tokio::time::timeout(DRAIN_TIME_MAX, operations);
    let _ = tokio::join!(
        listening.drain(DRAIN_TIME_MAX),
        streams.drain(DRAIN_TIME_MAX),
        webhooks.drain(DRAIN_TIME_MAX),
        operations
    );
    drop(background);
    if let Some(directory) = app.data_directory.clone() {
        history::save(app.history.clone(), directory).await;
    }
    drop(scraped);
    let closed = tokio::time::timeout(CLOSE, broker.close()).await;
    traces.flush().await;
    match closed {
        Ok(closed) => closed.map_err(|failure| ServeError::Http(format!("closing the store: {failure}"))),
        Err(_) => {
            Err(ServeError::Http("the store did not close in time; it recovers at the next start".into()))
        }
    }
}

/// The routes over a store that is open, without a listener or anything in the background: for callers
/// that bring their requests themselves. The error is a start-up text.
pub fn routes_over(config: &Config, store: Arc<dyn Store>) -> Result<http::Entry, String> {
    let clock: Arc<dyn Clock> = SlewedClock::shared();
    let draining = CancellationToken::new();
    let gate = Arc::new(Gate::new(gate_options(config, Arc::new(SystemClock)))?);
    let (metrics, feed) = (Arc::new(Metrics::new()), Arc::new(Feed::new()));
    let app = Arc::new(http::App::new(config, gate, metrics, feed, clock.clone(), draining.clone()));
    let artifacts = Arc::new(Artifacts::open(&config.artifacts)?);
    app.open(Arc::new(Broker::new(store, clock, settings(config), artifacts, draining)));
    Ok(http::Entry::new(app))
}

/// What goes on in the background until it is dropped.
fn background(
    supervisor: &Arc<Supervisor>,
    broker: &Arc<Broker>,
    feed: &Arc<Feed>,
    artifacts: Arc<Artifacts>,
    app: &Arc<http::App>,
) -> Vec<AbortOnDropHandle<()>> {
    let keeping = (broker.clone(), app.history.clone(), app.data_directory.clone());
    let history = move || {
        let (broker, history, directory) = keeping.clone();
        history::keep(history, broker, directory)
    };
    let tidying = broker.clone();
    let tidy = move || upkeep::artifacts(artifacts.clone(), tidying.clone());
    let mut kept = vec![supervisor.keep("history", history), supervisor.keep("artifacts", tidy)];
    if let Some(shared) = broker.shared() {
        feed.join(shared);
        let (loading, telling, feed) = (broker.clone(), broker.clone(), feed.clone());
        kept.push(supervisor.keep("policies", move || loading.clone().keep_loading_policies()));
        kept.push(supervisor.keep("workers", move || telling.clone().keep_telling_workers()));
        kept.push(supervisor.keep("events", move || feed.clone().keep_announcing()));
    }
    kept.into_iter().map(AbortOnDropHandle::new).collect()
}

/// Everyone who is told what the store does.
fn observer(
    metrics: Arc<Metrics>,
    signals: Arc<ReadyTriggers>,
    feed: Arc<Feed>,
    told: Told,
    history: Arc<History>,
) -> Observer {
    Arc::new(move |events: &[Event]| {
        metrics.observe(events);
        signals.observe(events);
        feed.observe(events);
        told.observe(events);
        history.observe(events);
    })
}

fn watchers(observer: Observer, metrics: &Metrics, supervisor: Arc<Supervisor>) -> Watchers {
    let (meters, kvrocks_meters) = (Arc::<Meters>::default(), Arc::<kvrocks::Meters>::default());
    metrics.measure(meters.clone(), kvrocks_meters.clone());
    Watchers { observer, meters, kvrocks_meters, supervisor }
}

async fn listen(address: &ListenAddress, entry: http::Entry, doors: &Doors) -> Result<Listening, ServeError> {
    let refused = |error| ServeError::Init(format!("cannot listen on {address}: {error}"));
    let listener = http::bind(address).await.map_err(refused)?;
    http::listen(listener, entry, doors).map_err(refused)
}

/// Who is trusted, as the configuration says.
pub fn gate_options(config: &Config, clock: Arc<dyn Clock>) -> GateOptions {
    let provider = |side: &Option<AuthProvider>| {
        side.clone().map(|side| ProviderConfig { kind: side.kind, config: side.config })
    };
    GateOptions {
        producer: provider(&config.producer_auth),
        worker: provider(&config.worker_auth),
        allow_producer_as_worker: config.allow_producer_as_worker,
        admins_operate: config.dev_token().is_some(),
        clock_skew: config.allowed_clock_skew,
        clock,
    }
}

fn settings(config: &Config) -> Settings {
    Settings {
        default_lease: Duration::from_secs(config.tasks.default_lease_seconds),
        max_attempts_default: config.tasks.max_attempts,
        payload_bytes: config.limits.max_payload_bytes,
        subscription_min_interval: config.webhooks.subscription_min_interval,
        public_base_url: config.public_base_url.clone(),
        retention: config.tasks.retention,
        failed_retention: config.tasks.failed_retention,
    }
}

/// Allows as many open files as the system lets us; how many connections that is.
pub fn raise_file_limit() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let files = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let files = files.unwrap_or(1 << 20).min(1 << 20);
    usize::try_from((files - RESERVED_FILES.min(files / 2)).max(16)).unwrap_or(16)
}
