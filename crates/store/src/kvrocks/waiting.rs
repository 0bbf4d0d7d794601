//! Those who wait: claims for work, producers for results.
//!
//! Waiting claims stand in one line in the order of their arrival. A task of its own serves the line: when a
//! queue has got work, or a second has passed, it claims on behalf of the first who wants it, and goes on
//! behind him as long as there is something. Of those who want the same, one empty answer speaks for all.

use codeq_queue::store::{Claim, Wait};
use codeq_queue::{Commands, Failure, QueueKey, Task, TaskId, Time};
use futures_util::future::{BoxFuture, join_all};
use hashbrown::{HashMap, HashSet};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// Everyone looks again after this long, whatever was heard.
pub const LOOK_AGAIN: Duration = Duration::from_secs(1);

type Answer = oneshot::Sender<Result<Vec<Task>, Failure>>;

struct Waiter {
    claim: Claim,
    answer: Answer,
    /// Has not been tried yet.
    is_new: bool,
}

#[derive(Default)]
struct Line {
    next: u64,
    waiters: BTreeMap<u64, Waiter>,
    rung: HashSet<QueueKey>,
    is_all_rung: bool,
    is_closed: bool,
}

#[derive(Default)]
pub struct Claims {
    line: Mutex<Line>,
    bell: Notify,
}

/// What the line needs of the store.
pub trait Counter: Send + Sync {
    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Vec<Task>, Failure>>;
    /// Takes back what was lent to someone who has gone.
    fn take_back(&self, claim: Claim, tasks: Vec<Task>) -> BoxFuture<'_, ()>;
    fn now(&self) -> Time;
    /// Whether the clock flows by itself.
    fn is_running(&self) -> bool;
}

