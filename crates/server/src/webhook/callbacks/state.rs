//! What is ours at the moment, and when there will be more to do.

use super::super::parked::Parked;
use codeq_queue::{Delivery, Time};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Instants of retries kept in mind, and how close together they may be. What does not fit is found by
/// looking.
const RETRIES: usize = 10_000;
const RETRY_GRAIN_MS: i64 = 20;

#[derive(Default)]
pub struct State {
    /// Until when each callback that we have is ours.
    held: HashMap<u128, Time>,
    /// What was reported on while the store was asked: its answer may still speak of it.
    settled: Option<HashSet<u128>>,
    retries: BTreeSet<Time>,
    pub parked: Parked<Delivery>,
}

impl State {
    pub fn begin_taking(&mut self) {
        self.settled = Some(HashSet::new());
    }

    /// Gives what we did not have yet.
    pub fn end_taking(&mut self, taken: Vec<Delivery>, until: Time) -> Vec<Delivery> {
        let settled = self.settled.take().unwrap_or_default();
        let mut fresh = Vec::with_capacity(taken.len());
        for delivery in taken {
            if settled.contains(&delivery.id) {
                continue;
            }
            if self.held.insert(delivery.id, until).is_none() {
                fresh.push(delivery);
            }
        }
        fresh
    }

    pub fn held_until(&self, id: u128) -> Option<Time> {
        self.held.get(&id).copied()
    }

    /// It is not ours any more.
    pub fn let_go(&mut self, id: u128) {
        self.held.remove(&id);
        if let Some(settled) = &mut self.settled {
            settled.insert(id);
        }
    }

    /// Remembers to look at `due`.
    pub fn expect_retry(&mut self, due: Time) {
        let rounded = due.millis().saturating_add(RETRY_GRAIN_MS) / RETRY_GRAIN_MS * RETRY_GRAIN_MS;
        if self.retries.len() < RETRIES {
            self.retries.insert(Time::from_millis(rounded));
        }
    }

    pub fn is_retry_due(&self, now: Time) -> bool {
        self.retries.first().is_some_and(|due| *due <= now)
    }

    pub fn forget_retries(&mut self, now: Time) {
        while self.is_retry_due(now) {
            self.retries.pop_first();
        }
    }

    /// When the next retry is due or a rate limit may let something through.
    pub fn next_event(&self) -> Option<Time> {
        let events = [self.retries.first().copied(), self.parked.next_ask()];
        events.into_iter().flatten().min()
    }
}
