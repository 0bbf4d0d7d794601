//! Merging: small tables become larger ones, and rows that nobody needs go.
//!
//! A merge reads tables only, never the shard, whose memory is ahead of what is durable. It works in pieces, so
//! that batches do not wait for it; what it has written counts only when a catalog names it.

use super::cache::BlockCache;
use super::table::{Group, Table, TableError};
use super::version::{StateWalk, Version, Walk};
use super::writer::TableWriter;
use crate::local::directory::files::File;
use crate::local::format::records::{STATE, read_until};
use codeq_queue::Time;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Neighbours of about one size that are merged.
const NEIGHBOURS_MIN: usize = 8;
const NEIGHBOURS_MAX: usize = 16;
/// Tables below this are all of one size; each size above is eight times the one before.
const SMALLEST_BYTES: u64 = 64 << 10;
/// History and bodies above this are merged only while there are very many tables: they are written once.
const LARGE_BYTES: u64 = 4 << 20;
const LARGEST_BYTES: u64 = 512 << 20;
const TABLES_MAX: usize = 400;
/// Young rows that outweigh the oldest table are merged with it, but not below this.
const WHOLE_BYTES_MIN: u64 = 256 << 10;
/// A bucket to which this many tables have been younger is not being filled any more.
const QUIET_TABLES: u64 = 64;
/// Rows between two pauses.
pub const ROWS_PER_PAUSE: usize = 64;

/// Tables to be merged, the older first.
pub struct Plan {
    pub group: Group,
    pub inputs: Vec<Arc<Table>>,
    /// Nothing of the group is older, so that a row which says "gone" has nothing left to hide.
    pub has_oldest: bool,
}

/// What to merge next, if anything is worth it. Tables that were set aside stay as they are, and what is on both sides
/// of them is not merged across them.
pub fn choose(version: &Version, set_aside: &HashSet<u64>) -> Option<Plan> {
    let count = version.tables().count();
    let newest = version.tables().map(|table| table.serial()).max()?;
    let plans = version.groups.iter().filter_map(|(group, tables)| {
        // What still lies in memory is merged once it has a file.
        let tables = &tables[..tables.iter().position(|table| table.number == 0).unwrap_or(tables.len())];
        let mut begin = 0;
        tables.split(|table| set_aside.contains(&table.serial())).find_map(|part| {
            let (run, part_begin) = (run_of(*group, part, count, newest), begin);
            begin += part.len() + 1;
            let run = run?;
            let has_oldest = part_begin + run.start == 0;
            Some(Plan { group: *group, inputs: part[run].to_vec(), has_oldest })
        })
    });
    plans.min_by_key(|plan| plan.inputs.iter().map(|table| table.length()).sum::<u64>())
}

fn run_of(group: Group, tables: &[Arc<Table>], count: usize, newest: u64) -> Option<Run> {
    match group {
        Group::Bodies => emptied(tables).or_else(|| neighbours(group, tables, count)),
        Group::Rows | Group::Dead => outweighed(tables).or_else(|| neighbours(group, tables, count)),
        Group::Keys => neighbours(group, tables, count),
        Group::Ended(_) => neighbours(group, tables, count).or_else(|| quiet(tables, newest)),
    }
}

/// Which of the tables to be merged are to be left alone after this error: the one that cannot be read, or all if it is
/// another one that says which of their rows are needed.
pub fn culprits(inputs: &[Arc<Table>], error: &TableError) -> Vec<u64> {
    let Some(file) = error.unreadable() else { return Vec::new() };
    let is_culprit = |table: &&Arc<Table>| table.path == *file;
    let found: Vec<u64> = inputs.iter().filter(is_culprit).map(|table| table.serial()).collect();
    if found.is_empty() { inputs.iter().map(|table| table.serial()).collect() } else { found }
}

type Run = std::ops::Range<usize>;

fn size_class(bytes: u64) -> u32 {
    (bytes / SMALLEST_BYTES).checked_ilog(8).map_or(0, |class| class + 1)
}

fn bytes_of(tables: &[Arc<Table>]) -> u64 {
    tables.iter().map(|table| table.length()).sum()
}

/// The first run of enough tables of one size or below, the smallest size first.
fn neighbours(group: Group, tables: &[Arc<Table>], count: usize) -> Option<Run> {
    let is_written_once = matches!(group, Group::Bodies | Group::Ended(_));
    let limit = if is_written_once && count <= TABLES_MAX { LARGE_BYTES } else { LARGEST_BYTES };
    let classes: Vec<u32> = tables
        .iter()
        .map(|table| if table.length() < limit { size_class(table.length()) } else { u32::MAX })
        .collect();
    let mut sizes = classes.clone();
    sizes.sort_unstable();
    sizes.dedup();
    for size in sizes.into_iter().filter(|size| *size != u32::MAX) {
        let mut begin = 0;
        for end in 0..=classes.len() {
            if end < classes.len() && classes[end] <= size {
                continue;
            }
            if end - begin >= NEIGHBOURS_MIN {
                return Some(begin..end.min(begin + NEIGHBOURS_MAX));
            }
            begin = end + 1;
        }
    }
    None
}

/// Everything, once the younger tables outweigh the oldest.
fn outweighed(tables: &[Arc<Table>]) -> Option<Run> {
    let (oldest, younger) = tables.split_first()?;
    let bytes = bytes_of(younger);
    (bytes >= WHOLE_BYTES_MIN && bytes > oldest.length()).then_some(0..tables.len())
}

