//! A hash map in many small parts, so that growing never moves everything at once: the owner thread must
//! not stop for a rehash of millions of entries.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

const PARTS: usize = 256;

pub struct Parted<K, V> {
    hasher: hashbrown::DefaultHashBuilder,
    parts: Vec<hashbrown::HashMap<K, V>>,
}

impl<K: Hash + Eq, V> Parted<K, V> {
    pub fn new() -> Parted<K, V> {
        let parts = (0..PARTS).map(|_| hashbrown::HashMap::new()).collect();
        Parted { hasher: hashbrown::DefaultHashBuilder::default(), parts }
    }

    fn part<Q: Hash + ?Sized>(&self, key: &Q) -> usize {
        (self.hasher.hash_one(key) >> 40) as usize % PARTS
    }

    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.parts[self.part(key)].get(key)
    }

    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let part = self.part(&key);
        self.parts[part].insert(key, value)
    }

    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let part = self.part(key);
        self.parts[part].remove(key)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.parts.iter().flatten()
    }
}
