//! Bringing a shard back: the tree's live rows, then what the journal has beyond them.

use super::change::Fed;
use super::codec::{Corrupt, Reader};
use super::entry::Entry;
use super::library::Library;
use super::parts;
use super::records::{
    COUNTERS_KEY, Counters, DEAD_EXPIRY, DELIVERY, QueueRow, Seed, StateRow, read_queue_row_key,
};
use super::shard::{Recent, Shard};
use super::tree::{Space, Tree, TreeError};
use codeq_queue::State;
use hashbrown::{HashMap, HashSet};
use std::sync::Arc;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum LoadError {
    #[error(transparent)]
    Tree(#[from] TreeError),
    #[error("the tree's row {key} of {space:?}: {reason}")]
    Row { space: Space, key: String, reason: String },
}

fn bad(space: Space, key: &[u8], reason: impl ToString) -> LoadError {
    let key = key.iter().map(|byte| format!("{byte:02x}")).collect();
    LoadError::Row { space, key, reason: reason.to_string() }
}

/// Visits every row of a space, stopping at the first that cannot be understood.
fn each(
    tree: &dyn Tree,
    space: Space,
    mut see: impl FnMut(&[u8], &[u8]) -> Result<(), String>,
) -> Result<(), LoadError> {
    let mut wrong = None;
    tree.scan(space, &[], None, &mut |key, row| {
        wrong = see(key, row).err().map(|reason| bad(space, key, reason));
        wrong.is_none()
    })?;
    wrong.map_or(Ok(()), Err)
}

fn number(key: &[u8]) -> Result<u64, String> {
    key.try_into().map(u64::from_be_bytes).map_err(|_| "not a number".to_owned())
}

fn text(error: Corrupt) -> String {
    error.to_string()
}

/// Fills an empty shard from the tree. Gives the numbers of the tasks that have a state row.
pub fn from_tree(shard: &mut Shard, tree: &dyn Tree) -> Result<HashSet<u64>, LoadError> {
    if let Some(row) = tree.get(Space::Meta, COUNTERS_KEY)? {
        shard.counters = Counters::read(&row).map_err(|error| bad(Space::Meta, COUNTERS_KEY, error))?;
    }
    let mut states: HashMap<u64, StateRow> = HashMap::new();
    each(tree, Space::State, |key, row| {
        states.insert(number(key)?, StateRow::read(row).map_err(text)?);
        Ok(())
    })?;
    let stated = states.keys().copied().collect();
    load_tasks(shard, tree, states)?;
    each(tree, Space::Meta, |key, row| {
        if key.first() == Some(&b'q') {
            let (queue, row) = (read_queue_row_key(key).map_err(text)?, QueueRow::read(row).map_err(text)?);
            let id = shard.queues.intern(&queue.tenant, &queue.command);
            let queue = shard.queues.at_mut(id);
            (queue.dead, queue.is_paused, queue.spelling) = (row.dead, row.is_paused, row.spelling);
        }
        Ok(())
    })?;
    each(tree, Space::Record, |key, row| match key.first() {
        Some(&DELIVERY) => {
            let delivery = parts::read_delivery(&mut Reader(row)).map_err(text)?;
            shard.outbox.insert(Arc::new(delivery));
            Ok(())
        }
        Some(&DEAD_EXPIRY) => Ok(()),
        _ => shard.apply_record(key, Some(row)).map_err(str::to_owned),
    })?;
    Ok(stated)
}

fn load_tasks(
    shard: &mut Shard,
    tree: &dyn Tree,
    mut states: HashMap<u64, StateRow>,
) -> Result<(), LoadError> {
    // Ready lists are filled in the order of becoming ready, which is not the order of the rows.
    let mut ready = Vec::new();
    each(tree, Space::Task, |key, row| {
        let no = number(key)?;
        let (mut seed, _) = Seed::read(row).map_err(text)?;
        let state = states.remove(&no);
        if let Some(state) = &state {
            seed.state = state.state.clone();
        }
        let seq = match seed.state {
            State::Ready { seq } => Some(seq),
            _ => None,
        };
        let slot_id = shard.place(no, &seed);
        if let Some(state) = state {
            let slot = shard.slots.at_mut(slot_id);
            slot.updated_at = state.updated_at;
            (slot.attempts, slot.refunds, slot.max_attempts) =
                (state.attempts, state.refunds, state.max_attempts);
        }
        ready.extend(seq.map(|seq| (seq, slot_id)));
        Ok(())
    })?;
    if let Some(no) = states.keys().next() {
        return Err(bad(Space::State, &no.to_be_bytes(), "has no task"));
    }
    ready.sort_unstable();
    for (_, slot_id) in ready {
        shard.line_up(slot_id);
    }
    Ok(())
}

/// Applies one journal frame to the shard. Gives what the tree is to be told.
pub fn replay(shard: &mut Shard, library: &Library, position: u64, payload: &[u8]) -> Result<Fed, String> {
    shard.position = position;
    let reader = &mut Reader(payload);
    // Frames are padded with zeros.
    while reader.0.first().is_some_and(|mark| *mark != 0) {
        let mut entry = Entry::read(reader).map_err(text)?;
        if let Entry::Reopened { no, letter, .. } = &mut entry {
            *letter = match shard.recent.get(no) {
                Some(Recent::Final { ended, .. }) => {
                    let mut whole = (**ended).clone();
                    let is_there = library.complete(&mut whole.sketch).map_err(|error| error.to_string())?;
                    is_there.then(|| Arc::new(whole))
                }
                Some(Recent::Gone { .. }) => None,
                None => library.last(*no, shard.counters.last).map_err(|e| e.to_string())?.map(Arc::new),
            };
        }
        shard.apply(entry)?;
    }
    shard.fed.clear();
    shard.ended.clear();
    let changes = std::mem::take(&mut shard.changes);
    Ok(Fed { position, changes, counters: shard.counters })
}
