//! The tree: where applied tasks rest once they have left the journal's hands.
//!
//! The journal acknowledges; the tree is fed from it later, by one low-priority thread, in large
//! batches. It answers point reads and ordered scans, and forgets history by whole time buckets.
//!
//! What it promises: a batch whose `commit` returned is on disk, and `applied` never runs ahead of the
//! rows it speaks for. What it does not: that all rows of a batch become visible in the same instant. History
//! rows and new tasks come first. A crash in between leaves the history rows behind, to be written again
//! identically when the batch is repeated; the new tasks are gone when the tree is opened again.

pub mod fjall;
pub mod memory;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A named, separately ordered set of keys.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Space {
    Meta,
    Task,
    State,
    Payload,
    Dead,
    DeadKey,
    Record,
    /// Final records of the bucket ending at this unix time in milliseconds.
    History(i64),
    /// User keys of the same bucket.
    HistoryKey(i64),
}

impl Space {
    /// The spaces that always exist; the others come and go with their bucket.
    pub const LIVE: [Space; 7] =
        [Space::Meta, Space::Task, Space::State, Space::Payload, Space::Dead, Space::DeadKey, Space::Record];

    /// The end of the bucket this space belongs to, if it belongs to one.
    pub fn bucket(self) -> Option<i64> {
        match self {
            Space::History(end) | Space::HistoryKey(end) => Some(end),
            _ => None,
        }
    }

    pub fn name(self) -> String {
        match self {
            Space::Meta => "meta".into(),
            Space::Task => "task".into(),
            Space::State => "state".into(),
            Space::Payload => "payload".into(),
            Space::Dead => "dead".into(),
            Space::DeadKey => "dead-key".into(),
            Space::Record => "record".into(),
            Space::History(end) => format!("history.{end}"),
            Space::HistoryKey(end) => format!("history-key.{end}"),
        }
    }

    /// The reverse of `name`; `None` for a name of something else.
    pub fn parse(name: &str) -> Option<Space> {
        let Some((kind, end)) = name.split_once('.') else {
            return Space::LIVE.into_iter().find(|space| space.name() == name);
        };
        let end = end.parse().ok()?;
        match kind {
            "history" => Some(Space::History(end)),
            "history-key" => Some(Space::HistoryKey(end)),
            _ => None,
        }
    }
}

/// Keys and rows on their way into the tree. Short ones, as most keys are, need no memory of their own.
pub use byteview::ByteView as Bytes;

/// One row to put, or to delete when `value` is `None`.
#[derive(Clone, Debug)]
pub struct Change {
    pub space: Space,
    pub key: Bytes,
    pub value: Option<Bytes>,
}

/// Rows that take effect together, and the journal position they bring the tree to. When a key occurs
/// more than once, its last change wins.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub changes: Vec<Change>,
    pub applied: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    #[error("the tree could not read or write its files: {0}")]
    Io(#[from] std::io::Error),
    #[error("the tree is damaged: {0}")]
    Damaged(String),
    /// Between a failure and the reopening, while earlier readers still hold the old files.
    #[error("the tree is closed for the moment")]
    Closed,
    /// Closed for good.
    #[error("the tree has been closed")]
    Shut,
}

impl TreeError {
    /// Whether making room on the disk would cure this.
    pub fn is_full(&self) -> bool {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, TreeError::Io(cause) if matches!(cause.kind(), StorageFull | QuotaExceeded))
    }
}

/// Called every few rows of long work, so that whoever is in a hurry can go first.
pub type Pause<'a> = &'a dyn Fn();

/// Rows that are worked through between two pauses.
pub const AT_ONCE: usize = 64;

/// Sees one row of a scan; returns false to stop.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> bool;

/// Sees one numbered row of a walk; returns false to stop.
pub type See<'a> = &'a mut dyn FnMut(Space, u64, &[u8]) -> bool;

/// The rows of one instant. Of a batch that was being written it may show the history rows and the new tasks
/// alone.
pub trait View: Send {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, TreeError>;

    /// Visits the rows of spaces whose keys are numbers, in the order of the numbers from `from` on, upwards
    /// or downwards; of equal numbers in the order of `spaces`.
    fn walk(&self, spaces: &[Space], from: u64, is_downward: bool, see: See) -> Result<(), TreeError>;

    /// Visits the keys from `from` on, ascending, until `visit` returns false.
    fn scan(&self, space: Space, from: &[u8], visit: Visit) -> Result<(), TreeError>;

    /// The buckets that hold history, ascending.
    fn buckets(&self) -> Vec<i64>;
}

pub trait Tree: Send + Sync {
    fn view(&self) -> Result<Box<dyn View>, TreeError>;

    /// A view between two batches, never inside one.
    fn instant(&self) -> Result<Box<dyn View>, TreeError>;

