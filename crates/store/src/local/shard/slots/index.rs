//! Where live tasks are, by their numbers.
//!
//! Numbers that follow each other are asked for one after the other, when tasks are created, claimed and let go
//! of. So neighbours share an entry: with one for each, millions of tasks meant a wait for memory at every step.
//! The entries are in many small tables, so that growing never moves all of them at once.

use super::{NIL, SlotId};
use hashbrown::HashTable;

/// Numbers of one entry. Imported tasks have numbers without neighbours, so it must not be wasteful for those.
const NEIGHBOURS: usize = 8;
const TABLES: usize = 1 << 10;

struct Entry {
    /// The first of its numbers, divided by how many they are.
    group: u64,
    slots: [SlotId; NEIGHBOURS],
}

pub struct Index {
    tables: Vec<HashTable<Entry>>,
}

fn place(no: u64) -> (u64, usize) {
    (no / NEIGHBOURS as u64, no as usize % NEIGHBOURS)
}

fn hash(group: u64) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let once = group.wrapping_mul(ODD);
    let twice = (once ^ (once >> 32)).wrapping_mul(ODD);
    twice ^ (twice >> 29)
}

/// The tables themselves use the lowest and the highest bits.
fn table(hash: u64) -> usize {
    (hash >> 19) as usize % TABLES
}

impl Index {
    pub fn new() -> Index {
        Index { tables: (0..TABLES).map(|_| HashTable::new()).collect() }
    }

    pub fn find(&self, no: u64) -> Option<SlotId> {
        let (group, at) = place(no);
        let hash = hash(group);
        let entry = self.tables[table(hash)].find(hash, |entry| entry.group == group)?;
        Some(entry.slots[at]).filter(|id| *id != NIL)
    }

    pub fn insert(&mut self, no: u64, id: SlotId) {
        let (group, at) = place(no);
        let hash = hash(group);
        let table = &mut self.tables[table(hash)];
        let entry = table.entry(hash, |entry| entry.group == group, |entry| self::hash(entry.group));
        let entry = entry.or_insert_with(|| Entry { group, slots: [NIL; NEIGHBOURS] });
        entry.into_mut().slots[at] = id;
    }

    pub fn remove(&mut self, no: u64) {
        let (group, at) = place(no);
        let hash = hash(group);
        let Ok(mut entry) = self.tables[table(hash)].find_entry(hash, |entry| entry.group == group) else {
            return;
        };
        let slots = &mut entry.get_mut().slots;
        slots[at] = NIL;
        if slots.iter().all(|id| *id == NIL) {
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(index: &Index) -> usize {
        index.tables.iter().map(HashTable::len).sum()
    }

    #[test]
    fn neighbours_come_and_go_by_themselves() {
        let mut index = Index::new();
        let numbers = (0..1000).chain((1 << 44..1 << 50).step_by(1 << 45));
        let known: Vec<(u64, SlotId)> = numbers.zip(7..).collect();
        for (no, id) in &known {
            index.insert(*no, *id);
        }
        assert_eq!(entries(&index), 1000 / NEIGHBOURS + known.len() - 1000);
        for (no, _) in known.iter().step_by(2) {
            index.remove(*no);
            index.remove(*no);
        }
        for (n, (no, id)) in known.iter().enumerate() {
            assert_eq!(index.find(*no), Some(*id).filter(|_| n % 2 == 1), "{no}");
        }
        known.iter().for_each(|(no, _)| index.remove(*no));
        assert_eq!(entries(&index), 0);
    }

    /// The table was once chosen by the bits that choose the place in it, so that the thousands in one table all
    /// began at the same few places: with 5,000,000 tasks the owner spent a third of its time looking for them.
    #[test]
    fn the_entries_of_one_table_are_spread_over_it() {
        for stride in [1, 2, 4, 16, 64] {
            let mut tables = vec![Vec::new(); TABLES];
            for group in (0..1_000_000).map(|n| n * stride) {
                tables[table(hash(group))].push(hash(group) % 1024);
            }
            for mut places in tables {
                assert!((500..2000).contains(&places.len()), "{stride}: {}", places.len());
                places.sort_unstable();
                places.dedup();
                assert!(places.len() > 300, "{stride}: {}", places.len());
            }
        }
    }
}
