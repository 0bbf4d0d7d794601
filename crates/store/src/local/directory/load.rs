//! Bringing a shard back: the live rows of the tables, then what the journal has beyond them.

use crate::local::format::codec::{Corrupt, Reader};
use crate::local::format::entry::Entry;
use crate::local::format::records::{
    DEAD_EXPIRY, DELIVERY, DELIVERY_BODY, DELIVERY_HEAD, POLICY, QUEUE, QueueRow, RECORD, STATE, StateRow,
    TaskHead, read_queue_row_key,
};
use crate::local::rows::change::Fed;
use crate::local::rows::library::{self, TaskReader};
use crate::local::shard::{Recent, Shard};
use crate::local::tables::{Group, TableError, Version};
use codeq_queue::State;
use std::sync::Arc;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum LoadError {
    #[error(transparent)]
    Table(#[from] TableError),
    #[error("the row {key} of {group:?}: {reason}")]
    Row { group: Group, key: String, reason: String },
}

fn bad(group: Group, key: &[u8], reason: impl ToString) -> LoadError {
    let key = key.iter().map(|byte| format!("{byte:02x}")).collect();
    LoadError::Row { group, key, reason: reason.to_string() }
}

fn text(error: Corrupt) -> String {
    error.to_string()
}

/// Fills an empty shard from the tables.
pub fn from_tables(shard: &mut Shard, version: &Arc<Version>) -> Result<(), LoadError> {
    shard.counters = version.counters;
    shard.adopt(version.clone());
    // Tasks line up as the policy of their queue says.
    load_policies(shard, version)?;
    load_tasks(shard, version)?;
    // Queues and records come before states in the order of keys. Bodies of callbacks stay where they are.
    load_rows(shard, version, &[], &[RECORD, DELIVERY_BODY])?;
    load_rows(shard, version, &[RECORD, DELIVERY_BODY + 1], &[STATE])?;
    shard.arrange_touched();
    Ok(())
}

fn load_policies(shard: &mut Shard, version: &Arc<Version>) -> Result<(), LoadError> {
    load_rows(shard, version, &[RECORD, POLICY], &[RECORD, POLICY + 1])
}

fn load_rows(shard: &mut Shard, version: &Arc<Version>, from: &[u8], to: &[u8]) -> Result<(), LoadError> {
    let mut rows = version.walk(Group::Rows, from, to)?;
    while let Some((key, row)) = rows.row() {
        if let Some(row) = row {
            load_row(shard, key, row).map_err(|reason| bad(Group::Rows, key, reason))?;
        }
        rows.advance()?;
    }
    Ok(())
}

fn load_row(shard: &mut Shard, key: &[u8], row: &[u8]) -> Result<(), String> {
    match key.split_first() {
        Some((&QUEUE, _)) => {
            let (queue, row) = (read_queue_row_key(key).map_err(text)?, QueueRow::read(row).map_err(text)?);
            let id = shard.queues.intern(&queue.tenant, &queue.command);
            let queue = shard.queues.at_mut(id);
            (queue.dead, queue.is_paused, queue.spelling) = (row.dead, row.is_paused, row.spelling);
            shard.queues.head_changed(id, &shard.slots, shard.counters.last);
            Ok(())
        }
        Some((&RECORD, key)) => match key.first() {
            Some(&kind @ (DELIVERY | DELIVERY_HEAD)) => shard.outbox.load(kind, row).map_err(text),
            Some(&DEAD_EXPIRY) => Ok(()),
            _ => shard.apply_record(key, Some(row)).map_err(str::to_owned),
        },
        _ => Err("it is of no known kind".to_owned()),
    }
}

fn load_tasks(shard: &mut Shard, version: &Version) -> Result<(), LoadError> {
    // Ready lists are filled in the order of becoming ready, which is not the order of the numbers.
    let mut ready = Vec::new();
    let mut live = version.walk_live(0, false)?;
    while let Some((no, head, state)) = live.take_next()? {
        let wrong = |error| bad(Group::Bodies, &no.to_be_bytes(), error);
        let mut seed = TaskHead::read_head(&head).map_err(wrong)?;
        let state = state.map(|row| StateRow::read(&row)).transpose().map_err(wrong)?;
        if let Some(state) = &state {
            seed.state = state.state.clone();
        }
        let seq = match seed.state {
            State::Ready { seq } => Some(seq),
            _ => None,
        };
        let slot_id = shard.place(no, &seed);
        shard.load_unique(no, &seed);
        if let Some(state) = state {
            let slot = shard.slots.at_mut(slot_id);
            slot.updated_at = state.updated_at;
            (slot.attempts, slot.refunds, slot.max_attempts) =
                (state.attempts, state.refunds, state.max_attempts);
            if state.attempts > 0 {
                shard.started(slot_id);
            }
        }
        ready.extend(seq.map(|seq| (seq, slot_id)));
    }
    ready.sort_unstable();
    for (_, slot_id) in ready {
        shard.line_up(slot_id);
    }
    Ok(())
}

/// Applies one journal frame to the shard. Gives what the tables are to be told.
pub fn replay(shard: &mut Shard, library: &TaskReader, position: u64, payload: &[u8]) -> Result<Fed, String> {
    shard.position = position;
    let reader = &mut Reader(payload);
    // Frames are padded with zeros.
    while reader.0.first().is_some_and(|mark| *mark != 0) {
        let mut entry = Entry::read(reader).map_err(text)?;
        if let Entry::Reopened { no, letter: letter @ None, .. } = &mut entry {
            *letter = match shard.recent.get(no) {
                Some(Recent::Final { ended, .. }) => {
                    let mut whole = (**ended).clone();
                    let is_there = library.complete(&mut whole.sketch).map_err(|error| error.to_string())?;
                    is_there.then(|| Arc::new(whole))
                }
                Some(Recent::Gone { .. }) => None,
                None => library::last(&library.version(), *no).map_err(|e| e.to_string())?.map(Arc::new),
            };
        }
        shard.apply(entry)?;
    }
    shard.fed.clear();
    shard.ended.clear();
    let changes = std::mem::take(&mut shard.changes);
    Ok(Fed { position, changes, counters: shard.counters })
}
