//! Looking tasks up in the tables.
//!
//! Used off the owner's thread. Records enter the tables before they leave memory, so a lookup that the owner sent
//! here because memory had nothing finds them.

use crate::local::format::codec::Corrupt;
use crate::local::format::codec::Reader;
use crate::local::format::ids::{IdKey, place_of};
use crate::local::format::parts;
use crate::local::format::records::{
    DELIVERY, DELIVERY_BODY, Detail, Final, PartialTask, StateRow, delivery_key, hint_key, key_hash,
    record_key,
};
use crate::local::store::imports::Imports;
use crate::local::tables::{Group, LiveRow, TableError, Tables, Version};
use codeq_queue::{Failure, Task, TaskId, Time};
use std::collections::HashSet;
use std::sync::Arc;

/// Numbers that lie this many times wider apart than together are looked up one by one.
const SCATTERED: u64 = 4;

pub struct TaskReader {
    pub tables: Arc<Tables>,
    pub ids: IdKey,
    pub imports: Arc<Imports>,
}

/// Places of an id, one bit for each.
pub type PlaceBits = u64;

pub fn place_bit(tail: u64) -> PlaceBits {
    1 << place_of(tail)
}

/// What is read here may tell of a write that is durable by now.
pub fn failed(error: TableError) -> Failure {
    Failure::unknown(format!("reading the tables failed: {error}"))
}

pub fn damaged(no: u64, what: &'static str) -> impl Fn(Corrupt) -> Failure {
    move |error| Failure::Internal(format!("the {what} of task {no}: {error}"))
}

impl TaskReader {
    pub fn version(&self) -> Arc<Version> {
        self.tables.version()
    }

    /// Adds to a sketch what memory had forgotten. False if the task is gone by now.
    pub fn complete(&self, sketch: &mut PartialTask) -> Result<bool, Failure> {
        if sketch.detail.is_complete() {
            return Ok(true);
        }
        let version = self.version();
        // A task that ended in the meantime has moved to the final records, body included.
        let older = match detail(&version, sketch.no)? {
            Some(detail) => Some(detail),
            None => last(&version, sketch.no)?.map(|last| last.sketch.detail),
        };
        let is_there = older.is_some();
        sketch.detail.fill(older.unwrap_or_default());
        Ok(is_there)
    }

    pub fn task(&self, mut sketch: PartialTask) -> Result<Task, Failure> {
        self.complete(&mut sketch)?;
        let no = sketch.no;
        sketch.task(&self.ids).ok_or_else(|| Failure::Internal(format!("the body of task {no} is missing")))
    }

    /// The final record of `id` at one of these places, if it is the tenant's and not over.
    pub fn find(
        &self,
        version: &Version,
        (tenant, id): (&str, &TaskId),
        places: PlaceBits,
        now: Time,
    ) -> Result<Option<Arc<Final>>, Failure> {
        for place in self.imports.places().filter(|place| places >> place & 1 == 1) {
            let found = last(version, self.ids.at(id, place).0)?;
            if let Some(found) = found.filter(|last| last.is_visible(now) && self.is_theirs(last, tenant, id))
            {
                return Ok(Some(Arc::new(found)));
            }
        }
        Ok(None)
    }

    /// The same at any place, over or not.
    pub fn named(&self, version: &Version, tenant: &str, id: &TaskId) -> Result<Option<Arc<Final>>, Failure> {
        self.find(version, (tenant, id), PlaceBits::MAX, Time::ZERO)
    }

    /// The final records under every number that an id may have, whoever they belong to.
    pub fn neighbours(&self, version: &Version, id: &TaskId) -> Result<Vec<Arc<Final>>, Failure> {
        let found = self.imports.places().map(|place| last(version, self.ids.at(id, place).0));
        found.filter_map(|found| found.map(|found| found.map(Arc::new)).transpose()).collect()
    }

    /// The same, of a record that memory had.
    pub fn find_recent(
        &self,
        tenant: &str,
        id: &TaskId,
        recent: Arc<Final>,
        now: Time,
    ) -> Result<Option<Arc<Final>>, Failure> {
        let mut found = recent;
        if !found.sketch.detail.is_complete() {
            // What is over may have been dropped before it ever reached the tables.
            if !found.is_visible(now) || !self.complete(&mut Arc::make_mut(&mut found).sketch)? {
                return Ok(None);
            }
        }
        Ok(Some(found).filter(|last| last.is_visible(now) && self.is_theirs(last, tenant, id)))
    }

