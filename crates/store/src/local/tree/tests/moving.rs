//! What readers see while rows come, move and go.

use super::*;

/// A kill test found completed tasks missing for a moment: their live rows were gone while the bucket that
/// they had gone to was not listed yet. The list is now longer before the commit, not after it.
#[test]
fn a_task_that_moves_to_a_new_bucket_is_always_found() {
    let directory = tempfile::tempdir().unwrap();
    let tree = open(directory.path(), TreeOptions::default()).unwrap();
    let keys: Vec<Vec<u8>> = (0..40u64).map(|no| no.to_be_bytes().to_vec()).collect();
    let row = |space, key: &Vec<u8>, value: Option<&[u8]>| Change {
        space,
        key: key.as_slice().into(),
        value: value.map(Into::into),
    };
    let changes = keys.iter().map(|key| row(Space::Task, key, Some(b"live"))).collect();
    tree.commit(Batch { changes, applied: 1 }, &|| ()).unwrap();
    let find = |key: &[u8]| {
        let in_bucket = |end| tree.get(Space::History(end), key).unwrap().is_some();
        tree.get(Space::Task, key).unwrap().is_some() || tree.buckets().into_iter().any(in_bucket)
    };
    let moving = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while let Some(key) = keys.get(moving.load(std::sync::atomic::Ordering::Acquire)) {
                assert!(find(key), "{key:?} is nowhere");
            }
        });
        for (end, key) in (1_000..).zip(&keys) {
            let done = row(Space::History(end), key, Some(b"done"));
            let changes = vec![done, row(Space::Task, key, None)];
            tree.commit(Batch { changes, applied: end.unsigned_abs() }, &|| ()).unwrap();
            moving.fetch_add(1, std::sync::atomic::Ordering::Release);
        }
    });
}

fn numbers(tree: &dyn Tree, is_downward: bool) -> Vec<u64> {
    let (mut seen, from) = (Vec::new(), if is_downward { u64::MAX } else { 0 });
    let view = tree.view().unwrap();
    view.walk(&[Space::Task], from, is_downward, &mut |_, no, row| {
        assert_eq!(row, task(no));
        seen.push(no);
        true
    })
    .unwrap();
    seen
}

/// Numbers that lie in several parts of the space of tasks, and some that lie in none.
const MANY: u64 = 20_000;
const FOREIGN: [u64; 2] = [1 << 50, u64::MAX];

fn fill_many(tree: &dyn Tree) -> Vec<u64> {
    let all: Vec<u64> = (0..MANY).chain(FOREIGN).collect();
    for (at, some) in all.chunks(1000).enumerate() {
        commit(tree, at as u64, some.iter().map(|no| put(Space::Task, task(*no), task(*no))).collect());
    }
    all
}

fn kept(no: &u64) -> bool {
    no % 1777 == 3 || *no >= MANY - 10
}

#[test]
fn tasks_are_found_whichever_part_they_lie_in() {
    let directory = tempfile::tempdir().unwrap();
    let tree = durable(directory.path());
    let all = fill_many(&*tree);
    assert_eq!(numbers(&*tree, false), all);
    assert_eq!(numbers(&*tree, true), all.iter().rev().copied().collect::<Vec<_>>());
    for no in [0, 4095, 4096, MANY - 1, FOREIGN[0], FOREIGN[1]] {
        assert_eq!(tree.get(Space::Task, &task(no)).unwrap(), Some(task(no)));
        assert_eq!(tree.view().unwrap().get(Space::Task, &task(no)).unwrap(), Some(task(no)));
    }
    assert_eq!(tree.get(Space::Task, &task(MANY)).unwrap(), None);
    let mut within = Vec::new();
    let mut visit = |key: &[u8], _: &[u8]| {
        within.push(u64::from_be_bytes(key.try_into().unwrap()));
        true
    };
    tree.scan_back(Space::Task, &task(4090), Some(&task(4100)), &mut visit).unwrap();
    assert_eq!(within, (4090..4100).rev().collect::<Vec<_>>());
}

#[test]
fn parts_of_which_little_is_left_go_and_what_stays_is_found_and_deleted_where_it_went() {
    let directory = tempfile::tempdir().unwrap();
    let mut tree = durable(directory.path());
    let all = fill_many(&*tree);
    let parts = || {
        let names = std::fs::read_dir(directory.path().join("keyspaces")).unwrap();
        names.count()
    };
    let before = parts();
    let gone: Vec<u64> = all.iter().copied().filter(|no| !kept(no)).collect();
    for some in gone.chunks(1000) {
        commit(&*tree, 50, some.iter().map(|no| delete(Space::Task, task(*no))).collect());
    }
    let view = tree.view().unwrap();
    while tree.upkeep().unwrap() {}
    let stay: Vec<u64> = all.iter().copied().filter(kept).collect();
    // As long as someone looks, everything stays where it is.
    let mut seen = Vec::new();
    view.walk(&[Space::Task], 0, false, &mut |_, no, _| {
        seen.push(no);
        true
    })
    .unwrap();
    assert_eq!(seen, stay);
    drop(view);
    while tree.upkeep().unwrap() {}
    for _ in 0..2 {
        assert_eq!(numbers(&*tree, false), stay);
        assert!(stay.iter().all(|no| tree.get(Space::Task, &task(*no)).unwrap() == Some(task(*no))));
        // The library clears keyspaces away when it opens.
        drop(tree);
        tree = durable(directory.path());
    }
    assert!(parts() < before - 2, "{} of {before} are left", parts());
    // An old number comes back, as with a requeue, and everything goes.
    commit(&*tree, 60, vec![put(Space::Task, task(5), task(5)), put(Space::Task, task(MANY), task(MANY))]);
    assert_eq!(tree.get(Space::Task, &task(5)).unwrap(), Some(task(5)));
    let rest = stay.iter().copied().chain([5, MANY]);
    commit(&*tree, 61, rest.map(|no| delete(Space::Task, task(no))).collect());
    assert_eq!(numbers(&*tree, false), Vec::<u64>::new());
    drop(tree);
    assert_eq!(numbers(&*durable(directory.path()), false), Vec::<u64>::new());
}

