//! Tables against a plain map: what is read is what was written, whatever was merged, dropped, or cut off by a crash.

use super::*;
use crate::local::format::records::{body_key, head_key, hint_key, state_key, write_until};
use crate::testing::forgetful::{Fault, ForgetfulDisk};
use codeq_queue::Time;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;

mod damage;
mod full;
mod quiet;
mod readers;
mod rot;

const KEY: u64 = 77;
const NOW: Time = Time::from_millis(1_000_000);

fn open(files: Arc<dyn Files>) -> Result<Tables, CatalogError> {
    Tables::open(files, Arc::new(BlockCache::new(1 << 20)), KEY, false)
}

/// Everything that a shard's tables should say.
#[derive(Clone, Default, PartialEq, Debug)]
struct Expected {
    position: u64,
    /// Live tasks: body, and state if it changed.
    live: BTreeMap<u64, (Vec<u8>, Option<Vec<u8>>)>,
    dead: BTreeMap<u64, Vec<u8>>,
    /// By number: bucket and record.
    ended: BTreeMap<u64, (i64, Vec<u8>)>,
    hints: BTreeMap<[u8; 16], i64>,
    records: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// One batch, as the feeder would make it.
#[derive(Default)]
struct Rows(BTreeMap<Group, BTreeMap<Vec<u8>, Option<Vec<u8>>>>);

impl Rows {
    fn put(&mut self, group: Group, key: &[u8], value: Option<&[u8]>) {
        self.0.entry(group).or_default().insert(key.to_vec(), value.map(<[u8]>::to_vec));
    }

    fn show(self, tables: &Tables, position: u64) {
        let mut batch = Batch { tables: Vec::new(), ended: Vec::new(), position, counters: Counters::new() };
        for (group, rows) in self.0 {
            let mut writer = tables.image(group);
            for (key, value) in rows {
                if group == Group::Rows && value.is_none() && key[0] == b's' {
                    batch.ended.push(u64::from_be_bytes(key[1..].try_into().unwrap()));
                }
                if group == Group::Keys {
                    let until = value
                        .as_ref()
                        .map_or(i64::MAX, |row| i64::from_be_bytes(row[..].try_into().unwrap()));
                    writer.keep_until(until);
                }
                writer.push(&key, value.as_deref()).unwrap();
            }
            batch.tables.extend(tables.seal(writer).unwrap());
        }
        tables.show(batch);
    }
}

fn text(rng: &mut SmallRng) -> Vec<u8> {
    let length = [3, 40, 400, 20_000][rng.random_range(0..4)];
    (0..length).map(|_| rng.random_range(b'a'..b'f')).collect()
}

impl Expected {
    /// Something happens to a few tasks; numbers live again now and then.
    fn happen(&mut self, rng: &mut SmallRng) -> Rows {
        let mut rows = Rows::default();
        self.position += 1;
        for _ in 0..rng.random_range(1..30) {
            let no = rng.random_range(0..200);
            self.end_old(no, &mut rows);
            match rng.random_range(0..4) {
                0 => self.create(no, rng, &mut rows),
                1 => self.finish(no, rng, &mut rows),
                2 if self.live.contains_key(&no) => {
                    let state = text(rng);
                    rows.put(Group::Rows, &state_key(no), Some(&state));
                    self.live.get_mut(&no).unwrap().1 = Some(state);
                }
                _ => {
                    let (key, value) = (vec![b'r', rng.random()], rng.random_bool(0.7).then(|| text(rng)));
                    rows.put(Group::Rows, &key, value.as_deref());
                    match value {
                        Some(value) => drop(self.records.insert(key, value)),
                        None => drop(self.records.remove(&key)),
                    }
                }
            }
        }
        rows
    }

    /// A final record under this number goes before anything else happens to it.
    fn end_old(&mut self, no: u64, rows: &mut Rows) {
        if self.dead.remove(&no).is_some() {
            rows.put(Group::Dead, &no.to_be_bytes(), None);
        }
        if let Some((end, _)) = self.ended.remove(&no) {
            rows.put(Group::Ended(end), &no.to_be_bytes(), None);
            self.hints.remove(&hint_key(no % 7, no));
            rows.put(Group::Keys, &hint_key(no % 7, no), None);
        }
    }

    fn create(&mut self, no: u64, rng: &mut SmallRng, rows: &mut Rows) {
        let (body, state) = (text(rng), text(rng));
        rows.put(Group::Bodies, &head_key(no), Some(b"head"));
        rows.put(Group::Bodies, &body_key(no), Some(&body));
        rows.put(Group::Rows, &state_key(no), Some(&state));
        self.live.insert(no, (body, Some(state)));
    }

