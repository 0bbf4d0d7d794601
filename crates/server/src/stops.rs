//! Tells workers at once that a task they hold is to stop.
//!
//! Best effort: a worker that does not listen, or too slowly, learns it from its next heartbeat. Where several processes
//! share a keyspace each hears what the others were asked, because the worker's stream may lead to any of them.

use codeq_queue::{CancelRequest, Lease, Owner, TaskId, Time};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
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

/// A notice on its way to other processes.
#[derive(Serialize, Deserialize)]
struct Sent<'a> {
    from: u64,
    tenant: Cow<'a, str>,
    task: Cow<'a, str>,
    attempt: u32,
    sub: Cow<'a, str>,
    worker: Cow<'a, str>,
    deadline: i64,
    reason: Option<Cow<'a, str>>,
}

pub struct StopBoard {
    /// Tells what this process sends from what others do.
    name: u64,
    listeners: Mutex<(u64, Listeners)>,
}

/// Hears until it is dropped.
pub struct StopListener {
    board: Arc<StopBoard>,
    worker: (Arc<str>, Arc<Owner>),
    number: u64,
    notices: Receiver<StopNotice>,
}

impl Default for StopBoard {
    fn default() -> StopBoard {
        StopBoard { name: rand::random(), listeners: Mutex::default() }
    }
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
        self.pass(&worker, &StopNotice { task, attempt, cancel: cancel.clone() });
    }

    /// The same for other processes, if somebody asked.
    pub fn write(&self, tenant: &str, (task, attempt): (TaskId, u32), lease: &Lease) -> Option<String> {
        let cancel = lease.cancel.as_ref()?;
        let sent = Sent {
            from: self.name,
            tenant: tenant.into(),
            task: task.to_string().into(),
            attempt,
            sub: (&*lease.owner.subject).into(),
            worker: (&*lease.owner.worker_id).into(),
            deadline: cancel.deadline.millis(),
            reason: cancel.reason.as_deref().map(Into::into),
        };
        serde_json::to_string(&sent).ok()
    }

    /// Another process was asked; what this one has sent itself has been told.
    pub fn hear(&self, text: &str) {
        let Ok(sent) = serde_json::from_str::<Sent<'_>>(text) else { return };
        let Some(task) = TaskId::parse(&sent.task).filter(|_| sent.from != self.name) else { return };
        let worker = (Arc::from(&*sent.tenant), Arc::new(Owner::new(&sent.sub, &sent.worker)));
        let (deadline, reason) = (Time::from_millis(sent.deadline), sent.reason.as_deref().map(Into::into));
        let cancel = Arc::new(CancelRequest { deadline, reason });
        self.pass(&worker, &StopNotice { task, attempt: sent.attempt, cancel });
    }

    fn pass(&self, worker: &(Arc<str>, Arc<Owner>), notice: &StopNotice) {
        for (_, listener) in self.lock().1.get(worker).into_iter().flatten() {
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
    fn what_another_process_was_asked_is_told_here_and_once() {
        let boards = [Arc::new(StopBoard::default()), Arc::new(StopBoard::default())];
        let acme: Arc<str> = "acme".into();
        let owner = Arc::new(Owner::new("sub", "w"));
        let mut listeners = boards.each_ref().map(|board| board.listen(&acme, &owner));
        assert_eq!(boards[0].write(&acme, task(), &lease(&owner, false)), None);
        let lease = lease(&owner, true);
        let sent = boards[0].write(&acme, task(), &lease).expect("somebody asked");
        boards[0].tell(&acme, task(), &lease);
        for board in &boards {
            board.hear(&sent);
            board.hear("{}");
        }
        let cancel = lease.cancel.expect("it was asked");
        let expected = StopNotice { task: task().0, attempt: 1, cancel };
        for listener in &mut listeners {
            assert_eq!(heard(listener), std::slice::from_ref(&expected));
        }
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
