//! The way into a shard: a bounded inbox that its owner empties in one go.
//!
//! Callers take a seat first, so that waiting for room is theirs and not the owner's. Creates and
//! everything else have seats of their own: producers who flood cannot keep results, nacks and
//! heartbeats out.

use crate::local::engine::front::LatencyGuard;
use crate::local::shard::Turn;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;

/// Something to do on the owner's thread.
pub type Job = Box<dyn FnOnce(&mut Turn<'_>) + Send>;

/// Commands that may wait in an inbox.
const CREATE_PERMITS: isize = 8192;
const OTHERS: isize = 16384;

#[derive(Default)]
struct Waiting {
    jobs: Vec<Job>,
    /// Something other than a job wants the owner's attention (a commit ended, the clock jumped).
    is_nudged: bool,
    is_closed: bool,
    /// The owner sleeps until so many jobs wait; 0 while it is awake.
    wakes_at: usize,
}

pub struct Inbox {
    waiting: Mutex<Waiting>,
    signal: Condvar,
    creates: Arc<CallPermits>,
    others: Arc<CallPermits>,
    rounds: AtomicU64,
    front: Arc<LatencyGuard>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    Create,
    Other,
    /// What workers say of tasks they have.
    Report,
    /// What changes nothing.
    Read,
}

/// A bounded number of commands under way.
struct CallPermits {
    free: AtomicIsize,
    waiting: AtomicUsize,
    freed: Notify,
    is_closed: AtomicBool,
}

impl CallPermits {
    fn new(count: isize) -> Arc<CallPermits> {
        let (free, waiting) = (AtomicIsize::new(count), AtomicUsize::new(0));
        Arc::new(CallPermits { free, waiting, freed: Notify::new(), is_closed: AtomicBool::new(false) })
    }

    fn try_take(&self) -> bool {
        if self.free.fetch_sub(1, Ordering::SeqCst) > 0 {
            return true;
        }
        self.free.fetch_add(1, Ordering::SeqCst);
        false
    }

    async fn take(self: &Arc<CallPermits>) -> Option<Seat> {
        loop {
            if self.is_closed.load(Ordering::Acquire) {
                return None;
            }
            if self.try_take() {
                return Some(Seat(self.clone()));
            }
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let freed = self.freed.notified();
            // A seat given back since the first try has seen no one waiting.
            let is_taken = self.try_take();
            if !is_taken && !self.is_closed.load(Ordering::SeqCst) {
                freed.await;
            }
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            if is_taken {
                return Some(Seat(self.clone()));
            }
        }
    }

    fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.freed.notify_waiters();
    }
}

/// Room for one command; given back when dropped.
pub struct Seat(Arc<CallPermits>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.free.fetch_add(1, Ordering::SeqCst);
        if self.0.waiting.load(Ordering::SeqCst) > 0 {
            self.0.freed.notify_one();
        }
    }
}

impl Inbox {
    pub fn new(front: Arc<LatencyGuard>) -> Inbox {
        Inbox {
            waiting: Mutex::new(Waiting::default()),
            signal: Condvar::new(),
            creates: CallPermits::new(CREATE_PERMITS),
            others: CallPermits::new(OTHERS),
            rounds: AtomicU64::new(0),
            front,
        }
    }

    /// Grows whenever the owner takes jobs: who sees it change knows that others are at work.
    pub fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }

    /// Room for one command; held until the owner has dealt with it.
    pub async fn seat(&self, lane: Lane) -> Option<Seat> {
        match lane {
            Lane::Create => self.creates.take().await,
            Lane::Other | Lane::Report | Lane::Read => self.others.take().await,
        }
    }

    /// Posts something that needs no seat.
    pub fn post(&self, act: impl FnOnce(&mut Turn<'_>) + Send + 'static) -> bool {
        self.post_job(Box::new(act))
    }

    /// False if the shard takes nothing any more; the job is then dropped.
    pub fn post_job(&self, job: Job) -> bool {
        let mut waiting = self.lock();
        if waiting.is_closed {
            return false;
        }
        waiting.jobs.push(job);
        if waiting.jobs.len() == waiting.wakes_at {
            self.wake(waiting);
        }
        true
    }

    pub fn nudge(&self) {
        let mut waiting = self.lock();
        waiting.is_nudged = true;
        self.wake(waiting);
    }

    pub fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    pub fn close(&self) {
        let mut waiting = self.lock();
        waiting.is_closed = true;
        self.creates.close();
        self.others.close();
        self.wake(waiting);
    }

    /// Closes and drops what waits: there is no owner any more.
    pub fn abandon(&self) {
        self.close();
        let jobs = std::mem::take(&mut self.lock().jobs);
        drop(jobs);
    }

    /// Moves all waiting jobs into `jobs`, sleeping up to `timeout` (for ever if `None`) while there are
    /// fewer than `enough`. False once closed and empty.
    pub fn take(&self, jobs: &mut Vec<Job>, enough: usize, timeout: Option<Duration>) -> bool {
        let mut waiting = self.lock();
        let is_patient = !waiting.is_nudged && !waiting.is_closed && timeout != Some(Duration::ZERO);
        if waiting.jobs.len() < enough && is_patient {
            waiting.wakes_at = enough;
            waiting = match timeout {
                Some(timeout) => {
                    let woken = self.signal.wait_timeout(waiting, timeout);
                    woken.expect("no one panics holding the inbox").0
                }
                None => self.signal.wait(waiting).expect("no one panics holding the inbox"),
            };
            waiting.wakes_at = 0;
            self.front.owner_woken.end();
        }
        waiting.is_nudged = false;
        std::mem::swap(&mut waiting.jobs, jobs);
        self.rounds.fetch_add(u64::from(!jobs.is_empty()), Ordering::Relaxed);
        !(waiting.is_closed && jobs.is_empty())
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no one panics holding the inbox")
    }

    fn wake(&self, waiting: MutexGuard<'_, Waiting>) {
        let sleeps = waiting.wakes_at > 0;
        if sleeps {
            // Before it can run.
            self.front.owner_woken.begin();
        }
        drop(waiting);
        if sleeps {
            self.signal.notify_one();
        }
    }
}
