//! A day of little work, in which everything that happens to a task makes a batch of its own.
//! `CODEQ_QUIET_TASKS` says how many tasks.

use super::*;
use crate::local::directory::files::MemoryFiles;
use crate::local::format::records::bucket_end;

const DAY: i64 = 86_400_000;
const TASKS: i64 = 2000;
const FILES_MAX: usize = 190;
/// A create with a key that nobody has looks into the filter of each of these.
const KEY_TABLES_MAX: usize = 28;

fn hint(no: u64) -> [u8; 16] {
    hint_key(no.wrapping_mul(0x9e37_79b9_7f4a_7c15), no)
}

struct Quiet {
    files: Arc<MemoryFiles>,
    tables: Tables,
    position: u64,
}

impl Quiet {
    fn write(&mut self, rows: Rows, now: Time) {
        self.position += 1;
        rows.show(&self.tables, self.position);
        self.tables.persist(Vec::new()).unwrap();
        self.tables.drop_expired(now).unwrap();
        while self.tables.merge_some(now, usize::MAX, &|| ()).unwrap() {}
    }

    fn live(&mut self, no: u64, now: Time) {
        let mut rows = Rows::default();
        rows.put(Group::Bodies, &body_key(no), Some(&[b'b'; 200]));
        rows.put(Group::Bodies, &head_key(no), Some(&[b'h'; 25]));
        self.write(rows, now);
        let mut rows = Rows::default();
        rows.put(Group::Rows, &state_key(no), Some(&[b's'; 40]));
        self.write(rows, now);
    }

    fn end(&mut self, no: u64, now: Time, until: Time) {
        let mut rows = Rows::default();
        rows.put(Group::Rows, &state_key(no), None);
        rows.put(Group::Ended(bucket_end(now, until)), &no.to_be_bytes(), Some(&[b'e'; 300]));
        rows.put(Group::Keys, &hint(no), Some(&write_until(until)));
        self.write(rows, now);
    }
}

#[test]
fn a_day_of_little_work_leaves_few_files() {
    let asked = std::env::var("CODEQ_QUIET_TASKS").ok().map(|text| text.parse().expect("a number of tasks"));
    let tasks: i64 = asked.unwrap_or(TASKS);
    let files = Arc::new(MemoryFiles::default());
    let tables = open(files.clone()).unwrap();
    let mut quiet = Quiet { files, tables, position: 0 };
    let (mut most_files, mut most_keys) = (0, 0);
    for task in 0..tasks {
        let (no, now) = (task as u64, Time::from_millis(1_000_000 + DAY / tasks * task));
        quiet.live(no, now);
        quiet.end(no, now, now.plus(std::time::Duration::from_secs(86_400)));
        let version = quiet.tables.version();
        most_files = most_files.max(quiet.files.list().unwrap().len());
        most_keys = most_keys.max(version.group(Group::Keys).len());
    }
    assert!(most_files <= FILES_MAX, "{most_files} files");
    assert!(most_keys <= KEY_TABLES_MAX, "{most_keys} tables of keys");
    let version = quiet.tables.version();
    for no in (0..tasks as u64).step_by(61) {
        assert!(version.ended(no).unwrap().is_some(), "task {no} is found");
        assert!(version.live(no).unwrap().is_none(), "task {no} does not live");
        assert!(version.get(Group::Keys, &hint(no)).unwrap().is_some(), "the key of task {no} is found");
    }
    drop(version);
    // A day later nothing is left of it.
    let later = Time::from_millis(1_000_000 + 3 * DAY);
    quiet.live(tasks as u64, later);
    let left = quiet.tables.version();
    assert_eq!((left.ends().count(), left.group(Group::Keys).len()), (0, 0));
    assert!(quiet.files.list().unwrap().len() < 40, "{:?}", quiet.files.list());
}
