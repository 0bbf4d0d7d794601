//! Metrics: counters of the store's events, and gauges that are read when the page is requested.

mod process;
mod store;

pub use process::Counted;

use crate::broker::Broker;
use crate::rate::RateScope;
use crate::telemetry::told::death;
use crate::tls::Validity;
use bytes::Bytes;
use codeq_queue::event::{Event, What};
use codeq_queue::subscription::Subscription;
use codeq_queue::{AttemptOutcome, Failure, State};
use codeq_store::kvrocks;
use codeq_store::local::Meters;
use process::ProcessMetrics;
use prometheus::core::Collector;
use prometheus::process_collector::ProcessCollector;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, TextEncoder,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use store::StoreMetrics;

/// Commands with series of their own; any further one counts as [`OTHER`].
const COMMANDS: usize = 1000;
const OTHER: &str = "_other";
/// Every command, in a subscription.
const EVERY: &str = "*";
/// Event types of subscriptions that are looked at for one page; the rest is [`OTHER`].
const LOOKED_AT: usize = 1_000_000;
/// A page that takes longer is kept, [`PAGE_SHARE`] times as long as it took and [`PAGE_AGE`] at most.
const SLOW_PAGE: Duration = Duration::from_millis(50);
const PAGE_SHARE: u32 = 10;
const PAGE_AGE: Duration = Duration::from_secs(5);
const LATENCY: [f64; 14] =
    [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0];
const CLAIM_WAIT: [f64; 12] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 1800.0];

pub struct Metrics {
    registry: Registry,
    completed: IntCounterVec,
    latency: HistogramVec,
    claim_wait: Histogram,
    dead: IntCounterVec,
    rate_limit_hits: IntCounterVec,
    webhooks: IntCounterVec,
    ticks: IntCounterVec,
    depth: IntGaugeVec,
    limited: IntGaugeVec,
    paused: IntGaugeVec,
    running_limit: IntGaugeVec,
    dead_depth: IntGaugeVec,
    failed_depth: IntGaugeVec,
    oldest: GaugeVec,
    waiting: IntGauge,
    outbox: IntGaugeVec,
    clock_ahead: Gauge,
    background_failures: IntCounterVec,
    certificate_expiry: Gauge,
    store_up: IntGaugeVec,
    store_replicas: IntGaugeVec,
    subscriptions: IntGaugeVec,
    process: ProcessMetrics,
    counters: Counters,
    commands: Mutex<Commands>,
    /// The page that was made last.
    page: tokio::sync::Mutex<Option<Page>>,
}

struct Page {
    begun: Instant,
    took: Duration,
    text: Bytes,
}

