//! The jobs of a worker: each runs its handler under a lease and reports how it ended.

use super::context::{Context, Said, Teller};
use super::fate::Fate;
use super::handlers::Handlers;
use super::lease::Lease;
use super::link::{Assigned, CancelNotice, Link, Report, ReportAnswer, Word};
use super::outcome::Outcome;
use super::pulse::Pulse;
use super::stop::Stop;
use crate::backoff::Backoff;
use crate::{Error, limits};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// Leases by task and attempt.
type Leases = HashMap<(String, u32), Arc<Lease>>;

/// The ways to the server.
pub(super) struct Links {
    pub work: Arc<Link>,
    pub beats: Arc<Link>,
    /// Where the latter runs.
    pub pulse: Pulse,
}

pub(super) struct JobSet {
    pub link: Arc<Link>,
    /// For the heartbeats that come by themselves.
    beats: Arc<Link>,
    pulse: Pulse,
    pub handlers: Handlers,
    pub fate: Arc<Fate>,
    pub lease: Duration,
    pub jobs: TaskTracker,
    /// Of the jobs that run; bounded by the slots.
    leases: Mutex<Leases>,
}

impl JobSet {
    pub fn new(links: Links, handlers: Handlers, fate: Arc<Fate>, lease: Duration) -> JobSet {
        let Links { work: link, beats, pulse } = links;
        JobSet {
            link,
            beats,
            pulse,
            handlers,
            fate,
            lease,
            jobs: TaskTracker::new(),
            leases: Mutex::default(),
        }
    }

    /// Starts a job, which holds its slot until it is settled.
    pub fn start(self: &Arc<JobSet>, task: Assigned, slot: OwnedSemaphorePermit) {
        let crew = self.clone();
        self.jobs.spawn(async move {
            crew.work(task).await;
            drop(slot);
        });
    }

    /// Gives a task back that was never started.
    pub fn refund(self: &Arc<JobSet>, task: &Assigned) {
        let crew = self.clone();
        let report = Report::new(&task.id, task.attempt, Outcome::refund(), Vec::new());
        self.jobs.spawn(async move {
            // When the lease is over there is nothing to give back.
            let _ = timeout(crew.lease, crew.deliver(report, &CancellationToken::new())).await;
        });
    }

    /// Somebody asks for the end of a task that may run here.
    pub fn request_stop(&self, id: &str, attempt: u32, cancel: &CancelNotice) {
        let lease = self.lock().get(&(id.to_owned(), attempt)).cloned();
        lease.iter().for_each(|lease| lease.request_stop(cancel));
    }

    async fn work(self: &Arc<JobSet>, task: Assigned) {
        let (id, attempt, command) = (task.id.clone(), task.attempt, task.command.clone());
        let (started, lease) = (Instant::now(), Arc::new(Lease::new(&task, self.lease)));
        self.lock().insert((id.clone(), attempt), lease.clone());
        let keeper = self.keep(&lease);
        let teller = Arc::new(Speaker { crew: self.clone(), lease: lease.clone() });
        let context = Context::new(lease.signal.clone(), teller, task.checkpoint.clone());
        let outcome = self.run(task, &context).await;
        let mut told = outcome.name();
        if lease.lost.is_cancelled() {
            told = "dropped";
        } else {
            self.deliver(Report::new(&id, attempt, outcome, context.take_artifacts()), &lease.lost).await;
        }
        drop(keeper);
        self.lock().remove(&(id.clone(), attempt));
        let seconds = started.elapsed().as_secs_f64();
        tracing::info!(task = id, command, attempt, outcome = told, seconds, "task {told}");
    }

    fn keep(self: &Arc<JobSet>, lease: &Arc<Lease>) -> AbortOnDropHandle<()> {
        let (crew, lease) = (self.clone(), lease.clone());
        AbortOnDropHandle::new(self.pulse.runtime.spawn(async move { lease.keep(&crew.beats).await }))
    }

    /// The outcome of the handler, or a refund if the worker ends before it.
    async fn run(&self, task: Assigned, context: &Context) -> Outcome {
        let mut handler = self.handlers.run(task, context.clone());
        tokio::select! {
            outcome = &mut handler => outcome,
            () = self.fate.cut.cancelled() => {
                context.signal.stop(Stop::Shutdown);
                let _ = timeout(limits::CANCEL_GRACE, handler).await;
                Outcome::refund()
            }
        }
    }

    /// Reports until there is an answer, as long as that can matter.
    async fn deliver(&self, report: Report, lost: &CancellationToken) {
        let last_call = async {
            tokio::select! {
                () = self.fate.cut.cancelled() => {}
                () = self.fate.mute.cancelled() => {}
            }
            sleep(limits::LAST_REPORTS).await;
        };
        let (id, attempt) = (report.id.clone(), report.attempt);
        tokio::select! {
            () = self.report_until_answered(report) => {}
            () = lost.cancelled() => tracing::info!(task = id, attempt, "the lease ended before the report was answered"),
            () = last_call => tracing::warn!(task = id, attempt, "shut down before the report was answered"),
        }
    }

    async fn report_until_answered(&self, mut report: Report) {
        let mut backoff = Backoff::default();
        let mut is_unsure = false;
        loop {
            match self.link.report(report.clone()).await {
                Ok(ReportAnswer::Accepted(_)) => return,
                // After an unknown outcome this may be our own report that got through.
                Ok(ReportAnswer::Lost(reason)) => return tell_lost(&report, &reason, is_unsure),
                Err(error @ Error::Refused { status: 403, .. }) => return self.fate.end_mute(error),
                // A refused token may be replaced, a proxy mended before the lease is over.
                Err(error) if !is_final(&error) => {
                    tracing::debug!(task = report.id, %error, "a report has no answer yet");
                    is_unsure = true;
                    backoff.pause(error.retry_after()).await;
                }
                // The server will never take it.
                Err(error) => match explain(&report, &error) {
                    Some(failure) => report = failure,
                    None => return tracing::error!(task = report.id, %error, "the report was refused"),
                },
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Leases> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says to the server what a handler has to say.
struct Speaker {
    crew: Arc<JobSet>,
    lease: Arc<Lease>,
}

impl Teller for Speaker {
    fn tell(&self, said: Said) -> BoxFuture<'_, Result<(), Error>> {
        self.lease.say(&self.crew.link, said).boxed()
    }

    fn until(&self) -> Instant {
        self.lease.until()
    }
}

fn tell_lost(report: &Report, reason: &str, is_unsure: bool) {
    let (id, attempt) = (&report.id, report.attempt);
    match is_unsure {
        true => tracing::debug!(task = id, attempt, reason, "settled earlier, or lost"),
        false => tracing::info!(task = id, attempt, reason, "the report came too late"),
    }
}

/// Whether sending the same report again is of no use.
fn is_final(error: &Error) -> bool {
    matches!(error, Error::Refused { status: 400 | 413 | 422, .. } | Error::Settings(_) | Error::Json(_))
}

/// What to say instead of a result that the server does not take.
fn explain(report: &Report, error: &Error) -> Option<Report> {
    let Word::Complete { .. } = report.word else { return None };
    let text = format!("the server did not take the result: {error}");
    Some(Report::new(&report.id, report.attempt, Outcome::fail(text), Vec::new()))
}
