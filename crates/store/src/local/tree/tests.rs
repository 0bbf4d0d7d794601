mod moving;

use super::fjall::{TreeOptions, open};
use super::memory::MemoryTree;
use super::{Batch, Bytes, Change, Space, Tree};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn put(space: Space, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Change {
    Change { space, key: key.into(), value: Some(value.into()) }
}

fn delete(space: Space, key: impl Into<Bytes>) -> Change {
    Change { space, key: key.into(), value: None }
}

/// The row of a task, by its number.
fn task(no: u64) -> Vec<u8> {
    no.to_be_bytes().to_vec()
}

fn durable(path: &Path) -> Arc<dyn Tree> {
    open(path, TreeOptions::default()).unwrap()
}

fn commit(tree: &dyn Tree, applied: u64, changes: Vec<Change>) {
    tree.commit(Batch { changes, applied }, &|| ()).unwrap();
}

fn keys(tree: &dyn Tree, space: Space, from: &[u8], to: Option<&[u8]>, back: bool) -> Vec<String> {
    let mut seen = Vec::new();
    let mut visit = |key: &[u8], _: &[u8]| {
        seen.push(String::from_utf8_lossy(key).into_owned());
        true
    };
    match back {
        true => tree.scan_back(space, from, to, &mut visit).unwrap(),
        false => tree.scan(space, from, to, &mut visit).unwrap(),
    }
    seen
}

/// Runs the same examination on the durable tree and on its double.
fn each(exam: impl Fn(&dyn Tree)) {
    exam(&MemoryTree::new());
    let directory = tempfile::tempdir().unwrap();
    exam(&*durable(directory.path()));
}

const SPACES: [Space; 3] = [Space::Task, Space::History(1000), Space::HistoryKey(1000)];

fn settle(tree: &dyn Tree, limit: u64, patience: Duration) -> u64 {
    let start = Instant::now();
    loop {
        let more = tree.upkeep().unwrap();
        let size = tree.disk_bytes();
        if (!more && size < limit) || start.elapsed() > patience {
            return size;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_new_tree_has_applied_nothing_and_holds_nothing() {
    each(|tree| {
        assert_eq!(tree.applied(), 0);
        assert_eq!(tree.buckets(), Vec::<i64>::new());
        assert_eq!(tree.get(Space::Task, b"a").unwrap(), None);
        assert_eq!(tree.get(Space::History(5), b"a").unwrap(), None);
        assert!(keys(tree, Space::History(5), b"", None, false).is_empty());
    });
}

#[test]
fn rows_are_put_overwritten_and_deleted() {
    each(|tree| {
        for space in SPACES {
            commit(tree, 1, vec![put(space, "a", "1"), put(space, "b", "2")]);
            commit(tree, 2, vec![put(space, "a", "3"), delete(space, "b")]);
            assert_eq!(tree.get(space, b"a").unwrap(), Some(b"3".to_vec()));
            assert_eq!(tree.get(space, b"b").unwrap(), None);
        }
        assert_eq!(tree.applied(), 2);
    });
}

#[test]
fn the_last_change_of_a_key_within_a_batch_wins_and_order_does_not_matter_to_others() {
    each(|tree| {
        for space in SPACES {
            let changes = vec![
                put(space, "c", "1"),
                put(space, "a", "1"),
                delete(space, "c"),
                put(space, "a", "2"),
                put(space, "c", "3"),
            ];
            commit(tree, 1, changes);
            assert_eq!(tree.get(space, b"a").unwrap(), Some(b"2".to_vec()));
            assert_eq!(tree.get(space, b"c").unwrap(), Some(b"3".to_vec()));
        }
    });
}

#[test]
fn scans_respect_their_bounds_in_both_directions() {
    each(|tree| {
        for space in SPACES {
            commit(tree, 1, ["d", "a", "c", "b"].map(|key| put(space, key, key)).to_vec());
            assert_eq!(keys(tree, space, b"", None, false), ["a", "b", "c", "d"]);
            assert_eq!(keys(tree, space, b"b", Some(b"d"), false), ["b", "c"]);
            assert_eq!(keys(tree, space, b"b", Some(b"d"), true), ["c", "b"]);
            assert_eq!(keys(tree, space, b"c", None, true), ["d", "c"]);
            assert!(keys(tree, space, b"c", Some(b"c"), false).is_empty());
            assert!(keys(tree, space, b"d", Some(b"a"), true).is_empty());
        }
    });
}

#[test]
fn a_scan_sees_the_tree_as_it_was_and_may_use_it_meanwhile() {
    each(|tree| {
        for space in SPACES {
            commit(tree, 1, vec![put(space, "a", "1"), put(space, "b", "1"), put(space, "c", "1")]);
            let mut seen = Vec::new();
            tree.scan(space, b"", None, &mut |key, value| {
                seen.push((key.to_vec(), value.to_vec()));
                commit(tree, 2, vec![delete(space, "b"), put(space, "c", "2"), put(space, "bb", "2")]);
                tree.get(space, b"b").unwrap().is_none()
            })
            .unwrap();
            assert_eq!(seen, ["a", "b", "c"].map(|key| (key.as_bytes().to_vec(), b"1".to_vec())).to_vec());
        }
    });
}

#[test]
fn buckets_are_dropped_whole_up_to_and_including_the_time_given() {
    each(|tree| {
        for end in [-5, 10, 20, 30] {
            commit(tree, 1, vec![put(Space::History(end), "a", "1"), put(Space::HistoryKey(end), "k", "1")]);
        }
        commit(tree, 2, vec![delete(Space::History(99), "a")]);
        assert_eq!(tree.buckets(), [-5, 10, 20, 30]);
        assert_eq!(tree.drop_buckets(20).unwrap(), 3);
        assert_eq!(tree.drop_buckets(20).unwrap(), 0);
        assert_eq!(tree.buckets(), [30]);
        assert_eq!(tree.get(Space::HistoryKey(20), b"k").unwrap(), None);
        assert_eq!(tree.get(Space::History(30), b"a").unwrap(), Some(b"1".to_vec()));
        commit(tree, 3, vec![put(Space::History(20), "z", "1")]);
        assert_eq!(keys(tree, Space::History(20), b"", None, false), ["z"]);
    });
}

#[test]
fn a_scan_outlives_the_dropping_of_its_bucket() {
    each(|tree| {
        for part in 0..5u64 {
            let keys = part * 2000..part * 2000 + 2000;
            commit(
                tree,
                part,
                keys.map(|n| put(Space::History(1), n.to_be_bytes(), noise(n, 300))).collect(),
            );
        }
        let mut rows = 0u64;
        tree.scan(Space::History(1), b"", None, &mut |_, value| {
            if rows == 10 {
                assert_eq!(tree.drop_buckets(1).unwrap(), 1);
            }
            assert_eq!(value, noise(rows, 300));
            rows += 1;
            true
        })
        .unwrap();
        assert_eq!((rows, tree.buckets().len()), (10_000, 0));
    });
}

#[test]
fn a_check_counts_the_rows_of_every_space() {
    each(|tree| {
        commit(tree, 1, (0..50u64).map(|n| put(Space::Task, n.to_be_bytes(), "x")).collect());
        commit(tree, 2, (0..40u64).map(|n| put(Space::History(7), n.to_be_bytes(), "x")).collect());
        commit(tree, 3, (0..10u64).map(|n| delete(Space::Task, n.to_be_bytes())).collect());
        let counts = tree.check().unwrap();
        assert!(counts.contains(&(Space::Task, 40)) && counts.contains(&(Space::History(7), 40)));
        assert_eq!(counts.iter().map(|(_, rows)| rows).sum::<u64>(), 80);
    });
}

#[test]
fn rows_buckets_and_the_applied_position_survive_reopening() {
    let directory = tempfile::tempdir().unwrap();
    for round in 1..=5u64 {
        let tree = durable(directory.path());
        assert_eq!(tree.applied(), (round - 1) * 10);
        for past in 1..round {
            assert_eq!(tree.get(Space::State, &past.to_be_bytes()).unwrap(), Some(vec![past as u8; 9]));
            assert_eq!(
                tree.get(Space::History(1), &past.to_be_bytes()).unwrap(),
                Some(vec![past as u8; 700])
            );
        }
        let rows = vec![
            put(Space::State, round.to_be_bytes(), vec![round as u8; 9]),
            put(Space::History(1), round.to_be_bytes(), vec![round as u8; 700]),
            put(Space::HistoryKey(round as i64), "acme\0send\0key", round.to_be_bytes()),
        ];
        commit(&*tree, round * 10, rows);
        assert_eq!(tree.buckets(), (1..=round as i64).collect::<Vec<_>>());
    }
}

#[test]
fn repeating_a_batch_changes_nothing() {
    each(|tree| {
        let changes: Vec<Change> = SPACES
            .iter()
            .flat_map(|&space| (0..9u64).map(move |n| put(space, n.to_be_bytes(), "x")))
            .collect();
        commit(tree, 4, changes.clone());
        commit(tree, 4, changes);
        assert_eq!(tree.applied(), 4);
        assert_eq!(tree.check().unwrap().iter().map(|(_, rows)| rows).sum::<u64>(), 27);
    });
}

#[test]
fn a_tree_whose_files_are_damaged_says_so_instead_of_inventing_rows() {
    let directory = tempfile::tempdir().unwrap();
    let tree = durable(directory.path());
    commit(
        &*tree,
        1,
        (0..2000u64).map(|n| put(Space::History(7), n.to_be_bytes(), vec![n as u8; 300])).collect(),
    );
    drop(tree);
    let mut tables = Vec::new();
    for keyspace in std::fs::read_dir(directory.path().join("keyspaces")).unwrap() {
        for table in std::fs::read_dir(keyspace.unwrap().path().join("tables")).unwrap() {
            tables.push(table.unwrap().path());
        }
    }
    let table = tables.into_iter().max_by_key(|table| table.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[200] ^= 1;
    std::fs::write(&table, bytes).unwrap();
    let tree = durable(directory.path());
    assert!(tree.check().is_err());
    assert!(tree.get(Space::History(7), &0u64.to_be_bytes()).is_err());
}

#[test]
fn room_taken_by_dropped_buckets_and_deleted_tasks_comes_back_without_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let tree = durable(directory.path());
    for end in 1..=4 {
        let rows = (0..20_000u64).map(|n| put(Space::History(end), n.to_be_bytes(), noise(n, 600)));
        commit(&*tree, 1, rows.collect());
    }
    for first in (0..220_000u64).step_by(20_000) {
        let keys = first..first + 20_000;
        commit(&*tree, 2, keys.clone().map(|n| put(Space::Task, n.to_be_bytes(), noise(n, 450))).collect());
        commit(&*tree, 3, keys.map(|n| delete(Space::Task, n.to_be_bytes())).collect());
    }
    commit(&*tree, 4, vec![put(Space::Task, "survivor", "x")]);
    assert!(tree.disk_bytes() > 100_000_000);
    assert!(tree.get(Space::History(1), &7u64.to_be_bytes()).unwrap().is_some());
    assert_eq!(tree.drop_buckets(4).unwrap(), 4);
    let size = settle(&*tree, 90_000_000, Duration::from_secs(8));
    assert!(size < 90_000_000, "{size} bytes are still taken");
    assert_eq!(keys(&*tree, Space::Task, b"", None, false), ["survivor"]);
    assert_eq!(removed_but_open(directory.path()), 0);
    drop(tree);
    let tree = durable(directory.path());
    assert_eq!((tree.applied(), tree.get(Space::Task, b"survivor").unwrap()), (4, Some(b"x".to_vec())));
}

/// Files that still take room although no directory lists them any more.
fn removed_but_open(directory: &Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let targets = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets
        .filter(|file| file.starts_with(directory) && file.to_string_lossy().ends_with("(deleted)"))
        .count()
}

/// Bytes that do not compress.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// The library numbers its spaces anew after an opening, and forgot how far the names of dropped ones were.
#[test]
fn what_is_made_after_others_were_dropped_is_there_after_an_opening() {
    let directory = tempfile::tempdir().unwrap();
    let both = |end| [put(Space::History(end), b"k", b"v"), put(Space::HistoryKey(end), b"k", b"v")];
    for round in 0..4 {
        let first = round * 100;
        let tree = durable(directory.path());
        for end in first + 1..=first + 4 {
            commit(&*tree, 1, both(end).to_vec());
        }
        tree.drop_buckets(first + 4).unwrap();
        drop(tree);
        let tree = durable(directory.path());
        for end in [first + 9, first + 10, first + 11] {
            commit(&*tree, 2, both(end).to_vec());
        }
        drop(tree);
        let tree = durable(directory.path());
        assert_eq!(tree.buckets(), [first + 9, first + 10, first + 11], "round {round}");
        tree.drop_buckets(first + 11).unwrap();
    }
}

/// Whoever reads must be able to on a full disk.
#[test]
fn an_opening_writes_nothing() {
    fn contents(path: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
        let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = entries
            .flat_map(|path| match path.is_dir() {
                true => contents(&path),
                false => vec![(path.clone(), std::fs::read(&path).unwrap())],
            })
            .collect();
        files.sort();
        files
    }
    let directory = tempfile::tempdir().unwrap();
    let tree = durable(directory.path());
    commit(&*tree, 1, vec![put(Space::Task, 1u64.to_be_bytes(), b"v"), put(Space::History(9), b"k", b"v")]);
    drop(tree);
    drop(durable(directory.path()));
    let before = contents(directory.path());
    let tree = durable(directory.path());
    assert!(tree.get(Space::History(9), b"k").unwrap().is_some());
    drop(tree);
    let after = contents(directory.path());
    let changed: Vec<_> = after.iter().filter(|file| !before.contains(file)).map(|(path, _)| path).collect();
    assert!(changed.is_empty() && before.len() == after.len(), "{changed:?}");
}

/// A soak of twenty minutes found this: every bucket that was dropped left an open file and 160 KB in the
/// library, which was opened anew only when there was nothing to do, and there always was.
#[test]
fn dropped_buckets_leave_nothing_behind_while_there_is_always_something_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let tree = durable(directory.path());
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    commit(&*tree, 1, vec![put(Space::Task, task(7), task(7))]);
    let reader = std::thread::spawn({
        let (tree, stop) = (tree.clone(), stop.clone());
        move || {
            let mut reads = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                assert_eq!(tree.get(Space::Task, &task(7)).unwrap(), Some(task(7)));
                reads += 1;
            }
            reads
        }
    });
    let handles = || std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let open = || {
        let names = handles().filter_map(|entry| std::fs::read_link(entry.path()).ok());
        names.filter(|name| name.starts_with(directory.path())).count()
    };
    let mut most = 0;
    for end in 1..=200 {
        let rows = vec![put(Space::History(end), task(end as u64), "r"), put(Space::Task, task(7), task(7))];
        commit(&*tree, end as u64, rows);
        assert_eq!(tree.drop_buckets(end).unwrap(), 1);
        most = most.max(open());
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(reader.join().unwrap() > 0);
    assert_eq!(tree.applied(), 200);
    // Two for each of the buckets after which the library is opened anew, and a few that belong to it.
    assert!(most < 145, "{most} files were open at once");
}
