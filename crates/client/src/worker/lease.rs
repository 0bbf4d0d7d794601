//! Keeping a lease alive while its job runs.

use super::context::Said;
use super::link::{Assigned, CancelNotice, Link, Report, ReportAnswer, Word};
use super::stop::{Stop, StopSignal};
use crate::Error;
use crate::backoff::Backoff;
use crate::time::whole_seconds;
use rand::Rng;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

/// One attempt of one task, and how long it is ours.
pub(super) struct Lease {
    pub id: String,
    pub attempt: u32,
    length: Duration,
    /// Ours until then, as far as we know: counted from before the request that got or extended it.
    until: Mutex<Instant>,
    /// One heartbeat at a time: on a stream its answer names the task and nothing else.
    beating: tokio::sync::Mutex<()>,
    pub lost: CancellationToken,
    pub signal: StopSignal,
}

impl Lease {
    pub fn new(task: &Assigned, length: Duration) -> Lease {
        Lease {
            id: task.id.clone(),
            attempt: task.attempt,
            length,
            until: Mutex::new(task.received + length),
            beating: tokio::sync::Mutex::new(()),
            lost: CancellationToken::new(),
            signal: StopSignal::default(),
        }
    }

    pub fn until(&self) -> Instant {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Extends the lease whenever a third of it has passed. Returns when it is lost: the server says that the
    /// attempt is not ours, or nothing got through until its end.
    pub async fn keep(&self, link: &Link) {
        let mut next = self.until() - self.length + self.length / 3;
        loop {
            sleep_until(next.min(self.until())).await;
            let (sent, until) = (Instant::now(), self.until());
            if sent >= until {
                tracing::warn!(
                    task = self.id,
                    self.attempt,
                    "the lease ended before a heartbeat got through"
                );
                return self.lose();
            }
            // One that hangs must leave time for another.
            let patience = sent + (self.length / 3).max(Duration::from_secs(1));
            match timeout_at(until.min(patience), self.beat(link, Said::default())).await {
                Ok(Ok(ReportAnswer::Accepted(_))) => next = sent + self.length / 3,
                Ok(Ok(ReportAnswer::Lost(reason))) => {
                    return tracing::info!(task = self.id, self.attempt, reason, "the lease is lost");
                }
                Ok(Err(error)) => {
                    tracing::debug!(task = self.id, %error, "a heartbeat failed");
                    next = Instant::now() + self.length.mul_f64(rand::rng().random_range(0.02..0.1));
                }
                Err(_) => {}
            }
        }
    }

    /// A heartbeat that carries something. Repeated while the lease lives.
    pub async fn say(&self, link: &Link, said: Said) -> Result<(), Error> {
        let mut backoff = Backoff::default();
        let gone = |text: &str| Error::refused(409, "lease_lost", text);
        let repeated = async {
            loop {
                match self.beat(link, said.clone()).await {
                    Ok(ReportAnswer::Accepted(_)) => return Ok(()),
                    Ok(ReportAnswer::Lost(reason)) => return Err(gone(&reason)),
                    Err(error) if !error.is_retryable() => return Err(error),
                    Err(error) => backoff.pause(error.retry_after()).await,
                }
            }
        };
        tokio::select! {
            biased;
            told = repeated => told,
            () = self.lost.cancelled() => Err(gone("the lease is lost")),
        }
    }

    async fn beat(&self, link: &Link, said: Said) -> Result<ReportAnswer, Error> {
        let _alone = self.beating.lock().await;
        let sent = Instant::now();
        let word = Word::Heartbeat { extend_seconds: whole_seconds(self.length), said };
        let told = link.report(Report { id: self.id.clone(), attempt: self.attempt, word }).await?;
        match &told {
            ReportAnswer::Accepted(cancel) => {
                *self.until.lock().unwrap_or_else(PoisonError::into_inner) = sent + self.length;
                cancel.iter().for_each(|cancel| self.request_stop(cancel));
            }
            ReportAnswer::Lost(_) => self.lose(),
        }
        Ok(told)
    }

    /// Somebody asks the handler to end; what it reports until the deadline counts.
    pub fn request_stop(&self, cancel: &CancelNotice) {
        if self.signal.why().is_none() {
            tracing::info!(task = self.id, self.attempt, reason = cancel.reason, "asked to stop");
        }
        let CancelNotice { reason, deadline } = cancel.clone();
        self.signal.stop(Stop::Requested { reason, deadline });
    }

    fn lose(&self) {
        self.signal.stop(Stop::LeaseLost);
        self.lost.cancel();
    }
}
