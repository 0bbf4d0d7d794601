//! Looking tasks up in the tree.
//!
//! Used off the owner's thread. A lookup that the owner sent here because memory had nothing finds the
//! task in the tree: records enter the tree before they leave memory.

use super::codec::Corrupt;
use super::ids::IdKey;
use super::records::{Detail, Final, INLINE_PAYLOAD, Seed, Sketch, StateRow, no_key};
use super::tree::{Space, Tree, TreeError};
use codeq_queue::{Body, Failure, Task, TaskId, Time};
use std::collections::HashMap;
use std::sync::Arc;

pub struct Library {
    pub tree: Arc<dyn Tree>,
    pub ids: IdKey,
}

fn failed(error: TreeError) -> Failure {
    Failure::unavailable(format!("reading the tree failed: {error}"))
}

fn damaged(no: u64, space: Space) -> impl Fn(Corrupt) -> Failure {
    move |error| Failure::Internal(format!("row {no} of {space:?}: {error}"))
}

fn number(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

impl Library {
    /// Body, error and history of a live task as far as the tree has them.
    pub fn detail(&self, no: u64) -> Result<Option<Detail>, Failure> {
        let Some(row) = self.tree.get(Space::Task, &no_key(no)).map_err(failed)? else { return Ok(None) };
        let (seed, is_apart) = Seed::read(&row).map_err(damaged(no, Space::Task))?;
        let body = match is_apart {
            true => self.with_payload(no, &seed.body)?,
            false => seed.body,
        };
        let mut detail = Detail { body: Some(body), error: None, history: Vec::new(), is_whole: true };
        if let Some(row) = self.tree.get(Space::State, &no_key(no)).map_err(failed)? {
            let state = StateRow::read(&row).map_err(damaged(no, Space::State))?;
            (detail.error, detail.history) = (state.error, state.history);
        }
        Ok(Some(detail))
    }

    fn with_payload(&self, no: u64, head: &Body) -> Result<Arc<Body>, Failure> {
        let bytes = self.tree.get(Space::Payload, &no_key(no)).map_err(failed)?;
        let missing =
            || Failure::Internal(format!("row {no} of Payload (over {INLINE_PAYLOAD} bytes) is missing"));
        let text = String::from_utf8(bytes.ok_or_else(missing)?).map_err(|_| missing())?;
        Ok(Arc::new(Body { payload: text.into(), ..head.clone() }))
    }

    /// Adds to a sketch what memory had forgotten. False if the task is gone by now.
    pub fn complete(&self, sketch: &mut Sketch) -> Result<bool, Failure> {
        if sketch.detail.is_complete() {
            return Ok(true);
        }
        // A task that ended in the meantime has moved to the final records, body included.
        let older = match self.detail(sketch.no)? {
            Some(detail) => Some(detail),
            None => self.last(sketch.no, Time::ZERO)?.map(|last| last.sketch.detail),
        };
        let Some(older) = older else { return Ok(false) };
        sketch.detail.fill(older);
        Ok(true)
    }

    pub fn task(&self, mut sketch: Sketch) -> Result<Task, Failure> {
        self.complete(&mut sketch)?;
        let no = sketch.no;
        sketch.task(&self.ids).ok_or_else(|| Failure::Internal(format!("the body of task {no} is missing")))
    }

    /// The final record under a number: a dead letter, or one whose time is not over at `now`.
    pub fn last(&self, no: u64, now: Time) -> Result<Option<Final>, Failure> {
        if let Some(row) = self.tree.get(Space::Dead, &no_key(no)).map_err(failed)? {
            return Final::read(no, &row).map(Some).map_err(damaged(no, Space::Dead));
        }
        for bucket in self.tree.buckets().into_iter().rev().filter(|end| *end > now.millis()) {
            let space = Space::History(bucket);
            if let Some(row) = self.tree.get(space, &no_key(no)).map_err(failed)? {
                let last = Final::read(no, &row).map_err(damaged(no, space))?;
                return Ok(last.is_visible(now).then_some(last));
            }
        }
        Ok(None)
    }

    /// The bucket that has the record of a finished task.
    pub fn bucket_of(&self, no: u64, expires: Time) -> Result<Option<i64>, Failure> {
        for bucket in self.tree.buckets().into_iter().filter(|end| *end >= expires.millis()) {
            if self.tree.get(Space::History(bucket), &no_key(no)).map_err(failed)?.is_some() {
                return Ok(Some(bucket));
            }
        }
        Ok(None)
    }

    /// The final record of `id`, if it is the tenant's and not over. `recent` is what memory had.
    pub fn find(
        &self,
        tenant: &str,
        id: &TaskId,
        recent: Option<Arc<Final>>,
        now: Time,
    ) -> Result<Option<Arc<Final>>, Failure> {
        let (no, tail) = self.ids.decode(id);
        let found = match recent {
            Some(recent) if recent.sketch.detail.is_complete() => Some(recent),
            // What is over may have been dropped before it ever reached the tree.
            Some(recent) if !recent.is_visible(now) => None,
            Some(recent) => {
                let mut whole = (*recent).clone();
                self.complete(&mut whole.sketch)?.then(|| Arc::new(whole))
            }
            None => self.last(no, now)?.map(Arc::new),
        };
        let is_it = |last: &Arc<Final>| {
            let body = last.sketch.detail.body.as_ref();
            last.sketch.tail == tail
                && last.is_visible(now)
                && body.is_some_and(|body| &*body.tenant == tenant)
        };
        Ok(found.filter(is_it))
    }

    /// The finished task that an idempotency key names.
    pub fn keyed(&self, key: &[u8], now: Time) -> Result<Option<Arc<Final>>, Failure> {
        if let Some(no) = self.tree.get(Space::DeadKey, key).map_err(failed)?.as_deref().and_then(number) {
            return Ok(self.last(no, now)?.map(Arc::new));
        }
        for bucket in self.tree.buckets().into_iter().rev().filter(|end| *end > now.millis()) {
            let found = self.tree.get(Space::HistoryKey(bucket), key).map_err(failed)?;
            if let Some(no) = found.as_deref().and_then(number)
                && let Some(last) = self.last(no, now)?
            {
                return Ok(Some(Arc::new(last)));
            }
        }
        Ok(None)
    }
}

impl Library {
    /// Details of many tasks at once; neighbours are read by one scan.
    pub fn details(&self, numbers: &[u64]) -> Result<Vec<(u64, Detail)>, Failure> {
        let (Some(first), Some(last)) = (numbers.iter().min(), numbers.iter().max()) else {
            return Ok(Vec::new());
        };
        let span = usize::try_from(last - first).unwrap_or(usize::MAX);
        if span > numbers.len().saturating_mul(4) {
            let each = numbers.iter().map(|no| Ok(self.detail(*no)?.map(|detail| (*no, detail))));
            return each.filter_map(Result::transpose).collect();
        }
        let states = self.states(*first, *last)?;
        let wanted: std::collections::HashSet<u64> = numbers.iter().copied().collect();
        let mut details = Vec::new();
        let mut wrong = None;
        let end = no_key(last.saturating_add(1));
        let mut visit = |key: &[u8], row: &[u8]| {
            let Some(no) = number(key).filter(|no| wanted.contains(no)) else { return true };
            match Seed::read(row) {
                Ok((seed, false)) => {
                    let mut detail = Detail::of(seed.body);
                    if let Some(state) = states.get(&no) {
                        (detail.error, detail.history) = (state.error.clone(), state.history.clone());
                    }
                    details.push((no, detail));
                }
                // A large payload is worth a read of its own when it is needed.
                Ok((_, true)) => {}
                Err(error) => wrong = Some(damaged(no, Space::Task)(error)),
            }
            wrong.is_none()
        };
        self.tree.scan(Space::Task, &no_key(*first), Some(&end), &mut visit).map_err(failed)?;
        wrong.map_or(Ok(details), Err)
    }

    fn states(&self, first: u64, last: u64) -> Result<HashMap<u64, StateRow>, Failure> {
        let mut states = HashMap::new();
        let mut wrong = None;
        let end = no_key(last.saturating_add(1));
        let mut visit = |key: &[u8], row: &[u8]| {
            let Some(no) = number(key) else { return true };
            match StateRow::read(row) {
                Ok(state) => {
                    states.insert(no, state);
                }
                Err(error) => wrong = Some(damaged(no, Space::State)(error)),
            }
            wrong.is_none()
        };
        self.tree.scan(Space::State, &no_key(first), Some(&end), &mut visit).map_err(failed)?;
        wrong.map_or(Ok(states), Err)
    }
}
