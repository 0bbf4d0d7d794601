//! Which host may be called next: a lane per host, so that a broken host delays only itself.
//!
//! A host that answers has eight slots. One that we know nothing of has a single one, and so has one that
//! keeps failing to answer, until it does. Hosts of these two kinds have their share of all slots, and beyond
//! half of the room only hosts that answer may queue: however many are dead, the others go on.
//!
//! Tenants take turns, for slots and at a host that several of them call, and none has all of the slots or of
//! the room: a tenant whose receivers are dead delays only its own messages.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Attempts at once.
pub const SLOTS: usize = 256;
/// Attempts at once to one host.
pub const HOST_SLOTS: usize = 8;
/// Of those, while it is not known to answer.
const DOUBTFUL_SLOTS: usize = 1;
/// Attempts at once to all hosts of which nothing is known.
const ALL_NEW_SLOTS: usize = SLOTS * 5 / 8;
/// Attempts at once to all hosts that fail.
const ALL_FAILING_SLOTS: usize = SLOTS * 3 / 16;
/// Of either, those of one tenant.
const TENANT_NEW_SLOTS: usize = SLOTS / 2;
const TENANT_FAILING_SLOTS: usize = SLOTS / 8;
/// Attempts in a row without an answer that make a host failing, if it ever answered.
const FAILURES: u32 = 3;
/// Messages that wait.
pub const ROOM: usize = 100_000;
/// Messages that wait for one host that is not known to answer.
const DOUBTFUL_ROOM: usize = 10_000;
/// Messages of one tenant that wait for hosts that are not known to answer.
const TENANT_DOUBTFUL_ROOM: usize = ROOM / 8;
/// Messages of one tenant that wait.
const TENANT_ROOM: usize = ROOM / 2;
/// Attempts at once for one tenant.
const TENANT_SLOTS: usize = SLOTS * 3 / 4;
/// Hosts remembered while nothing waits for them.
const HOSTS: usize = 10_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trust {
    Answers,
    New,
    Fails,
}

const TRUSTS: [Trust; 3] = [Trust::Answers, Trust::New, Trust::Fails];

impl Trust {
    fn slots(self) -> usize {
        match self {
            Trust::Answers => HOST_SLOTS,
            Trust::New | Trust::Fails => DOUBTFUL_SLOTS,
        }
    }

    /// Of all hosts of the kind.
    fn all_slots(self) -> usize {
        match self {
            Trust::Answers => SLOTS,
            Trust::New => ALL_NEW_SLOTS,
            Trust::Fails => ALL_FAILING_SLOTS,
        }
    }

    /// Of all hosts of the kind that one tenant calls.
    fn tenant_slots(self) -> usize {
        match self {
            Trust::Answers => TENANT_SLOTS,
            Trust::New => TENANT_NEW_SLOTS,
            Trust::Fails => TENANT_FAILING_SLOTS,
        }
    }

    fn is_doubtful(self) -> bool {
        self != Trust::Answers
    }
}

struct Lane<J> {
    /// What each tenant has for the host.
    queues: HashMap<Arc<str>, Queue<J>>,
    busy: usize,
    trust: Trust,
    failures: u32,
}

struct Queue<J> {
    jobs: VecDeque<J>,
    /// In each of the lists.
    is_listed: [bool; 3],
}

/// A slot that is taken; to be given back.
pub struct Ticket {
    tenant: Arc<str>,
    host: Arc<str>,
    trust: Trust,
}

/// Hosts that may have work and a slot. Looked at again before they are believed.
#[derive(Default)]
struct Turns {
    tenants: VecDeque<Arc<str>>,
    /// Never empty for a tenant that is in turn.
    hosts: HashMap<Arc<str>, VecDeque<Arc<str>>>,
}

impl Turns {
    fn push(&mut self, tenant: &Arc<str>, host: &Arc<str>) {
        let hosts = self.hosts.entry(tenant.clone()).or_default();
        if hosts.is_empty() {
            self.tenants.push_back(tenant.clone());
        }
        hosts.push_back(host.clone());
    }

