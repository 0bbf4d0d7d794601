//! Those who wait: claims for work, producers for results.
//!
//! Waiting claims stand in one line in the order of their arrival. A task of its own serves the line: when a
//! queue has got work, one script lends to as many of those who want it as there are tasks, in their order. Once a
//! second, and at the end of a wait, one read per server tells for which of the others there may be something.

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
/// Claims served by the first script for a queue that has got work, and by the following ones.
const FIRST_SERVED: usize = 16;
const THEN_SERVED: usize = 128;

type Answer = oneshot::Sender<Result<Vec<Task>, Failure>>;

struct Waiter {
    claim: Claim,
    answer: Answer,
    /// Has not been tried yet.
    is_new: bool,
    /// Its time is up; it is looked after once more.
    is_last: bool,
}

/// Those who want the same.
struct Wish {
    tenant: Arc<str>,
    commands: Option<Arc<[Arc<str>]>>,
    places: Vec<u64>,
    /// Somebody is new, or something was heard.
    is_new: bool,
    is_rung: bool,
    is_last: bool,
}

#[derive(Default)]
struct Line {
    next: u64,
    waiters: BTreeMap<u64, Waiter>,
    rung: HashSet<QueueKey>,
    /// When queues may have something that only time holds back.
    openings: HashMap<QueueKey, Time>,
    is_all_rung: bool,
    /// A second has passed.
    is_look_due: bool,
    is_closed: bool,
}

impl Line {
    fn ring_opened(&mut self, now: Time) {
        let Line { openings, rung, .. } = self;
        openings.retain(|queue, at| {
            if *at <= now {
                rung.insert(queue.clone());
            }
            *at > now
        });
    }
}

#[derive(Default)]
pub struct WaitingClaims {
    line: Mutex<Line>,
    bell: Notify,
}

/// What the line needs of the store.
pub trait ClaimSource: Send + Sync {
    /// Serves claims that want the same, in their order.
    fn claim(&self, claims: Vec<Claim>) -> BoxFuture<'_, Result<Vec<Vec<Task>>, Failure>>;
    /// Those of the queues that may have something for a claim.
    fn glance(&self, queues: Vec<QueueKey>) -> BoxFuture<'_, Vec<QueueKey>>;
    /// Takes back what was lent to someone who has gone.
    fn take_back(&self, claim: Claim, tasks: Vec<Task>) -> BoxFuture<'_, ()>;
    fn now(&self) -> Time;
    /// Whether the clock flows by itself.
    fn is_running(&self) -> bool;
}

impl WaitingClaims {
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
            line.waiters.insert(at, Waiter { claim, answer, is_new: true, is_last: false });
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

    /// Looks at a queue again at an instant, or before.
    pub fn plan(&self, queue: &QueueKey, at: Time) {
        let mut line = self.line();
        if !line.waiters.is_empty() {
            let planned = line.openings.entry(queue.clone()).or_insert(at);
            *planned = at.min(*planned);
        }
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
    pub async fn serve(&self, counter: Arc<dyn ClaimSource>) {
        let mut looked = tokio::time::Instant::now();
        loop {
            let pause = self.pause(counter.as_ref());
            let _ = tokio::time::timeout(pause, self.bell.notified()).await;
            if self.line().is_closed {
                return;
            }
            if looked.elapsed() >= LOOK_AGAIN {
                self.line().is_look_due = true;
                looked = tokio::time::Instant::now();
            }
            self.mark_last(counter.now());
            self.line().ring_opened(counter.now());
            let (called, idle) = self.wishes();
            let looked_for = self.serve_idle(counter.as_ref(), idle);
            let served = join_all(called.iter().map(|wish| self.serve_wish(counter.as_ref(), wish)));
            tokio::join!(looked_for, served);
            self.dismiss();
        }
    }

    /// Serves those of whom nothing was heard, if there may be something for them all the same.
    async fn serve_idle(&self, counter: &dyn ClaimSource, idle: Vec<Wish>) {
        let named = |wish: &Wish| {
            let commands = wish.commands.clone().unwrap_or_default();
            let tenant = wish.tenant.clone();
            commands.iter().map(|command| QueueKey::new(&tenant, command)).collect::<Vec<_>>()
        };
        let queues: HashSet<QueueKey> = idle.iter().flat_map(named).collect();
        let found: HashSet<QueueKey> = match queues.is_empty() {
            true => HashSet::new(),
            false => counter.glance(queues.into_iter().collect()).await.into_iter().collect(),
        };
        let is_worth_it =
            |wish: &&Wish| wish.commands.is_none() || named(wish).iter().any(|queue| found.contains(queue));
        join_all(idle.iter().filter(is_worth_it).map(|wish| self.serve_wish(counter, wish))).await;
    }

    /// Until the next instant at which someone gives up, or has to look again.
    fn pause(&self, counter: &dyn ClaimSource) -> Duration {
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
        let openings = line.openings.values().map(|at| at.since(now));
        ends.chain(openings).min().unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN)
    }

