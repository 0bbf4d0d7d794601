//! Opening a data directory, and starting the threads of its shards.

use crate::clock::{Clock, SystemClock};
use crate::local::directory::files::{DiskFiles, Files, MemoryFiles, make_directory};
use crate::local::directory::load::{self, LoadError};
use crate::local::directory::lock;
use crate::local::directory::manifest::{self, Manifest, ManifestError};
use crate::local::directory::upgrade::{self, UpgradeError};
use crate::local::engine::commit::Committer;
use crate::local::engine::front::LatencyGuard;
use crate::local::engine::handle::ShardHandle;
use crate::local::engine::inbox::Inbox;
use crate::local::engine::meters::Meters;
use crate::local::engine::owner::{CommitSink, Owner};
use crate::local::engine::threads::Threads;
use crate::local::format::ids::IdKey;
use crate::local::journal;
use crate::local::rows::change::Fed;
use crate::local::rows::feed_queue::FeedQueue;
use crate::local::rows::feeder::Feeder;
use crate::local::rows::folding::FlushBuilder;
use crate::local::rows::library::TaskReader;
use crate::local::rows::readers::Pools;
use crate::local::shard::{Limits, Peers, Shard, ShardContext};
use crate::local::store::LocalStore;
use crate::local::tables::{self, BlockCache, CatalogError, Tables};
use crate::rules::Rules;
use codeq_queue::Observer;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use thiserror::Error;
use tokio::sync::Notify;

/// Below this much free space nothing is written; the tables need room to give room back.
const LOW_SPACE: u64 = 64 << 20;
/// Memory for blocks of tables, of all shards together.
const CACHE_BYTES: u64 = 64 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// Answers wait for the disk.
    Fsync,
    /// Answers wait for the operating system: a power loss may take the newest ones.
    Os,
}

#[derive(Clone)]
pub struct LocalOptions {
    pub path: PathBuf,
    pub rules: Rules,
    /// Fixed when the directory is made.
    pub shards: u32,
    pub durability: Durability,
    pub clock: Arc<dyn Clock>,
    pub segment_bytes: u64,
    pub limits: Limits,
    pub low_space: u64,
    pub observer: Option<Observer>,
    /// Where the committers count.
    pub meters: Arc<Meters>,
}

impl LocalOptions {
    pub fn new(path: impl Into<PathBuf>) -> LocalOptions {
        LocalOptions {
            path: path.into(),
            rules: Rules::default(),
            shards: 1,
            durability: Durability::Fsync,
            clock: Arc::new(SystemClock),
            segment_bytes: journal::Options::default().segment_bytes,
            limits: Limits::default(),
            low_space: LOW_SPACE,
            observer: None,
            meters: Arc::default(),
        }
    }
}

#[derive(Debug, Error)]
pub enum OpenError {
    #[error("data directory is in use: {}", .0.display())]
    InUse(PathBuf),
    #[error("not a codeQ data directory: {}", .0.display())]
    Foreign(PathBuf),
    #[error("numShards is {found} for this data directory, config says {configured}")]
    Shards { found: u32, configured: u32 },
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error(transparent)]
    Journal(#[from] journal::OpenError),
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Upgrade(#[from] UpgradeError),
    #[error("{} has format {format}: open it once with `codeq serve` or `codeq dev` to bring it to the present one", .path.display())]
    Older { path: PathBuf, format: u32 },
    #[error("{} is missing, though this data directory was complete: work would be lost", .0.display())]
    Missing(PathBuf),
    #[error("{}: {source}", .file.display())]
    Io { file: PathBuf, source: io::Error },
}

pub fn at(file: &Path) -> impl Fn(io::Error) -> OpenError + '_ {
    move |source| OpenError::Io { file: file.to_path_buf(), source }
}

/// What a store is put together from. Tests put doubles in.
pub struct Parts {
    pub shards: Vec<ShardParts>,
    pub manifest: Manifest,
    /// Held as long as the store lives.
    pub lock: Option<File>,
}

pub struct ShardParts {
    pub files: Arc<dyn Files>,
    /// Without a journal nothing outlives the process.
    pub has_journal: bool,
}

impl Parts {
    pub fn in_memory(shards: u32) -> Parts {
        let part = || ShardParts { files: Arc::new(MemoryFiles::default()), has_journal: false };
        Parts { shards: (0..shards).map(|_| part()).collect(), manifest: fresh(shards), lock: None }
    }

    /// Parts over given files, one directory a shard. `epoch` must rise with every opening.
    pub fn over(shards: Vec<Arc<dyn Files>>, epoch: u32) -> Parts {
        let count = u32::try_from(shards.len()).expect("a handful of shards");
        let parts = shards.into_iter().map(|files| ShardParts { files, has_journal: true });
        let manifest = Manifest { epoch, id_key: 1, journal_key: 2, ..fresh(count) };
        Parts { shards: parts.collect(), manifest, lock: None }
    }
}