/// Emptied spaces are replaced by new ones when nothing else is to be done.
#[test]
fn an_instant_keeps_its_rows_when_everything_is_deleted_meanwhile() {
    let directory = tempfile::tempdir().unwrap();
    let tree = durable(directory.path());
    let keys = || (0..210_000_u64).map(u64::to_be_bytes);
    commit(&*tree, 1, keys().map(|key| put(Space::Payload, key, b"v")).collect());
    let view = tree.instant().unwrap();
    commit(&*tree, 2, keys().map(|key| delete(Space::Payload, key)).collect());
    while tree.upkeep().unwrap() {}
    let mut rows = 0;
    view.scan(Space::Payload, &[], &mut |_, _| {
        rows += 1;
        true
    })
    .unwrap();
    assert_eq!(rows, 210_000);
    drop(view);
    assert!(tree.upkeep().unwrap(), "then they go");
}

/// Readers may see the rows of a batch one by one. A task that died was nowhere for a moment, when what was deleted
/// came before what was put.
#[test]
fn a_task_that_dies_is_always_found() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let directory = tempfile::tempdir().unwrap();
    let tree = durable(directory.path());
    let keys = |round: u64| (round * 500..round * 500 + 500).map(u64::to_be_bytes);
    let live = |round| commit(&*tree, round, keys(round).map(|key| put(Space::Task, key, b"live")).collect());
    live(0);
    let round = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while round.load(Ordering::Acquire) < 20 {
                for key in keys(round.load(Ordering::Acquire)) {
                    let is_there = |space| tree.get(space, &key).unwrap().is_some();
                    assert!(is_there(Space::Task) || is_there(Space::Dead), "{key:?} is nowhere");
                }
            }
        });
        for number in 0..20 {
            // Before anyone looks for them.
            live(number + 1);
            let die = |key| [put(Space::Dead, key, b"dead"), delete(Space::Task, key)];
            commit(&*tree, number, keys(number).flat_map(die).collect());
            round.store(number + 1, Ordering::Release);
        }
        reader.join().unwrap();
    });
}

/// Claims read ahead all the time: parts must go nevertheless, and what moves then is seen once, never twice or not
/// at all.
#[test]
fn a_row_whose_part_goes_is_seen_once_by_whoever_reads_meanwhile() {
    use std::sync::atomic::{AtomicU64, Ordering};
    const PARTS: u64 = 60;
    const PART: u64 = 4096;
    let directory = tempfile::tempdir().unwrap();
    let tree = durable(directory.path());
    // The first task of each part stays.
    let made = AtomicU64::new(0);
    let look = |no: u64| {
        let mut seen = 0;
        let mut visit = |_: &[u8], _: &[u8]| {
            seen += 1;
            true
        };
        tree.scan(Space::Task, &task(no), Some(&task(no + 1)), &mut visit).unwrap();
        assert_eq!(seen, 1, "{no}");
        assert_eq!(tree.get(Space::Task, &task(no)).unwrap(), Some(task(no)));
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut made_now = 0;
                while made_now < PARTS {
                    made_now = made.load(Ordering::Acquire);
                    (made_now.saturating_sub(3)..made_now).for_each(|part| look(part * PART));
                }
            });
        }
        for part in 0..PARTS {
            let first = part * PART;
            let puts = (first..first + PART).map(|no| put(Space::Task, task(no), task(no)));
            let old = (first.saturating_sub(PART) + 1..first).map(|no| delete(Space::Task, task(no)));
            commit(&*tree, part + 1, puts.chain(old).collect());
            made.store(part + 1, Ordering::Release);
            while tree.upkeep().unwrap() {}
        }
    });
    (0..PARTS).for_each(|part| look(part * PART));
    // The library clears keyspaces away when it opens.
    drop(tree);
    drop(durable(directory.path()));
    let left = std::fs::read_dir(directory.path().join("keyspaces")).unwrap().count() as u64;
    assert!(left < PARTS / 2, "{left} of {PARTS} are left");
}

/// A backup holds its view for minutes: meanwhile buckets go, parts empty, and it must see none of that.
#[test]
fn a_view_that_is_held_sees_its_tasks_through_everything_that_goes_meanwhile() {
    let directory = tempfile::tempdir().unwrap();
    let tree = durable(directory.path());
    let all = fill_many(&*tree);
    let view = tree.instant().unwrap();
    for (at, some) in all.chunks(300).enumerate() {
        let end = i64::try_from(at).unwrap() + 1;
        let mut changes: Vec<_> = some.iter().map(|no| delete(Space::Task, task(*no))).collect();
        changes.push(put(Space::History(end), task(1), "r"));
        commit(&*tree, 100 + at as u64, changes);
        assert_eq!(tree.drop_buckets(end).unwrap(), 1);
    }
    while tree.upkeep().unwrap() {}
    let mut seen = Vec::new();
    view.scan(Space::Task, b"", &mut |key, _| {
        seen.push(u64::from_be_bytes(key.try_into().unwrap()));
        true
    })
    .unwrap();
    assert_eq!(seen, all);
    assert_eq!(view.get(Space::Task, &task(9)).unwrap(), Some(task(9)));
    drop(view);
    while tree.upkeep().unwrap() {}
    assert_eq!(numbers(&*tree, false), Vec::<u64>::new());
}
