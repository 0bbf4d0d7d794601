//! The way into a shard: a bounded inbox that its owner empties in one go.
//!
//! Callers take a permit first, so that waiting for room is theirs and not the owner's. Creates and
//! everything else have permits of their own: producers who flood cannot keep results, nacks and
//! heartbeats out.

use super::shard::Turn;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Something to do on the owner's thread.
pub struct Job {
    pub act: Box<dyn FnOnce(&mut Turn<'_>) + Send>,
    /// At most so much it writes into the journal, if that is more than a little.
    pub bytes: usize,
}

/// Commands that may wait in an inbox.
const CREATES: usize = 8192;
const OTHERS: usize = 16384;

#[derive(Default)]
struct Waiting {
    jobs: Vec<Job>,
    /// Something other than a job wants the owner's attention (a commit ended, the clock jumped).
    is_nudged: bool,
    is_closed: bool,
    owner_sleeps: bool,
}

pub struct Inbox {
    waiting: Mutex<Waiting>,
    signal: Condvar,
    creates: Arc<Semaphore>,
    others: Arc<Semaphore>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    Create,
    Other,
}

impl Inbox {
    pub fn new() -> Inbox {
        Inbox {
            waiting: Mutex::new(Waiting::default()),
            signal: Condvar::new(),
            creates: Arc::new(Semaphore::new(CREATES)),
            others: Arc::new(Semaphore::new(OTHERS)),
        }
    }

    /// Room for one command; held until the owner has dealt with it.
    pub async fn permit(&self, lane: Lane) -> Option<OwnedSemaphorePermit> {
        let lane = match lane {
            Lane::Create => &self.creates,
            Lane::Other => &self.others,
        };
        match lane.clone().try_acquire_owned() {
            Ok(permit) => Some(permit),
            Err(_) => lane.clone().acquire_owned().await.ok(),
        }
    }

    /// Posts something small.
    pub fn post(&self, act: impl FnOnce(&mut Turn<'_>) + Send + 'static) -> bool {
        self.post_job(Job { act: Box::new(act), bytes: 0 })
    }

    /// False if the shard takes nothing any more; the job is then dropped.
    pub fn post_job(&self, job: Job) -> bool {
        let mut waiting = self.lock();
        if waiting.is_closed {
            return false;
        }
        waiting.jobs.push(job);
        self.wake(waiting);
        true
    }

    pub fn nudge(&self) {
        let mut waiting = self.lock();
        waiting.is_nudged = true;
        self.wake(waiting);
    }

    pub fn close(&self) {
        let mut waiting = self.lock();
        waiting.is_closed = true;
        self.creates.close();
        self.others.close();
        self.wake(waiting);
    }

    /// Moves all waiting jobs into `jobs`, sleeping up to `timeout` (for ever if `None`) while there is
    /// nothing. False once closed and empty.
    pub fn take(&self, jobs: &mut Vec<Job>, timeout: Option<Duration>) -> bool {
        let mut waiting = self.lock();
        if waiting.jobs.is_empty() && !waiting.is_nudged && !waiting.is_closed && timeout != Some(Duration::ZERO) {
            waiting.owner_sleeps = true;
            waiting = match timeout {
                Some(timeout) => {
                    let woken = self.signal.wait_timeout(waiting, timeout);
                    woken.expect("no one panics holding the inbox").0
                }
                None => self.signal.wait(waiting).expect("no one panics holding the inbox"),
            };
            waiting.owner_sleeps = false;
        }
        waiting.is_nudged = false;
        std::mem::swap(&mut waiting.jobs, jobs);
        !(waiting.is_closed && jobs.is_empty())
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no one panics holding the inbox")
    }

    fn wake(&self, waiting: MutexGuard<'_, Waiting>) {
        let sleeps = waiting.owner_sleeps;
        drop(waiting);
        if sleeps {
            self.signal.notify_one();
        }
    }
}
