//! Disks that are full, or fail for long: nothing piles up on them, and history gives its room back.

use super::*;
use crate::testing::observed::{Call, Observed};

type WatchedDisk = Observed<ForgetfulDisk>;

fn observed() -> (ForgetfulDisk, WatchedDisk, Tables) {
    let disk = ForgetfulDisk::new();
    let files = Observed::new(disk.clone());
    let tables = open(Arc::new(files.clone())).unwrap();
    (disk, files, tables)
}

fn names(disk: &ForgetfulDisk) -> Vec<String> {
    disk.list().unwrap().into_iter().filter(|name| name.ends_with(".tab")).collect()
}

fn show(tables: &Tables, no: u64, end: i64) {
    let mut rows = Rows::default();
    rows.put(Group::Ended(end), &no.to_be_bytes(), Some(&[b'e'; 3000]));
    rows.put(Group::Dead, &(no + 1000).to_be_bytes(), Some(&[b'd'; 3000]));
    rows.show(tables, no);
}

fn fail(files: &WatchedDisk, fails: impl Fn(&Call) -> bool + Send + Sync + 'static) {
    files.set_veto(Some(Arc::new(fails)));
}

/// Each attempt wrote all images again under new names, and kept those of the attempts before: a disk without room for a
/// catalog was filled by the attempts to write one.
#[test]
fn a_catalog_that_cannot_be_written_leaves_nothing_behind() {
    let ways: [fn(&Call) -> bool; 3] = [
        |call| matches!(call, Call::Create { name } if name == "catalog.new"),
        |call| matches!(call, Call::Sync { name } if name == "catalog.new"),
        |call| matches!(call, Call::Rename { .. }),
    ];
    for way in ways {
        let (disk, files, tables) = observed();
        show(&tables, 1, 9_000_000);
        tables.persist(Vec::new()).unwrap();
        fail(&files, way);
        for no in 2..12 {
            show(&tables, no, 9_000_000);
            tables.persist(Vec::new()).expect_err("the catalog cannot be written");
            let _ = tables.merge_some(NOW, usize::MAX, &|| ());
            assert!(tables.is_ahead());
        }
        let (written, shown) = (names(&disk).len(), tables.version().tables().count());
        assert!(written <= shown + 1, "{written} files for {shown} tables");
        files.set_veto(None);
        tables.persist(Vec::new()).unwrap();
        while tables.merge_some(NOW, usize::MAX, &|| ()).unwrap() {}
        assert_eq!(names(&disk).len(), tables.version().tables().count());
        assert!(!disk.list().unwrap().contains(&"catalog.new".to_owned()));
        disk.crash_keep_none();
        let version = open(Arc::new(disk)).unwrap().version();
        assert_eq!(version.position, 11);
        assert!((1..12).all(|no| version.ended(no).unwrap().is_some()));
    }
}

/// Nothing was dropped as long as something was shown that could not be written, and on a full disk that is always so.
#[test]
fn history_that_is_over_goes_while_no_table_can_be_written() {
    let (disk, files, tables) = observed();
    show(&tables, 1, 5000);
    show(&tables, 2, 9000);
    tables.persist(Vec::new()).unwrap();
    let before = names(&disk).len();
    fail(&files, |call| matches!(call, Call::Create { name } if name.ends_with(".tab")));
    show(&tables, 3, 9000);
    show(&tables, 4, 5000);
    tables.persist(Vec::new()).expect_err("no table can be written");
    assert_eq!(tables.drop_expired(Time::from_millis(5000)).unwrap(), 1);
    assert_eq!(names(&disk).len(), before - 1, "its file is gone");
    let shown = tables.version();
    let found = [1, 2, 3, 4].map(|no| shown.ended(no).unwrap().is_some());
    assert_eq!(found, [false, true, true, false]);

    // The catalog on the disk is of the position before, so that the journal has the rest.
    let copy = disk.snapshot();
    copy.crash_keep_none();
    let version = open(Arc::new(copy)).unwrap().version();
    assert_eq!((version.position, version.ends().collect::<Vec<_>>()), (2, vec![9000]));

    files.set_veto(None);
    tables.persist(Vec::new()).unwrap();
    assert_eq!(names(&disk).len(), tables.version().tables().count());
    disk.crash_keep_none();
    let version = open(Arc::new(disk)).unwrap().version();
    assert_eq!((version.position, version.ended(3).unwrap().is_some()), (4, true));
}

/// Without the reserve there is no room for the catalog that would make room.
#[test]
fn a_disk_that_is_full_to_the_last_byte_is_freed_by_history_that_is_over() {
    let (disk, _, tables) = observed();
    for no in 1..40 {
        show(&tables, no, 5000);
    }
    tables.persist(Vec::new()).unwrap();
    let used = disk.used_bytes();
    disk.set_room(Some(used));
    show(&tables, 50, 9000);
    tables.persist(Vec::new()).expect_err("the disk is full");
    assert_eq!(disk.used_bytes(), used, "what could not be written takes no room");
    assert_eq!(tables.drop_expired(Time::from_millis(5000)).unwrap(), 1);
    assert!(disk.used_bytes() < used);
    tables.persist(Vec::new()).expect("there is room again");
    assert!(!disk.list().unwrap().contains(&"reserve".to_owned()), "not while there is little room");
    disk.set_room(None);
    tables.persist(Vec::new()).unwrap();
    assert!(disk.list().unwrap().contains(&"reserve".to_owned()), "it is made again");
}