    /// The next host of a tenant, which goes behind the others.
    fn pop(&mut self, tenant: &Arc<str>) -> Option<Arc<str>> {
        let hosts = self.hosts.get_mut(tenant)?;
        let host = hosts.pop_front();
        match hosts.is_empty() {
            true => drop(self.hosts.remove(tenant)),
            false => self.tenants.push_back(tenant.clone()),
        }
        host
    }
}

/// What a tenant has going on.
#[derive(Default)]
struct Share {
    waiting: usize,
    /// Slots, by trust.
    busy: [usize; 3],
}

pub struct Lanes<J> {
    hosts: HashMap<Arc<str>, Lane<J>>,
    /// By trust.
    lists: [Turns; 3],
    tenants: HashMap<Arc<str>, Share>,
    /// Which list goes first.
    turn: usize,
    waiting: usize,
    /// Slots that are taken, by trust.
    busy: [usize; 3],
    /// When to forget idle hosts.
    prune_at: usize,
}

impl<J> Default for Lanes<J> {
    fn default() -> Lanes<J> {
        Lanes {
            hosts: HashMap::new(),
            lists: Default::default(),
            tenants: HashMap::new(),
            turn: 0,
            waiting: 0,
            busy: [0; 3],
            prune_at: HOSTS,
        }
    }
}

impl<J> Lanes<J> {
    pub fn has_room(&self) -> bool {
        self.waiting < ROOM
    }

    /// Queues behind what waits for the host, if no more than `most` of the tenant do. Otherwise nothing is
    /// kept.
    pub fn push(&mut self, tenant: &Arc<str>, host: &Arc<str>, job: J, most: usize) -> bool {
        self.prune();
        let lane = self.hosts.entry(host.clone()).or_insert_with(|| Lane {
            queues: HashMap::new(),
            busy: 0,
            trust: Trust::New,
            failures: 0,
        });
        let share = self.tenants.get(tenant).map_or(0, |share| share.waiting);
        let here = lane.queues.get(tenant).map_or(0, |queue| queue.jobs.len());
        let is_crowded = lane.trust.is_doubtful()
            && (self.waiting >= ROOM / 2 || here >= DOUBTFUL_ROOM || share >= TENANT_DOUBTFUL_ROOM);
        if self.waiting >= ROOM || share >= TENANT_ROOM || is_crowded || here >= most {
            return false;
        }
        let empty = || Queue { jobs: VecDeque::new(), is_listed: [false; 3] };
        lane.queues.entry(tenant.clone()).or_insert_with(empty).jobs.push_back(job);
        self.waiting += 1;
        self.tenants.entry(tenant.clone()).or_default().waiting += 1;
        self.list(tenant, host);
        true
    }

    /// The next to be sent, if a slot is free for it.
    pub fn next(&mut self) -> Option<(Ticket, J)> {
        if self.busy.iter().sum::<usize>() >= SLOTS {
            return None;
        }
        self.turn = (self.turn + 1) % TRUSTS.len();
        let turn = self.turn;
        (turn..turn + TRUSTS.len()).find_map(|turn| self.next_of(TRUSTS[turn % TRUSTS.len()]))
    }

    fn next_of(&mut self, trust: Trust) -> Option<(Ticket, J)> {
        if self.busy[trust as usize] >= trust.all_slots() {
            return None;
        }
        // Those who have all their slots are few: slots are.
        let mut passed = Vec::new();
        let found = loop {
            let Some(tenant) = self.lists[trust as usize].tenants.pop_front() else { break None };
            if !self.may_begin(&tenant, trust) {
                passed.push(tenant);
                continue;
            }
            let Some(host) = self.lists[trust as usize].pop(&tenant) else { continue };
            if let Some(begun) = self.begin(tenant, host, trust) {
                break Some(begun);
            }
        };
        for tenant in passed.into_iter().rev() {
            self.lists[trust as usize].tenants.push_front(tenant);
        }
        found
    }

