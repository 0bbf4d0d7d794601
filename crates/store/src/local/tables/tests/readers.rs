//! Readers on threads of their own, while tables are written, merged, and dropped under them.

use super::*;
use crate::local::directory::files::DiskFiles;
use std::sync::atomic::{AtomicBool, AtomicUsize};

const STEPS: u64 = 60;
const READERS: usize = 3;
/// Tasks of buckets that are dropped soon; the others have lower numbers.
const BRIEF: u64 = 100_000;

/// What readers should find at each position.
type Truth = Mutex<BTreeMap<u64, Expected>>;

fn look(tables: &Tables, truth: &Truth) {
    let version = tables.version();
    let Some(expected) = truth.lock().unwrap().get(&version.position).cloned() else { return };
    let found = read(&version);
    let lasting = |(no, _): &(&u64, &(i64, Vec<u8>))| **no < BRIEF;
    assert!(found.ended.iter().filter(lasting).eq(expected.ended.iter()), "at {}", version.position);
    assert_eq!((found.live, found.dead), (expected.live, expected.dead), "at {}", version.position);
    assert_eq!((found.hints, found.records), (expected.hints, expected.records));
}

/// Whoever holds a version reads what it had, though its files have been unlinked meanwhile.
#[test]
fn readers_see_one_instant_whatever_is_merged_and_dropped_meanwhile() {
    let directory = tempfile::tempdir().unwrap();
    let files = Arc::new(DiskFiles::new(directory.path()));
    let tables = open(files.clone()).unwrap();
    let (truth, is_over, looks) = (Truth::default(), AtomicBool::new(false), AtomicUsize::new(0));
    let (mut dropped, mut merged) = (0, 0);
    std::thread::scope(|scope| {
        let read_on = || {
            while !is_over.load(Ordering::Relaxed) {
                look(&tables, &truth);
                looks.fetch_add(1, Ordering::Relaxed);
            }
        };
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(read_on)).collect();
        let (mut rng, mut expected) = (SmallRng::seed_from_u64(9), Expected::default());
        for step in 1..=STEPS {
            let mut rows = expected.happen(&mut rng);
            rows.put(Group::Ended(step as i64), &(BRIEF + step).to_be_bytes(), Some(&[b'e'; 9000]));
            truth.lock().unwrap().insert(step, expected.clone());
            rows.show(&tables, step);
            tables.persist(Vec::new()).unwrap();
            dropped += tables.drop_expired(Time::from_millis(step as i64 - 2)).unwrap();
            while tables.merge_some(NOW, 20_000, &|| ()).unwrap() {
                merged += 1;
            }
        }
        // One that has panicked is finished.
        while looks.load(Ordering::Relaxed) < READERS * 20 && !readers.iter().any(|one| one.is_finished()) {
            std::thread::yield_now();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(dropped as u64 > STEPS / 2 && merged > 10, "{dropped} were dropped, {merged} pieces merged");
    let left = files.list().unwrap().iter().filter(|name| name.ends_with(".tab")).count();
    assert_eq!(left, tables.version().tables().count());
}
