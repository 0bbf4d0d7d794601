//! Log lines for what the store did on its own: leases that ran out, tasks that became dead letters.
//!
//! The store tells its events between two commits, where nothing may wait for a terminal. So the lines go
//! through a queue of [`WAITING`]; when it is full they are counted instead, and the count is told.

use codeq_queue::event::{Event, What};
use codeq_queue::{AttemptOutcome, State};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Lines that wait to be written.
const WAITING: usize = 10_000;

/// The end that the store tells.
pub struct Told {
    lines: Sender<Event>,
    left_out: Arc<AtomicU64>,
}

/// The end that writes.
pub struct Teller {
    lines: Mutex<Receiver<Event>>,
    left_out: Arc<AtomicU64>,
}

pub fn pair() -> (Told, Arc<Teller>) {
    let (sender, receiver) = channel(WAITING);
    let left_out = Arc::<AtomicU64>::default();
    let teller = Teller { lines: Mutex::new(receiver), left_out: left_out.clone() };
    (Told { lines: sender, left_out }, Arc::new(teller))
}

impl Told {
    pub fn observe(&self, events: &[Event]) {
        for event in events.iter().filter(|event| is_told(&event.what)) {
            if self.lines.try_send(event.clone()).is_err() {
                self.left_out.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Teller {
    /// Until the store is gone.
    pub async fn run(self: Arc<Self>) {
        let mut lines = self.lines.lock().await;
        while let Some(event) = lines.recv().await {
            tell(&event);
            let count = self.left_out.swap(0, Ordering::Relaxed);
            if count > 0 {
                tracing::warn!(count, "expiries and dead letters not told of one by one");
            }
        }
    }
}

fn is_told(what: &What) -> bool {
    match what {
        What::Returned { outcome, .. } => *outcome == AttemptOutcome::LeaseExpired,
        What::Ended { state, outcome, .. } => {
            *state == State::Dead || *outcome == Some(AttemptOutcome::LeaseExpired)
        }
        _ => false,
    }
}

fn tell(event: &Event) {
    let (outcome, attempts, owner, is_dead) = match &event.what {
        What::Returned { outcome, attempt, owner, .. } => (Some(*outcome), *attempt, owner, false),
        What::Ended { state, outcome, attempt, owner, .. } => {
            (*outcome, *attempt, owner, *state == State::Dead)
        }
        _ => return,
    };
    let id = event.task.map(|id| id.to_string()).unwrap_or_default();
    let (task_id, command, tenant) = (id.as_str(), &*event.command, &*event.queue.tenant);
    if outcome == Some(AttemptOutcome::LeaseExpired) {
        let worker = owner.as_ref().map_or("", |owner| &*owner.worker_id);
        tracing::info!(
            taskId = task_id,
            command,
            workerId = worker,
            attempts,
            tenantId = tenant,
            "lease expired"
        );
    }
    if is_dead {
        let reason = death(outcome);
        tracing::warn!(taskId = task_id, command, attempts, reason, tenantId = tenant, "task dead-lettered");
    }
}

/// Why a task became a dead letter, in the words of the log and of the metrics.
pub fn death(outcome: Option<AttemptOutcome>) -> &'static str {
    match outcome {
        Some(AttemptOutcome::Nack) => "nack",
        Some(AttemptOutcome::LeaseExpired) => "lease_expired",
        _ => "abandon",
    }
}
