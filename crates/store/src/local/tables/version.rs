//! A version: the tables of one instant, and how rows are found in them.

use super::cursor::Cursor;
use super::table::{Group, Table, TableError};
use crate::local::directory::files::File;
use crate::local::format::records::{Counters, body_key, head_key, state_key};
use codeq_queue::Time;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[derive(Clone, Default)]
pub struct Version {
    /// The journal position whose effects are all in these tables, and nothing beyond it.
    pub position: u64,
    pub counters: Counters,
    /// Segments of the journal that hold what lies beyond the position.
    pub segments: Vec<String>,
    /// Counts what has been shown to readers since the opening.
    pub edition: u64,
    /// By group, the older first.
    pub(super) groups: BTreeMap<Group, Vec<Arc<Table>>>,
}

impl Version {
    pub(super) fn add(&mut self, table: Arc<Table>) {
        self.groups.entry(table.group()).or_default().push(table);
    }

    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.groups.values().flatten()
    }

    pub fn groups(&self) -> impl Iterator<Item = Group> + '_ {
        self.groups.keys().copied()
    }

    pub fn group(&self, group: Group) -> &[Arc<Table>] {
        self.groups.get(&group).map_or(&[], Vec::as_slice)
    }

    /// The ends of the buckets of history, ascending.
    pub fn ends(&self) -> impl Iterator<Item = i64> + '_ {
        self.groups.keys().filter_map(|group| match group {
            Group::Ended(end) => Some(*end),
            _ => None,
        })
    }

    /// The image is a file now.
    pub(super) fn replace_file(&mut self, serial: u64, number: u64, file: &Arc<dyn File>, path: PathBuf) {
        for table in self.groups.values_mut().flatten().filter(|table| table.serial() == serial) {
            *table = Arc::new(table.in_file(number, file.clone(), path.clone()));
        }
    }

    /// Puts `output` in the place of neighbouring tables of one group. False if they are not there any more.
    pub(super) fn replace(&mut self, group: Group, inputs: &[u64], output: Option<Arc<Table>>) -> bool {
        let Some(tables) = self.groups.get_mut(&group) else { return false };
        let Some(begin) = tables.iter().position(|table| table.serial() == inputs[0]) else { return false };
        let is_same = tables
            .iter()
            .skip(begin)
            .map(|table| table.serial())
            .take(inputs.len())
            .eq(inputs.iter().copied());
        if is_same {
            tables.splice(begin..begin + inputs.len(), output);
            if tables.is_empty() {
                self.groups.remove(&group);
            }
        }
        is_same
    }

    /// Takes out the history that is over, and tables of keys of which nothing is left.
    pub(super) fn drop_expired(&mut self, now: Time) -> usize {
        let count = self.tables().count();
        self.groups.retain(|group, _| !matches!(group, Group::Ended(end) if *end <= now.millis()));
        if let Some(keys) = self.groups.get_mut(&Group::Keys) {
            keys.retain(|table| table.meta.until > now.millis());
        }
        self.groups.retain(|_, tables| !tables.is_empty());
        count - self.tables().count()
    }

    /// Counts tasks that ended against the tables that hold their bodies.
    pub(super) fn count_ended(&self, ended: &[u64]) {
        for table in self.group(Group::Bodies) {
            let meta = &table.meta;
            let from = ended.partition_point(|no| *no < meta.first);
            let to = ended.partition_point(|no| *no <= meta.last);
            let is_dense = meta.last - meta.first < meta.rows / 2;
            let here = &ended[from..to.max(from)];
            let count = match is_dense {
                true => here.len(),
                false => here.iter().filter(|no| table.admits(&head_key(**no)).unwrap_or(true)).count(),
            };
            table.dead.fetch_add(count as u64, Ordering::Relaxed);
        }
    }

    /// The newest row with this key: `Some(None)` where it says that the key is gone.
    pub fn newest(&self, group: Group, key: &[u8]) -> Result<Option<Option<Vec<u8>>>, TableError> {
        for table in self.group(group).iter().rev() {
            let found = table.get(key)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    pub fn get(&self, group: Group, key: &[u8]) -> Result<Option<Vec<u8>>, TableError> {
        Ok(self.newest(group, key)?.flatten())
    }

    /// The record of a task that ended, and the end of its bucket. A number is in one bucket at most.
    pub fn ended(&self, no: u64) -> Result<Option<(i64, Vec<u8>)>, TableError> {
        // The later buckets have the younger records, which are asked for more often.
        for group in self.groups.keys().rev() {
            if let Group::Ended(end) = group
                && let Some(row) = self.get(*group, &no.to_be_bytes())?
            {
                return Ok(Some((*end, row)));
            }
        }
        Ok(None)
    }

    /// Whether a task is not at its end. Only tells of tasks that have a head in some table.
    pub fn is_ended(&self, no: u64) -> Result<bool, TableError> {
        Ok(matches!(self.newest(Group::Rows, &state_key(no))?, Some(None)))
    }

    /// Where final records under this number lie.
    pub fn finals(&self, no: u64) -> Result<Vec<Group>, TableError> {
        let is_dead = self.get(Group::Dead, &no.to_be_bytes())?.is_some();
        let ended = self.ended(no)?.map(|(end, _)| Group::Ended(end));
        Ok(is_dead.then_some(Group::Dead).into_iter().chain(ended).collect())
    }

    /// Where they may lie, as far as filters tell and can be read.
    pub fn finals_admitted(&self, no: u64) -> Vec<Group> {
        let admits = |table: &Arc<Table>| table.admits(&no.to_be_bytes()).unwrap_or(true);
        let finals = self.groups().filter(|group| matches!(group, Group::Dead | Group::Ended(_)));
        finals.filter(|group| self.group(*group).iter().any(admits)).collect()
    }

    /// Whether some table may have the head of this task, ended or not. One that cannot be read may.
    pub fn has_head(&self, no: u64) -> bool {
        self.group(Group::Bodies).iter().any(|table| table.admits(&head_key(no)).unwrap_or(true))
    }

    /// The body of a live task, and the row of its state if that has changed.
    pub fn live(&self, no: u64) -> Result<Option<LiveRow>, TableError> {
        let state = self.newest(Group::Rows, &state_key(no))?;
        if state == Some(None) {
            return Ok(None);
        }
        let body = self.get(Group::Bodies, &body_key(no))?;
        Ok(body.map(|body| LiveRow { no, body, state: state.flatten() }))
    }

    /// Walks the rows of one group whose keys lie in [from, to), ascending.
    pub fn walk(&self, group: Group, from: &[u8], to: &[u8]) -> Result<Walk, TableError> {
        Walk::begin(self.group(group), from, to, false)
    }

    /// The same, of keys that a filter takes for one; both ends included.
    pub fn walk_admitted(&self, group: Group, from: &[u8], to: &[u8]) -> Result<Walk, TableError> {
        let mut tables = Vec::new();
        for table in self.group(group) {
            if table.admits(from)? {
                tables.push(table.clone());
            }
        }
        Walk::begin_closed(&tables, from, to, false)
    }

    /// Walks live tasks by their numbers: heads, and the rows of states that changed.
    pub fn walk_live(&self, from: u64, is_downward: bool) -> Result<Live, TableError> {
        let to = if is_downward { 0 } else { u64::MAX };
        self.walk_both(head_key, (from, to), is_downward)
    }

    /// The same from one number to another, with bodies in place of heads.
    pub fn walk_bodies(&self, from: u64, to: u64) -> Result<Live, TableError> {
        self.walk_both(body_key, (from, to), false)
    }

    fn walk_both(
        &self,
        key: fn(u64) -> [u8; 9],
        (from, to): (u64, u64),
        is_downward: bool,
    ) -> Result<Live, TableError> {
        let bodies = self.group(Group::Bodies);
        Ok(Live {
            heads: Walk::begin_closed(bodies, &key(from), &key(to), is_downward)?,
            states: StateWalk::begin(self, (from, to), is_downward)?,
        })
    }

    /// Walks the tasks of some groups by their numbers.
    pub fn walk_numbers(&self, group: Group, from: u64, is_downward: bool) -> Result<Walk, TableError> {
        let end = if is_downward { 0 } else { u64::MAX };
        Walk::begin_closed(self.group(group), &from.to_be_bytes(), &u64::to_be_bytes(end), is_downward)
    }
}

/// Number and head (or body) of a live task, and the row of its state if that has changed.
pub type LiveHead = (u64, Vec<u8>, Option<Vec<u8>>);

/// A live task as the tables have it.
pub struct LiveRow {
    pub no: u64,
    pub body: Vec<u8>,
    pub state: Option<Vec<u8>>,
}

/// The rows of several tables of one group in the order of their keys; of equal keys the newest.
pub struct Walk {
    /// The older first.
    cursors: Vec<Cursor>,
    /// Indexes of cursors that are not at their end, a heap by key, the newer of equal ones first.
    heap: Vec<usize>,
    is_downward: bool,
    /// Where it ends, this key included.
    end: Vec<u8>,
    is_closed: bool,
    /// The key that it left last.
    last: Vec<u8>,
}

impl Walk {
    fn begin(tables: &[Arc<Table>], from: &[u8], end: &[u8], is_downward: bool) -> Result<Walk, TableError> {
        // Nothing of these is in front, or before the end.
        let is_ahead = |table: &&Arc<Table>| {
            let number_of = |key| table.group().number_of(key);
            let (low, high) = if is_downward { (end, from) } else { (from, end) };
            number_of(low).is_none_or(|no| table.meta.last >= no)
                && number_of(high).is_none_or(|no| table.meta.first <= no)
        };
        let ahead = tables.iter().filter(is_ahead);
        let cursors = ahead.map(|table| Cursor::seek(table.clone(), from, is_downward));
        let cursors = cursors.collect::<Result<Vec<_>, _>>()?;
        let heap = (0..cursors.len()).filter(|index| cursors[*index].key().is_some()).collect();
        let (end, last) = (end.to_vec(), Vec::new());
        let mut walk = Walk { cursors, heap, is_downward, end, is_closed: false, last };
        for at in (0..walk.heap.len() / 2).rev() {
            walk.sink(at);
        }
        Ok(walk)
    }

    fn begin_closed(
        tables: &[Arc<Table>],
        from: &[u8],
        end: &[u8],
        is_downward: bool,
    ) -> Result<Walk, TableError> {
        Ok(Walk { is_closed: true, ..Walk::begin(tables, from, end, is_downward)? })
    }

    /// Over everything in these tables.
    pub(super) fn whole(tables: &[Arc<Table>]) -> Result<Walk, TableError> {
        Walk::begin(tables, &[], &[], false)
    }

    fn comes_first(&self, a: usize, b: usize) -> bool {
        let order = self.cursors[a].key().cmp(&self.cursors[b].key());
        let order = if self.is_downward { order.reverse() } else { order };
        order.is_lt() || order.is_eq() && a > b
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let children = [2 * at + 1, 2 * at + 2];
            let mut first = at;
            for child in children.into_iter().filter(|child| *child < self.heap.len()) {
                if self.comes_first(self.heap[child], self.heap[first]) {
                    first = child;
                }
            }
            if first == at {
                return;
            }
            self.heap.swap(at, first);
            at = first;
        }
    }

    /// The row it stands at: key, and value or `None` where the key is gone. `None` at the end.
    pub fn row(&self) -> Option<(&[u8], Option<&[u8]>)> {
        let cursor = &self.cursors[*self.heap.first()?];
        let key = cursor.key()?;
        let is_before_end = match (self.end.is_empty(), self.is_downward) {
            (true, _) => true,
            (false, false) => key < &*self.end,
            (false, true) => key > &*self.end,
        };
        let is_here = is_before_end || self.is_closed && key == &*self.end;
        is_here.then(|| (key, cursor.value()))
    }

    /// Leaves the row and all older ones with the same key.
    pub fn advance(&mut self) -> Result<(), TableError> {
        let Some(first) = self.heap.first().copied() else { return Ok(()) };
        let Some(key) = self.cursors[first].key() else { return Ok(()) };
        self.last.clear();
        self.last.extend_from_slice(key);
        while let Some(top) = self.heap.first().copied()
            && self.cursors[top].key() == Some(&*self.last)
        {
            self.cursors[top].advance()?;
            if self.cursors[top].key().is_none() {
                self.heap.swap_remove(0);
            }
            self.sink(0);
        }
        Ok(())
    }
}

