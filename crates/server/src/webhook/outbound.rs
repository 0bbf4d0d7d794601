//! Everything that is on its way out, or waits to be.

use super::door::{Attempt, Message, OutboundClient};
use super::lanes::{Lanes, Ticket};
use crate::telemetry::traces::webhook::AttemptSpan;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;

/// Attempts that have ended and are being dealt with. When all are taken, slots are not given back: a slow
/// store slows us down.
const ENDINGS: usize = 1024;

/// A span begins with finding out what it belongs to.
pub type Beginning = Pin<Box<dyn Future<Output = Option<AttemptSpan>> + Send>>;

/// What is to be sent, and what bounds the memory that it takes, given back when it was sent.
pub type OutboundMessage = (Message, Option<OwnedSemaphorePermit>);

/// Something to be sent, and what is to be done when it was.
pub trait OutboundJob: Send + Sync {
    /// Asked when there is a slot. If there is none, the errand is over.
    fn message(&self) -> Pin<Box<dyn Future<Output = Option<OutboundMessage>> + Send + '_>>;
    /// Asked last before it is sent. If not, the errand is over.
    fn may_start(&self) -> bool;
    /// The span of this attempt, if tracing is on.
    fn span(&self) -> Option<Beginning> {
        None
    }
    fn finished(self: Box<Self>, attempt: Attempt) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

pub struct Outbound {
    door: OutboundClient,
    lanes: Mutex<Lanes<Box<dyn OutboundJob>>>,
    endings: Semaphore,
    running: TaskTracker,
    is_closed: AtomicBool,
}

impl Outbound {
    pub fn new(door: OutboundClient) -> Arc<Outbound> {
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
        errand: Box<dyn OutboundJob>,
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

    async fn run(self: Arc<Self>, ticket: Ticket, errand: Box<dyn OutboundJob>) {
        let slot = Slot { outbound: self.clone(), ticket: Some(ticket), is_prompt: None };
        let told = errand.message().await.filter(|_| errand.may_start());
        let Some((message, memory)) = told else { return };
        let span = match errand.span() {
            Some(beginning) => beginning.await,
            None => None,
        };
        let trace = span.as_ref().map(AttemptSpan::headers);
        let attempt = self.door.send(Message { trace, ..message }).await;
        drop(memory);
        if let Some(span) = span {
            span.end(attempt.error.as_deref());
        }
        let ending = self.endings.acquire().await;
        slot.give_back(attempt.is_prompt);
        errand.finished(attempt).await;
        drop(ending);
    }

    /// Starts nothing more and waits for what runs, but not longer than this.
    pub async fn drain(&self, patience: Duration) {
        self.is_closed.store(true, Ordering::Release);
        self.running.close();
        let _ = tokio::time::timeout(patience, self.running.wait()).await;
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes<Box<dyn OutboundJob>>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A slot in use. Whatever comes of the attempt, a panic included, the next one gets it.
struct Slot {
    outbound: Arc<Outbound>,
    ticket: Option<Ticket>,
    /// Whether the host answered soon; none if it was not called.
    is_prompt: Option<bool>,
}

impl Slot {
    fn give_back(mut self, is_prompt: bool) {
        self.is_prompt = Some(is_prompt);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.outbound.lanes().finished(ticket, self.is_prompt);
            self.outbound.pump();
        }
    }
}
