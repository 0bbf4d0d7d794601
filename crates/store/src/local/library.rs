//! Looking tasks up in the tree.
//!
//! Used off the owner's thread. A lookup that the owner sent here because memory had nothing finds the
//! task in the tree: records enter the tree before they leave memory.

use super::codec::Corrupt;
use super::ids::IdKey;
use super::records::{Detail, Final, Seed, Sketch, StateRow, no_key};
use super::tree::{Space, Tree, TreeError};
use codeq_queue::{Failure, Task, TaskId, Time};
use std::collections::HashMap;
use std::sync::Arc;

pub struct Library {
    pub tree: Arc<dyn Tree>,
    pub ids: IdKey,
}

/// What is read here may tell of a write that is durable by now.
fn failed(error: TreeError) -> Failure {
    Failure::unknown(format!("reading the tree failed: {error}"))
}

fn damaged(no: u64, space: Space) -> impl Fn(Corrupt) -> Failure {
    move |error| Failure::Internal(format!("row {no} of {space:?}: {error}"))
}

fn number(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

impl Library {
    /// Body, error and history of a live task as far as the tree has them.
    ///
    /// Of a task that ends meanwhile the rows go in the order of their spaces: the state is read first, so that
    /// it is not missed beside a body that is still there.
    pub fn detail(&self, no: u64) -> Result<Option<Detail>, Failure> {
        let state = self.row(Space::State, no)?;
        let Some(row) = self.row(Space::Task, no)? else { return Ok(None) };
        let (seed, is_apart) = Seed::read(&row).map_err(damaged(no, Space::Task))?;
        let mut detail = Detail::of(seed.body);
        if is_apart {
            let payload = self.row(Space::Payload, no)?;
            if payload.is_none() && self.row(Space::Task, no)?.is_none() {
                return Ok(None);
            }
            let added =
                payload.ok_or(Corrupt("it is missing")).and_then(|payload| detail.add_payload(payload));
            added.map_err(damaged(no, Space::Payload))?;
        }
        if let Some(row) = state {
            let state = StateRow::read(&row).map_err(damaged(no, Space::State))?;
            (detail.error, detail.history) = (state.error, state.history);
        }
        Ok(Some(detail))
    }

    fn row(&self, space: Space, no: u64) -> Result<Option<Vec<u8>>, Failure> {
        self.tree.get(space, &no_key(no)).map_err(failed)
    }

    /// Adds to a sketch what memory had forgotten. False if the task is gone by now.
    pub fn complete(&self, sketch: &mut Sketch) -> Result<bool, Failure> {
        if sketch.detail.is_complete() {
            return Ok(true);
        }
        // A task that ended in the meantime has moved to the final records, body included; and back, if it was
        // reopened then.
        let mut older = self.detail(sketch.no)?;
        if older.is_none() {
            older = self.last(sketch.no, Time::ZERO)?.map(|last| last.sketch.detail);
        }
        if older.is_none() {
            older = self.detail(sketch.no)?;
        }
        let is_there = older.is_some();
        sketch.detail.fill(older.unwrap_or_default());
        Ok(is_there)
    }

    pub fn task(&self, mut sketch: Sketch) -> Result<Task, Failure> {
        self.complete(&mut sketch)?;
        let no = sketch.no;
        sketch.task(&self.ids).ok_or_else(|| Failure::Internal(format!("the body of task {no} is missing")))
    }

    /// The final record under a number: a dead letter, or one whose time is not over at `now`.
    pub fn last(&self, no: u64, now: Time) -> Result<Option<Final>, Failure> {
        if let Some(row) = self.row(Space::Dead, no)? {
            return Final::read(no, &row).map(Some).map_err(damaged(no, Space::Dead));
        }
        for bucket in self.tree.buckets().into_iter().rev().filter(|end| *end > now.millis()) {
            let space = Space::History(bucket);
            if let Some(row) = self.row(space, no)? {
                let last = Final::read(no, &row).map_err(damaged(no, space))?;
                return Ok(last.is_visible(now).then_some(last));
            }
        }
        Ok(None)
    }

    /// The bucket that has the record of a finished task.
    pub fn bucket_of(&self, no: u64, expires: Time) -> Result<Option<i64>, Failure> {
        for bucket in self.tree.buckets().into_iter().filter(|end| *end >= expires.millis()) {
            if self.row(Space::History(bucket), no)?.is_some() {
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

    /// The same, for a task that memory did not know when it was asked.
    pub fn find_ended(&self, tenant: &str, id: &TaskId, now: Time) -> Result<Option<Arc<Final>>, Failure> {
        let found = self.find(tenant, id, None, now)?;
        if found.is_none() && self.row(Space::Task, self.ids.decode(id).0)?.is_some() {
            // Reopened since then: no reason to call it unknown.
            return Err(Failure::unknown("the task is being reopened; ask again"));
        }
        Ok(found)
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

#[cfg(test)]
mod tests {
    use super::super::tree::fjall::{self, TreeOptions};
    use super::super::tree::{Batch, Change};
    use super::*;
    use codeq_queue::{Body, State};
    use std::sync::atomic::{AtomicU64, Ordering};

    const PAYLOAD_BYTES: usize = 6000;

    /// The rows of a live task with a large payload and an error.
    fn live(no: u64) -> Vec<(Space, u64, Vec<u8>)> {
        let body = Body {
            tenant: "t".into(),
            command: "c".into(),
            payload: "x".repeat(PAYLOAD_BYTES).into(),
            webhook: None,
            headers: Box::default(),
            idempotency_key: None,
            trace_parent: None,
            trace_state: None,
        };
        let state = State::Ready { seq: no };
        let seed = Seed {
            tail: 0,
            created_at: Time::ZERO,
            priority: 0,
            max_attempts: 5,
            state: state.clone(),
            body: body.into(),
        };
        let row = StateRow {
            updated_at: Time::ZERO,
            attempts: 1,
            refunds: 0,
            max_attempts: 5,
            state,
            error: Some("it broke".into()),
            history: Vec::new(),
        };
        let mut bytes = Vec::new();
        seed.write(&mut bytes);
        let payload = seed.body.payload.as_bytes().to_vec();
        vec![(Space::Task, no, bytes), (Space::State, no, row.write()), (Space::Payload, no, payload)]
    }

    fn commit(tree: &dyn Tree, rows: Vec<(Space, u64, Option<Vec<u8>>)>) {
        let changes = rows.into_iter().map(|(space, no, value)| Change {
            space,
            key: (&no_key(no)[..]).into(),
            value: value.map(Into::into),
        });
        tree.commit(Batch { changes: changes.collect(), applied: 1 }, &|| ()).unwrap();
    }

    #[test]
    fn the_rows_of_a_task_that_ends_are_seen_together_or_not_at_all() {
        const ROUNDS: u64 = 1500;
        let directory = tempfile::tempdir().unwrap();
        let tree = fjall::open(directory.path(), TreeOptions::default()).unwrap();
        let library = Library { tree: tree.clone(), ids: IdKey::new(1) };
        let looked_for = AtomicU64::new(u64::MAX);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                loop {
                    let no = looked_for.load(Ordering::Acquire);
                    if no == ROUNDS {
                        break;
                    }
                    let Some(detail) = library.detail(no).unwrap() else { continue };
                    assert_eq!(detail.body.unwrap().payload.len(), PAYLOAD_BYTES);
                    assert_eq!(detail.error.as_deref(), Some("it broke"));
                }
            });
            for no in 0..ROUNDS {
                commit(&*tree, live(no).into_iter().map(|(space, no, row)| (space, no, Some(row))).collect());
                // While they come, memory has them: no one looks here.
                looked_for.store(no, Ordering::Release);
                commit(&*tree, live(no).into_iter().map(|(space, no, _)| (space, no, None)).collect());
            }
            looked_for.store(ROUNDS, Ordering::Release);
        });
    }

    #[test]
    fn a_task_that_was_reopened_meanwhile_is_not_called_unknown() {
        let directory = tempfile::tempdir().unwrap();
        let tree = fjall::open(directory.path(), TreeOptions::default()).unwrap();
        commit(&*tree, live(7).into_iter().map(|(space, no, row)| (space, no, Some(row))).collect());
        let library = Library { tree, ids: IdKey::new(1) };
        let find = |no| library.find_ended("t", &library.ids.encode(no, 0), Time::ZERO);
        assert!(matches!(find(7), Err(Failure::Unavailable { .. })));
        assert_eq!(find(8).unwrap(), None);
    }
}