/// States of tasks in the order of their numbers.
pub struct StateWalk {
    states: Walk,
    is_downward: bool,
}

impl StateWalk {
    pub(super) fn begin(
        version: &Version,
        (from, to): (u64, u64),
        is_downward: bool,
    ) -> Result<StateWalk, TableError> {
        let rows = version.group(Group::Rows);
        let states = Walk::begin_closed(rows, &state_key(from), &state_key(to), is_downward)?;
        Ok(StateWalk { states, is_downward })
    }

    /// The row of this number, or that it says that the task has ended. The next number asked for comes behind it.
    pub(super) fn state_of(&mut self, number: &[u8]) -> Result<Option<Option<&[u8]>>, TableError> {
        while let Some((key, _)) = self.states.row() {
            match key[1..].cmp(number) {
                order if order.is_ne() && order.is_lt() != self.is_downward => self.states.advance()?,
                order => return Ok(self.states.row().filter(|_| order.is_eq()).map(|(_, row)| row)),
            }
        }
        Ok(None)
    }
}

/// Live tasks in the order of their numbers.
pub struct Live {
    heads: Walk,
    states: StateWalk,
}

impl Live {
    /// The task it stands at; goes on to the next one.
    pub fn take_next(&mut self) -> Result<Option<LiveHead>, TableError> {
        while let Some((key, head)) = self.heads.row() {
            let number = key[1..].to_vec();
            let head = head.map(<[u8]>::to_vec);
            self.heads.advance()?;
            let state = self.states.state_of(&number)?.map(|row| row.map(<[u8]>::to_vec));
            let (Ok(number), Some(head)) = (number.try_into(), head) else { continue };
            match state {
                Some(None) => {}
                state => return Ok(Some((u64::from_be_bytes(number), head, state.flatten()))),
            }
        }
        Ok(None)
    }
}
