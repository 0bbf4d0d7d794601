//! A hash map in many small parts, so that growing never moves everything at once: the owner thread must
//! not stop for a rehash of millions of entries.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

const PARTS: usize = 256;

pub struct ShardedMap<K, V> {
    hasher: DefaultHashBuilder,
    parts: Vec<HashTable<(K, V)>>,
}

impl<K: Hash + Eq, V> ShardedMap<K, V> {
    pub fn new() -> ShardedMap<K, V> {
        let parts = (0..PARTS).map(|_| HashTable::new()).collect();
        ShardedMap { hasher: DefaultHashBuilder::default(), parts }
    }

    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let hash = self.hasher.hash_one(key);
        self.parts[part(hash)].find(hash, |(known, _)| known.borrow() == key).map(|(_, value)| value)
    }

    pub fn insert(&mut self, key: K, value: V) {
        let hash = self.hasher.hash_one(&key);
        let table = &mut self.parts[part(hash)];
        match table.find_mut(hash, |(known, _)| *known == key) {
            Some(entry) => entry.1 = value,
            None => {
                let hasher = &self.hasher;
                table.insert_unique(hash, (key, value), |(key, _)| hasher.hash_one(key));
            }
        }
    }

    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let hash = self.hasher.hash_one(key);
        let entry = self.parts[part(hash)].find_entry(hash, |(known, _)| known.borrow() == key).ok()?;
        Some(entry.remove().0.1)
    }
}

/// The tables themselves use the lowest and the highest bits.
fn part(hash: u64) -> usize {
    (hash >> 40) as usize % PARTS
}
