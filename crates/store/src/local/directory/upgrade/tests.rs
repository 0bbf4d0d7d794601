//! The upgrade of the first format, stopped at every call that changes the disk.

use super::*;
use crate::local::tables::{BlockCache, Tables};
use crate::testing::forgetful::{Fault, ForgetfulDisk};
use std::collections::BTreeMap;

const SHARD: &str = "shard-00";

/// A directory of the newest first format: its tree as real files, everything else on a disk that forgets.
struct Directory {
    path: tempfile::TempDir,
    root: ForgetfulDisk,
    shard: ForgetfulDisk,
}

type Contents = BTreeMap<String, Vec<u8>>;

fn contents(disk: &ForgetfulDisk) -> Contents {
    let names = disk.list().unwrap().into_iter();
    let read = |name: String| {
        let file = disk.open(&name).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
        (name, bytes)
    };
    names.map(read).collect()
}

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_tree(&entry.path(), &to),
            false if entry.file_name() == ".gitkeep" => {}
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// The files of a real directory, on a disk that forgets.
fn disk_of(directory: &Path) -> ForgetfulDisk {
    let (disk, from) = (ForgetfulDisk::new(), DiskFiles::new(directory));
    for name in from.list().unwrap() {
        let file = disk.create(&name).unwrap();
        file.write_at(&std::fs::read(directory.join(&name)).unwrap(), 0).unwrap();
        file.sync_data().unwrap();
    }
    disk.sync_dir().unwrap();
    disk
}

impl Directory {
    fn new() -> Directory {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1-newest");
        let path = tempfile::tempdir().unwrap();
        copy_tree(&fixture.join(SHARD).join(TREE), &path.path().join(SHARD).join(TREE));
        Directory { path, root: disk_of(&fixture), shard: disk_of(&fixture.join(SHARD)) }
    }

    fn bring(&self) -> Result<(), UpgradeError> {
        let shard = self.shard.clone();
        bring(self.path.path(), &self.root, &move |_| Arc::new(shard.clone()))
    }

    fn tree(&self) -> PathBuf {
        self.path.path().join(SHARD).join(TREE)
    }

    fn format(&self) -> u32 {
        Manifest::read_any(&self.root).unwrap().expect("there is a manifest").1
    }

    /// What is left after a crash is one of the two formats, with all that belongs to it.
    fn assert_whole(&self, before: &Contents, after: &Contents) {
        let found = contents(&self.shard);
        let journals = |files: &Contents| {
            files.clone().into_iter().filter(|(name, _)| name.ends_with(".seg")).collect::<Contents>()
        };
        assert_eq!(journals(&found), journals(before), "the journal stays as it is");
        if self.format() == FORMAT {
            assert_eq!(found, *after);
            let (key, cache) = (self.key(), Arc::new(BlockCache::new(1 << 20)));
            let tables =
                Tables::open(Arc::new(self.shard.clone()), cache, key, true).expect("the tables open");
            assert!(tables.version().tables().all(|table| table.check().is_ok()));
        } else {
            assert!(self.tree().is_dir(), "the first format needs its tree");
        }
    }

    fn key(&self) -> u64 {
        Manifest::read(&self.root).unwrap().expect("there is a manifest").journal_key
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Stop {
    /// The process ends: everything that it wrote is there.
    Kill,
    PowerLoss,
    /// Power is lost, and some of what was not synced has reached the disk.
    PartialLoss(u64),
}

/// Stops the upgrade at its n-th call to one of the disks, and looks at what is left; then lets it go on. False if it
/// made fewer calls.
fn stopped_at(n: u64, fault: Fault, stop: Stop, (before, after): (&Contents, &Contents)) -> bool {
    let mut is_stopped = false;
    for fails_at_root in [false, true] {
        let directory = Directory::new();
        let failing = if fails_at_root { &directory.root } else { &directory.shard };
        failing.fail_at(n, fault);
        match directory.bring() {
            Err(_) => is_stopped = true,
            Ok(()) if fails_at_root => break,
            Ok(()) => {}
        }
        for disk in [&directory.root, &directory.shard] {
            match stop {
                Stop::Kill => disk.crash_keep_all(),
                Stop::PowerLoss => disk.crash_keep_none(),
                Stop::PartialLoss(seed) => disk.crash(seed * 1000 + n),
            }
        }
        directory.assert_whole(before, after);
        directory.bring().expect("it goes on");
        assert_eq!(directory.format(), FORMAT);
        directory.assert_whole(before, after);
        assert_eq!(contents(&directory.shard), *after, "call {n}, {stop:?}: the same tables");
        assert!(!directory.tree().exists());
    }
    is_stopped
}

#[test]
fn an_upgrade_that_is_stopped_at_any_call_goes_on() {
    let whole = Directory::new();
    let before = contents(&whole.shard);
    whole.bring().unwrap();
    let after = contents(&whole.shard);
    assert!(after.len() > before.len() + 4, "there are tables of several groups: {:?}", after.keys());
    let stops = [Stop::Kill, Stop::PowerLoss, Stop::PartialLoss(1), Stop::PartialLoss(2)];
    let mut n = 1;
    // Each call is stopped in one of the ways, and neighbouring calls in all of them.
    while stopped_at(
        n,
        [Fault::Io, Fault::Full][n as usize / 4 % 2],
        stops[n as usize % stops.len()],
        (&before, &after),
    ) {
        n += 1;
    }
    assert!(n > 20, "{n} calls were stopped");
}

/// The removal of the old tree is the last step, and may be cut short between any two of its files.
#[test]
fn what_is_left_of_a_tree_goes_with_the_next_opening() {
    let whole = Directory::new();
    let before = contents(&whole.shard);
    whole.bring().unwrap();
    let after = contents(&whole.shard);
    let fresh = Directory::new();
    let mut files: Vec<PathBuf> = walk(&fresh.tree());
    files.sort();
    for count in (0..=files.len()).step_by(7) {
        copy_tree(&fresh.tree(), &whole.tree());
        for file in files.iter().take(count) {
            std::fs::remove_file(whole.tree().join(file.strip_prefix(fresh.tree()).unwrap())).unwrap();
        }
        whole.bring().expect("what is left of the tree is not read");
        assert!(!whole.tree().exists());
        whole.assert_whole(&before, &after);
    }
}

fn walk(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}
