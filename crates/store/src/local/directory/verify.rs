//! The offline check of a data directory: every checksum is checked, every row is read, and every shard is
//! brought back as opening would do it, without starting it. Then everything that says the same thing twice
//! is compared.
//!
//! Everything is only read. Files that no catalog names are what an interrupted write has left; the next opening
//! removes them, and they are no problem.

mod live;
mod rows;

use crate::local::directory::files::{DiskFiles, Files};
use crate::local::directory::load;
use crate::local::directory::lock;
use crate::local::directory::manifest::{self, Manifest};
use crate::local::directory::open::{OpenError, expect_segments, shard_directory, unstarted};
use crate::local::format::ids::IdKey;
use crate::local::format::records::Final;
use crate::local::journal;
use crate::local::rows::change::{Change, Fed};
use crate::local::rows::library::{self, TaskReader};
use crate::local::shard::Shard;
use crate::local::tables::{BlockCache, CATALOG_NAME, Tables, Version};
use crate::rules::Rules;
use codeq_queue::State;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// More than this many problems are not told one by one.
const TOLD: usize = 1000;
const CACHE_BYTES: u64 = 16 << 20;

/// What a check found. A directory is well if there are no problems.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Verified {
    pub shards: u32,
    /// Tasks that are not at their end: ready, delayed or running.
    pub live: u64,
    pub ready: u64,
    pub delayed: u64,
    pub running: u64,
    /// Dead letters.
    pub dead: u64,
    /// Completed, failed and cancelled tasks that are still kept.
    pub finished: u64,
    /// Callbacks, pending or failed.
    pub deliveries: u64,
    /// Frames in the journals, applied or not.
    pub frames: u64,
    /// Bytes at the ends of the journals that opening will cut off, which is no problem.
    pub torn_bytes: u64,
    pub problems: Vec<String>,
}

/// Checks a data directory that no server uses.
///
/// `Err` means that there was nothing to check: the directory is in use, is not one of ours, or cannot be
/// read. What is wrong inside is among the problems.
pub fn verify(path: &Path) -> Result<Verified, OpenError> {
    let foreign = || OpenError::Foreign(path.to_path_buf());
    if !path.join(manifest::NAME).is_file() {
        return Err(foreign());
    }
    let _lock = lock::take(path)?;
    let (manifest, format) = Manifest::read_any(&DiskFiles::new(path))?.ok_or_else(foreign)?;
    if format < manifest::FORMAT {
        return Err(OpenError::Older { path: path.to_path_buf(), format });
    }
    let mut verified = Verified { shards: manifest.shards, ..Verified::default() };
    for index in 0..manifest.shards {
        verified.shard(path, &manifest, index);
    }
    Ok(verified)
}

/// What the journal has to add to the rows of tasks that ended: the newest end by number, or `None` if
/// whatever the tables have is obsolete.
type Tail = HashMap<u64, Option<Arc<Final>>>;

impl Verified {
    fn problem(&mut self, problem: String) {
        match self.problems.len() {
            0..TOLD => self.problems.push(problem),
            TOLD => self.problems.push("and more".to_owned()),
            _ => {}
        }
    }

    fn shard(&mut self, path: &Path, manifest: &Manifest, index: u32) {
        let directory = shard_directory(path, index);
        if !directory.join(CATALOG_NAME).is_file() {
            // The very first opening may have been cut short before it made the shards.
            if manifest.is_complete {
                self.problem(format!("{} is missing", directory.join(CATALOG_NAME).display()));
            }
            return;
        }
        let files: Arc<dyn Files> = Arc::new(DiskFiles::new(&directory));
        let cache = Arc::new(BlockCache::new(CACHE_BYTES));
        let tables = match Tables::open(files.clone(), cache, manifest.journal_key, true) {
            Ok(tables) => Arc::new(tables),
            Err(error) => return self.problem(error.to_string()),
        };
        let version = tables.version();
        let mut check = Check { index, manifest, verified: self };
        if let Err(error) = expect_segments(&*files, &version.segments) {
            check.problem(error);
        }
        let mut is_sound = true;
        for table in version.tables() {
            if let Err(error) = table.check() {
                is_sound = false;
                check.problem(error);
            }
        }
        if is_sound {
            check.all(&*files, tables);
        } else {
            check.journal_alone(&*files, &version);
        }
    }
}