    fn finish(&mut self, no: u64, rng: &mut SmallRng, rows: &mut Rows) {
        if self.live.remove(&no).is_some() {
            rows.put(Group::Rows, &state_key(no), None);
            if let Some(bodies) = rows.0.get_mut(&Group::Bodies) {
                bodies.remove(&head_key(no)[..]);
                bodies.remove(&body_key(no)[..]);
            }
        }
        let row = text(rng);
        if rng.random_bool(0.3) {
            rows.put(Group::Dead, &no.to_be_bytes(), Some(&row));
            self.dead.insert(no, row);
            return;
        }
        let end = 2_000_000 + rng.random_range(0..3) * 10;
        rows.put(Group::Ended(end), &no.to_be_bytes(), Some(&row));
        let until = Time::from_millis(end - 5);
        rows.put(Group::Keys, &hint_key(no % 7, no), Some(&write_until(until)));
        self.hints.insert(hint_key(no % 7, no), until.millis());
        self.ended.insert(no, (end, row));
    }
}

/// Everything that a version says, by walking and by looking up.
fn read(version: &Version) -> Expected {
    let mut found = Expected { position: version.position, ..Expected::default() };
    let mut live = version.walk_live(0, false).unwrap();
    while let Some((no, head, state)) = live.take_next().unwrap() {
        assert_eq!(head, b"head");
        let row = version.live(no).unwrap().expect("it is live");
        assert_eq!(row.state, state);
        found.live.insert(no, (row.body, state));
    }
    let mut backwards = version.walk_live(u64::MAX, true).unwrap();
    let mut numbers = Vec::new();
    while let Some((no, ..)) = backwards.take_next().unwrap() {
        numbers.push(no);
    }
    assert!(found.live.keys().rev().eq(&numbers), "walking down sees the same");
    each(version, Group::Dead, |key, row| drop(found.dead.insert(number(key), row.to_vec())));
    for end in version.ends() {
        each(version, Group::Ended(end), |key, row| {
            assert!(
                found.ended.insert(number(key), (end, row.to_vec())).is_none(),
                "a number is in one bucket"
            );
        });
    }
    for no in 0..200 {
        assert_eq!(version.ended(no).unwrap(), found.ended.get(&no).cloned());
        assert_eq!(version.get(Group::Dead, &u64::to_be_bytes(no)).unwrap().as_ref(), found.dead.get(&no));
        assert_eq!(version.live(no).unwrap().is_some(), found.live.contains_key(&no));
    }
    each(version, Group::Keys, |key, row| {
        found.hints.insert(key.try_into().unwrap(), i64::from_be_bytes(row.try_into().unwrap()));
    });
    let mut rows = version.walk(Group::Rows, b"r", b"s").unwrap();
    while let Some((key, row)) = rows.row() {
        row.map(|row| found.records.insert(key.to_vec(), row.to_vec()));
        rows.advance().unwrap();
    }
    found
}

fn number(key: &[u8]) -> u64 {
    u64::from_be_bytes(key.try_into().unwrap())
}

fn each(version: &Version, group: Group, mut see: impl FnMut(&[u8], &[u8])) {
    let mut walk = version.walk(group, &[], &[]).unwrap();
    while let Some((key, row)) = walk.row() {
        row.into_iter().for_each(|row| see(key, row));
        walk.advance().unwrap();
    }
}

#[test]
fn what_was_written_is_read_whatever_is_merged() {
    for seed in 0..3 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let disk = ForgetfulDisk::new();
        let mut tables = open(Arc::new(disk.clone())).unwrap();
        let mut expected = Expected::default();
        for step in 0..120 {
            expected.happen(&mut rng).show(&tables, expected.position);
            assert_eq!(read(&tables.version()), expected, "seed {seed}, step {step}: shown");
            if rng.random_bool(0.8) {
                tables.persist(Vec::new()).unwrap();
            }
            while rng.random_bool(0.7) && tables.merge_some(NOW, rng.random_range(1..50_000), &|| ()).unwrap()
            {
            }
            assert_eq!(read(&tables.version()), expected, "seed {seed}, step {step}: merged");
            if rng.random_bool(0.05) {
                tables.persist(Vec::new()).unwrap();
                disk.crash_keep_none();
                tables = open(Arc::new(disk.clone())).unwrap();
                assert_eq!(read(&tables.version()), expected, "seed {seed}, step {step}: opened");
                for table in tables.version().tables() {
                    table.check().unwrap();
                }
            }
        }
        tables.persist(Vec::new()).unwrap();
        let merges = (0..1000).take_while(|_| tables.merge_some(NOW, usize::MAX, &|| ()).unwrap()).count();
        assert!(merges < 1000, "seed {seed}: merging does not come to an end");
        assert_eq!(read(&tables.version()), expected);
        let count = tables.version().tables().count();
        assert!(count < 60, "seed {seed}: {count} tables are left");
    }
}

/// What is on the disk after a crash is the last batch that was reported, or a later one, as a whole.
#[test]
fn a_crash_or_a_fault_at_any_call_leaves_a_whole_batch() {
    for fault in [None, Some(Fault::Io), Some(Fault::Full)] {
        let mut n = 1;
        while crash_at(n, fault) {
            n += 1;
        }
        assert!(n > 60, "{n} calls were tried");
    }
}