fn fresh(shards: u32) -> Manifest {
    Manifest { shards, epoch: 0, id_key: rand::random(), journal_key: rand::random(), is_complete: false }
}

pub fn shard_directory(path: &Path, index: u32) -> PathBuf {
    path.join(format!("shard-{index:02}"))
}

/// Opens the store in a directory, which is made if it is not there. One that an earlier version wrote is brought to
/// the present format first.
///
/// Everything that was acknowledged is there afterwards; a torn tail of the journal is cut. Any other damage, and any
/// file that should be there and is not, refuses to open and is named.
pub fn open(options: LocalOptions) -> Result<Arc<LocalStore>, OpenError> {
    let path = options.path.clone();
    make_directory(&path).map_err(at(&path))?;
    let lock = lock::take(&path)?;
    let files = DiskFiles::new(&path);
    upgrade::bring_over(&path)?;
    let mut manifest = claim(&files, &path, options.shards)?;
    let mut shards: Vec<ShardParts> = Vec::new();
    for index in 0..manifest.shards {
        let directory = shard_directory(&path, index);
        if manifest.is_complete && !directory.join(tables::CATALOG_NAME).is_file() {
            return Err(OpenError::Missing(directory.join(tables::CATALOG_NAME)));
        }
        std::fs::create_dir_all(&directory).map_err(at(&directory))?;
        shards.push(ShardParts { files: Arc::new(DiskFiles::new(&directory)), has_journal: true });
    }
    files.sync_dir().map_err(at(&path))?;
    if !manifest.is_complete {
        for shard in &shards {
            Tables::create(&*shard.files, manifest.journal_key)?;
        }
        manifest.is_complete = true;
        manifest.write(&files)?;
    }
    assemble(options, Parts { shards, manifest, lock: Some(lock) })
}

/// Reads the manifest, or makes one in an empty directory, and raises the epoch.
fn claim(files: &DiskFiles, path: &Path, shards: u32) -> Result<Manifest, OpenError> {
    let known = match Manifest::read(files)? {
        Some(found) if found.shards != shards => {
            return Err(OpenError::Shards { found: found.shards, configured: shards });
        }
        Some(found) => found,
        None => {
            if !is_unused(path).map_err(at(path))? {
                return Err(OpenError::Foreign(path.to_path_buf()));
            }
            fresh(shards)
        }
    };
    let manifest = Manifest { epoch: known.epoch + 1, ..known };
    // A full disk is not to keep a store closed that could be read, and whose history would make room.
    let reserve = DiskFiles::new(shard_directory(path, 0));
    tables::with_reserve(&reserve, ManifestError::is_full, || manifest.write(files))?;
    Ok(manifest)
}

