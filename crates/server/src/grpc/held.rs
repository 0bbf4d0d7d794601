//! Readys that wait for tasks.
//!
//! Each is parked on the broker as a claim without end, so that it is served in the order of arrival, and
//! is given up only with its stream. A task of its own keeps them, because tasks come also while the
//! transport does not poll the stream. When a client does not read what it was given, its claims are taken
//! off the queues until it does; the Readys stay.
//!
//! Readys that arrive together and ask for the same first try together, without waiting: on a busy queue one
//! claim serves them all. That is fair, because a queue that has tasks has nobody waiting for them.

use super::HELD_READYS;
use super::claimer::{Claimed, Claimer, Claiming};
use crate::auth::Caller;
use crate::broker::{Broker, ClaimRequest, Lent};
use crate::budget::Weight;
use codeq_queue::{Owner, Refusal, Task, limits};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio_util::task::AbortOnDropHandle;

/// Bytes of tasks on their way to one client, beyond which it gets no more until it has read them all.
const UNREAD_BYTES: usize = 16 * 1024 * 1024;
/// What a task takes on the wire besides its body, at most.
const TASK_BYTES: usize = 1024;

/// Readys that are looked at together.
const TOGETHER: usize = 256;

/// Bytes of one batch of tasks: clients of other languages take 4 MiB unless they are told otherwise. A task
/// that is larger goes alone.
const BATCH_BYTES: usize = 4 * 1024 * 1024 - 64 * 1024;
/// What a task is taken for before there was one: the last ones tell how many fit a batch.
const FIRST_TASK_BYTES: usize = 16 * 1024;

/// A Ready as it was sent.
pub struct Ready {
    /// What it takes of the caller's budget until it is answered.
    pub _weight: Weight,
    pub request: ClaimRequest,
    /// Answered by a batch.
    pub is_batch: bool,
}

impl Ready {
    /// Asks for the same, but for the number. Readys with an order of their own draw each for itself: one draw
    /// for all of them would share out in lumps.
    fn is_like(&self, other: &Ready) -> bool {
        self.request.commands == other.request.commands
            && self.request.lease_seconds == other.request.lease_seconds
            && !self.request.order.is_fair()
            && !other.request.order.is_fair()
    }
}

/// Tasks for a Ready.
pub struct Lot {
    pub lent: Lent,
    pub is_batch: bool,
}

/// The stream's end of it. Dropping it cancels the Readys and gives back what has not been taken.
pub struct Held {
    readys: UnboundedSender<Ready>,
    answers: UnboundedReceiver<Result<Lot, Refusal>>,
    count: Arc<AtomicUsize>,
    unread: Arc<Unread>,
    _keeper: AbortOnDropHandle<()>,
}

/// Bytes of tasks that the transport has not taken.
#[derive(Default)]
struct Unread {
    bytes: AtomicUsize,
    are_gone: Notify,
}

impl Held {
    pub fn new(broker: Arc<Broker>, caller: Arc<Caller>, owner: Arc<Owner>) -> Held {
        let (readys, incoming) = mpsc::unbounded_channel();
        let (outgoing, answers) = mpsc::unbounded_channel();
        let (count, unread) = (Arc::new(AtomicUsize::new(0)), Arc::new(Unread::default()));
        let keeper = Keeper {
            claimer: Claimer { broker, caller, owner },
            held: BTreeMap::new(),
            arrivals: 0,
            parked: FuturesUnordered::new(),
            outgoing,
            count: count.clone(),
            unread: unread.clone(),
            is_unread: false,
            task_bytes: FIRST_TASK_BYTES,
        };
        let keeper = AbortOnDropHandle::new(tokio::spawn(keeper.run(incoming)));
        Held { readys, answers, count, unread, _keeper: keeper }
    }

    /// Holds one more; false if there are too many.
    pub fn hold(&self, ready: Ready) -> bool {
        self.count.fetch_add(1, Ordering::Relaxed) < HELD_READYS && self.readys.send(ready).is_ok()
    }

    /// Tasks for a Ready, or why it cannot be served.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Lot, Refusal>> {
        let Poll::Ready(Some(answer)) = self.answers.poll_recv(context) else { return Poll::Pending };
        if let Ok(lot) = &answer {
            self.unread.less(bytes(lot.lent.tasks()));
        }
        Poll::Ready(answer)
    }
}

impl Unread {
    fn less(&self, bytes: usize) {
        if self.bytes.fetch_sub(bytes, Ordering::AcqRel) == bytes {
            self.are_gone.notify_one();
        }
    }
}

struct Keeper {
    claimer: Claimer,
    /// By arrival.
    held: BTreeMap<u64, Ready>,
    arrivals: u64,
    parked: FuturesUnordered<Claiming>,
    outgoing: UnboundedSender<Result<Lot, Refusal>>,
    count: Arc<AtomicUsize>,
    unread: Arc<Unread>,
    /// The client has too much to read: nothing is parked.
    is_unread: bool,
    /// The size of a task, as far as one can tell from the last ones.
    task_bytes: usize,
}

