//! What a shard must know of tasks from elsewhere to find them again.
//!
//! A task from elsewhere keeps its id and lies on the shard of its queue. Its id may hash to another shard (it is a
//! stray then), and the number it decodes to may be another task's (it lies at a later place then). Most stores have
//! neither, and look at one place on one shard.

use crate::local::format::records::IMPORTED;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Only ever grows. Shared by the owner, who decides, and by those who read.
#[derive(Default)]
pub struct Imports {
    are_there: AtomicBool,
    /// The last place at which a task may lie.
    reach: AtomicU32,
    has_strays: AtomicBool,
}

impl Imports {
    /// Whether numbers that this shard did not give out may be in the tables.
    pub fn are_there(&self) -> bool {
        self.are_there.load(Ordering::Acquire)
    }

    /// The places at which a task may lie.
    pub fn places(&self) -> std::ops::RangeInclusive<u32> {
        0..=self.reach.load(Ordering::Acquire)
    }

    pub fn has_strays(&self) -> bool {
        self.has_strays.load(Ordering::Acquire)
    }

    /// The record to write before a task is stored at `place`; `None` if it would say nothing new.
    pub fn record(&self, place: u32, is_stray: bool) -> Option<(Vec<u8>, Vec<u8>)> {
        let (reach, strays) = (*self.places().end(), self.has_strays());
        if self.are_there() && place <= reach && is_stray <= strays {
            return None;
        }
        let reach = u8::try_from(place.max(reach)).expect("a place is named by six bits");
        Some((vec![IMPORTED], vec![reach, u8::from(is_stray || strays)]))
    }

    /// As the record says. The first ones that were written are empty.
    pub fn apply(&self, record: &[u8]) {
        let reach = record.first().copied().unwrap_or_default();
        let has_strays = record.get(1).is_some_and(|strays| *strays != 0);
        self.reach.fetch_max(u32::from(reach), Ordering::AcqRel);
        self.has_strays.fetch_or(has_strays, Ordering::AcqRel);
        self.are_there.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_written_when_it_says_something_new() {
        let imports = Imports::default();
        assert_eq!((imports.are_there(), imports.places(), imports.has_strays()), (false, 0..=0, false));
        for (place, is_stray, expected) in [(0, false, [0, 0]), (3, false, [3, 0]), (1, true, [3, 1])] {
            let (_, record) = imports.record(place, is_stray).expect("news");
            assert_eq!(record, expected);
            imports.apply(&record);
            assert_eq!(imports.record(place, is_stray), None);
        }
        imports.apply(&[]);
        assert_eq!((imports.are_there(), imports.places(), imports.has_strays()), (true, 0..=3, true));
    }
}