/// False if there were fewer calls.
fn crash_at(n: u64, fault: Option<Fault>) -> bool {
    let mut rng = SmallRng::seed_from_u64(5);
    let disk = ForgetfulDisk::new();
    let tables = open(Arc::new(disk.clone())).unwrap();
    let mut expected = Expected::default();
    let mut durable = expected.clone();
    disk.fail_at(n, fault.unwrap_or(Fault::Io));
    let begun = disk.calls();
    let mut is_hit = false;
    for _ in 0..14 {
        expected.happen(&mut rng).show(&tables, expected.position);
        let merged = |tables: &Tables| {
            while tables.merge_some(NOW, 20_000, &|| ())? {}
            Ok::<_, TableError>(())
        };
        let written = tables.persist(Vec::new());
        is_hit |= disk.calls() >= begun + n;
        match written {
            Ok(()) => durable = expected.clone(),
            Err(_) if fault.is_some() => {
                assert_eq!(read(&tables.version()), expected, "what is shown stays");
                tables.persist(Vec::new()).expect("the second attempt succeeds");
                durable = expected.clone();
            }
            Err(_) => {}
        }
        if is_hit && fault.is_none() {
            break;
        }
        let _ = merged(&tables);
        is_hit |= disk.calls() >= begun + n;
        if is_hit && fault.is_none() {
            break;
        }
    }
    for crash in 0..3 {
        let copy = disk.snapshot();
        copy.crash(crash);
        let found = read(&open(Arc::new(copy.clone())).expect("it opens").version());
        assert!(found == durable || found == expected, "call {n}, {fault:?}, crash {crash}");
        let names = copy.list().unwrap().iter().filter(|name| *name != "reserve").count();
        let again = open(Arc::new(copy.clone())).expect("it opens again");
        assert_eq!(again.version().tables().count() + usize::from(names > 0), names, "nothing else is left");
    }
    is_hit
}

#[test]
fn history_that_is_over_is_dropped_with_its_files() {
    let disk = ForgetfulDisk::new();
    let tables = open(Arc::new(disk.clone())).unwrap();
    let mut rows = Rows::default();
    rows.put(Group::Ended(5000), &1u64.to_be_bytes(), Some(b"one"));
    rows.put(Group::Ended(9000), &2u64.to_be_bytes(), Some(b"two"));
    rows.put(Group::Keys, &hint_key(1, 1), Some(&write_until(Time::from_millis(4000))));
    rows.show(&tables, 1);
    tables.persist(Vec::new()).unwrap();
    let held = tables.version();
    assert_eq!(tables.drop_expired(Time::from_millis(4999)).unwrap(), 1, "the keys are over");
    assert_eq!(tables.drop_expired(Time::from_millis(5000)).unwrap(), 1);
    assert_eq!(tables.version().ended(1).unwrap(), None);
    assert_eq!(tables.version().ended(2).unwrap(), Some((9000, b"two".to_vec())));
    assert_eq!(disk.list().unwrap().iter().filter(|name| name.ends_with(".tab")).count(), 1);
    assert_eq!(held.ended(2).unwrap(), Some((9000, b"two".to_vec())), "who holds a version goes on reading");
}

/// A day of little work, in which every task makes a batch of its own.
#[test]
fn many_small_batches_leave_few_files() {
    let tables = open(Arc::new(crate::local::directory::files::MemoryFiles::default())).unwrap();
    for no in 0..5_000u64 {
        let mut rows = Rows::default();
        rows.put(
            Group::Ended(2_000_000),
            &no.to_be_bytes(),
            Some(b"a record of usual size, which is not large"),
        );
        rows.put(
            Group::Keys,
            &hint_key(no.wrapping_mul(0x9e37_79b9_7f4a_7c15), no),
            Some(&write_until(Time::from_millis(1_900_000))),
        );
        rows.show(&tables, no + 1);
        tables.persist(Vec::new()).unwrap();
        while tables.merge_some(NOW, usize::MAX, &|| ()).unwrap() {}
    }
    let count = tables.version().tables().count();
    assert!(count < 60, "{count} tables");
    assert!(tables.version().ended(4_999).unwrap().is_some());
}

#[test]
fn what_is_misplaced_is_not_believed() {
    let disk = ForgetfulDisk::new();
    let tables = open(Arc::new(disk.clone())).unwrap();
    for no in [1u64, 2] {
        let mut rows = Rows::default();
        rows.put(Group::Dead, &no.to_be_bytes(), Some(b"a letter"));
        rows.show(&tables, no);
        tables.persist(Vec::new()).unwrap();
    }
    let mut names: Vec<_> = disk.list().unwrap().into_iter().filter(|name| name.ends_with(".tab")).collect();
    names.sort();
    disk.rename(&names[0], "other").unwrap();
    disk.rename(&names[1], &names[0]).unwrap();
    disk.rename("other", &names[1]).unwrap();
    let version = open(Arc::new(disk)).unwrap().version();
    assert!(version.tables().all(|table| table.check().is_err()), "each table is another one's file");
    assert!(version.get(Group::Dead, &1u64.to_be_bytes()).is_err());
}