/// A table of which three quarters are not needed, and which is not just being worked off.
fn emptied(tables: &[Arc<Table>]) -> Option<Run> {
    let is_empty = |table: &Arc<Table>| {
        let (tasks, dead) = (table.meta.rows / 2, table.dead.load(Ordering::Relaxed));
        let is_over = dead >= tasks;
        let is_quiet = table.dead_seen.swap(dead, Ordering::Relaxed) == dead;
        is_over || is_quiet && dead * 4 >= tasks * 3
    };
    let index = tables.iter().position(is_empty)?;
    Some(index..index + 1)
}

/// The tables of a bucket that is not being filled any more.
fn quiet(tables: &[Arc<Table>], newest: u64) -> Option<Run> {
    let is_quiet = tables.last()?.serial() + QUIET_TABLES < newest;
    (is_quiet && tables.len() > 1 && bytes_of(tables) < LARGE_BYTES).then_some(0..tables.len())
}

/// Writes the rows of neighbouring tables as they are, the newest of each key.
pub fn copy<F: File + ?Sized>(tables: &[Arc<Table>], writer: &mut TableWriter<F>) -> Result<(), TableError> {
    let mut walk = Walk::whole(tables)?;
    while let Some((key, value)) = walk.row() {
        writer.push(key, value)?;
        walk.advance()?;
    }
    tables.iter().for_each(|table| writer.keep_until(table.meta.until));
    Ok(())
}

pub fn dead_of(tables: &[Arc<Table>]) -> u64 {
    tables.iter().map(|table| table.dead.load(Ordering::Relaxed)).sum()
}

/// A merge under way.
pub struct Merge {
    plan: Plan,
    /// What is live is decided by the tables of the instant at which it began.
    version: Arc<Version>,
    /// Of bodies and then of heads: which of these tasks have ended.
    states: Option<(u8, StateWalk)>,
    walk: Walk,
    writer: TableWriter<dyn File>,
    number: u64,
    path: PathBuf,
    now: Time,
    /// Counted against the inputs when it began.
    dead_before: u64,
}

impl Merge {
    pub fn begin(
        plan: Plan,
        version: Arc<Version>,
        writer: TableWriter<dyn File>,
        (number, path): (u64, PathBuf),
        now: Time,
    ) -> Result<Merge, TableError> {
        let (walk, dead_before) = (Walk::whole(&plan.inputs)?, dead_of(&plan.inputs));
        Ok(Merge { plan, version, states: None, walk, writer, number, path, now, dead_before })
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn inputs(&self) -> &[Arc<Table>] {
        &self.plan.inputs
    }

    /// Goes on for about this many bytes. True when all rows have been written.
    pub fn step(&mut self, bytes: usize, pause: &dyn Fn()) -> Result<bool, TableError> {
        let (mut done, mut rows) = (0, 0);
        while let Some((key, value)) = self.walk.row() {
            let is_needed = match (self.plan.group, key.split_first()) {
                (Group::Bodies, Some((kind, number))) => {
                    !is_ended(&mut self.states, &self.version, *kind, number)?
                }
                _ => is_needed(&self.plan, &self.version, self.now, key, value)?,
            };
            if is_needed {
                if self.plan.group == Group::Keys {
                    self.writer.keep_until(value.map_or(i64::MAX, read_until));
                }
                self.writer.push(key, value)?;
            }
            done += key.len() + value.map_or(0, <[u8]>::len);
            self.walk.advance()?;
            rows += 1;
            if rows % ROWS_PER_PAUSE == 0 {
                pause();
            }
            if done >= bytes {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether its tables are still there.
    pub fn still_fits(&self, version: &Version) -> bool {
        let tables = version.group(self.plan.group);
        self.plan.inputs.iter().all(|input| tables.iter().any(|table| table.serial() == input.serial()))
    }

    /// Puts the new table in the place of the old ones.
    pub fn finish(self, version: &mut Version, cache: &Arc<BlockCache>) -> Result<(), TableError> {
        let output = self.writer.finish_table(self.number, self.path, cache)?;
        if let Some(output) = output.as_ref().filter(|_| self.plan.group == Group::Bodies) {
            // Rows of tasks that ended while it was written are in it.
            output.dead.store(dead_of(&self.plan.inputs) - self.dead_before, Ordering::Relaxed);
        }
        let inputs: Vec<u64> = self.plan.inputs.iter().map(|input| input.serial()).collect();
        let is_replaced = version.replace(self.plan.group, &inputs, output);
        assert!(is_replaced, "one thread changes the tables, and it has not dropped these");
        Ok(())
    }
}

/// Whether a task has ended whose row is the next one of its kind.
fn is_ended(
    states: &mut Option<(u8, StateWalk)>,
    version: &Version,
    kind: u8,
    number: &[u8],
) -> Result<bool, TableError> {
    if states.as_ref().is_none_or(|(other, _)| *other != kind) {
        let from = number.try_into().map_or(0, u64::from_be_bytes);
        *states = Some((kind, StateWalk::begin(version, (from, u64::MAX), false)?));
    }
    let (_, states) = states.as_mut().expect("made above");
    Ok(states.state_of(number)? == Some(None))
}

fn is_needed(
    plan: &Plan,
    version: &Version,
    now: Time,
    key: &[u8],
    value: Option<&[u8]>,
) -> Result<bool, TableError> {
    match (plan.group, value) {
        // A state that says "ended" hides a head until the head itself goes.
        (Group::Rows, None) if plan.has_oldest && key.first() == Some(&STATE) => {
            let number = key[1..].try_into().map(u64::from_be_bytes).unwrap_or_default();
            Ok(version.has_head(number))
        }
        (Group::Keys, Some(value)) if plan.has_oldest => Ok(read_until(value) > now.millis()),
        (_, None) => Ok(!plan.has_oldest),
        (_, Some(_)) => Ok(true),
    }
}
