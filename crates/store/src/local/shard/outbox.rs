//! The outbox of a shard: callbacks stored with the transition that caused them.
//!
//! Of each callback memory has all but its body, which is as large as a result: what failed stays for a week. A body
//! is in memory until the tables have it, and is read from there when it is sent.

use crate::local::format::codec::{Corrupt, Reader, Writer};
use crate::local::format::parts;
use crate::local::format::records::{DELIVERY, DELIVERY_BODY, DELIVERY_HEAD, delivery_key};
use crate::local::rows::change::Change;
use codeq_queue::store::OutboxCounts;
use codeq_queue::{Delivery, DeliveryState, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

#[derive(Default)]
pub struct Outbox {
    all: BTreeMap<u128, Callback>,
    due: BTreeSet<(Time, u128)>,
    failed: BTreeSet<(Time, u128)>,
    /// Bodies in memory, by the position from which on the tables have them.
    fresh: VecDeque<(u64, u128)>,
}

/// A callback in memory.
#[derive(Clone)]
pub struct Callback {
    /// Without its body once the tables have it.
    pub delivery: Arc<Delivery>,
    body_bytes: u64,
    /// Its body shares a row with everything else, as in stores of earlier versions.
    is_whole: bool,
}

impl Callback {
    /// Whether the body has to be read from the tables to come along.
    pub fn lacks_body(&self) -> bool {
        !self.delivery.has_body() && self.body_bytes <= codeq_queue::limits::CALLBACK_BYTES_ALONG as u64
    }

    /// As it is told, unless its body is to be read from the tables.
    pub fn told(&self) -> Delivery {
        match self.delivery.body.len() > codeq_queue::limits::CALLBACK_BYTES_ALONG {
            true => without_body(&self.delivery),
            false => (*self.delivery).clone(),
        }
    }

    fn head_row(&self) -> Change {
        let mut row = Vec::new();
        let w = &mut Writer(&mut row);
        parts::write_delivery(w, &without_body(&self.delivery));
        w.number(self.body_bytes);
        Change::Record { key: delivery_key(DELIVERY_HEAD, self.delivery.id), value: Some(row) }
    }
}

fn without_body(delivery: &Delivery) -> Delivery {
    // The body is not copied first.
    Delivery {
        body: "".into(),
        id: delivery.id,
        task_id: delivery.task_id,
        tenant: delivery.tenant.clone(),
        url: delivery.url.clone(),
        state: delivery.state,
        attempts: delivery.attempts,
        last_error: delivery.last_error.clone(),
        created_at: delivery.created_at,
    }
}

impl Outbox {
    /// Takes in a callback that the tables will have from this position on; gives its rows.
    pub fn insert(&mut self, delivery: Arc<Delivery>, position: u64) -> [Change; 2] {
        let (id, body_bytes) = (delivery.id, delivery.body.len() as u64);
        let body = delivery.body.as_bytes().to_vec();
        let callback = Callback { delivery, body_bytes, is_whole: false };
        let head = callback.head_row();
        self.put(callback);
        self.fresh.push_back((position, id));
        [head, Change::Record { key: delivery_key(DELIVERY_BODY, id), value: Some(body) }]
    }

    /// Takes in what the tables have in a row of this kind.
    pub fn load(&mut self, kind: u8, row: &[u8]) -> Result<(), Corrupt> {
        let r = &mut Reader(row);
        let delivery = parts::read_delivery(r)?;
        let (id, is_whole) = (delivery.id, kind == DELIVERY);
        let body_bytes = if is_whole { delivery.body.len() as u64 } else { r.number()? };
        // The head of a whole row has come after it, and is what counts.
        let was_whole = self.remove(id).is_some_and(|callback| callback.is_whole);
        let delivery = Arc::new(delivery.without_body());
        self.put(Callback { delivery, body_bytes, is_whole: is_whole || was_whole });
        Ok(())
    }

    fn put(&mut self, callback: Callback) {
        let delivery = &callback.delivery;
        match delivery.state {
            DeliveryState::Pending { due } => self.due.insert((due, delivery.id)),
            DeliveryState::Failed { at } => self.failed.insert((at, delivery.id)),
        };
        self.all.insert(delivery.id, callback);
    }

    fn remove(&mut self, id: u128) -> Option<Callback> {
        let callback = self.all.remove(&id)?;
        match callback.delivery.state {
            DeliveryState::Pending { due } => self.due.remove(&(due, id)),
            DeliveryState::Failed { at } => self.failed.remove(&(at, id)),
        };
        Some(callback)
    }

    /// Forgets a callback and its rows.
    pub fn done(&mut self, id: u128) -> impl Iterator<Item = Change> + use<> {
        let callback = self.remove(id);
        let whole = callback.as_ref().filter(|callback| callback.is_whole).map(|_| DELIVERY);
        let rows = callback.map(|_| [DELIVERY_HEAD, DELIVERY_BODY]).into_iter().flatten().chain(whole);
        rows.map(move |kind| Change::Record { key: delivery_key(kind, id), value: None })
    }

    pub fn counts(&self) -> OutboxCounts {
        OutboxCounts { pending: self.due.len() as u64, failed: self.failed.len() as u64 }
    }

    /// Bytes of bodies in memory.
    #[cfg(test)]
    pub fn body_bytes(&self) -> usize {
        self.fresh.iter().filter_map(|(_, id)| self.all.get(id)).map(|one| one.delivery.body.len()).sum()
    }

    pub fn get(&self, id: u128) -> Option<&Callback> {
        self.all.get(&id)
    }

    pub fn shift(
        &mut self,
        id: u128,
        state: DeliveryState,
        attempts: u32,
        error: Option<Arc<str>>,
    ) -> Option<Change> {
        let old = self.remove(id)?;
        let last_error = error.or_else(|| old.delivery.last_error.clone());
        let delivery = Arc::new(Delivery { state, attempts, last_error, ..(*old.delivery).clone() });
        let callback = Callback { delivery, ..old };
        let row = callback.head_row();
        self.put(callback);
        Some(row)
    }

    /// Lets go of bodies that the tables have, up to so many. True if there are more.
    pub fn settle(&mut self, retired: u64, limit: usize) -> bool {
        let is_over = |next: Option<&(u64, u128)>| next.is_some_and(|(position, _)| *position <= retired);
        for _ in 0..limit {
            if !is_over(self.fresh.front()) {
                return false;
            }
            let (_, id) = self.fresh.pop_front().expect("looked at just now");
            if let Some(callback) = self.all.get_mut(&id) {
                callback.delivery = Arc::new(without_body(&callback.delivery));
            }
        }
        is_over(self.fresh.front())
    }

    pub fn due(&self, now: Time, limit: usize) -> Vec<Callback> {
        let due = self.due.iter().take_while(|(at, _)| *at <= now).take(limit);
        due.filter_map(|(_, id)| self.all.get(id).cloned()).collect()
    }

    /// Callbacks that failed at or before `at`.
    pub fn failed_before(&self, at: Time, limit: usize) -> Vec<u128> {
        let failed = self.failed.iter().take_while(|(failed, _)| *failed <= at);
        failed.take(limit).map(|(_, id)| *id).collect()
    }

    pub fn after(&self, after: u128) -> impl Iterator<Item = &Callback> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.all.range((Excluded(after), Unbounded)).map(|(_, callback)| callback)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codeq_queue::TaskId;

    fn delivery(id: u128) -> Arc<Delivery> {
        Arc::new(Delivery {
            id,
            task_id: TaskId::from_bits(id),
            tenant: "acme".into(),
            url: "http://receiver/".into(),
            body: "x".repeat(1000).into(),
            state: DeliveryState::Pending { due: Time::ZERO },
            attempts: 0,
            last_error: None,
            created_at: Time::ZERO,
        })
    }

    fn value(change: &Change) -> &[u8] {
        match change {
            Change::Record { value: Some(value), .. } => value,
            _ => panic!("a row"),
        }
    }

    #[test]
    fn a_body_leaves_memory_once_the_tables_have_it() {
        let mut outbox = Outbox::default();
        for id in 1..=10 {
            let [head, body] = outbox.insert(delivery(id), u64::try_from(id).unwrap());
            assert!(value(&head).len() < 200 && value(&body).len() == 1000);
        }
        assert_eq!(outbox.body_bytes(), 10_000);
        let failed = DeliveryState::Failed { at: Time::ZERO };
        let moved = outbox.shift(1, failed, 1, Some("no".into())).expect("it is there");
        assert!(value(&moved).len() < 200, "the body is not written again");
        assert!(outbox.settle(7, 4), "there are more");
        assert!(!outbox.settle(7, 100));
        assert_eq!(outbox.body_bytes(), 3_000);
        assert!(outbox.get(1).is_some_and(Callback::lacks_body));
        assert_eq!(outbox.done(1).count(), 2);
        assert!(outbox.get(1).is_none() && outbox.counts() == OutboxCounts { pending: 9, failed: 0 });
    }

    /// Stores of earlier versions have a callback in one row, and write it anew whenever it moves.
    #[test]
    fn a_whole_row_is_read_and_its_head_counts_if_there_is_one() {
        let mut row = Vec::new();
        parts::write_delivery(&mut Writer(&mut row), &delivery(1));
        let mut outbox = Outbox::default();
        outbox.load(DELIVERY, &row).expect("it can be read");
        assert_eq!((outbox.counts().pending, outbox.body_bytes()), (1, 0));
        let failed = DeliveryState::Failed { at: Time::from_millis(5) };
        let head = outbox.shift(1, failed, 3, None).expect("it is there");
        let mut again = Outbox::default();
        again.load(DELIVERY, &row).expect("it can be read");
        again.load(DELIVERY_HEAD, value(&head)).expect("it can be read");
        let found = again.get(1).expect("it is there").delivery.clone();
        assert_eq!((found.state, found.attempts, again.counts().failed), (failed, 3, 1));
        assert_eq!(again.done(1).count(), 3, "the whole row goes, too");
    }
}