impl Claims {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().expect("no one panics holding the line")
    }

    /// Stands at the end of the line.
    pub fn join(&self, claim: Claim) -> oneshot::Receiver<Result<Vec<Task>, Failure>> {
        let (answer, waiting) = oneshot::channel();
        {
            let mut line = self.line();
            if line.is_closed {
                let _ = answer.send(Ok(Vec::new()));
                return waiting;
            }
            let at = line.next;
            line.next += 1;
            line.waiters.insert(at, Waiter { claim, answer, is_new: true });
        }
        self.bell.notify_one();
        waiting
    }

    pub fn ring(&self, queue: &QueueKey) {
        {
            let mut line = self.line();
            if line.waiters.is_empty() {
                return;
            }
            line.rung.insert(queue.clone());
        }
        self.bell.notify_one();
    }

    pub fn ring_all(&self) {
        self.line().is_all_rung = true;
        self.bell.notify_one();
    }

    /// Answers everyone empty.
    pub fn close(&self) {
        let mut line = self.line();
        line.is_closed = true;
        for (_, waiter) in std::mem::take(&mut line.waiters) {
            let _ = waiter.answer.send(Ok(Vec::new()));
        }
        drop(line);
        self.bell.notify_one();
    }

    /// Serves the line until it is closed.
    pub async fn serve(&self, counter: Arc<dyn Counter>) {
        loop {
            let pause = self.pause(counter.as_ref());
            if tokio::time::timeout(pause, self.bell.notified()).await.is_err() {
                self.line().is_all_rung = true;
            }
            if self.line().is_closed {
                return;
            }
            self.dismiss(counter.now());
            let wishes = self.wishes();
            join_all(wishes.into_iter().map(|places| self.serve_wish(counter.as_ref(), places))).await;
        }
    }

    /// Until the next instant at which someone gives up, or has to look again.
    fn pause(&self, counter: &dyn Counter) -> Duration {
        let line = self.line();
        if line.waiters.is_empty() {
            return Duration::from_secs(3600);
        }
        if !counter.is_running() {
            return LOOK_AGAIN;
        }
        let now = counter.now();
        let ends = line.waiters.values().filter_map(|waiter| match waiter.claim.wait {
            Wait::Until(end) => Some(end.since(now)),
            _ => None,
        });
        ends.min().unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN)
    }

    /// Lets those go who have waited long enough, or have gone already. Whoever is new is tried once.
    fn dismiss(&self, now: Time) {
        let mut line = self.line();
        let is_over = |waiter: &Waiter| {
            let has_ended = matches!(waiter.claim.wait, Wait::Until(end) if end <= now);
            waiter.answer.is_closed() || (has_ended && !waiter.is_new)
        };
        let over: Vec<u64> = line.waiters.iter().filter(|(_, w)| is_over(w)).map(|(at, _)| *at).collect();
        for at in over {
            if let Some(waiter) = line.waiters.remove(&at) {
                let _ = waiter.answer.send(Ok(Vec::new()));
            }
        }
    }

    /// The places of those who are to be tried: those who want the same together, in the order of the first.
    /// Whoever is new stands behind all who want the same, so they are tried before him.
    fn wishes(&self) -> Vec<Vec<u64>> {
        let mut line = self.line();
        let (rung, is_all_rung) = (std::mem::take(&mut line.rung), std::mem::take(&mut line.is_all_rung));
        let mut known = HashMap::new();
        let mut wishes: Vec<(bool, Vec<u64>)> = Vec::new();
        for (at, waiter) in &mut line.waiters {
            let is_new = std::mem::take(&mut waiter.is_new);
            let is_called = is_new || is_all_rung || rung.iter().any(|queue| wants(&waiter.claim, queue));
            let commands = match &waiter.claim.commands {
                Commands::Any => None,
                Commands::These(commands) => Some(commands.clone()),
            };
            let wish = *known.entry((waiter.claim.tenant.clone(), commands)).or_insert_with(|| {
                wishes.push((false, Vec::new()));
                wishes.len() - 1
            });
            wishes[wish].0 |= is_called;
            wishes[wish].1.push(*at);
        }
        wishes.into_iter().filter(|(is_called, _)| *is_called).map(|(_, places)| places).collect()
    }

    /// Serves one after the other until one comes away empty. Not several at once: a task that comes between
    /// two of their claims would go to the later one.
    async fn serve_wish(&self, counter: &dyn Counter, places: Vec<u64>) {
        for at in places {
            if !self.serve_one(counter, at).await {
                return;
            }
        }
    }

    /// False if there was nothing for him.
    async fn serve_one(&self, counter: &dyn Counter, at: u64) -> bool {
        let claim = match self.line().waiters.get(&at) {
            Some(waiter) if !waiter.answer.is_closed() => waiter.claim.clone(),
            _ => return true,
        };
        let taken = counter.claim(claim.clone()).await;
        if matches!(&taken, Ok(tasks) if tasks.is_empty()) {
            return false;
        }
        let waiter = self.line().waiters.remove(&at);
        let unheard = match waiter {
            Some(waiter) => waiter.answer.send(taken).err(),
            None => Some(taken),
        };
        if let Some(Ok(tasks)) = unheard {
            counter.take_back(claim, tasks).await;
        }
        true
    }
}

fn wants(claim: &Claim, queue: &QueueKey) -> bool {
    claim.tenant == queue.tenant
        && match &claim.commands {
            Commands::Any => true,
            Commands::These(commands) => commands.contains(&queue.command),
        }
}

/// Those who wait for the end of a task.
#[derive(Default)]
pub struct Watchers {
    tasks: Mutex<HashMap<TaskId, Arc<Notify>>>,
}

/// Forgets the task when the last who watches it goes, also if he is dropped while he waits.
pub struct Watch {
    watchers: Arc<Watchers>,
    id: TaskId,
    told: Arc<Notify>,
}

impl Watch {
    pub fn told(&self) -> &Notify {
        &self.told
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut tasks = self.watchers.tasks.lock().expect("no one panics holding the watchers");
        // One count is the map's, one is ours.
        if Arc::strong_count(&self.told) <= 2 {
            tasks.remove(&self.id);
        }
    }
}

impl Watchers {
    pub fn watch(self: Arc<Self>, id: TaskId) -> Watch {
        let mut tasks = self.tasks.lock().expect("no one panics holding the watchers");
        let told = tasks.entry(id).or_default().clone();
        drop(tasks);
        Watch { watchers: self, id, told }
    }

    pub fn tell(&self, id: TaskId) {
        let tasks = self.tasks.lock().expect("no one panics holding the watchers");
        if let Some(notify) = tasks.get(&id) {
            notify.notify_waiters();
        }
    }

    pub fn tell_all(&self) {
        let tasks = self.tasks.lock().expect("no one panics holding the watchers");
        tasks.values().for_each(|notify| notify.notify_waiters());
    }
}
