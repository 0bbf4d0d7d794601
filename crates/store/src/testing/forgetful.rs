//! A disk in memory that forgets, for tests of what survives a crash.
//!
//! It keeps for every file what was synced and what was only written, per 512-byte sector, and the same
//! for the directory. A crash keeps an arbitrary, seeded subset of what was not synced. It also fails
//! calls on demand, fills up, and lets a test damage what is on it.
//!
//! A failed sync is modelled on Linux: the sectors count as clean afterwards although they never reached
//! the disk, so a later successful sync does not save them; only writing them again does.
//!
//! Cloning shares the disk; `snapshot` copies it, so that a test can try many crashes from one state.
//! Files opened before a crash fail after it, as their process is gone.

mod contents;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use contents::Contents;

use crate::local::files::{File, Files};

/// How a call fails: ENOSPC or EIO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Full,
    Io,
}

#[derive(Clone, Default)]
pub struct ForgetfulDisk(Arc<Mutex<Disk>>);

#[derive(Clone, Default)]
struct Disk {
    contents: Vec<Contents>,
    names: BTreeMap<String, usize>,
    synced_names: BTreeMap<String, usize>,
    /// Names that stand or fall together in a crash.
    renames: Vec<(String, String)>,
    fault: Option<(u64, Fault)>,
    calls: u64,
    full: bool,
    free_bytes: Option<u64>,
    /// What all files together may hold.
    room: Option<u64>,
    crashes: u64,
}

impl ForgetfulDisk {
    pub fn new() -> Self {
        Self::default()
    }

    /// A separate disk in the same state.
    pub fn snapshot(&self) -> Self {
        Self(Arc::new(Mutex::new(self.disk().clone())))
    }

    /// Keeps an arbitrary subset of what was not synced.
    pub fn crash(&self, seed: u64) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let likely = [0.1, 0.5, 0.9][rng.random_range(0..3)];
        self.disk().crash(&mut || rng.random_bool(likely));
    }

    pub fn crash_keep_none(&self) {
        self.disk().crash(&mut || false);
    }

    pub fn crash_keep_all(&self) {
        self.disk().crash(&mut || true);
    }

    /// Lets the `n`-th call from now fail, where 1 is the next. Counted are `write_at`, `sync_data`,
    /// `create`, `rename`, `remove` and `sync_dir`. A failing write still writes its first half.
    pub fn fail_at(&self, n: u64, fault: Fault) {
        let mut disk = self.disk();
        disk.fault = Some((disk.calls + n, fault));
    }

    /// How many of the calls that can fail were made so far.
    pub fn calls(&self) -> u64 {
        self.disk().calls
    }

    /// Flips bits of one byte, on disk and in the cache.
    pub fn corrupt(&self, name: &str, offset: u64, xor: u8) {
        self.change(name, |bytes| {
            if let Some(byte) = bytes.get_mut(offset as usize) {
                *byte ^= xor;
            }
        });
    }

    /// Cuts a file short, on disk and in the cache.
    pub fn truncate(&self, name: &str, len: u64) {
        self.change(name, |bytes| bytes.truncate(len as usize));
    }

    pub fn set_free_bytes(&self, bytes: u64) {
        self.disk().free_bytes = Some(bytes);
    }

    /// Files that have names may hold this much together; what would go beyond is refused as on a full disk.
    pub fn set_room(&self, bytes: Option<u64>) {
        self.disk().room = bytes;
    }

    /// What the files that have names hold.
    pub fn used_bytes(&self) -> u64 {
        self.disk().used_bytes()
    }

    /// While full, creates fail and so do writes that would grow a file.
    pub fn set_full(&self, full: bool) {
        self.disk().full = full;
    }

    fn change(&self, name: &str, change: impl Fn(&mut Vec<u8>)) {
        let mut disk = self.disk();
        let inode = *disk.names.get(name).expect("the file exists");
        disk.contents[inode].change(change);
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, disk: &Disk, inode: usize) -> Arc<dyn File> {
        Arc::new(ForgetfulFile { disk: self.clone(), inode, crashes: disk.crashes })
    }
}

impl Disk {
    /// Counts a call, which may be the one to fail.
    fn call(&mut self) -> io::Result<()> {
        self.calls += 1;
        match self.fault {
            Some((call, fault)) if call == self.calls => {
                self.fault = None;
                Err(fault.into())
            }
            _ => Ok(()),
        }
    }

