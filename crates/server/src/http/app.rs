//! What every handler can reach.

use super::RequestId;
use super::error::Error;
use super::routes::Route;
use super::ui::Dashboard;
use crate::auth::{Caller, Gate};
use crate::broker::Broker;
use crate::budget::Budget;
use crate::config::{Config, Mode, Persistence};
use crate::events::Feed;
use crate::history::{History, saved};
use crate::metrics::Metrics;
use crate::rate::{Limiter, RateScope};
use crate::stamp::WireTime;
use crate::telemetry::seldom::ThrottledLog;
use crate::telemetry::traces::Traces;
use codeq_queue::Time;
use codeq_store::{Clock, SlewedClock, Supervisor, TestClock};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use tokio_util::sync::CancellationToken;

/// A difference between the clocks that is told: smaller ones are followed at once.
const CLOCK_APART_MS: u64 = 5000;

pub struct App {
    /// Set once the store is open.
    broker: OnceLock<Arc<Broker>>,
    pub gate: Arc<Gate>,
    pub stamp: WireTime,
    /// Where results are, as tasks tell it.
    results: &'static str,
    pub limits: Limits,
    pub budget: Arc<Budget>,
    rates: Rates,
    clock: Arc<dyn Clock>,
    draining: CancellationToken,
    pub metrics: Arc<Metrics>,
    pub feed: Arc<Feed>,
    pub traces: Traces,
    pub history: Arc<History>,
    /// The token that `codeq dev` tells everyone; `None` in any other mode.
    pub dev_token: Option<&'static str>,
    pub dashboard: Dashboard,
    /// Only for callers on this machine: `codeq dev`.
    pub is_local: bool,
    pub store_provider: &'static str,
    /// Where tasks are kept, if it is a directory of this machine.
    pub data_directory: Option<PathBuf>,
    /// Knows what of the background work fails.
    pub supervisor: Arc<Supervisor>,
    /// When failures are logged.
    complaints: ThrottledLog,
    /// The clock that a test moves.
    pub test_clock: Option<Arc<TestClock>>,
    /// `/metrics` has a port of its own.
    pub has_metrics_port: bool,
}

/// Most bytes of a request body.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub body: usize,
    pub submit: usize,
}

struct Rates {
    producer: Limiter,
    worker: Limiter,
    admin: Limiter,
}

impl App {
    pub fn new(
        config: &Config,
        gate: Arc<Gate>,
        metrics: Arc<Metrics>,
        feed: Arc<Feed>,
        clock: Arc<dyn Clock>,
        draining: CancellationToken,
    ) -> App {
        let data_directory = match &config.persistence {
            Persistence::Embedded(embedded) => Some(embedded.path.clone()),
            Persistence::Kvrocks(_) | Persistence::Memory => None,
        };
        let saved = data_directory.as_deref().and_then(|path| saved::load(path, clock.now()));
        App {
            metrics,
            feed,
            traces: Traces::off(),
            history: Arc::new(saved.unwrap_or_else(|| History::new(clock.now()))),
            dev_token: config.dev_token(),
            dashboard: Dashboard::new(config.oidc.clone()),
            is_local: config.mode == Mode::Dev,
            store_provider: config.persistence.name(),
            data_directory,
            supervisor: Arc::default(),
            complaints: ThrottledLog::default(),
            test_clock: config.test_clock.then(TestClock::shared),
            has_metrics_port: config.metrics.is_some(),
            broker: OnceLock::new(),
            gate,
            stamp: WireTime::new(config.timezone.clone()),
            results: match config.persistence {
                Persistence::Kvrocks(_) => "codeq:results",
                _ => "codeq/results/",
            },
            limits: Limits { body: config.limits.max_body_bytes, submit: config.limits.max_submit_bytes },
            budget: Budget::new(config.limits.max_in_flight_bytes),
            rates: Rates {
                producer: Limiter::new(RateScope::Producer, config.rate_limits.producer),
                worker: Limiter::new(RateScope::Worker, config.rate_limits.worker),
                admin: Limiter::new(RateScope::Admin, config.rate_limits.admin),
            },
            clock,
            draining,
        }
    }

    pub fn tracing(self, traces: Traces) -> App {
        App { traces, ..self }
    }

    pub fn supervised(self, supervisor: Arc<Supervisor>) -> App {
        App { supervisor, ..self }
    }

    /// From now on requests are served.
    pub fn open(&self, broker: Arc<Broker>) {
        assert!(self.broker.set(broker).is_ok(), "a server has one store");
    }

    pub fn broker(&self) -> Option<&Arc<Broker>> {
        self.broker.get()
    }

    /// A task on the wire.
    pub fn show<'a>(&self, task: &'a codeq_queue::Task) -> codeq_api::task::Task<'a> {
        super::show::task(task, self.results, &self.stamp)
    }

    pub fn draining(&self) -> CancellationToken {
        self.draining.clone()
    }

    pub fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// How far the wall clock is ahead of the time that tasks live by, while they are apart.
    pub fn clock_ahead_seconds(&self) -> Option<i64> {
        let ahead_ms = self.clock.wall_ahead_ms();
        (ahead_ms.unsigned_abs() > CLOCK_APART_MS).then_some(ahead_ms / 1000)
    }

    /// Logs what broke, once a second at most: a store that is away would otherwise fill the disk with it.
    pub(super) fn complain(&self, error: &Error, route: &Route, id: &RequestId, tenant: &str) {
        let Some(cause) = &error.cause else { return };
        if !self.complaints.may(self.now()) {
            return;
        }
        tracing::error!(
            requestId = id.text(),
            tenantId = tenant,
            op = route.path,
            err = %cause,
            "storage error"
        );
    }

    /// Whose requests are counted, if they are.
    pub(super) fn limiter(&self, scope: RateScope) -> Option<&Limiter> {
        let limiter = match scope {
            RateScope::Producer => &self.rates.producer,
            RateScope::Worker => &self.rates.worker,
            RateScope::Admin => &self.rates.admin,
            RateScope::Webhook => return None,
        };
        Some(limiter).filter(|limiter| limiter.has_limit())
    }

    pub(super) async fn check_rate(
        &self,
        caller: &Caller,
        scope: RateScope,
        operation: &'static str,
    ) -> Result<(), Error> {
        let Some(limiter) = self.limiter(scope) else { return Ok(()) };
        let shared = self.broker().and_then(|broker| broker.shared());
        // Calls come in real time, whatever clock the tasks have.
        let now = SlewedClock::shared().now();
        let taken = limiter.take(shared, &caller.token_hash, operation, now).await;
        taken.map_err(|seconds| {
            self.metrics.rate_limited(scope, operation);
            Error::rate_limited(scope, operation, seconds)
        })
    }
}
