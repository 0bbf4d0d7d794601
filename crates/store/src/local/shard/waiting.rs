//! Calls that are held until something comes: claims without work, results not yet there.
//!
//! A held claim is parked on the queues it wants (or on its tenant) and served by the very transition that
//! feeds one of them, in the same group, in order of arrival. Nothing polls.

use super::produce::done;
use super::turn::{Reply, Turn};
use crate::local::format::records::Final;
use codeq_queue::store::{Claim, ResultLookup, Wait};
use codeq_queue::{Commands, Task};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Claims looked at in one turn that came while nothing could be written.
const STARVED_PER_TURN: usize = 256;

/// The right to answer a held claim. It may be parked on several shards; whoever takes it serves.
pub struct Ticket(Mutex<Option<Reply<Vec<Task>>>>);

impl Ticket {
    pub fn new(reply: Reply<Vec<Task>>) -> Ticket {
        Ticket(Mutex::new(Some(reply)))
    }

    /// The reply, unless it is taken or nobody waits for it any more.
    pub fn take(&self) -> Option<Reply<Vec<Task>>> {
        let taken = self.0.lock().expect("no one panics holding a ticket").take();
        taken.filter(|reply| !reply.is_closed())
    }
}

enum Hold {
    Claim { claim: Claim, queues: Vec<u32>, ticket: Arc<Ticket> },
    Result { no: u64, reply: Reply<ResultLookup> },
}

struct Held {
    token: u64,
    /// In the time that waits are measured by.
    deadline: Option<Duration>,
    hold: Hold,
}

#[derive(Default)]
pub struct Waiting {
    arrivals: u64,
    /// By arrival.
    held: BTreeMap<u64, Held>,
    by_token: HashMap<u64, u64>,
    deadlines: BTreeSet<(Duration, u64)>,
    /// Arrivals of result waiters by task number.
    results: HashMap<u64, Vec<u64>>,
    /// The first of the claims that came while nothing could be written: they may wait beside ready tasks.
    starved: Option<u64>,
    /// Nothing is held any more: the store is closing.
    pub is_closed: bool,
}

impl Waiting {
    pub fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Whether there are claims to look at that nothing will feed.
    pub fn is_starved(&self) -> bool {
        self.starved.is_some()
    }

    /// A number for the next one that is parked.
    fn arrive(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }

    fn park(&mut self, arrival: u64, deadline: Option<Duration>, token: u64, hold: Hold) {
        self.deadlines.extend(deadline.map(|at| (at, arrival)));
        self.by_token.insert(token, arrival);
        self.held.insert(arrival, Held { token, deadline, hold });
    }

    fn unpark(&mut self, arrival: u64) -> Option<Hold> {
        let held = self.held.remove(&arrival)?;
        self.by_token.remove(&held.token);
        if let Some(at) = held.deadline {
            self.deadlines.remove(&(at, arrival));
        }
        Some(held.hold)
    }

    pub fn hold_result(
        &mut self,
        no: u64,
        deadline: Option<Duration>,
        token: u64,
        reply: Reply<ResultLookup>,
    ) {
        let arrival = self.arrive();
        self.park(arrival, deadline, token, Hold::Result { no, reply });
        self.results.entry(no).or_default().push(arrival);
    }
}

