//! Keeping a lease alive while its job runs.

use super::link::{Link, Report, Told, Word};
use crate::time::whole_seconds;
use rand::Rng;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

/// One attempt of one task, and how long it is ours.
pub(super) struct Lease {
    pub id: String,
    pub attempt: u32,
    pub length: Duration,
    /// Ours until then, as far as we know: counted from before the request that got or extended it.
    pub until: Instant,
}

impl Lease {
    /// Extends the lease whenever a third of it has passed. Returns when it is lost, after cancelling `lost`:
    /// the server says that the attempt is not ours, or nothing got through until its end.
    pub async fn keep(mut self, link: &Link, lost: &CancellationToken) {
        let mut next = self.until - self.length + self.length / 3;
        loop {
            sleep_until(next.min(self.until)).await;
            let sent = Instant::now();
            if sent >= self.until {
                break tracing::warn!(
                    task = self.id,
                    self.attempt,
                    "the lease ended before a heartbeat got through"
                );
            }
            match timeout_at(self.until, link.report(self.heartbeat())).await {
                Ok(Ok(Told::Accepted)) => {
                    self.until = sent + self.length;
                    next = sent + self.length / 3;
                }
                Ok(Ok(Told::Lost(reason))) => {
                    break tracing::info!(task = self.id, self.attempt, reason, "the lease is lost");
                }
                Ok(Err(error)) => {
                    tracing::debug!(task = self.id, %error, "a heartbeat failed");
                    next = Instant::now() + self.length.mul_f64(rand::rng().random_range(0.02..0.1));
                }
                Err(_) => {}
            }
        }
        lost.cancel();
    }

    fn heartbeat(&self) -> Report {
        let word = Word::Heartbeat { extend_seconds: whole_seconds(self.length) };
        Report { id: self.id.clone(), attempt: self.attempt, word }
    }
}