    /// Whether the tenant has slots left.
    fn may_begin(&self, tenant: &Arc<str>, trust: Trust) -> bool {
        self.tenants.get(tenant).is_none_or(|share| {
            share.busy[trust as usize] < trust.tenant_slots()
                && share.busy.iter().sum::<usize>() < TENANT_SLOTS
        })
    }

    /// Takes a slot for the next job of the tenant at the host, if it is as it was when it was listed.
    fn begin(&mut self, tenant: Arc<str>, host: Arc<str>, trust: Trust) -> Option<(Ticket, J)> {
        let lane = self.hosts.get_mut(&host)?;
        let queue = lane.queues.get_mut(&tenant)?;
        queue.is_listed[trust as usize] = false;
        if lane.trust != trust || lane.busy >= lane.trust.slots() {
            return None;
        }
        let job = queue.jobs.pop_front();
        if queue.jobs.is_empty() && queue.is_listed == [false; 3] {
            lane.queues.remove(&tenant);
        }
        let job = job?;
        lane.busy += 1;
        self.waiting -= 1;
        self.busy[trust as usize] += 1;
        let share = self.tenants.entry(tenant.clone()).or_default();
        share.waiting -= 1;
        share.busy[trust as usize] += 1;
        self.list(&tenant, &host);
        Some((Ticket { tenant, host, trust }, job))
    }

    /// Gives the slot back; `is_prompt` tells whether the host answered soon, `None` that it was not called.
    pub fn finished(&mut self, ticket: Ticket, is_prompt: Option<bool>) {
        self.busy[ticket.trust as usize] -= 1;
        self.give_back(&ticket);
        let Some(lane) = self.hosts.get_mut(&ticket.host) else { return };
        lane.busy -= 1;
        match is_prompt {
            Some(true) => (lane.trust, lane.failures) = (Trust::Answers, 0),
            Some(false) => {
                lane.failures = lane.failures.saturating_add(1);
                if lane.failures >= FAILURES || lane.trust == Trust::New {
                    lane.trust = Trust::Fails;
                }
            }
            None => {}
        }
        let mut tenants: Vec<Arc<str>> = lane.queues.keys().cloned().collect();
        // The tenant that had the slot goes behind the others that wait for the host.
        tenants.sort_by_key(|tenant| *tenant == ticket.tenant);
        for tenant in tenants {
            self.list(&tenant, &ticket.host);
        }
    }

    /// Tenants without attempts or waiting messages are forgotten.
    fn give_back(&mut self, ticket: &Ticket) {
        let Some(share) = self.tenants.get_mut(&ticket.tenant) else { return };
        share.busy[ticket.trust as usize] -= 1;
        if share.waiting == 0 && share.busy == [0; 3] {
            self.tenants.remove(&ticket.tenant);
        }
    }

    /// Puts a host into the list of its kind if the tenant has work for it and it has a slot.
    fn list(&mut self, tenant: &Arc<str>, host: &Arc<str>) {
        let Some(lane) = self.hosts.get_mut(host) else { return };
        let (list, has_slot) = (lane.trust as usize, lane.busy < lane.trust.slots());
        let Some(queue) = lane.queues.get_mut(tenant) else { return };
        if !queue.jobs.is_empty() && has_slot && !queue.is_listed[list] {
            queue.is_listed[list] = true;
            self.lists[list].push(tenant, host);
        }
    }

    fn prune(&mut self) {
        if self.hosts.len() >= self.prune_at {
            self.hosts.retain(|_, lane| lane.busy > 0 || lane.queues.values().any(|q| !q.jobs.is_empty()));
            self.prune_at = HOSTS.max(self.hosts.len() * 2);
        }
    }
}

#[cfg(test)]
mod tests;
