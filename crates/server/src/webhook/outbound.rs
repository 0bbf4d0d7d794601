//! Everything that is on its way out, or waits to be.

use super::door::{Attempt, Door, Message};
use super::lanes::{Lanes, Ticket};
use crate::telemetry::traces::webhook::AttemptSpan;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

/// Attempts that have ended and are being dealt with. When all are taken, slots are not given back: a slow
/// store slows us down.
const ENDINGS: usize = 1024;

/// A span begins with finding out what it belongs to.
pub type Beginning = Pin<Box<dyn Future<Output = Option<AttemptSpan>> + Send>>;

/// Something to be sent, and what is to be done when it was.
pub trait Errand: Send + Sync {
    fn message(&self) -> Message;
    /// Asked last before it is sent. If not, the errand is over.
    fn may_start(&self) -> bool;
    /// The span of this attempt, if tracing is on.
    fn span(&self) -> Option<Beginning> {
        None
    }
    fn finished(self: Box<Self>, attempt: Attempt) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

pub struct Outbound {
    door: Door,
    lanes: Mutex<Lanes<Box<dyn Errand>>>,
    endings: Semaphore,
    running: TaskTracker,
    is_closed: AtomicBool,
}

impl Outbound {
    pub fn new(door: Door) -> Arc<Outbound> {
        Arc::new(Outbound {
            door,
            lanes: Mutex::default(),
            endings: Semaphore::new(ENDINGS),
            running: TaskTracker::new(),
            is_closed: AtomicBool::new(false),
        })
    }

    pub fn has_room(&self) -> bool {
        self.lanes().has_room()
    }

    /// Queues for the host; false, and nothing kept, if too many wait already.
    pub fn push(
        self: &Arc<Self>,
        tenant: &Arc<str>,
        host: &Arc<str>,
        errand: Box<dyn Errand>,
        most: usize,
    ) -> bool {
        let is_kept = self.lanes().push(tenant, host, errand, most);
        self.pump();
        is_kept
    }

    /// Starts whatever has a slot.
    fn pump(self: &Arc<Self>) {
        while !self.is_closed.load(Ordering::Acquire) {
            let next = self.lanes().next();
            let Some((ticket, errand)) = next else { return };
            self.running.spawn(self.clone().run(ticket, errand));
        }
    }

    async fn run(self: Arc<Self>, ticket: Ticket, errand: Box<dyn Errand>) {
        if !errand.may_start() {
            self.lanes().finished(ticket, None);
            return self.pump();
        }
        let span = match errand.span() {
            Some(beginning) => beginning.await,
            None => None,
        };
        let trace = span.as_ref().map(AttemptSpan::headers);
        let attempt = self.door.send(Message { trace, ..errand.message() }).await;
        if let Some(span) = span {
            span.end(attempt.error.as_deref());
        }
        let ending = self.endings.acquire().await;
        self.lanes().finished(ticket, Some(attempt.is_prompt));
        self.pump();
        errand.finished(attempt).await;
        drop(ending);
    }

    /// Starts nothing more and waits for what runs, but not longer than this.
    pub async fn drain(&self, patience: Duration) {
        self.is_closed.store(true, Ordering::Release);
        self.running.close();
        let _ = tokio::time::timeout(patience, self.running.wait()).await;
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes<Box<dyn Errand>>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