impl Page {
    /// Whether it can be shown to somebody who asked at this instant. A page that took long is shown for a
    /// while: making it must not be what the server does all day.
    fn serves(&self, asked: Instant) -> bool {
        let kept = match self.took > SLOW_PAGE {
            true => (self.took * PAGE_SHARE).min(PAGE_AGE),
            false => Duration::ZERO,
        };
        self.begun >= asked || self.begun.elapsed() < kept
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WebhookKind {
    QueueReady,
    TaskResult,
}

impl WebhookKind {
    fn word(self) -> &'static str {
        match self {
            WebhookKind::QueueReady => "queue_ready",
            WebhookKind::TaskResult => "task_result",
        }
    }
}

struct Counters {
    created: IntCounterVec,
    claimed: IntCounterVec,
    expired: IntCounterVec,
}

/// The commands seen so far, each with the counters that move most.
#[derive(Default)]
struct Commands {
    seen: HashMap<Arc<str>, Arc<Series>>,
    /// The command of the last event: the next one is mostly of the same.
    last: Option<(Arc<str>, Arc<Series>)>,
}

struct Series {
    label: Arc<str>,
    created: IntCounter,
    claimed: IntCounter,
    expired: IntCounter,
}

impl Metrics {
    pub fn new() -> Metrics {
        let registry = Registry::new();
        let counter = |name: &str, help: &str, labels: &[&str]| {
            register(&registry, IntCounterVec::new(Opts::new(name, help), labels))
        };
        let gauge = |name: &str, help: &str, labels: &[&str]| {
            register(&registry, IntGaugeVec::new(Opts::new(name, help), labels))
        };
        let latency = HistogramOpts::new("codeq_task_processing_latency_seconds", "From create to the end.");
        let latency = HistogramVec::new(latency.buckets(LATENCY.to_vec()), &["command", "status"]);
        let claim_wait = HistogramOpts::new(
            "codeq_claim_wait_seconds",
            "How long a task could be claimed before it was: since its create, its return or the end of its delay.",
        );
        let claim_wait = Histogram::with_opts(claim_wait.buckets(CLAIM_WAIT.to_vec()));
        let oldest =
            Opts::new("codeq_queue_oldest_age_seconds", "Age of the oldest ready task; 0 if none is ready.");
        let command = &["command"];
        let metrics = Metrics {
            completed: counter("codeq_task_completed_total", "Tasks that ended.", &["command", "status"]),
            latency: register(&registry, latency),
            claim_wait: register(&registry, claim_wait),
            oldest: register(&registry, GaugeVec::new(oldest, command)),
            process: ProcessMetrics::new(&registry),
            dead: counter(
                "codeq_task_dead_lettered_total",
                "Tasks that ran out of attempts.",
                &["command", "reason"],
            ),
            rate_limit_hits: counter(
                "codeq_rate_limit_hits_total",
                "Calls turned away by a rate limit.",
                &["scope", "operation"],
            ),
            webhooks: counter(
                "codeq_webhook_deliveries_total",
                "Notifications sent and callbacks settled.",
                &["kind", "command", "outcome"],
            ),
            ticks: counter(
                "codeq_schedule_ticks_total",
                "Ticks of schedules, by what became of them.",
                &["outcome"],
            ),
            depth: gauge("codeq_queue_depth", "Tasks by place.", &["command", "queue"]),
            limited: gauge("codeq_queue_limited", "Ready tasks that a limit holds back.", command),
            paused: gauge("codeq_queue_paused", "Queues of the command that are paused.", command),
            running_limit: gauge(
                "codeq_queue_running_limit",
                "Tasks that may run at once by the policy; only for queues that have such a limit.",
                command,
            ),
            waiting: register(&registry, IntGauge::new("codeq_claims_waiting", "Claims that wait for work.")),
            outbox: gauge("codeq_webhook_outbox", "Result callbacks in the outbox.", &["state"]),
            background_failures: counter(
                "codeq_background_failures_total",
                "Failures of background work, which was begun again.",
                &["work"],
            ),
            clock_ahead: register(
                &registry,
                Gauge::new(
                    "codeq_clock_ahead_seconds",
                    "How far the wall clock is ahead of the time that tasks live by; below zero: behind.",
                ),
            ),
            certificate_expiry: register(
                &registry,
                Gauge::new(
                    "codeq_tls_certificate_expiry_timestamp_seconds",
                    "When the certificate in use expires; 0 without TLS.",
                ),
            ),
            store_up: gauge(
                "codeq_store_up",
                "Whether the server of a shard is there (Kvrocks).",
                &["shard"],
            ),
            store_replicas: gauge(
                "codeq_store_replicas",
                "Replicas that are connected to the server of a shard (Kvrocks).",
                &["shard"],
            ),
            dead_depth: gauge("codeq_dlq_depth", "Dead letters.", command),
            failed_depth: gauge(
                "codeq_failed_depth",
                "Failed tasks that are kept, neither dead nor cancelled.",
                command,
            ),
            subscriptions: gauge(
                "codeq_subscriptions_active",
                "Subscriptions that have not expired.",
                command,
            ),
            counters: Counters {
                created: counter("codeq_task_created_total", "New tasks; replays are not counted.", command),
                claimed: counter("codeq_task_claimed_total", "Deliveries to workers.", command),
                expired: counter("codeq_lease_expired_total", "Leases that ran out.", command),
            },
            commands: Mutex::default(),
            page: tokio::sync::Mutex::new(None),
            registry: registry.clone(),
        };
        let process = registry.register(Box::new(ProcessCollector::for_self()));
        process.expect("process metrics have names of their own");
        metrics
    }