/// The check of one shard.
struct Check<'a> {
    index: u32,
    manifest: &'a Manifest,
    verified: &'a mut Verified,
}

impl Check<'_> {
    fn problem(&mut self, problem: impl std::fmt::Display) {
        self.verified.problem(format!("shard {}: {problem}", self.index));
    }

    fn expect(&mut self, holds: bool, problem: impl FnOnce() -> String) {
        if !holds {
            self.problem(problem());
        }
    }

    fn journal_alone(&mut self, files: &dyn Files, version: &Version) {
        self.note(journal::inspect(files, self.manifest.journal_key, version.position));
    }

    fn note(&mut self, report: Result<journal::Report, journal::OpenError>) {
        match report {
            Ok(report) => {
                self.verified.frames += report.frames;
                self.verified.torn_bytes += report.torn_bytes;
            }
            Err(error) => self.problem(error),
        }
    }

    fn all(&mut self, files: &dyn Files, tables: Arc<Tables>) {
        let version = tables.version();
        let mut shard = match unstarted(&Rules::default(), self.manifest, self.index, &tables) {
            Ok(shard) => shard,
            Err(error) => {
                self.problem(error);
                self.rows(&version, &Tail::new(), None);
                return self.journal_alone(files, &version);
            }
        };
        let ids = IdKey::new(self.manifest.id_key);
        let (imports, meters) = (shard.imports.clone(), Arc::default());
        let library = TaskReader { tables, ids, imports, meters };
        let mut tail = Tail::new();
        let report =
            journal::read(files, self.manifest.journal_key, version.position, &mut |position, payload| {
                note_ends(&mut tail, load::replay(&mut shard, &library, position, payload)?);
                Ok(())
            });
        self.note(report);
        self.live(&shard);
        let dead = self.rows(&version, &tail, Some(&shard));
        self.dead_counts(&shard, dead, &tail, &library);
        self.callbacks(&shard, &version);
    }

    /// Every callback has its body.
    fn callbacks(&mut self, shard: &Shard, version: &Version) {
        for callback in shard.outbox.after(0) {
            let id = callback.delivery.id;
            self.verified.deliveries += 1;
            match callback.delivery.has_body()
                || library::callback_body(version, id).is_ok_and(|b| b.is_some())
            {
                true => {}
                false => self.problem(format!("the body of callback {id:032x} is missing")),
            }
        }
    }

    /// Compares the queues' counts of dead letters with the dead letters.
    fn dead_counts(&mut self, shard: &Shard, mut dead: rows::DeadCounts, tail: &Tail, library: &TaskReader) {
        for last in tail.values().flatten() {
            if last.sketch.state != State::Dead {
                self.verified.finished += 1;
                continue;
            }
            let mut sketch = last.sketch.clone();
            match library.complete(&mut sketch).map(|_| sketch.detail.body) {
                Ok(Some(body)) => dead.add(&body),
                Ok(None) => self.problem(format!("dead letter {} has no body", sketch.no)),
                Err(error) => self.problem(format!("dead letter {}: {error}", sketch.no)),
            }
        }
        self.verified.dead += dead.total();
        for queue in shard.queues.iter() {
            let found = dead.take(&queue.key);
            let (name, counted) = (rows::name_of(&queue.key), queue.dead);
            self.expect(found == counted, || {
                format!("queue {name} counts {counted} dead letters, has {found}")
            });
        }
        for (queue, found) in dead.left() {
            self.problem(format!("queue {} is unknown, has {found} dead letters", rows::name_of(&queue)));
        }
    }
}

fn note_ends(tail: &mut Tail, fed: Fed) {
    for change in fed.changes {
        match change {
            Change::Final(last) => tail.insert(last.sketch.no, Some(last)),
            Change::Reopened(reopened) => tail.insert(reopened.no, None),
            Change::Removed { no, .. } => tail.insert(no, None),
            Change::Created { .. }
            | Change::Replaced { .. }
            | Change::State { .. }
            | Change::Record { .. }
            | Change::Queue { .. } => None,
        };
    }
}
