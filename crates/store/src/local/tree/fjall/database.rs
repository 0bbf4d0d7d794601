//! The library while it works: its spaces, its writes and its care. Every error means that the library
//! is to be let go of.

use super::super::{AT_ONCE, Batch, Change, Pause, Space, split};
use super::parts::{self, Home, Tasks};
use ::fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    PartitioningPolicy, PinningPolicy,
};
use ::fjall::{
    AbstractTree, CompressionType, Database, Error, Keyspace, KeyspaceCreateOptions, PersistMode,
    compaction::Leveled,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::thread;
use std::time::Duration;

/// The library flushes a space's memory at the first size; this layer flushes the largest when all
/// together pass the second, because the library itself has no limit on the sum.
const MEMTABLE_BYTES: u64 = 16 << 20;
pub const MEMTABLES_BYTES: u64 = 32 << 20;
/// Deleted rows below this number are not worth a compaction.
const GARBAGE_ROWS: u64 = 200_000;
const JOURNAL_BYTES: u64 = 128 << 20;
/// From this many unmerged runs on, the library blocks writers, and for ever if its worker is dead.
const CROWDED_RUNS: usize = 18;
/// Spaces dropped before the library is opened anew: while it works, and while it has nothing to do.
const WORN_DROPS: u64 = 64;
const WORN_IDLE_DROPS: u64 = 8;
const POSITION: &str = "position";
/// A row that keeps sequence numbers from falling back.
const NUMBERED: &str = "numbered";
/// More than the library's numbers can have moved on between the last row and the end of a process.
const NUMBERS_SKIPPED: u64 = 1 << 20;
/// A key that no space uses, deleted to move the library's sequence numbers on.
const NUDGE: [u8; 2] = [0xff; 2];

pub struct Db {
    pub library: Database,
    pub position: Keyspace,
    spaces: RwLock<BTreeMap<Space, Keyspace>>,
    pub tasks: Tasks,
    has_numbered: AtomicBool,
    commits: AtomicU64,
    /// The rows deleted since they were last compacted.
    deletes: Mutex<BTreeMap<Home, u64>>,
    pub drops: AtomicU64,
    keyspaces: PathBuf,
}

impl Db {
    pub fn open(path: &Path, cache_bytes: u64) -> Result<(Db, u64), Error> {
        // One worker: with two, the library's first spins while the second compacts.
        let library = Database::builder(path)
            .worker_threads(1)
            .cache_size(cache_bytes)
            .max_journaling_size(JOURNAL_BYTES)
            .open()?;
        let names = library.list_keyspace_names();
        // The names of spaces take sequence numbers that the library forgets on closing, and ids of dropped spaces
        // come again. A new name would be numbered below the removal of the one before, and its space be cleared
        // away on the next opening.
        library.supervisor.seqno.fetch_max(library.seqno() + NUMBERS_SKIPPED);
        let position = library.keyspace(POSITION, || options(Space::Meta))?;
        let keyspaces = path.join("keyspaces");
        let db = Db {
            library,
            position,
            spaces: RwLock::default(),
            tasks: Tasks::default(),
            has_numbered: AtomicBool::new(false),
            commits: AtomicU64::new(0),
            deletes: Mutex::default(),
            drops: AtomicU64::new(0),
            keyspaces,
        };
        for space in names.iter().filter_map(|name| Space::parse(name)).chain(Space::LIVE) {
            let rows = db.make(space)?;
            db.count([(space.into(), deleted_rows(&rows))].into());
        }
        db.open_parts(names.iter().filter_map(|name| parts::parse(name)))?;
        db.sync_names()?;
        let applied = db.number(POSITION)?.unwrap_or(0);
        Ok((db, applied))
    }

    /// A number kept with the position.
    pub fn number(&self, key: &str) -> Result<Option<u64>, Error> {
        let Some(bytes) = self.position.get(key)? else { return Ok(None) };
        bytes
            .as_ref()
            .try_into()
            .map(|bytes| Some(u64::from_be_bytes(bytes)))
            .map_err(|_| Error::Unrecoverable)
    }

    pub fn spaces(&self) -> RwLockReadGuard<'_, BTreeMap<Space, Keyspace>> {
        self.spaces.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn space(&self, space: Space) -> Option<Keyspace> {
        self.spaces().get(&space).cloned()
    }

    pub fn buckets(&self) -> BTreeSet<i64> {
        self.spaces().keys().filter_map(|space| space.bucket()).collect()
    }

    pub fn make(&self, space: Space) -> Result<Keyspace, Error> {
        if let Some(rows) = self.space(space) {
            return Ok(rows);
        }
        let rows = self.make_keyspace(&space.name(), || options(space))?;
        self.spaces.write().unwrap_or_else(PoisonError::into_inner).insert(space, rows.clone());
        Ok(rows)
    }

    pub fn make_keyspace(
        &self,
        name: &str,
        options: impl FnOnce() -> KeyspaceCreateOptions,
    ) -> Result<Keyspace, Error> {
        let is_new = !self.library.keyspace_exists(name);
        if is_new {
            self.keep_numbers()?;
        }
        let rows = self.library.keyspace(name, options)?;
        if is_new {
            self.sync_names()?;
        }
        Ok(rows)
    }

    /// Before the first name comes or goes: what was skipped on opening stays skipped then. Not on opening, which
    /// must succeed on a full disk.
    fn keep_numbers(&self) -> Result<(), Error> {
        if self.has_numbered.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let mut write = self.library.batch().durability(Some(PersistMode::SyncAll));
        write.insert(&self.position, NUMBERED, []);
        write.commit()
    }

    /// The library syncs a new directory but not its entry in the parent.
    fn sync_names(&self) -> Result<(), Error> {
        Ok(std::fs::File::open(&self.keyspaces)?.sync_all()?)
    }

    /// Forgets a space at once; its files go when the last reader has finished with them.
    fn remove(&self, space: Space) -> Result<(), Error> {
        let rows = self.spaces.write().unwrap_or_else(PoisonError::into_inner).remove(&space);
        rows.map_or(Ok(()), |rows| self.remove_keyspace(rows))
    }

    pub fn remove_keyspace(&self, rows: Keyspace) -> Result<(), Error> {
        self.keep_numbers()?;
        self.library.delete_keyspace(rows.clone())?;
        // The library would remove the files but keep them open, and so the disk full. Emptying the
        // space first makes it close them. Failing that, the next opening does.
        let _ = rows.tree.drop_range::<&[u8], _>(..);
        Ok(())
    }

    pub fn commit(&self, batch: Batch, pause: Pause) -> Result<(), Error> {
        let known_parts = self.parts();
        let filled = self.filled_after(&batch.changes);
        let mut live = Vec::new();
        for (place, changes) in split(batch.changes, |change| self.place(change, &known_parts)) {
            match place.is_worth_a_table(changes.len()) {
                true => self.ingest(place.home, changes, pause)?,
                false => live.push((place.home, changes)),
            }
        }
        self.wait(|rows| rows.sealed_memtable_count() <= 1 && rows.tree.l0_run_count() < CROWDED_RUNS)?;
        let mut write = self.library.batch().durability(Some(PersistMode::SyncAll));
        let mut deletes: BTreeMap<Home, u64> = BTreeMap::new();
        let mut lists = Vec::with_capacity(live.len());
        for (home, changes) in live {
            let rows = self.keyspace(home)?;
            self.take_census(home, &changes);
            let deleted = changes.iter().filter(|change| change.value.is_none()).count();
            *deletes.entry(home).or_default() += deleted as u64;
            lists.push((rows, changes));
        }
        // Whoever gets single rows sees these one by one: what moves is in its new place before it leaves the old.
        for is_put in [true, false] {
            for (rows, changes) in &lists {
                let some = changes.iter().filter(|change| change.value.is_some() == is_put);
                for (index, change) in some.enumerate() {
                    if index % AT_ONCE == 0 {
                        pause();
                    }
                    match change.value.clone() {
                        Some(value) => write.insert(rows, change.key.clone(), value),
                        None => write.remove(rows, change.key.clone()),
                    }
                }
            }
        }
        write.insert(&self.position, POSITION, batch.applied.to_be_bytes());
        write.insert(&self.position, parts::FILLED, filled.to_be_bytes());
        write.commit()?;
        self.set_filled(filled);
        self.count(deletes);
        if self.parts().len() > known_parts.len() {
            self.retire_part()?;
        }
        self.trim()
    }

    fn keyspace(&self, home: Home) -> Result<Keyspace, Error> {
        home.part.map_or_else(|| self.make(home.space), |part| self.part(part))
    }

    pub fn count(&self, deletes: BTreeMap<Home, u64>) {
        let mut counted = self.deletes.lock().unwrap_or_else(PoisonError::into_inner);
        for (home, rows) in deletes {
            *counted.entry(home).or_default() += rows;
        }
    }

    pub fn deleted(&self, home: Home) -> u64 {
        *self.deletes.lock().unwrap_or_else(PoisonError::into_inner).get(&home).unwrap_or(&0)
    }

    pub fn forget_deleted(&self, home: Home) {
        self.deletes.lock().unwrap_or_else(PoisonError::into_inner).remove(&home);
    }

    /// Writes rows as tables of their own. They are synced, and so is the list of tables, on return.
    pub fn ingest(&self, home: Home, changes: Vec<Change>, pause: Pause) -> Result<(), Error> {
        let is_unknown = home.part.is_none() && self.space(home.space).is_none();
        if is_unknown && changes.iter().all(|change| change.value.is_none()) {
            return Ok(());
        }
        let target = self.keyspace(home)?;
        self.take_census(home, &changes);
        let mut tables = target.start_ingestion()?;
        for (index, change) in changes.into_iter().enumerate() {
            if index % AT_ONCE == 0 {
                pause();
            }
            match change.value {
                Some(value) => tables.write(change.key, value)?,
                None => tables.write_tombstone(change.key)?,
            }
        }
        tables.finish()
    }

    /// Keeps memory bounded, and now and then lets the library forget old lists of tables.
    fn trim(&self) -> Result<(), Error> {
        let sized: Vec<(u64, Keyspace)> =
            self.live().into_iter().map(|rows| (rows.tree.active_memtable().size(), rows)).collect();
        if sized.iter().map(|(size, _)| size).sum::<u64>() > MEMTABLES_BYTES
            && let Some((_, largest)) = sized.into_iter().max_by_key(|(size, _)| *size)
        {
            largest.rotate_memtable()?;
        }
        if self.commits.fetch_add(1, Ordering::Relaxed) % 64 == 63 {
            self.position.rotate_memtable()?;
        }
        Ok(())
    }

    fn live(&self) -> Vec<Keyspace> {
        let spaces = self.spaces();
        let live = Space::LIVE.iter().filter_map(|space| spaces.get(space));
        live.chain([&self.position]).chain(self.parts().values()).cloned().collect()
    }

    /// Waits for the library's worker, but not for a dead one: the probe fails once it has died.
    fn wait(&self, ready: impl Fn(&Keyspace) -> bool) -> Result<(), Error> {
        loop {
            self.library.persist(PersistMode::Buffer)?;
            if self.live().iter().all(&ready) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn flush(&self, spaces: &[Keyspace]) -> Result<(), Error> {
        for rows in spaces {
            rows.rotate_memtable()?;
        }
        self.wait(|rows| rows.sealed_memtable_count() == 0)
    }

    pub fn drop_buckets(&self, before_or_at: i64) -> Result<usize, Error> {
        let before = self.buckets().len();
        let doomed: Vec<Space> = self.spaces().keys().copied().collect();
        for space in doomed.into_iter().filter(|space| space.bucket().is_some_and(|end| end <= before_or_at))
        {
            self.remove(space)?;
            self.drops.fetch_add(1, Ordering::Relaxed);
        }
        Ok(before - self.buckets().len())
    }

    /// Each space made and dropped leaves about 160 KB behind that the library clears away only on
    /// opening.
    pub fn is_worn(&self, is_idle: bool) -> bool {
        self.drops.load(Ordering::Relaxed) >= if is_idle { WORN_IDLE_DROPS } else { WORN_DROPS }
    }

    pub fn upkeep(&self, writer: &Mutex<()>) -> Result<bool, Error> {
        if self.library.journal_count() > 1 {
            self.release_journals()?;
            return Ok(true);
        }
        {
            let _writing = writer.lock().unwrap_or_else(PoisonError::into_inner);
            if self.retire_part()? {
                return Ok(true);
            }
        }
        if self.is_viewed() {
            return Ok(false);
        }
        for space in Space::LIVE {
            if self.space(space).is_some_and(|rows| self.is_garbage(space.into(), &rows)) {
                self.tidy(space, writer)?;
                return Ok(true);
            }
        }
        if let Some((home, rows)) = self.last_part().filter(|(home, rows)| self.is_garbage(*home, rows)) {
            self.forget_deleted(home);
            self.rewrite(&rows)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// A journal goes once every space has flushed past it. A space whose newest rows were all compacted
    /// away never says so; a meaningless delete makes it.
    fn release_journals(&self) -> Result<(), Error> {
        let live = self.live();
        if live.iter().all(|rows| rows.tree.active_memtable().is_empty()) {
            for rows in &live {
                rows.remove(NUDGE)?;
            }
        }
        self.flush(&live)?;
        // The worker removes the journals just after the flush that this waited for.
        thread::sleep(Duration::from_millis(5));
        Ok(())
    }

    /// Whether the deleted rows of a space outweigh the others. The estimate of the others may be low
    /// where the library has compacted on its own, which costs one needless compaction.
    fn is_garbage(&self, home: Home, rows: &Keyspace) -> bool {
        let deleted = self.deleted(home);
        let alive = (rows.approximate_len() as u64).saturating_sub(2 * deleted);
        deleted > GARBAGE_ROWS && deleted > 4 * alive
    }

    /// Replaces a space that holds nothing, which is quick, or rewrites what it does hold.
    fn tidy(&self, space: Space, writer: &Mutex<()>) -> Result<(), Error> {
        let Some(rows) = self.space(space) else { return Ok(()) };
        let writing = writer.lock().unwrap_or_else(PoisonError::into_inner);
        if rows.is_empty()? {
            // Whoever looks at an instant would find the new space in place of its own.
            let Some(_gate) = self.shut_gate() else { return Ok(()) };
            self.forget_deleted(space.into());
            // A crash in between loses nothing: opening makes every live space.
            self.remove(space)?;
            self.make(space)?;
            return Ok(());
        }
        drop(writing);
        self.forget_deleted(space.into());
        self.rewrite(&rows)
    }

    fn rewrite(&self, rows: &Keyspace) -> Result<(), Error> {
        self.flush(std::slice::from_ref(rows))?;
        rows.major_compact()?;
        // The replaced tables stay on disk until sequence numbers have moved past the compaction.
        self.position.remove(NUDGE)?;
        self.flush(std::slice::from_ref(&self.position))
    }
}

/// The deletions that a space was opened with, in its tables and in what came back from the journal.
pub fn deleted_rows(rows: &Keyspace) -> u64 {
    let recovered = rows.tree.active_memtable().iter().filter(|row| row.is_tombstone()).count();
    rows.tree.tombstone_count() + recovered as u64
}

/// Buckets are almost never merged: their keys come nearly in order, so few tables overlap, and merging
/// would double the work per row. History keys come in no order, so every table has a filter, and merging
/// sets in at a number of tables that lookups still bear. Their filters are in parts, because a block
/// larger than a shard of the cache is never cached.
pub fn options(space: Space) -> KeyspaceCreateOptions {
    let filter = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0));
    let (block, filters, parts, unmerged) = match space {
        Space::History(_) => (16 << 10, FilterPolicy::disabled(), false, 255),
        Space::HistoryKey(_) => (4 << 10, FilterPolicy::all(filter), true, 64),
        // New tasks at one end, deletions at the other: a merge rewrites everything between, so merge
        // late, but before the library blocks writers.
        Space::Task => (8 << 10, FilterPolicy::disabled(), false, 14),
        _ => return KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES),
    };
    KeyspaceCreateOptions::default()
        .max_memtable_size(MEMTABLE_BYTES)
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
        .data_block_size_policy(BlockSizePolicy::all(block))
        .filter_policy(filters)
        .index_block_pinning_policy(PinningPolicy::disabled())
        .filter_block_pinning_policy(PinningPolicy::disabled())
        .index_block_partitioning_policy(PartitioningPolicy::all(parts))
        .filter_block_partitioning_policy(PartitioningPolicy::all(parts))
        .compaction_strategy(Arc::new(Leveled::default().with_l0_threshold(unmerged)))
}