    /// Journal position whose effects are all in the tree and durable (0 for a new one).
    fn applied(&self) -> u64;

    /// Applies the whole batch durably (synced on return) and records `applied` with it. Repeating a batch
    /// is harmless. After an error nothing is known to have been applied; repeat the batch.
    fn commit(&self, batch: Batch, pause: Pause) -> Result<(), TreeError>;

    /// One row. Two calls may see a batch half written: then new rows without the deletes, or some of the
    /// deletes, those of earlier spaces first.
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, TreeError>;

    /// Visits keys in [from, to) ascending until `visit` returns false. Sees a consistent snapshot, and
    /// may itself use the tree.
    fn scan(&self, space: Space, from: &[u8], to: Option<&[u8]>, visit: Visit) -> Result<(), TreeError>;

    /// The same, descending.
    fn scan_back(&self, space: Space, from: &[u8], to: Option<&[u8]>, visit: Visit) -> Result<(), TreeError>;

    /// The buckets that hold history or history keys, ascending. Answered from memory.
    fn buckets(&self) -> Vec<i64>;

    /// Drops every bucket ending at or before this time, rows unread. Returns how many there were.
    fn drop_buckets(&self, before_or_at: i64) -> Result<usize, TreeError>;

    /// One bounded step of background care: gives back the room that deleted rows still take. Returns
    /// true if there is more to do.
    fn upkeep(&self) -> Result<bool, TreeError>;

    /// Room taken on disk.
    fn disk_bytes(&self) -> u64;

    /// Lets go of the files for good; every later call fails.
    fn close(&self);

    /// Reads every row, checksums included, and counts them per space.
    fn check(&self) -> Result<Vec<(Space, u64)>, TreeError>;
}

/// Rows of a space, by number in the order of a walk.
type Numbered<'a, V> = Box<dyn Iterator<Item = Result<(u64, V), TreeError>> + 'a>;

/// Walks several spaces at once.
fn merge<V: AsRef<[u8]>>(
    mut spaces: Vec<(Space, Numbered<'_, V>)>,
    is_downward: bool,
    see: See,
) -> Result<(), TreeError> {
    let rank = |no: u64| Reverse(if is_downward { !no } else { no });
    let mut heads: Vec<Option<V>> = Vec::with_capacity(spaces.len());
    let mut order = BinaryHeap::with_capacity(spaces.len());
    for (index, (_, rows)) in spaces.iter_mut().enumerate() {
        let head = rows.next().transpose()?;
        order.extend(head.as_ref().map(|(no, _)| (rank(*no), Reverse(index))));
        heads.push(head.map(|(_, row)| row));
    }
    while let Some((Reverse(rank_of), Reverse(index))) = order.pop() {
        let no = if is_downward { !rank_of } else { rank_of };
        let (space, rows) = &mut spaces[index];
        let row = heads[index].take().expect("whoever is in line has a row");
        if !see(*space, no, row.as_ref()) {
            break;
        }
        if let Some((no, row)) = rows.next().transpose()? {
            order.push((rank(no), Reverse(index)));
            heads[index] = Some(row);
        }
    }
    Ok(())
}

/// The number that a key is, in a space of numbered rows.
fn number(key: &[u8]) -> Result<u64, TreeError> {
    key.try_into()
        .map(u64::from_be_bytes)
        .map_err(|_| TreeError::Damaged("a key that is not a number".into()))
}

/// The changes of a batch by their places, strictly ascending by key for each.
fn split<P: Ord + Copy>(changes: Vec<Change>, place: impl Fn(&Change) -> P) -> BTreeMap<P, Vec<Change>> {
    let mut placed: BTreeMap<P, Vec<Change>> = BTreeMap::new();
    let mut changes = changes.into_iter().map(|change| (place(&change), change)).peekable();
    while let Some((here, change)) = changes.next() {
        let list = placed.entry(here).or_default();
        list.push(change);
        // Most go where the one before went.
        while let Some((_, change)) = changes.next_if(|(place, _)| *place == here) {
            list.push(change);
        }
    }
    for changes in placed.values_mut() {
        // Stable, so that of equal keys the later change stays last; dedup then keeps that one.
        changes.sort_by(|a, b| a.key.cmp(&b.key));
        changes.dedup_by(|later, kept| {
            let same = later.key == kept.key;
            if same {
                std::mem::swap(&mut later.value, &mut kept.value);
            }
            same
        });
    }
    placed
}

/// Blocks really allocated below this directory. Files that vanish while it looks count as nothing.
fn disk_bytes(directory: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(data) if data.is_dir() => disk_bytes(&entry.path()),
        Ok(data) => data.blocks() * 512,
        Err(_) => 0,
    });
    sizes.sum()
}
