//! The jobs of a worker: each runs its handler under a lease and reports how it ended.

use super::fate::Fate;
use super::handlers::Handlers;
use super::lease::Lease;
use super::link::{Assigned, Link, Report, Told};
use super::outcome::Outcome;
use crate::backoff::Backoff;
use crate::{Error, limits};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

pub(super) struct Crew {
    pub link: Link,
    pub handlers: Handlers,
    pub fate: Arc<Fate>,
    pub lease: Duration,
    pub jobs: TaskTracker,
}

impl Crew {
    /// Starts a job, which holds its slot until it is settled.
    pub fn start(self: &Arc<Crew>, task: Assigned, slot: OwnedSemaphorePermit) {
        let crew = self.clone();
        self.jobs.spawn(async move {
            crew.work(task).await;
            drop(slot);
        });
    }

    /// Gives a task back that was never started.
    pub fn refund(self: &Arc<Crew>, task: &Assigned) {
        let crew = self.clone();
        let report = Report::new(&task.id, task.attempt, Outcome::refund());
        self.jobs.spawn(async move {
            // When the lease is over there is nothing to give back.
            let _ = timeout(crew.lease, crew.deliver(report, &CancellationToken::new())).await;
        });
    }

    async fn work(self: &Arc<Crew>, task: Assigned) {
        let (id, attempt) = (task.id.clone(), task.attempt);
        let lost = CancellationToken::new();
        let _keeper = self.keep_lease(&task, lost.clone());
        let outcome = self.run(task, &lost).await;
        if lost.is_cancelled() {
            return tracing::info!(
                task = id,
                attempt,
                "dropping the outcome of a job that is not ours any more"
            );
        }
        self.deliver(Report::new(&id, attempt, outcome), &lost).await;
    }

    fn keep_lease(self: &Arc<Crew>, task: &Assigned, lost: CancellationToken) -> AbortOnDropHandle<()> {
        let until = task.received + self.lease;
        let lease = Lease { id: task.id.clone(), attempt: task.attempt, length: self.lease, until };
        let crew = self.clone();
        AbortOnDropHandle::new(tokio::spawn(async move { lease.keep(&crew.link, &lost).await }))
    }

    /// The outcome of the handler, or a refund if the worker ends before it.
    async fn run(&self, task: Assigned, lost: &CancellationToken) -> Outcome {
        let cancelled = lost.child_token();
        let mut handler = self.handlers.run(task, cancelled.clone());
        tokio::select! {
            outcome = &mut handler => outcome,
            () = self.fate.cut.cancelled() => {
                cancelled.cancel();
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
                Ok(Told::Accepted) => return,
                // After an unknown outcome this may be our own report that got through.
                Ok(Told::Lost(reason)) => return tell_lost(&report, &reason, is_unsure),
                Err(Error::Refused { status: 403, code, message }) => {
                    return self.fate.end_mute(Error::Refused { status: 403, code, message });
                }
                Err(error @ Error::Refused { .. }) => match explain(&report, &error) {
                    Some(failure) => report = failure,
                    None => return tracing::error!(task = report.id, %error, "the report was refused"),
                },
                // A refused token may be replaced before the lease is over.
                Err(error) => {
                    tracing::debug!(task = report.id, %error, "a report has no answer yet");
                    is_unsure = true;
                    backoff.pause(error.retry_after()).await;
                }
            }
        }
    }
}

fn tell_lost(report: &Report, reason: &str, is_unsure: bool) {
    let (id, attempt) = (&report.id, report.attempt);
    match is_unsure {
        true => tracing::debug!(task = id, attempt, reason, "settled earlier, or lost"),
        false => tracing::info!(task = id, attempt, reason, "the report came too late"),
    }
}

/// What to say instead of a result that the server does not take.
fn explain(report: &Report, error: &Error) -> Option<Report> {
    let super::link::Word::Complete(_) = report.word else { return None };
    let text = format!("the server did not take the result: {error}");
    Some(Report::new(&report.id, report.attempt, Outcome::fail(text)))
}