    /// Counts what has happened. Quick: it runs between two commits.
    pub fn observe(&self, events: &[Event]) {
        let mut commands = self.lock();
        for event in events {
            let series = commands.series(&event.command, &self.counters);
            match &event.what {
                What::Created => series.created.inc(),
                What::Claimed { ready_at, .. } => {
                    series.claimed.inc();
                    self.claim_wait.observe(event.at.since(*ready_at).as_secs_f64());
                }
                What::Returned { outcome: AttemptOutcome::LeaseExpired, .. } => series.expired.inc(),
                What::Ended { .. } => self.ended(event, &series),
                What::Ticked { outcome, count, .. } => {
                    self.ticks.with_label_values(&[outcome.word()]).inc_by(*count);
                }
                _ => {}
            }
        }
    }

    fn ended(&self, event: &Event, series: &Series) {
        let What::Ended { state, outcome, created_at, .. } = &event.what else { return };
        let labels = [&*series.label, state.status().word()];
        self.completed.with_label_values(&labels).inc();
        self.latency.with_label_values(&labels).observe(event.at.since(*created_at).as_secs_f64());
        if *outcome == Some(AttemptOutcome::LeaseExpired) {
            series.expired.inc();
        }
        if *state == State::Dead {
            self.dead.with_label_values(&[&*series.label, death(*outcome)]).inc();
        }
    }

    pub fn rate_limited(&self, scope: RateScope, operation: &str) {
        self.rate_limit_hits.with_label_values(&[scope.word(), operation]).inc();
    }

    /// A notification was sent, or a callback is settled.
    pub fn webhook(&self, kind: WebhookKind, command: &Arc<str>, is_success: bool) {
        let series = self.lock().series(command, &self.counters);
        let outcome = if is_success { "success" } else { "failure" };
        self.webhooks.with_label_values(&[kind.word(), &series.label, outcome]).inc();
    }

    /// An answer was made; `route` is a template of the table.
    pub fn request(&self, route: &str, status: u16, took: Duration) {
        self.process.request(route, status, took);
    }

    /// Open streams of a gRPC service.
    pub fn streams(&self, service: &str) -> IntGauge {
        self.process.streams(service)
    }

    /// Shows what the stores measure.
    pub fn measure(&self, meters: Arc<Meters>, kvrocks: Arc<kvrocks::Meters>) {
        let registered = self.registry.register(Box::new(StoreMetrics::new(meters, kvrocks)));
        registered.expect("a process has one store");
    }

    /// A certificate came into use that is good until then.
    pub fn certified(&self, validity: Validity) {
        self.certificate_expiry.set(validity.not_after.as_second() as f64);
    }

    /// The metrics page. Requests that arrive at the same time share one.
    pub async fn page(&self, broker: &Arc<Broker>) -> Result<Bytes, Failure> {
        let asked = Instant::now();
        let mut last = self.page.lock().await;
        if let Some(page) = last.as_ref().filter(|page| page.serves(asked)) {
            return Ok(page.text.clone());
        }
        let begun = Instant::now();
        let text = Bytes::from(self.render(Some(broker)).await?);
        *last = Some(Page { begun, took: begun.elapsed(), text: text.clone() });
        Ok(text)
    }