impl Turn<'_> {
    /// When a wait that begins now ends, if ever; `None` if it is over. How long it lasts is asked of the clock
    /// that the caller reckoned by, which may be behind the time of the store.
    pub fn deadline(&self, wait: Wait) -> Option<Option<Duration>> {
        match wait {
            Wait::No => None,
            Wait::Forever => Some(None),
            Wait::Until(at) => {
                let left = at.since(self.clock_now);
                (!left.is_zero()).then_some(Some(self.elapsed + left))
            }
        }
    }

    /// Parks a claim that found nothing, or serves it if there is something after all.
    pub fn claim_waiting(&mut self, claim: Claim, token: u64, ticket: Arc<Ticket>) {
        if self.unwritable.is_none() {
            let taken = self.take_for(&claim, &ticket);
            if taken {
                return;
            }
        }
        let Some(deadline) = self.deadline(claim.wait).filter(|_| !self.shard.waiting.is_closed) else {
            if let Some(reply) = ticket.take() {
                self.answer(reply, Vec::new());
            }
            return;
        };
        let (queues, waiting) = (&mut self.shard.queues, &mut self.shard.waiting);
        let arrival = waiting.arrive();
        let mut named = Vec::new();
        match &claim.commands {
            Commands::Any => {
                queues.tenants.entry(claim.tenant.clone()).or_default().waiters.insert(arrival);
            }
            Commands::These(commands) => {
                for command in commands.iter() {
                    let queue = queues.intern(&claim.tenant, command);
                    // At once: making the next queue may clear away those that are idle.
                    queues.at_mut(queue).waiters.insert(arrival);
                    named.push(queue);
                }
            }
        }
        if self.unwritable.is_some() {
            waiting.starved.get_or_insert(arrival);
        }
        waiting.park(arrival, deadline, token, Hold::Claim { claim, queues: named, ticket });
    }

    /// Looks for work for the claims that came while nothing could be written, some in each turn.
    pub fn serve_starved(&mut self) {
        if self.unwritable.is_some() {
            return;
        }
        for _ in 0..STARVED_PER_TURN {
            let Some(from) = self.shard.waiting.starved else { return };
            let Some((arrival, held)) = self.shard.waiting.held.range(from..).next() else {
                self.shard.waiting.starved = None;
                return;
            };
            if self.is_full() {
                return;
            }
            let arrival = *arrival;
            let claim = match &held.hold {
                Hold::Claim { claim, .. } => Some(claim.clone()),
                Hold::Result { .. } => None,
            };
            let has_work = claim.is_some_and(|claim| self.has_work(&claim));
            self.shard.waiting.starved = Some(arrival + 1);
            if has_work && let Some(Hold::Claim { claim, ticket, .. }) = self.let_go(arrival) {
                self.take_for(&claim, &ticket);
            }
        }
    }

    /// True if the ticket is settled: served here, or closed.
    fn take_for(&mut self, claim: &Claim, ticket: &Ticket) -> bool {
        if !self.has_work(claim) {
            return false;
        }
        if let Some(reply) = ticket.take() {
            let taken = self.take(claim, None);
            self.hand_over(taken, reply);
        }
        true
    }

    fn has_work(&mut self, claim: &Claim) -> bool {
        self.pick(&claim.tenant, &claim.commands).is_some()
    }

    /// Gives ready tasks of queues that were fed in this turn to the claims that wait for them.
    pub fn serve_waiters(&mut self) {
        if self.unwritable.is_some() {
            return;
        }
        if !self.shard.fed.is_empty() {
            // What became ready may have expired before.
            self.expire_tasks();
        }
        while let Some(queue) = self.shard.fed.pop() {
            while self.shard.fresh_head(queue, self.now).is_some() {
                let Some(arrival) = self.first_waiter(queue) else { break };
                if self.is_full() {
                    // The others are served in the turns that follow.
                    return self.shard.fed.push(queue);
                }
                let Some(Hold::Claim { claim, ticket, .. }) = self.let_go(arrival) else { continue };
                self.take_for(&claim, &ticket);
            }
        }
    }

    fn first_waiter(&self, queue: u32) -> Option<u64> {
        let queue = self.shard.queues.at(queue);
        let here = queue.waiters.first();
        let any = self.shard.queues.tenants.get(&queue.key.tenant).and_then(|tenant| tenant.waiters.first());
        here.into_iter().chain(any).min().copied()
    }

    /// Takes a held call out of everywhere it is parked.
    fn let_go(&mut self, arrival: u64) -> Option<Hold> {
        let hold = self.shard.waiting.unpark(arrival)?;
        match &hold {
            Hold::Claim { claim, queues, .. } => {
                for queue in queues {
                    self.shard.queues.at_mut(*queue).waiters.remove(&arrival);
                }
                if let Some(tenant) = self.shard.queues.tenants.get_mut(&claim.tenant) {
                    tenant.waiters.remove(&arrival);
                }
                if queues.is_empty() {
                    self.shard.queues.forget_idle_tenant(&claim.tenant);
                }
            }
            Hold::Result { no, .. } => {
                if let Some(arrivals) = self.shard.waiting.results.get_mut(no) {
                    arrivals.retain(|known| *known != arrival);
                    if arrivals.is_empty() {
                        self.shard.waiting.results.remove(no);
                    }
                }
            }
        }
        Some(hold)
    }

    /// The caller has gone.
    pub fn stop_waiting(&mut self, token: u64) {
        if let Some(arrival) = self.shard.waiting.by_token.get(&token).copied() {
            self.let_go(arrival);
        }
    }

    /// Answers the result waiters of tasks that ended in this turn.
    pub fn answer_results(&mut self) {
        while let Some(last) = self.shard.ended.pop() {
            for arrival in self.shard.waiting.results.remove(&last.sketch.no).unwrap_or_default() {
                if let Some(Hold::Result { reply, .. }) = self.shard.waiting.unpark(arrival) {
                    self.answer_done(reply, last.clone());
                }
            }
        }
    }

    fn answer_done(&mut self, reply: Reply<ResultLookup>, last: Arc<Final>) {
        let needs_tables = !last.sketch.detail.is_complete();
        self.answer_from(reply, needs_tables, move |library| done(library, &last));
    }

    /// Ends the waits whose time is over.
    pub fn end_waits(&mut self) {
        while let Some((at, arrival)) = self.shard.waiting.deadlines.first().copied() {
            if at > self.elapsed {
                return;
            }
            self.end_wait(arrival);
        }
    }

    /// Ends all waits; the store is closing.
    pub fn end_all_waits(&mut self) {
        self.shard.waiting.is_closed = true;
        while let Some(arrival) = self.shard.waiting.held.keys().next().copied() {
            self.end_wait(arrival);
        }
    }

    /// Drops all held calls, which tells their callers; nothing is answered any more.
    pub fn drop_all_waits(&mut self) {
        while let Some(arrival) = self.shard.waiting.held.keys().next().copied() {
            self.let_go(arrival);
        }
    }

    fn end_wait(&mut self, arrival: u64) {
        match self.let_go(arrival) {
            Some(Hold::Claim { ticket, .. }) => {
                if let Some(reply) = ticket.take() {
                    self.answer(reply, Vec::new());
                }
            }
            Some(Hold::Result { reply, .. }) => self.answer(reply, ResultLookup::Pending),
            None => {}
        }
    }
}
