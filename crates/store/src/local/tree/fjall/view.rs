//! Reading the rows of one instant.

use super::super::{Numbered, See, Space, TreeError, View, Visit, merge, number};
use super::database::Db;
use super::explain;
use super::parts::{Parts, part_of, parts_between};
use ::fjall::{Guard, Keyspace, Readable, Slice, Snapshot};
use std::ops::Bound;
use std::sync::Arc;

/// Holds the database, so that a reopening meanwhile does not clear away files that are still read.
pub struct FjallView {
    db: Arc<Db>,
    rows: Snapshot,
    /// No part goes while a view is open.
    parts: Arc<Parts>,
}

impl Drop for FjallView {
    fn drop(&mut self) {
        self.db.end_view();
    }
}

pub type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);
pub type Row = Result<(Slice, Slice), TreeError>;
pub type Rows<'a> = Box<dyn Iterator<Item = Row> + 'a>;

impl FjallView {
    pub fn of(db: Arc<Db>) -> FjallView {
        let (rows, parts) = db.begin_view();
        FjallView { db, rows, parts }
    }

    /// The rows of a space between two keys, in their order or in reverse.
    pub fn rows(&self, space: Space, bounds: Bounds, is_downward: bool) -> Rows<'_> {
        let common = self.rows_of(self.db.space(space).into_iter().collect(), &bounds, is_downward);
        if space != Space::Task || self.parts.is_empty() {
            return common;
        }
        let mut parts: Vec<Keyspace> =
            self.parts.range(parts_between(&bounds)).map(|(_, rows)| rows.clone()).collect();
        if is_downward {
            parts.reverse();
        }
        let parts = self.rows_of(parts, &bounds, is_downward);
        Box::new(interleave(parts, common, is_downward))
    }

    /// The rows of keyspaces that follow each other. Each is held until its rows have been read: the files of
    /// one that is dropped meanwhile go with the last who holds it.
    fn rows_of(&self, keyspaces: Vec<Keyspace>, bounds: &Bounds, is_downward: bool) -> Rows<'_> {
        let bounds = bounds.clone();
        Box::new(keyspaces.into_iter().flat_map(move |held| {
            let rows = self.rows.range(&held, bounds.clone());
            let read = move |row: Guard| {
                let _ = &held;
                row.into_inner().map_err(explain)
            };
            let rows: Rows<'_> = match is_downward {
                false => Box::new(rows.map(read)),
                true => Box::new(rows.rev().map(read)),
            };
            rows
        }))
    }
}

/// Two lines in order as one.
fn interleave<'a>(one: Rows<'a>, other: Rows<'a>, is_downward: bool) -> impl Iterator<Item = Row> + 'a {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    std::iter::from_fn(move || {
        let is_one = match (one.peek(), other.peek()) {
            (Some(Ok((a, _))), Some(Ok((b, _)))) => (a < b) != is_downward,
            (Some(Ok(_)), Some(Err(_))) | (None, _) => false,
            (Some(_), _) => true,
        };
        if is_one { one.next() } else { other.next() }
    })
}

impl View for FjallView {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, TreeError> {
        for rows in homes(&self.db, &self.parts, space, key) {
            if let Some(value) = self.rows.get(&rows, key).map_err(explain)? {
                return Ok(Some(value.to_vec()));
            }
        }
        Ok(None)
    }

    fn walk(&self, spaces: &[Space], from: u64, is_downward: bool, see: See) -> Result<(), TreeError> {
        let from = Bound::Included(from.to_be_bytes().to_vec());
        let bounds = if is_downward { (Bound::Unbounded, from) } else { (from, Bound::Unbounded) };
        let rows = spaces.iter().map(|space| {
            let rows = self.rows(*space, bounds.clone(), is_downward);
            let rows: Numbered<'_, Slice> = Box::new(rows.map(|row| {
                let (key, value) = row?;
                Ok((number(&key)?, value))
            }));
            (*space, rows)
        });
        merge(rows.collect(), is_downward, see)
    }

    fn scan(&self, space: Space, from: &[u8], visit: Visit) -> Result<(), TreeError> {
        for row in self.rows(space, (Bound::Included(from.to_vec()), Bound::Unbounded), false) {
            let (key, value) = row?;
            if !visit(&key, &value) {
                break;
            }
        }
        Ok(())
    }

    fn buckets(&self) -> Vec<i64> {
        self.db.buckets().into_iter().collect()
    }
}

/// Where a row may be: in the part of its number, or, when that goes at this moment, in the common space.
pub fn homes(db: &Db, parts: &Parts, space: Space, key: &[u8]) -> impl Iterator<Item = Keyspace> {
    let part = part_of(key).filter(|_| space == Space::Task).and_then(|part| parts.get(&part).cloned());
    part.into_iter().chain(db.space(space))
}
