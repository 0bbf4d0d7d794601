//! Who may be called next: a lane per host, so that nobody waits for somebody else's trouble.
//!
//! A host that answers has eight slots. One that we know nothing of has a single one, and so has one that
//! keeps failing to answer, until it does. Hosts of these two kinds have their share of all slots, and beyond
//! half of the room only hosts that answer may queue: however many are dead, the others go on.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Attempts at once.
pub const SLOTS: usize = 256;
/// Attempts at once to one host.
pub const HOST_SLOTS: usize = 8;
/// Of those, while it is not known to answer.
const DOUBTFUL_SLOTS: usize = 1;
/// Attempts at once to all hosts of which nothing is known.
const ALL_NEW_SLOTS: usize = SLOTS / 2;
/// Attempts at once to all hosts that fail.
const ALL_FAILING_SLOTS: usize = SLOTS / 4;
/// Attempts in a row without an answer that make a host failing, if it ever answered.
const FAILURES: u32 = 3;
/// Messages that wait.
pub const ROOM: usize = 100_000;
/// Messages that wait for one host that is not known to answer.
const DOUBTFUL_ROOM: usize = 10_000;
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

    fn is_doubtful(self) -> bool {
        self != Trust::Answers
    }
}

struct Lane<J> {
    jobs: VecDeque<J>,
    busy: usize,
    trust: Trust,
    failures: u32,
    /// In each of the lists.
    is_listed: [bool; 3],
}

/// A slot that is taken; to be given back.
pub struct Ticket {
    host: Arc<str>,
    trust: Trust,
}

pub struct Lanes<J> {
    hosts: HashMap<Arc<str>, Lane<J>>,
    /// Hosts that may have work and a slot, by trust, in turn. Looked at again before they are believed.
    lists: [VecDeque<Arc<str>>; 3],
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

    /// Queues behind what waits for the host, if no more than `most` do. Otherwise nothing is kept.
    pub fn push(&mut self, host: &Arc<str>, job: J, most: usize) -> bool {
        self.prune();
        let lane = self.hosts.entry(host.clone()).or_insert_with(|| Lane {
            jobs: VecDeque::new(),
            busy: 0,
            trust: Trust::New,
            failures: 0,
            is_listed: [false; 3],
        });
        let is_crowded =
            lane.trust.is_doubtful() && (self.waiting >= ROOM / 2 || lane.jobs.len() >= DOUBTFUL_ROOM);
        if self.waiting >= ROOM || is_crowded || lane.jobs.len() >= most {
            return false;
        }
        lane.jobs.push_back(job);
        self.waiting += 1;
        self.list(host);
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
        let list = trust as usize;
        if self.busy[list] >= trust.all_slots() {
            return None;
        }
        while let Some(host) = self.lists[list].pop_front() {
            let Some(lane) = self.hosts.get_mut(&host) else { continue };
            lane.is_listed[list] = false;
            if lane.trust != trust || lane.busy >= lane.trust.slots() {
                continue;
            }
            let Some(job) = lane.jobs.pop_front() else { continue };
            lane.busy += 1;
            self.waiting -= 1;
            self.busy[list] += 1;
            self.list(&host);
            return Some((Ticket { host, trust }, job));
        }
        None
    }

    /// Gives the slot back; `is_prompt` tells whether the host answered soon, `None` that it was not called.
    pub fn finished(&mut self, ticket: Ticket, is_prompt: Option<bool>) {
        self.busy[ticket.trust as usize] -= 1;
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
        self.list(&ticket.host);
    }

    /// Puts a host into the list of its kind if it has work and a slot.
    fn list(&mut self, host: &Arc<str>) {
        let Some(lane) = self.hosts.get_mut(host) else { return };
        let list = lane.trust as usize;
        if !lane.jobs.is_empty() && lane.busy < lane.trust.slots() && !lane.is_listed[list] {
            lane.is_listed[list] = true;
            self.lists[list].push_back(host.clone());
        }
    }

    fn prune(&mut self) {
        if self.hosts.len() >= self.prune_at {
            self.hosts.retain(|_, lane| lane.busy > 0 || !lane.jobs.is_empty());
            self.prune_at = HOSTS.max(self.hosts.len() * 2);
        }
    }
}

#[cfg(test)]
mod tests;
