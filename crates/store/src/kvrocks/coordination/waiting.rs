//! Those who wait for work.
//!
//! Waiting claims stand in one line in the order of their arrival. A task of its own serves the line: when a
//! queue has got work, one script lends to as many of those who want it as there are tasks, in their order. Once a
//! second, and at the end of a wait, one read per server tells for which of the others there may be something.
//! Those who want the same are served one after the other, and nobody waits for those who want something else: it may be on
//! a server that does not answer.

use crate::kvrocks::coordination::line::{Line, Waiter, Wish};
use codeq_queue::store::{Claim, Wait};
use codeq_queue::{Failure, QueueKey, Task, Time};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use hashbrown::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

/// Everyone looks again after this long, whatever was heard.
pub const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Claims served by the first script for a queue that has got work, and by the following ones.
const FIRST_SERVED: usize = 16;
const THEN_SERVED: usize = 128;

/// How long what was begun together is waited for. Who takes longer goes on beside the rest.
const ROUND: Duration = Duration::from_millis(10);

/// What came to its end.
enum Step {
    Served(Wish),
    /// There may be something for the first, and there is nothing for the others.
    Looked(Vec<Wish>, Vec<Wish>),
}

/// What is going on.
#[derive(Default)]
struct Steps<'a> {
    going: FuturesUnordered<BoxFuture<'a, (u64, Step)>>,
    round: u64,
    /// How many of this round go on.
    open: usize,
}

impl<'a> Steps<'a> {
    fn begin_round(&mut self) {
        self.round += 1;
        self.open = 0;
    }

    fn begin(&mut self, step: impl Future<Output = Step> + Send + 'a) {
        let round = self.round;
        self.open += 1;
        self.going.push(Box::pin(async move { (round, step.await) }));
    }

    /// `None` if nothing goes on.
    async fn next(&mut self) -> Option<Step> {
        let (round, step) = self.going.next().await?;
        self.open -= usize::from(round == self.round);
        Some(step)
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
            line.waiters.insert(at, Waiter::new(claim, answer));
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
        let counter = counter.as_ref();
        let mut looked = Instant::now();
        let mut steps = Steps::default();
        loop {
            let pause = self.pause(counter, looked.elapsed());
            if self.line().called.is_empty() {
                let ended = tokio::select! {
                    _ = tokio::time::timeout(pause, self.bell.notified()) => None,
                    Some(step) = steps.next() => Some(step),
                };
                if let Some(step) = ended {
                    self.end(counter, &mut steps, step);
                    continue;
                }
            }
            if self.line().is_closed {
                // What is lent meanwhile is given back.
                while steps.next().await.is_some() {}
                return;
            }
            if looked.elapsed() >= LOOK_AGAIN {
                self.line().is_look_due = true;
                looked = Instant::now();
            }
            self.mark_last(counter.now());
            self.line().ring_opened(counter.now());
            let (called, idle) = self.line().wishes();
            steps.begin_round();
            if !idle.is_empty() {
                steps.begin(self.look(counter, idle));
            }
            called.into_iter().for_each(|wish| steps.begin(self.serve_wish(counter, wish)));
            let over = Instant::now() + ROUND;
            while steps.open > 0
                && let Ok(Some(step)) = tokio::time::timeout_at(over, steps.next()).await
            {
                self.end(counter, &mut steps, step);
            }
        }
    }

    /// Lets those go who were looked after for the last time, and serves those for whom there may be something.
    fn end<'a>(&'a self, counter: &'a dyn ClaimSource, steps: &mut Steps<'a>, step: Step) {
        match step {
            Step::Served(wish) => self.line().end_serving(wish),
            Step::Looked(found, rest) => {
                let found = self.line().end_looking(found, &rest);
                found.into_iter().for_each(|wish| steps.begin(self.serve_wish(counter, wish)));
            }
        }
    }

    /// Looks for those of whom nothing was heard whether there may be something for them all the same.
    async fn look(&self, counter: &dyn ClaimSource, idle: Vec<Wish>) -> Step {
        let queues: HashSet<QueueKey> = idle.iter().flat_map(|wish| wish.want.queues()).collect();
        let found: HashSet<QueueKey> = match queues.is_empty() {
            true => HashSet::new(),
            false => counter.glance(queues.into_iter().collect()).await.into_iter().collect(),
        };
        let is_worth_it = |wish: &Wish| {
            wish.want.commands.is_none() || wish.want.queues().any(|queue| found.contains(&queue))
        };
        let (found, rest) = idle.into_iter().partition(is_worth_it);
        Step::Looked(found, rest)
    }

    /// Until the next instant at which someone gives up, or has to look again; that was done so long ago.
    fn pause(&self, counter: &dyn ClaimSource, looked: Duration) -> Duration {
        let line = self.line();
        if line.waiters.is_empty() {
            return Duration::from_secs(3600);
        }
        if !counter.is_running() {
            return LOOK_AGAIN;
        }
        let now = counter.now();
        let ends = line.waiters.values().filter_map(|waiter| match waiter.claim.wait {
            Wait::Until(end) if !waiter.is_last => Some(end.since(now)),
            _ => None,
        });
        let openings = line.openings.values().map(|at| at.since(now));
        let look = LOOK_AGAIN.saturating_sub(looked);
        ends.chain(openings).min().unwrap_or(look).min(look)
    }

    /// Whoever's time is up is looked after once more: something may have fallen due meanwhile.
    fn mark_last(&self, now: Time) {
        let mut line = self.line();
        for waiter in line.waiters.values_mut() {
            waiter.is_last = matches!(waiter.claim.wait, Wait::Until(end) if end <= now);
        }
    }

    /// Serves them in their order until one comes away empty.
    async fn serve_wish(&self, counter: &dyn ClaimSource, wish: Wish) -> Step {
        // Where nothing was heard there is mostly nothing: one empty answer speaks for all.
        let (mut most, mut places) = (if wish.is_rung { FIRST_SERVED } else { 1 }, wish.places.as_slice());
        while !places.is_empty() {
            let (part, rest) = places.split_at(places.len().min(most));
            if !self.serve_some(counter, part).await {
                break;
            }
            (places, most) = (rest, (most * 8).min(THEN_SERVED));
        }
        Step::Served(wish)
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

#[cfg(test)]
#[path = "waiting_tests.rs"]
mod tests;
