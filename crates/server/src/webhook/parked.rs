//! What waits for the rate limit of its address, in order, without using an attempt.

use codeq_queue::Time;
use std::collections::{BTreeSet, HashMap, VecDeque};

/// Names an address.
pub type Key = [u8; 32];

pub struct Parked<T> {
    waiting: HashMap<Key, VecDeque<T>>,
    /// When to ask again for each address that something waits for.
    asks: BTreeSet<(Time, Key)>,
}

impl<T> Default for Parked<T> {
    fn default() -> Parked<T> {
        Parked { waiting: HashMap::new(), asks: BTreeSet::new() }
    }
}

impl<T> Parked<T> {
    /// Whether something waits already: what comes now goes behind it.
    pub fn is_waiting(&self, key: &Key) -> bool {
        self.waiting.contains_key(key)
    }

    /// `at` counts only for the first of an address.
    pub fn park(&mut self, key: Key, item: T, at: Time) {
        let queue = self.waiting.entry(key).or_default();
        if queue.is_empty() {
            self.asks.insert((at, key));
        }
        queue.push_back(item);
    }

    pub fn next_ask(&self) -> Option<Time> {
        self.asks.first().map(|(at, _)| *at)
    }

    /// Everything that may go now. `may` takes one out of the limit of an address, or tells when to ask
    /// again.
    pub fn release(&mut self, now: Time, may: impl Fn(&Key) -> Result<(), Time>) -> Vec<T> {
        let mut released = Vec::new();
        while let Some((_, key)) = self.asks.first().copied().filter(|(at, _)| *at <= now) {
            self.asks.pop_first();
            let Some(queue) = self.waiting.get_mut(&key) else { continue };
            let again = loop {
                if queue.is_empty() {
                    break None;
                }
                match may(&key) {
                    Ok(()) => released.extend(queue.pop_front()),
                    Err(at) => break Some(at.max(Time::from_millis(now.millis() + 1))),
                }
            };
            match again {
                Some(at) => drop(self.asks.insert((at, key))),
                None => drop(self.waiting.remove(&key)),
            }
        }
        released
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn what_waits_goes_in_order_as_its_limit_allows() {
        let mut parked = Parked::default();
        let at = Time::from_millis;
        for item in 0..5 {
            parked.park([1; 32], item, at(10));
        }
        parked.park([2; 32], 9, at(15));
        assert_eq!(parked.next_ask(), Some(at(10)));
        assert_eq!(parked.release(at(9), |_| Ok(())), Vec::<i32>::new());
        let left = Cell::new(2);
        let may = |_: &Key| match left.replace(left.get() - 1) {
            1.. => Ok(()),
            _ => Err(at(20)),
        };
        assert_eq!(parked.release(at(10), may), [0, 1]);
        assert!(parked.is_waiting(&[1; 32]));
        assert_eq!(parked.release(at(15), |_| Ok(())), [9]);
        assert_eq!(parked.release(at(20), |_| Ok(())), [2, 3, 4]);
        assert!(!parked.is_waiting(&[1; 32]) && parked.next_ask().is_none());
    }
}
