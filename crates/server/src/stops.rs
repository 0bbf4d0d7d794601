//! Tells workers at once that a task they hold is to stop.
//!
//! Best effort: a worker that does not listen, or too slowly, learns it from its next heartbeat.

use codeq_queue::{CancelRequest, Lease, Owner, TaskId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::mpsc::{self, Receiver, Sender};

/// Notices that one listener may leave unread; what comes beyond is left to the heartbeats.
const UNREAD_MAX: usize = 256;

/// A running task that is to stop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StopNotice {
    pub task: TaskId,
    pub attempt: u32,
    pub cancel: Arc<CancelRequest>,
}

/// A worker may have several streams; each of them is told.
type Listeners = HashMap<(Arc<str>, Arc<Owner>), Vec<(u64, Sender<StopNotice>)>>;

#[derive(Default)]
pub struct StopBoard {
    listeners: Mutex<(u64, Listeners)>,
}

/// Hears until it is dropped.
pub struct StopListener {
    board: Arc<StopBoard>,
    worker: (Arc<str>, Arc<Owner>),
    number: u64,
    notices: Receiver<StopNotice>,
}

impl StopBoard {
    pub fn listen(self: &Arc<Self>, tenant: &Arc<str>, owner: &Arc<Owner>) -> StopListener {
        let (sender, notices) = mpsc::channel(UNREAD_MAX);
        let worker = (tenant.clone(), owner.clone());
        let mut state = self.lock();
        state.0 += 1;
        let number = state.0;
        state.1.entry(worker.clone()).or_default().push((number, sender));
        drop(state);
        StopListener { board: self.clone(), worker, number, notices }
    }

    /// Tells the owner of a running task that somebody asked it to stop; nothing if nobody did.
    pub fn tell(&self, tenant: &Arc<str>, (task, attempt): (TaskId, u32), lease: &Lease) {
        let Some(cancel) = &lease.cancel else { return };
        let worker = (tenant.clone(), lease.owner.clone());
        let notice = StopNotice { task, attempt, cancel: cancel.clone() };
        for (_, listener) in self.lock().1.get(&worker).into_iter().flatten() {
            let _ = listener.try_send(notice.clone());
        }
    }

    fn lock(&self) -> MutexGuard<'_, (u64, Listeners)> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StopListener {
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<StopNotice> {
        match self.notices.poll_recv(context) {
            Poll::Ready(Some(notice)) => Poll::Ready(notice),
            _ => Poll::Pending,
        }
    }
}

impl Drop for StopListener {
    fn drop(&mut self) {
        let mut state = self.board.lock();
        let Some(listeners) = state.1.get_mut(&self.worker) else { return };
        listeners.retain(|(number, _)| *number != self.number);
        if listeners.is_empty() {
            state.1.remove(&self.worker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codeq_queue::Time;
    use std::task::Waker;

    fn heard(listener: &mut StopListener) -> Vec<StopNotice> {
        let mut context = Context::from_waker(Waker::noop());
        std::iter::from_fn(|| match listener.poll(&mut context) {
            Poll::Ready(notice) => Some(notice),
            Poll::Pending => None,
        })
        .collect()
    }

    fn task() -> (TaskId, u32) {
        (TaskId::from_bits(7), 1)
    }

    fn lease(owner: &Arc<Owner>, is_to_stop: bool) -> Lease {
        let cancel = CancelRequest { deadline: Time::from_millis(5), reason: None };
        Lease {
            cancel: is_to_stop.then(|| Arc::new(cancel)),
            ..Lease::new(owner.clone(), Time::from_millis(9), Time::ZERO)
        }
    }

    #[test]
    fn every_stream_of_the_owner_is_told_and_nobody_else() {
        let board = Arc::new(StopBoard::default());
        let (acme, other): (Arc<str>, Arc<str>) = ("acme".into(), "other".into());
        let owner = Arc::new(Owner::new("sub", "w"));
        let mut listeners =
            [board.listen(&acme, &owner), board.listen(&acme, &owner), board.listen(&other, &owner)];
        board.tell(&acme, task(), &lease(&owner, false));
        board.tell(&acme, task(), &lease(&owner, true));
        assert_eq!(listeners.each_mut().map(|listener| heard(listener).len()), [1, 1, 0]);
    }

    #[test]
    fn a_listener_that_does_not_read_holds_a_bounded_number_and_leaves_nothing_behind() {
        let board = Arc::new(StopBoard::default());
        let tenant: Arc<str> = "acme".into();
        let owner = Arc::new(Owner::new("sub", "w"));
        let mut listener = board.listen(&tenant, &owner);
        for _ in 0..2 * UNREAD_MAX {
            board.tell(&tenant, task(), &lease(&owner, true));
        }
        assert_eq!(heard(&mut listener).len(), UNREAD_MAX);
        drop(listener);
        assert!(board.lock().1.is_empty());
    }
}
