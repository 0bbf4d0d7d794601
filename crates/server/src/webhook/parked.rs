//! What waits for the rate limit of its address, in order, without using an attempt.

use codeq_queue::Time;
use std::collections::{BTreeSet, HashMap, VecDeque};

/// Names an address.
pub type Key = [u8; 32];

pub struct Parked<T> {
    addresses: HashMap<Key, Address<T>>,
    /// When to ask again for each address that something waits for.
    asks: BTreeSet<(Time, Key)>,
}

struct Address<T> {
    ask: Time,
    /// Never empty.
    items: VecDeque<T>,
}

impl<T> Default for Parked<T> {
    fn default() -> Parked<T> {
        Parked { addresses: HashMap::new(), asks: BTreeSet::new() }
    }
}

impl<T> Parked<T> {
    /// Whether something waits already: what comes now goes behind it.
    pub fn is_waiting(&self, key: &Key) -> bool {
        self.addresses.contains_key(key)
    }

    /// `at` counts only for the first of an address.
    pub fn park(&mut self, key: Key, item: T, at: Time) {
        let address = self.addresses.entry(key).or_insert_with(|| {
            self.asks.insert((at, key));
            Address { ask: at, items: VecDeque::new() }
        });
        address.items.push_back(item);
    }

    pub fn next_ask(&self) -> Option<Time> {
        self.asks.first().map(|(at, _)| *at)
    }

    /// An address whose limit may be asked now.
    pub fn due(&self, now: Time) -> Option<Key> {
        self.asks.first().filter(|(at, _)| *at <= now).map(|(_, key)| *key)
    }

    /// The limit of this address is to be asked again at `at`.
    pub fn put_off(&mut self, key: &Key, at: Time) {
        if let Some(address) = self.addresses.get_mut(key) {
            self.asks.remove(&(address.ask, *key));
            self.asks.insert((at, *key));
            address.ask = at;
        }
    }

    /// The first that waits for this address; it waits no more.
    pub fn pop(&mut self, key: &Key) -> Option<T> {
        let address = self.addresses.get_mut(key)?;
        let item = address.items.pop_front();
        if address.items.is_empty() {
            self.asks.remove(&(address.ask, *key));
            self.addresses.remove(key);
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_goes_in_order_as_its_limit_allows() {
        let mut parked = Parked::default();
        let at = Time::from_millis;
        let (one, two) = ([1; 32], [2; 32]);
        for item in 0..5 {
            parked.park(one, item, at(10));
        }
        parked.park(two, 9, at(15));
        assert_eq!((parked.next_ask(), parked.due(at(9))), (Some(at(10)), None));
        assert_eq!(parked.due(at(10)), Some(one));
        assert_eq!((parked.pop(&one), parked.pop(&one)), (Some(0), Some(1)));
        parked.put_off(&one, at(20));
        assert!(parked.is_waiting(&one));
        assert_eq!((parked.due(at(14)), parked.due(at(15))), (None, Some(two)));
        assert_eq!((parked.pop(&two), parked.pop(&two)), (Some(9), None));
        assert_eq!((parked.is_waiting(&two), parked.due(at(19))), (false, None));
        assert_eq!(parked.due(at(20)), Some(one));
        assert_eq!([(); 3].map(|()| parked.pop(&one)), [Some(2), Some(3), Some(4)]);
        assert!(!parked.is_waiting(&one) && parked.next_ask().is_none());
    }
}