    fn is_theirs(&self, last: &Final, tenant: &str, id: &TaskId) -> bool {
        self.ids.encode(last.sketch.no, last.sketch.tail) == *id && *last.tenant == *tenant
    }

    /// Details of live tasks, and the position they were read at.
    pub fn details(&self, numbers: &[u64]) -> Result<(Vec<(u64, Detail)>, u64), Failure> {
        let version = self.version();
        let (least, most) = (numbers.iter().min().copied(), numbers.iter().max().copied());
        let (least, most) = (least.unwrap_or_default(), most.unwrap_or_default());
        let mut details = Vec::with_capacity(numbers.len());
        if most - least > numbers.len() as u64 * SCATTERED {
            for no in numbers {
                details.extend(detail(&version, *no)?.map(|detail| (*no, detail)));
            }
            return Ok((details, version.position));
        }
        // Most tasks of a queue are claimed in the order of their numbers: then their rows lie together.
        let wanted: HashSet<u64> = numbers.iter().copied().collect();
        let mut rows = version.walk_bodies(least, most).map_err(failed)?;
        while let Some((no, body, state)) = rows.take_next().map_err(failed)? {
            if wanted.contains(&no) {
                details.push((no, read_detail(no, &body, state)?));
            }
        }
        Ok((details, version.position))
    }
}

/// Body, error and history of a live task.
pub fn detail(version: &Version, no: u64) -> Result<Option<Detail>, Failure> {
    let Some(LiveRow { body, state, .. }) = version.live(no).map_err(failed)? else { return Ok(None) };
    read_detail(no, &body, state).map(Some)
}

fn read_detail(no: u64, body: &[u8], state: Option<Vec<u8>>) -> Result<Detail, Failure> {
    let body = parts::read_body(&mut Reader(body)).map_err(damaged(no, "body"))?;
    let mut detail = Detail::of(Arc::new(body));
    if let Some(row) = state {
        let state = StateRow::read(&row).map_err(damaged(no, "state"))?;
        (detail.error, detail.history, detail.checkpoint) = (state.error, state.history, state.checkpoint);
    }
    Ok(detail)
}

/// The body of a callback; `None` if the callback is gone by now.
pub fn callback_body(version: &Version, id: u128) -> Result<Option<Arc<str>>, Failure> {
    let row = |kind| version.get(Group::Rows, &record_key(&delivery_key(kind, id))).map_err(failed);
    let damaged = |_| Failure::Internal(format!("the body of callback {id:032x} cannot be read"));
    if let Some(body) = row(DELIVERY_BODY)? {
        let text = std::str::from_utf8(&body).map_err(|_| damaged(Corrupt("not text")))?;
        return Ok(Some(text.into()));
    }
    let Some(whole) = row(DELIVERY)? else { return Ok(None) };
    parts::read_delivery(&mut Reader(&whole)).map(|delivery| Some(delivery.body)).map_err(damaged)
}

/// The final record under a number: a dead letter, or one whose bucket is still there.
pub fn last(version: &Version, no: u64) -> Result<Option<Final>, Failure> {
    let dead = version.get(Group::Dead, &no.to_be_bytes()).map_err(failed)?;
    let row = match dead {
        Some(row) => Some(row),
        None => version.ended(no).map_err(failed)?.map(|(_, row)| row),
    };
    row.map(|row| Final::read(no, &row).map_err(damaged(no, "final record"))).transpose()
}

/// The finished tasks that have this idempotency key and are not over, one at most unless its time is not known.
pub fn keyed(version: &Version, key: &[u8], now: Time) -> Result<Option<Arc<Final>>, Failure> {
    let hash = key_hash(key);
    let (from, to) = (hint_key(hash, 0), hint_key(hash, u64::MAX));
    let mut walk = version.walk_admitted(Group::Keys, &from, &to).map_err(failed)?;
    let mut newest: Option<Final> = None;
    while let Some((hint, row)) = walk.row() {
        let no = hint[8..].try_into().map(u64::from_be_bytes).unwrap_or_default();
        if row.is_some()
            && let Some(found) = last(version, no)?
            && found.key.as_deref() == Some(key)
            && found.is_visible(now)
            && newest.as_ref().is_none_or(|newest| newest.sketch.updated_at <= found.sketch.updated_at)
        {
            newest = Some(found);
        }
        walk.advance().map_err(failed)?;
    }
    Ok(newest.map(Arc::new))
}
