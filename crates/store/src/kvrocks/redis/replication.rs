//! Answers that survive a failover: a group counts when so many replicas have it.
//!
//! A Kvrocks replica acknowledges the first number of a write batch, and WAIT waits for the newest: after an EXEC
//! of many writes it would wait for the next batch, seconds later. So a single write follows the EXEC (a message
//! that nobody listens to; it needs no key), then a short WAIT, both again until the replicas confirm. The
//! message is also what makes WAIT vouch for earlier writes when the group itself wrote nothing.
//!
//! After two groups that were not confirmed the server counts as degraded: groups are refused before they are
//! written, until a probe is confirmed.

use crate::kvrocks::redis::connection::{Command, Connection, Held, Reply};
use crate::kvrocks::redis::meters::Meters;
use codeq_queue::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long one WAIT waits on the server before the next nudge.
const STEP_MS: &str = "10";
/// Groups in a row that were not confirmed, after which groups are refused unwritten.
const UNCONFIRMED_GROUPS: u32 = 2;
/// Between two probes while degraded.
const PROBE_INTERVAL: Duration = Duration::from_millis(200);
/// Nobody listens to it.
const CHANNEL: &str = "codeq:wait";

pub const UNCONFIRMED: &str = "written, not yet replicated";

pub struct Replication {
    wanted: u32,
    patience: Duration,
    unconfirmed: AtomicU32,
    is_degraded: AtomicBool,
    meters: Arc<Meters>,
}

impl Replication {
    /// `None` if nobody wants to wait.
    pub fn new(wanted: u32, patience: Duration, meters: Arc<Meters>) -> Option<Arc<Replication>> {
        let (unconfirmed, is_degraded) = (AtomicU32::new(0), AtomicBool::new(false));
        (wanted > 0).then(|| Arc::new(Replication { wanted, patience, unconfirmed, is_degraded, meters }))
    }

    pub fn is_degraded(&self) -> bool {
        self.is_degraded.load(Ordering::Acquire)
    }

    pub fn refusal(&self) -> Failure {
        let wanted = self.wanted;
        Failure::unavailable(format!("replication is degraded: {wanted} replicas do not confirm writes"))
    }

    /// What follows an EXEC in the same write.
    pub fn commands(&self) -> [Command; 2] {
        let nudge = Command::new("PUBLISH").arg(CHANNEL).arg("1");
        [nudge, Command::new("WAIT").arg(self.wanted.to_string()).arg(STEP_MS)]
    }

    /// Whether so many replicas have what was sent over this line before. `first` is the answer to the WAIT
    /// that went with it at `sent`.
    pub async fn confirm(&self, line: &mut Held, first: Reply, sent: Instant) -> bool {
        let mut answer = first;
        let is_confirmed = loop {
            match answer {
                Reply::Int(count) if count >= i64::from(self.wanted) => break true,
                Reply::Int(_) if sent.elapsed() < self.patience => {}
                // Out of time, or a server that is no master any more.
                _ => break false,
            }
            answer = match line.exchange(&self.commands()).await {
                Ok(mut replies) => replies.pop().unwrap_or(Reply::Nil),
                Err(_) => break false,
            };
        };
        self.meters.waited(sent.elapsed());
        is_confirmed
    }

    /// Gives whether the server has just become degraded: then somebody has to probe it.
    pub fn note(&self, is_confirmed: bool) -> bool {
        if is_confirmed {
            self.unconfirmed.store(0, Ordering::Release);
            return false;
        }
        let unconfirmed = self.unconfirmed.fetch_add(1, Ordering::AcqRel) + 1;
        unconfirmed >= UNCONFIRMED_GROUPS && !self.is_degraded.swap(true, Ordering::AcqRel)
    }

    /// Asks until replicas confirm again, or nobody writes any more.
    pub async fn probe(self: Arc<Self>, connection: Arc<Connection>) {
        tracing::warn!(wanted = self.wanted, "replicas do not confirm: writes are refused until they do");
        // Besides the prober only a writer holds it.
        while Arc::strong_count(&self) > 1 {
            tokio::time::sleep(PROBE_INTERVAL).await;
            let answer = connection.exchange(&self.commands()).await.ok().and_then(|mut all| all.pop());
            if matches!(answer, Some(Reply::Int(count)) if count >= i64::from(self.wanted)) {
                self.unconfirmed.store(0, Ordering::Release);
                self.is_degraded.store(false, Ordering::Release);
                tracing::info!("replicas confirm again");
                return;
            }
        }
    }
}
