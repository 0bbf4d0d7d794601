//! A tree that lives and dies with the process: the double for tests, and the tree of the memory store.
//!
//! It keeps the contract of the durable tree except durability. A scan works on the map it found when it
//! began; a commit during the scan pays for a copy of that space.

use super::{Batch, Numbered, Pause, See, Space, Tree, TreeError, View, Visit, merge, number};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Default)]
struct State {
    spaces: BTreeMap<Space, Arc<Rows>>,
    applied: u64,
}

#[derive(Default)]
pub struct MemoryTree {
    state: RwLock<State>,
}

impl MemoryTree {
    pub fn new() -> Self {
        Self::default()
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn rows(&self, space: Space) -> Arc<Rows> {
        self.read().spaces.get(&space).cloned().unwrap_or_default()
    }
}

/// The range [from, to), or nothing where the standard map would panic on a reversed one.
fn range<'a>(
    rows: &'a Rows,
    from: &[u8],
    to: Option<&[u8]>,
) -> Option<impl DoubleEndedIterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>> {
    if to.is_some_and(|to| to <= from) {
        return None;
    }
    let bounds = (Bound::Included(from), to.map_or(Bound::Unbounded, Bound::Excluded));
    Some(rows.range::<[u8], _>(bounds))
}

/// The maps of one instant.
struct MemoryView(BTreeMap<Space, Arc<Rows>>);

impl View for MemoryView {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, TreeError> {
        Ok(self.0.get(&space).and_then(|rows| rows.get(key).cloned()))
    }

    fn walk(&self, spaces: &[Space], from: u64, is_downward: bool, see: See) -> Result<(), TreeError> {
        let from = from.to_be_bytes();
        let rows = spaces.iter().filter_map(|space| Some((*space, self.0.get(space)?)));
        let rows = rows.map(|(space, rows)| {
            let rows: Numbered<'_, &Vec<u8>> = match is_downward {
                false => Box::new(
                    rows.range::<[u8], _>((Bound::Included(&from[..]), Bound::Unbounded)).map(numbered),
                ),
                true => Box::new(
                    rows.range::<[u8], _>((Bound::Unbounded, Bound::Included(&from[..]))).rev().map(numbered),
                ),
            };
            (space, rows)
        });
        merge(rows.collect(), is_downward, see)
    }

    fn scan(&self, space: Space, from: &[u8], visit: Visit) -> Result<(), TreeError> {
        let rows =
            self.0.get(&space).into_iter().flat_map(|rows| range(rows, from, None).into_iter().flatten());
        for (key, value) in rows {
            if !visit(key, value) {
                break;
            }
        }
        Ok(())
    }

    fn buckets(&self) -> Vec<i64> {
        let ends: BTreeSet<i64> = self.0.keys().filter_map(|space| space.bucket()).collect();
        ends.into_iter().collect()
    }
}

fn numbered<'a>((key, row): (&Vec<u8>, &'a Vec<u8>)) -> Result<(u64, &'a Vec<u8>), TreeError> {
    Ok((number(key)?, row))
}

impl Tree for MemoryTree {
    fn view(&self) -> Result<Box<dyn View>, TreeError> {
        Ok(Box::new(MemoryView(self.read().spaces.clone())))
    }

    fn instant(&self) -> Result<Box<dyn View>, TreeError> {
        self.view()
    }

    fn applied(&self) -> u64 {
        self.read().applied
    }

    fn commit(&self, batch: Batch, _: Pause) -> Result<(), TreeError> {
        let mut state = self.write();
        for change in batch.changes {
            match change.value {
                Some(value) => {
                    let rows = state.spaces.entry(change.space).or_default();
                    Arc::make_mut(rows).insert(change.key.to_vec(), value.to_vec());
                }
                None => {
                    if let Some(rows) = state.spaces.get_mut(&change.space) {
                        Arc::make_mut(rows).remove(&*change.key);
                    }
                }
            }
        }
        state.applied = batch.applied;
        Ok(())
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, TreeError> {
        Ok(self.read().spaces.get(&space).and_then(|rows| rows.get(key).cloned()))
    }

    fn scan(&self, space: Space, from: &[u8], to: Option<&[u8]>, visit: Visit) -> Result<(), TreeError> {
        let rows = self.rows(space);
        for (key, value) in range(&rows, from, to).into_iter().flatten() {
            if !visit(key, value) {
                break;
            }
        }
        Ok(())
    }

    fn scan_back(&self, space: Space, from: &[u8], to: Option<&[u8]>, visit: Visit) -> Result<(), TreeError> {
        let rows = self.rows(space);
        for (key, value) in range(&rows, from, to).into_iter().flat_map(Iterator::rev) {
            if !visit(key, value) {
                break;
            }
        }
        Ok(())
    }

    fn buckets(&self) -> Vec<i64> {
        let ends: BTreeSet<i64> = self.read().spaces.keys().filter_map(|space| space.bucket()).collect();
        ends.into_iter().collect()
    }

    fn drop_buckets(&self, before_or_at: i64) -> Result<usize, TreeError> {
        let before = self.buckets().len();
        self.write().spaces.retain(|space, _| space.bucket().is_none_or(|end| end > before_or_at));
        Ok(before - self.buckets().len())
    }

    fn upkeep(&self) -> Result<bool, TreeError> {
        Ok(false)
    }

    fn disk_bytes(&self) -> u64 {
        0
    }

    fn close(&self) {}

    fn check(&self) -> Result<Vec<(Space, u64)>, TreeError> {
        Ok(self.read().spaces.iter().map(|(&space, rows)| (space, rows.len() as u64)).collect())
    }
}
