//! Looking tasks up in the tables.
//!
//! Used off the owner's thread. Records enter the tables before they leave memory, so a lookup that the owner sent
//! here because memory had nothing finds them.

use crate::local::engine::meters::Meters;
use crate::local::format::codec::Corrupt;
use crate::local::format::codec::Reader;
use crate::local::format::ids::{IdKey, place_of};
use crate::local::format::lost::lost;
use crate::local::format::parts;
use crate::local::format::records::{
    DELIVERY, DELIVERY_BODY, Detail, Final, PartialTask, StateRow, TaskHead, delivery_key, head_key,
    hint_key, key_hash, record_key, state_key,
};
use crate::local::store::imports::Imports;
use crate::local::tables::{Group, LiveRow, TableError, Tables, Version};
use codeq_queue::{Body, Failure, Task, TaskId, Time};
use std::collections::HashSet;
use std::sync::Arc;
use thiserror::Error;

/// Numbers that lie this many times wider apart than together are looked up one by one.
const SCATTERED: u64 = 4;

pub struct TaskReader {
    pub tables: Arc<Tables>,
    pub ids: IdKey,
    pub imports: Arc<Imports>,
    /// Where damage is counted.
    pub meters: Arc<Meters>,
}

pub const MISSING: Corrupt = Corrupt("it is missing");

/// Places of an id, one bit for each.
pub type PlaceBits = u64;

pub fn place_bit(tail: u64) -> PlaceBits {
    1 << place_of(tail)
}

/// Why something could not be read.
#[derive(Debug, Error)]
pub enum ReadError {
    #[error("reading the tables failed: {0}")]
    Table(#[from] TableError),
    #[error("the {what} of task {no}: {reason}")]
    Row { no: u64, what: &'static str, reason: Corrupt },
}

impl ReadError {
    /// Reading once more will not help.
    pub fn is_damage(&self) -> bool {
        match self {
            ReadError::Table(error) => error.is_damage(),
            ReadError::Row { .. } => true,
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Failure {
        match error.is_damage() {
            true => Failure::Internal(error.to_string()),
            // What is read may tell of a write that is durable by now.
            false => Failure::unknown(error.to_string()),
        }
    }
}

pub fn failed(error: TableError) -> Failure {
    ReadError::Table(error).into()
}

pub fn damaged(no: u64, what: &'static str) -> impl Fn(Corrupt) -> ReadError {
    move |reason| ReadError::Row { no, what, reason }
}

impl TaskReader {
    pub fn version(&self) -> Arc<Version> {
        self.tables.version()
    }

    /// Says that something of a task could not be read, where nobody is answered with the error.
    pub fn tell(&self, op: &'static str, task: u64, error: &ReadError) {
        tracing::error!(op, task, err = %error, "storage error");
        self.meters.met_damage();
    }

    /// Adds to a sketch what memory had forgotten. False if the task is gone by now.
    pub fn complete(&self, sketch: &mut PartialTask) -> Result<bool, ReadError> {
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

    /// The task to be shown. In place of a body that is damaged it has what says so.
    pub fn task(&self, mut sketch: PartialTask) -> Result<Task, Failure> {
        if let Err(error) = self.complete(&mut sketch) {
            let head = head(&self.version(), sketch.no).filter(|_| error.is_damage());
            let Some(head) = head else { return Err(error.into()) };
            self.tell("read", sketch.no, &error);
            sketch.detail.body.get_or_insert_with(|| Arc::new(lost(head)));
            sketch.detail.fill(past(&self.version(), sketch.no).unwrap_or_default());
        }
        Ok(self.known(&sketch)?)
    }

    /// The task with all that belongs to it, to be worked on.
    pub fn whole(&self, mut sketch: PartialTask) -> Result<Task, ReadError> {
        self.complete(&mut sketch)?;
        self.known(&sketch)
    }

    fn known(&self, sketch: &PartialTask) -> Result<Task, ReadError> {
        sketch.task(&self.ids).ok_or_else(|| damaged(sketch.no, "body")(MISSING))
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
        let found: Result<Vec<Option<Final>>, ReadError> = found.collect();
        Ok(found?.into_iter().flatten().map(Arc::new).collect())
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
pub fn detail(version: &Version, no: u64) -> Result<Option<Detail>, ReadError> {
    let Some(LiveRow { body, state, .. }) = version.live(no)? else { return Ok(None) };
    read_detail(no, &body, state).map(Some)
}

fn read_detail(no: u64, body: &[u8], state: Option<Vec<u8>>) -> Result<Detail, ReadError> {
    let body = parts::read_body(&mut Reader(body)).map_err(damaged(no, "body"))?;
    Ok(Detail { body: Some(Arc::new(body)), ..read_past(no, state)? })
}

/// Error and history of a live task, without its body.
pub fn past(version: &Version, no: u64) -> Result<Detail, ReadError> {
    read_past(no, version.get(Group::Rows, &state_key(no))?)
}

fn read_past(no: u64, state: Option<Vec<u8>>) -> Result<Detail, ReadError> {
    let mut detail = Detail { is_whole: true, ..Detail::default() };
    if let Some(row) = state {
        let state = StateRow::read(&row).map_err(damaged(no, "state"))?;
        (detail.error, detail.history, detail.checkpoint) = (state.error, state.history, state.checkpoint);
    }
    Ok(detail)
}

/// What is left of a body that is damaged: what the head of the task says, if that can be read.
pub fn remains(version: &Version, last: &Final) -> Body {
    lost(head(version, last.sketch.no).unwrap_or_else(|| last.nameless_body()))
}

/// What the head of a live task knows of its body.
fn head(version: &Version, no: u64) -> Option<Body> {
    let row = version.get(Group::Bodies, &head_key(no)).ok().flatten()?;
    TaskHead::read_head(&row).ok().map(|head| Arc::unwrap_or_clone(head.body))
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
pub fn last(version: &Version, no: u64) -> Result<Option<Final>, ReadError> {
    let dead = version.get(Group::Dead, &no.to_be_bytes())?;
    let row = match dead {
        Some(row) => Some(row),
        None => version.ended(no)?.map(|(_, row)| row),
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