impl Keeper {
    async fn run(mut self, mut incoming: UnboundedReceiver<Ready>) {
        let mut readys = Vec::new();
        loop {
            tokio::select! {
                arrived = incoming.recv_many(&mut readys, TOGETHER) => match arrived {
                    0 => return,
                    _ => self.hold(&mut readys),
                },
                Some(claimed) = self.parked.next() => self.settle(claimed),
                () = self.unread.are_gone.notified(), if self.is_unread => self.park_all(),
            }
        }
    }

    fn hold(&mut self, readys: &mut Vec<Ready>) {
        let mut alike: Vec<u64> = Vec::new();
        for ready in readys.drain(..) {
            let is_alike = alike.last().is_none_or(|last| self.held[last].is_like(&ready));
            if !is_alike {
                self.claim(std::mem::take(&mut alike));
            }
            self.arrivals += 1;
            alike.push(self.arrivals);
            self.held.insert(self.arrivals, ready);
        }
        self.claim(alike);
    }

    /// Parks one Ready; several that are alike try together first.
    fn claim(&mut self, arrivals: Vec<u64>) {
        let readys: Vec<&Ready> = arrivals.iter().filter_map(|arrival| self.held.get(arrival)).collect();
        let Some(first) = readys.first().filter(|_| !self.is_unread) else { return };
        let mut request = first.request.clone();
        if readys.len() > 1 {
            request.wait = Duration::ZERO;
            request.count = readys.iter().map(|ready| ready.request.count).sum();
        }
        request.count = request.count.min(limits::STREAM_BATCH).min(BATCH_BYTES / self.task_bytes).max(1);
        self.parked.push(self.claimer.claim(arrivals, request));
    }

    /// Shares what was claimed out; whoever gets nothing is parked.
    fn settle(&mut self, (arrivals, claimed): Claimed) {
        let mut lent = match claimed {
            Ok(lent) => lent,
            Err(refusal) => {
                for arrival in arrivals {
                    self.answer(arrival, |_| Err(refusal.clone()));
                }
                return;
            }
        };
        if !lent.tasks().is_empty() {
            self.task_bytes = (bytes(lent.tasks()) / lent.tasks().len()).max(1);
        }
        let (starts, used) = self.share(&arrivals, lent.tasks());
        // What fits no message, or is too much to read, goes back.
        drop(lent.split_off(used));
        // From the end, so that no task is moved twice.
        let lots: Vec<Lent> = starts.iter().rev().map(|start| lent.split_off(*start)).collect();
        for (arrival, lent) in arrivals.iter().zip(lots.into_iter().rev()) {
            self.unread.bytes.fetch_add(bytes(lent.tasks()), Ordering::AcqRel);
            self.answer(*arrival, |ready| Ok(Lot { lent, is_batch: ready.is_batch }));
        }
        for arrival in &arrivals[starts.len()..] {
            self.claim(vec![*arrival]);
        }
        if self.unread.bytes.load(Ordering::Acquire) > UNREAD_BYTES {
            self.parked.clear();
            self.is_unread = true;
        }
    }

    /// Where the share of each Ready that gets one begins, and where the last one ends.
    fn share(&self, arrivals: &[u64], tasks: &[Task]) -> (Vec<usize>, usize) {
        let (mut starts, mut used) = (Vec::new(), 0);
        let mut unread = self.unread.bytes.load(Ordering::Acquire);
        for ready in arrivals.iter().filter_map(|arrival| self.held.get(arrival)) {
            if used == tasks.len() || unread > UNREAD_BYTES {
                break;
            }
            let most = ready.request.count.min(tasks.len() - used);
            starts.push(used);
            let fitting = fitting(&tasks[used..used + most]);
            unread += bytes(&tasks[used..used + fitting]);
            used += fitting;
        }
        (starts, used)
    }

    /// Without a stream the tasks go back by themselves.
    fn answer(&mut self, arrival: u64, answer: impl FnOnce(&Ready) -> Result<Lot, Refusal>) {
        let Some(ready) = self.held.remove(&arrival) else { return };
        self.count.fetch_sub(1, Ordering::Relaxed);
        let _ = self.outgoing.send(answer(&ready));
    }

    fn park_all(&mut self) {
        // The word may be an old one.
        if self.unread.bytes.load(Ordering::Acquire) > 0 {
            return;
        }
        self.is_unread = false;
        for arrival in self.held.keys().copied().collect::<Vec<_>>() {
            self.claim(vec![arrival]);
        }
    }
}

fn bytes(tasks: &[Task]) -> usize {
    tasks.iter().map(|task| task.body.bytes() + TASK_BYTES).sum()
}

/// How many of the tasks fit one message; at least one.
fn fitting(tasks: &[Task]) -> usize {
    let mut room = BATCH_BYTES;
    let fits = tasks.iter().take_while(|task| {
        let size = task.body.bytes() + TASK_BYTES;
        let fits = size <= room;
        room = room.saturating_sub(size);
        fits
    });
    fits.count().max(1)
}