    /// Whoever's time is up is looked after once more: something may have fallen due meanwhile.
    fn mark_last(&self, now: Time) {
        let mut line = self.line();
        for waiter in line.waiters.values_mut() {
            waiter.is_last = matches!(waiter.claim.wait, Wait::Until(end) if end <= now);
        }
    }

    /// Lets those go who were looked after for the last time, or have gone already.
    fn dismiss(&self) {
        let mut line = self.line();
        let is_over = |waiter: &Waiter| waiter.answer.is_closed() || waiter.is_last;
        let over: Vec<u64> = line.waiters.iter().filter(|(_, w)| is_over(w)).map(|(at, _)| *at).collect();
        for at in over {
            if let Some(waiter) = line.waiters.remove(&at) {
                let _ = waiter.answer.send(Ok(Vec::new()));
            }
        }
    }

    /// Those who are to be served: those who want the same together, in the order of the first. Whoever is new
    /// stands behind all who want the same, so they are served before him. Then those whom nothing calls, if it is
    /// time to look after them.
    fn wishes(&self) -> (Vec<Wish>, Vec<Wish>) {
        let mut line = self.line();
        let (rung, is_all_rung) = (std::mem::take(&mut line.rung), std::mem::take(&mut line.is_all_rung));
        let is_look_due = std::mem::take(&mut line.is_look_due);
        let mut known = HashMap::new();
        let mut wishes: Vec<Wish> = Vec::new();
        for (at, waiter) in &mut line.waiters {
            let commands = match &waiter.claim.commands {
                Commands::Any => None,
                Commands::These(commands) => Some(Arc::<[Arc<str>]>::from(commands.to_vec())),
            };
            let tenant = waiter.claim.tenant.clone();
            let place = *known.entry((tenant.clone(), commands.clone())).or_insert_with(|| {
                let places = Vec::new();
                wishes.push(Wish { tenant, commands, places, is_new: false, is_rung: false, is_last: false });
                wishes.len() - 1
            });
            let wish = &mut wishes[place];
            wish.is_new |= std::mem::take(&mut waiter.is_new);
            wish.is_rung |= is_all_rung || rung.iter().any(|queue| wants(&waiter.claim, queue));
            wish.is_last |= waiter.is_last;
            wish.places.push(*at);
        }
        let (called, idle): (Vec<Wish>, Vec<Wish>) =
            wishes.into_iter().partition(|wish| wish.is_new || wish.is_rung);
        (called, idle.into_iter().filter(|wish| is_look_due || wish.is_last).collect())
    }

    /// Serves them in their order until one comes away empty.
    async fn serve_wish(&self, counter: &dyn ClaimSource, wish: &Wish) {
        // Where nothing was heard there is mostly nothing: one empty answer speaks for all.
        let (mut most, mut places) = (if wish.is_rung { FIRST_SERVED } else { 1 }, wish.places.as_slice());
        while !places.is_empty() {
            let (part, rest) = places.split_at(places.len().min(most));
            if !self.serve_some(counter, part).await {
                return;
            }
            (places, most) = (rest, (most * 8).min(THEN_SERVED));
        }
    }

    /// False if there was nothing for the last of them.
    async fn serve_some(&self, counter: &dyn ClaimSource, places: &[u64]) -> bool {
        let standing: Vec<(u64, Claim)> = {
            let line = self.line();
            let present = |at: &u64| {
                let waiter = line.waiters.get(at).filter(|waiter| !waiter.answer.is_closed())?;
                Some((*at, waiter.claim.clone()))
            };
            places.iter().filter_map(present).collect()
        };
        if standing.is_empty() {
            return true;
        }
        let taken = counter.claim(standing.iter().map(|(_, claim)| claim.clone()).collect()).await;
        let shares = match taken {
            Ok(shares) => shares.into_iter().map(Ok).collect(),
            Err(failure) => vec![Err(failure); standing.len()],
        };
        let mut is_last_served = false;
        for ((at, claim), share) in standing.into_iter().zip(shares) {
            is_last_served = !matches!(&share, Ok(tasks) if tasks.is_empty());
            if is_last_served {
                self.hand_out(counter, at, claim, share).await;
            }
        }
        is_last_served
    }

    async fn hand_out(
        &self,
        counter: &dyn ClaimSource,
        at: u64,
        claim: Claim,
        share: Result<Vec<Task>, Failure>,
    ) {
        let waiter = self.line().waiters.remove(&at);
        let unheard = match waiter {
            Some(waiter) => waiter.answer.send(share).err(),
            None => Some(share),
        };
        if let Some(Ok(tasks)) = unheard {
            counter.take_back(claim, tasks).await;
        }
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