    fn used_bytes(&self) -> u64 {
        self.names.values().map(|inode| self.contents[*inode].bytes().len() as u64).sum()
    }

    fn inode(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn crash(&mut self, keep: &mut dyn FnMut() -> bool) {
        self.settle_names(keep);
        for contents in &mut self.contents {
            contents.settle(keep);
        }
        self.fault = None;
        self.crashes += 1;
    }

    fn settle_names(&mut self, keep: &mut dyn FnMut() -> bool) {
        let mut fates: BTreeMap<String, bool> = BTreeMap::new();
        for name in self.names.keys().chain(self.synced_names.keys()) {
            fates.entry(name.clone()).or_insert_with(&mut *keep);
        }
        // Twice, so that a chain of renames ends up with one fate.
        for (from, to) in self.renames.iter().chain(&self.renames.clone()) {
            let kept = fates.get(from).or(fates.get(to)).copied().unwrap_or(false);
            fates.insert(from.clone(), kept);
            fates.insert(to.clone(), kept);
        }
        for (name, _) in fates.into_iter().filter(|(_, kept)| !kept) {
            match self.synced_names.get(&name) {
                Some(inode) => self.names.insert(name, *inode),
                None => self.names.remove(&name),
            };
        }
        self.synced_names.clone_from(&self.names);
        self.renames.clear();
    }
}

impl From<Fault> for io::Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Full => rustix::io::Errno::NOSPC.into(),
            Fault::Io => rustix::io::Errno::IO.into(),
        }
    }
}

impl Files for ForgetfulDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut disk = self.disk();
        disk.call()?;
        if disk.full {
            return Err(Fault::Full.into());
        }
        let inode = match disk.names.get(name) {
            Some(inode) => *inode,
            None => {
                disk.contents.push(Contents::default());
                disk.contents.len() - 1
            }
        };
        disk.contents[inode].empty();
        disk.names.insert(name.to_owned(), inode);
        Ok(self.handle(&disk, inode))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let disk = self.disk();
        Ok(self.handle(&disk, disk.inode(name)?))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.disk().names.keys().cloned().collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.call()?;
        let inode = disk.inode(from)?;
        disk.names.remove(from);
        disk.names.insert(to.to_owned(), inode);
        disk.renames.push((from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.call()?;
        disk.inode(name)?;
        disk.names.remove(name);
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut disk = self.disk();
        disk.call()?;
        disk.synced_names = disk.names.clone();
        disk.renames.clear();
        Ok(())
    }

    fn path_of(&self, name: &str) -> PathBuf {
        PathBuf::from("/forgetful").join(name)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let disk = self.disk();
        let left = disk.room.map(|room| room.saturating_sub(disk.used_bytes()));
        Ok(if disk.full { 0 } else { left.or(disk.free_bytes).unwrap_or(1 << 40) })
    }
}

struct ForgetfulFile {
    disk: ForgetfulDisk,
    inode: usize,
    /// Crashes before this file was opened.
    crashes: u64,
}

impl ForgetfulFile {
    fn disk(&self) -> io::Result<MutexGuard<'_, Disk>> {
        let disk = self.disk.disk();
        if disk.crashes != self.crashes {
            return Err(io::Error::other("the file was opened before a crash"));
        }
        Ok(disk)
    }
}

impl File for ForgetfulFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let disk = self.disk()?;
        let bytes = disk.contents[self.inode].bytes().get(offset as usize..).unwrap_or_default();
        let count = bytes.len().min(buf.len());
        buf[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut disk = self.disk()?;
        let outcome = disk.call();
        let length = disk.contents[self.inode].bytes().len();
        let growth = (offset as usize + bytes.len()).saturating_sub(length) as u64;
        let is_beyond = disk.room.is_some_and(|room| disk.used_bytes() + growth > room);
        if growth > 0 && (disk.full || is_beyond) {
            return Err(Fault::Full.into());
        }
        let reached = if outcome.is_ok() { bytes.len() } else { bytes.len() / 2 };
        disk.contents[self.inode].write(&bytes[..reached], offset as usize);
        outcome
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut disk = self.disk()?;
        let outcome = disk.call();
        let contents = &mut disk.contents[self.inode];
        match outcome {
            Ok(()) => contents.sync(),
            Err(_) => contents.fail_sync(),
        }
        outcome
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk()?.contents[self.inode].bytes().len() as u64)
    }
}