    /// How often background work has failed so far.
    pub fn count_failures(&self, failures: &[(&'static str, u64)]) {
        for (work, count) in failures {
            let counter = self.background_failures.with_label_values(&[work]);
            counter.inc_by(count.saturating_sub(counter.get()));
        }
    }

    /// Everything in Prometheus' text form, gauges as of now.
    pub async fn render(&self, broker: Option<&Arc<Broker>>) -> Result<String, Failure> {
        if let Some(broker) = broker {
            let queues = broker.queues(None).await?;
            // They live on one server; without it everything else is told all the same.
            let subscriptions = broker.subscriptions().await.unwrap_or_default();
            let outbox = broker.outbox().await?;
            for (state, count) in [("pending", outbox.pending), ("failed", outbox.failed)] {
                self.outbox.with_label_values(&[state]).set(i64::try_from(count).unwrap_or(i64::MAX));
            }
            self.clock_ahead.set(broker.clock_ahead_ms() as f64 / 1000.0);
            let is_whole = self.show_shards(broker);
            let mut commands = self.lock();
            self.depth.reset();
            self.dead_depth.reset();
            self.failed_depth.reset();
            self.limited.reset();
            self.paused.reset();
            self.running_limit.reset();
            self.waiting.set(i64::try_from(broker.claims_waiting()).unwrap_or(i64::MAX));
            for queue in &queues {
                commands.series(&queue.command, &self.counters);
            }
            self.oldest.reset();
            // What lies on a server that is away is unknown, not nothing.
            for series in commands.seen.values().filter(|_| is_whole) {
                self.place(series, [0; 5]);
                self.failed_depth.with_label_values(&[&*series.label]).set(0);
                self.oldest.with_label_values(&[&*series.label]).set(0.0);
            }
            let now = broker.now();
            for queue in queues {
                let series = commands.series(&queue.command, &self.counters);
                if let Some(since) = queue.oldest_ready {
                    let oldest = self.oldest.with_label_values(&[&*series.label]);
                    oldest.set(oldest.get().max(now.since(since).as_secs_f64()));
                }
                let counts = [queue.ready_total(), queue.delayed, queue.in_progress, queue.dead, queue.held];
                self.place(&series, counts);
                let failed = i64::try_from(queue.failed).unwrap_or(i64::MAX);
                self.failed_depth.with_label_values(&[&*series.label]).add(failed);
                self.paused.with_label_values(&[&*series.label]).add(i64::from(queue.is_paused));
                if let Some(stored) = &queue.policy {
                    let limited = i64::try_from(queue.limited).unwrap_or(i64::MAX);
                    self.limited.with_label_values(&[&*series.label]).add(limited);
                    if let Some(limit) = stored.policy.concurrency {
                        self.running_limit.with_label_values(&[&*series.label]).add(i64::from(limit));
                    }
                }
            }
            self.show_subscriptions(&subscriptions, &commands);
        }
        let text = TextEncoder::new().encode_to_string(&self.registry.gather());
        text.map_err(|error| Failure::Internal(error.to_string()))
    }

    /// Subscriptions by command; beyond a bound they are not told apart.
    fn show_subscriptions(&self, subscriptions: &[Subscription], commands: &Commands) {
        self.subscriptions.reset();
        let mut looked_at = 0;
        for subscription in subscriptions {
            looked_at += subscription.event_types.len();
            if looked_at > LOOKED_AT {
                let others = i64::try_from(subscription.event_types.len()).unwrap_or(i64::MAX);
                self.subscriptions.with_label_values(&[OTHER]).add(others);
                continue;
            }
            for event in &subscription.event_types {
                self.subscriptions.with_label_values(&[commands.label(event)]).inc();
            }
        }
    }

    /// Gives whether all shards are there.
    fn show_shards(&self, broker: &Broker) -> bool {
        self.store_up.reset();
        self.store_replicas.reset();
        let shards = broker.shards();
        for shard in &shards {
            let labels = &[shard.name.as_str()];
            self.store_up.with_label_values(labels).set(i64::from(shard.away.is_none()));
            if let Some(server) = shard.server {
                let replicas = i64::try_from(server.replicas).unwrap_or(i64::MAX);
                self.store_replicas.with_label_values(labels).set(replicas);
            }
        }
        shards.iter().all(|shard| shard.away.is_none())
    }

    /// Adds to the gauges of a command; tenants are summed.
    fn place(&self, series: &Series, counts: [u64; 5]) {
        let places = ["ready", "delayed", "in_progress", "dlq", "held"];
        // Few queues ever have held tasks.
        let told = places.into_iter().zip(counts).filter(|(place, count)| *place != "held" || *count > 0);
        for (place, count) in told {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.depth.with_label_values(&[&*series.label, place]).add(count);
            if place == "dlq" {
                self.dead_depth.with_label_values(&[&*series.label]).add(count);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Commands> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

impl Commands {
    fn series(&mut self, command: &Arc<str>, counters: &Counters) -> Arc<Series> {
        if let Some((last, series)) = &self.last
            && Arc::ptr_eq(last, command)
        {
            return series.clone();
        }
        let series = match self.seen.get(command) {
            Some(series) => series.clone(),
            None => self.meet(command, counters),
        };
        self.last = Some((command.clone(), series.clone()));
        series
    }

    /// The label of what a subscription names, which can be anything: only commands of which there were tasks
    /// have one.
    fn label(&self, command: &str) -> &str {
        match self.seen.get(command) {
            Some(series) => &series.label,
            None if command == EVERY => EVERY,
            None => OTHER,
        }
    }

    fn meet(&mut self, command: &Arc<str>, counters: &Counters) -> Arc<Series> {
        let label: Arc<str> = match self.seen.len() < COMMANDS {
            true => command.clone(),
            false => OTHER.into(),
        };
        if let Some(series) = self.seen.get(&label) {
            return series.clone();
        }
        let series = Arc::new(Series {
            created: counters.created.with_label_values(&[&*label]),
            claimed: counters.claimed.with_label_values(&[&*label]),
            expired: counters.expired.with_label_values(&[&*label]),
            label: label.clone(),
        });
        self.seen.insert(label, series.clone());
        series
    }
}

fn register<C: Collector + Clone + 'static>(registry: &Registry, made: prometheus::Result<C>) -> C {
    let made = made.expect("names and labels of metrics are sound");
    registry.register(Box::new(made.clone())).expect("every metric has a name of its own");
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use codeq_queue::{QueueKey, Time};

    fn event(command: &str, what: What) -> Event {
        Event {
            at: Time::from_millis(3_000),
            queue: QueueKey::new("t", command),
            command: command.into(),
            task: None,
            what,
            has_filled: false,
        }
    }

    fn ended(state: State, outcome: AttemptOutcome) -> What {
        What::Ended {
            state,
            outcome: Some(outcome),
            attempt: 1,
            owner: None,
            error: None,
            created_at: Time::from_millis(1_000),
            has_callback: false,
        }
    }

    #[tokio::test]
    async fn events_add_up_to_series() {
        let metrics = Metrics::new();
        metrics.observe(&[
            event("render", What::Created),
            event("render", What::Created),
            event("render", ended(State::Completed, AttemptOutcome::Completed)),
            event("render", ended(State::Dead, AttemptOutcome::LeaseExpired)),
        ]);
        metrics.rate_limited(RateScope::Worker, "claim");
        let text = metrics.render(None).await.unwrap();
        for line in [
            "codeq_task_created_total{command=\"render\"} 2",
            "codeq_task_completed_total{command=\"render\",status=\"COMPLETED\"} 1",
            "codeq_task_completed_total{command=\"render\",status=\"FAILED\"} 1",
            "codeq_task_dead_lettered_total{command=\"render\",reason=\"lease_expired\"} 1",
            "codeq_lease_expired_total{command=\"render\"} 1",
            "codeq_task_processing_latency_seconds_bucket{command=\"render\",status=\"FAILED\",le=\"2.5\"} 1",
            "codeq_rate_limit_hits_total{operation=\"claim\",scope=\"worker\"} 1",
            "# TYPE process_resident_memory_bytes gauge",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[tokio::test]
    async fn commands_beyond_a_thousand_share_one_series() {
        let metrics = Metrics::new();
        for number in 0..1_500 {
            metrics.observe(&[event(&format!("c{number}"), What::Created)]);
        }
        let text = metrics.render(None).await.unwrap();
        assert!(text.contains("codeq_task_created_total{command=\"_other\"} 500"), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("codeq_task_created_total{")).count(), 1001);
    }
}