/// Whether nothing but the lock and an unfinished manifest is there.
pub fn is_unused(path: &Path) -> io::Result<bool> {
    for entry in std::fs::read_dir(path)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if name != lock::NAME && !name.starts_with(manifest::NAME) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Recovers every shard and starts its threads.
pub fn assemble(options: LocalOptions, parts: Parts) -> Result<Arc<LocalStore>, OpenError> {
    let Parts { shards, manifest, lock } = parts;
    let pools = Pools::start(shards.len()).map_err(at(Path::new("threads")))?;
    let cache = Arc::new(BlockCache::new(CACHE_BYTES));
    let mut handles = Vec::new();
    let peers: Arc<OnceLock<_>> = Arc::default();
    let started = (0..).zip(shards).try_for_each(|(index, part)| {
        handles.push(start(&options, &manifest, index, part, (&pools, &cache, &peers))?);
        Ok(())
    });
    let inboxes: Box<[_]> = handles.iter().map(|handle| handle.links.inbox.clone()).collect();
    // All at once: what one shard asks of another the moment it has peers, the other can answer.
    let _ = peers.set(inboxes);
    for handle in &handles {
        handle.links.inbox.nudge();
    }
    // Dropped when a shard did not start, the store ends the threads of those that did.
    let store = LocalStore::new(handles, pools, manifest, lock);
    started.map(|()| Arc::new(store))
}

fn start(
    options: &LocalOptions,
    manifest: &Manifest,
    index: u32,
    part: ShardParts,
    (pools, cache, peers): (&Pools, &Arc<BlockCache>, &Arc<OnceLock<Peers>>),
) -> Result<ShardHandle, OpenError> {
    let ids = IdKey::new(manifest.id_key);
    let seed = rand::random();
    let mut shard = Shard::new(ids, index, manifest.shards, options.rules.clone(), options.limits, seed);
    let tables = Tables::open(part.files.clone(), cache.clone(), manifest.journal_key, false)?;
    let (tables, imports, meters) = (Arc::new(tables), shard.imports.clone(), options.meters.clone());
    let library = TaskReader { tables, ids, imports, meters };
    load::from_tables(&mut shard, &library.version())?;
    let recovered = match part.has_journal {
        true => Some(recover(options, manifest, &mut shard, &library, &part.files)?),
        false => None,
    };
    let front = Arc::new(LatencyGuard::new());
    let links = Arc::new(ShardContext {
        inbox: Arc::new(Inbox::new(front.clone())),
        pools: pools.clone(),
        library,
        unsettled_bytes: shard.unsettled_bytes.clone(),
        room: Notify::new(),
        unwritable: Mutex::new(None),
        observer: options.observer.clone(),
        peers: peers.clone(),
    });
    let feed_queue = Arc::new(FeedQueue::default());
    wake_on_jump(&options.clock, &links, &feed_queue);
    let mut threads = Threads::default();
    let stop = Arc::new(AtomicBool::new(false));
    let (journal, sink, committer) = match recovered {
        None => (None, CommitSink::Memory, None),
        Some(recovered) => {
            recovered.tail.into_iter().for_each(|fed| feed_queue.push(fed));
            let committer = Arc::new(Committer::new(
                recovered.opened.last_position,
                options.meters.clone(),
                front.clone(),
            ));
            shard.position = recovered.opened.last_position + 1;
            threads.commit(index, &committer, &links, &feed_queue, options.durability)?;
            threads.prepare(index, &recovered.opened.journal, &stop)?;
            let (appender, syncs) = (recovered.opened.appender, options.durability == Durability::Fsync);
            let sink = CommitSink::Journal { appender, committer: committer.clone(), syncs };
            (Some(recovered.opened.journal), sink, Some(committer))
        }
    };
    let feeder = Feeder {
        queue: feed_queue.clone(),
        links: links.clone(),
        front,
        clock: options.clock.clone(),
        rules: options.rules.clone(),
        journal: journal.clone(),
        fold: FlushBuilder::default(),
        seals: Vec::new(),
        adopted: AtomicU64::new(0),
        unreadable_since: None,
    };
    threads.feed(index, feeder)?;
    let low_space = low_space(part.files, options.low_space);
    let owner = Owner::new(shard, links.clone(), feed_queue.clone(), options.clock.clone(), sink, low_space);
    threads.own(index, owner, committer.clone())?;
    let threads = Mutex::new(threads);
    Ok(ShardHandle { links, feed_queue, committer, journal, limits: options.limits, stop, threads })
}

struct Recovered {
    opened: journal::Opened,
    tail: Vec<Fed>,
}

fn recover(
    options: &LocalOptions,
    manifest: &Manifest,
    shard: &mut Shard,
    library: &TaskReader,
    files: &Arc<dyn Files>,
) -> Result<Recovered, OpenError> {
    if options.durability == Durability::Fsync {
        expect_segments(&**files, &library.version().segments)?;
    }
    // Headers and what was recovered are synced whatever the durability: a loss of power may take the newest frames, and
    // must not leave a journal that refuses to open.
    let journal_options = journal::Options {
        segment_bytes: options.segment_bytes,
        largest_bytes: options.segment_bytes * 8,
        ..journal::Options::default()
    };
    let mut tail = Vec::new();
    let opened = journal::open(
        files.clone(),
        journal_options,
        manifest.epoch,
        manifest.journal_key,
        library.version().position,
        &mut |position, payload| {
            tail.push(load::replay(shard, library, position, payload)?);
            Ok(())
        },
    )?;
    shard.fed.clear();
    shard.ended.clear();
    Ok(Recovered { opened, tail })
}

/// The segments that had what the tables do not have when they were last written are still there.
pub fn expect_segments(files: &dyn Files, segments: &[String]) -> Result<(), OpenError> {
    let found = files.list().map_err(|source| OpenError::Io { file: files.path_of(""), source })?;
    match segments.iter().find(|name| !found.contains(name)) {
        Some(name) => Err(OpenError::Missing(files.path_of(name))),
        None => Ok(()),
    }
}

fn wake_on_jump(clock: &Arc<dyn Clock>, links: &Arc<ShardContext>, feed_queue: &Arc<FeedQueue>) {
    let (inbox, feed_queue) = (Arc::downgrade(&links.inbox), Arc::downgrade(feed_queue));
    clock.on_jump(Box::new(move || {
        if let (Some(inbox), Some(feed_queue)) = (inbox.upgrade(), feed_queue.upgrade()) {
            inbox.nudge();
            feed_queue.nudge();
        }
    }));
}

fn low_space(files: Arc<dyn Files>, least: u64) -> Box<dyn Fn() -> Option<String> + Send> {
    Box::new(move || {
        let free = files.free_bytes().ok()?;
        (free < least).then(|| format!("the disk is full: {free} bytes free, {least} needed"))
    })
}

/// For a shard that is only looked at.
pub fn unstarted(
    rules: &Rules,
    manifest: &Manifest,
    index: u32,
    tables: &Tables,
) -> Result<Shard, OpenError> {
    let ids = IdKey::new(manifest.id_key);
    let mut shard = Shard::new(ids, index, manifest.shards, rules.clone(), Limits::default(), 0);
    load::from_tables(&mut shard, &tables.version())?;
    Ok(shard)
}
