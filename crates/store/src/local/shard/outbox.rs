//! The outbox of a shard: callbacks stored with the transition that caused them.
//!
//! All of it is in memory: what waits is short-lived, and what failed goes after a week.

use crate::local::change::Change;
use crate::local::codec::Writer;
use crate::local::parts;
use crate::local::records::delivery_key;
use codeq_queue::store::OutboxCounts;
use codeq_queue::{Delivery, DeliveryState, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Default)]
pub struct Outbox {
    all: BTreeMap<u128, Arc<Delivery>>,
    due: BTreeSet<(Time, u128)>,
    failed: BTreeSet<(Time, u128)>,
}

pub fn encode(delivery: &Delivery) -> Vec<u8> {
    let mut bytes = Vec::new();
    parts::write_delivery(&mut Writer(&mut bytes), delivery);
    bytes
}

impl Outbox {
    /// Takes a callback in; gives its row.
    pub fn insert(&mut self, delivery: Arc<Delivery>) -> Vec<u8> {
        let row = encode(&delivery);
        self.index(&delivery);
        self.all.insert(delivery.id, delivery);
        row
    }

    fn index(&mut self, delivery: &Delivery) {
        match delivery.state {
            DeliveryState::Pending { due } => self.due.insert((due, delivery.id)),
            DeliveryState::Failed { at } => self.failed.insert((at, delivery.id)),
        };
    }

    fn unindex(&mut self, delivery: &Delivery) {
        match delivery.state {
            DeliveryState::Pending { due } => self.due.remove(&(due, delivery.id)),
            DeliveryState::Failed { at } => self.failed.remove(&(at, delivery.id)),
        };
    }

    pub fn counts(&self) -> OutboxCounts {
        OutboxCounts { pending: self.due.len() as u64, failed: self.failed.len() as u64 }
    }

    pub fn get(&self, id: u128) -> Option<&Arc<Delivery>> {
        self.all.get(&id)
    }

    pub fn remove(&mut self, id: u128) -> Option<Arc<Delivery>> {
        let delivery = self.all.remove(&id)?;
        self.unindex(&delivery);
        Some(delivery)
    }

    pub fn shift(
        &mut self,
        id: u128,
        state: DeliveryState,
        attempts: u32,
        error: Option<Arc<str>>,
    ) -> Option<Change> {
        let old = self.remove(id)?;
        let last_error = error.or_else(|| old.last_error.clone());
        let delivery = Arc::new(Delivery { state, attempts, last_error, ..(*old).clone() });
        let value = Some(self.insert(delivery));
        Some(Change::Record { key: delivery_key(id), value })
    }

    pub fn due(&self, now: Time, limit: usize) -> Vec<Arc<Delivery>> {
        let due = self.due.iter().take_while(|(at, _)| *at <= now).take(limit);
        due.filter_map(|(_, id)| self.all.get(id).cloned()).collect()
    }

    /// Callbacks that failed at or before `at`.
    pub fn failed_before(&self, at: Time, limit: usize) -> Vec<u128> {
        let failed = self.failed.iter().take_while(|(failed, _)| *failed <= at);
        failed.take(limit).map(|(_, id)| *id).collect()
    }

    pub fn after(&self, after: u128) -> impl Iterator<Item = &Arc<Delivery>> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.all.range((Excluded(after), Unbounded)).map(|(_, delivery)| delivery)
    }
}
