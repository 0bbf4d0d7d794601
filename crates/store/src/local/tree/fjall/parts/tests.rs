use super::super::super::Batch;
use super::*;
use ::fjall::AbstractTree;

fn change(no: u64, value: Option<&str>) -> Change {
    let value = value.map(Into::into);
    Change { space: Space::Task, key: no.to_be_bytes().into(), value }
}

fn open(path: &std::path::Path) -> Db {
    Db::open(path, 1 << 20).unwrap().0
}

fn commit(db: &Db, batch: Batch) -> Result<(), Error> {
    db.commit(batch, &|| ())
}

fn row(rows: &Keyspace, no: u64) -> bool {
    rows.get(no.to_be_bytes()).unwrap().is_some()
}

/// The first part has just too many rows to go, the second has one.
fn two_parts(path: &std::path::Path) -> Db {
    let db = open(path);
    let changes = (0..=FEW).chain([SPAN]).map(|no| change(no, Some("a"))).collect();
    commit(&db, Batch { changes, applied: 1 }).unwrap();
    db
}

#[test]
fn a_part_whose_rows_have_moved_is_gone_after_a_crash_before_it_went() {
    let directory = tempfile::tempdir().unwrap();
    let db = two_parts(directory.path());
    assert_eq!(db.parts().keys().copied().collect::<Vec<_>>(), [0, 1]);
    let left = db.parts()[&0].iter().map(|row| row.into_inner().unwrap()).collect();
    db.move_out(0, left).unwrap();
    drop(db);
    for _ in 0..2 {
        let db = open(directory.path());
        assert_eq!(db.parts().keys().copied().collect::<Vec<_>>(), [1]);
        assert!(row(&db.space(Space::Task).unwrap(), 1));
        assert!(db.position.get(mark(0)).unwrap().is_none(), "the mark has done its work");
    }
    let db = open(directory.path());
    let changes = vec![change(1, None), change(2, Some("b")), change(SPAN * 2, Some("c"))];
    commit(&db, Batch { changes, applied: 2 }).unwrap();
    assert_eq!(db.parts().keys().copied().collect::<Vec<_>>(), [2], "an old part is not made again");
    let common = db.space(Space::Task).unwrap();
    assert!(!row(&common, 1) && row(&common, 2));
}

/// Data of before there were parts has everything in the common space.
#[test]
fn the_first_part_begins_behind_what_the_common_space_has() {
    let directory = tempfile::tempdir().unwrap();
    let db = open(directory.path());
    let common = db.make(Space::Task).unwrap();
    for no in [7, SPAN + 7, IN_ORDER + 7] {
        common.insert(no.to_be_bytes(), "old").unwrap();
    }
    drop((common, db));
    let db = open(directory.path());
    let changes = vec![change(SPAN + 8, Some("new")), change(2 * SPAN, Some("new")), change(7, None)];
    commit(&db, Batch { changes, applied: 1 }).unwrap();
    let common = db.space(Space::Task).unwrap();
    assert_eq!(db.parts().keys().copied().collect::<Vec<_>>(), [2]);
    assert!(row(&common, SPAN + 8) && !row(&common, 7));
}

/// The next crash point: the part has gone, its mark has not.
#[test]
fn a_mark_that_outlives_its_part_does_no_harm() {
    let directory = tempfile::tempdir().unwrap();
    let db = two_parts(directory.path());
    let rows = db.parts()[&0].clone();
    db.move_out(0, rows.iter().map(|row| row.into_inner().unwrap()).collect()).unwrap();
    db.remove_keyspace(rows).unwrap();
    drop(db);
    let db = open(directory.path());
    assert_eq!(db.parts().keys().copied().collect::<Vec<_>>(), [1]);
    let changes = vec![change(0, None), change(SPAN + 1, Some("b")), change(9 * SPAN, Some("c"))];
    commit(&db, Batch { changes, applied: 2 }).unwrap();
    let common = db.space(Space::Task).unwrap();
    assert!(!row(&common, 0) && row(&common, 1) && row(&common, FEW));
}

fn many(from: u64, to: u64) -> Vec<Change> {
    (from..to).map(|no| change(no, Some("a"))).collect()
}

fn numbers(db: &Db) -> Vec<u64> {
    let parts = db.parts();
    let rows = parts.values().flat_map(|rows| rows.iter().map(|row| number_of(&row.key().unwrap()).unwrap()));
    rows.collect()
}

/// A process that died there found tasks in its tree that the journal then created again, and some of them
/// had ended by then.
#[test]
fn new_tasks_of_a_batch_that_was_cut_off_are_gone() {
    let directory = tempfile::tempdir().unwrap();
    let end = SPAN + MANY as u64;
    let db = open(directory.path());
    commit(&db, Batch { changes: many(0, SPAN - 1), applied: 1 }).unwrap();
    assert!(db.parts()[&0].tree.active_memtable().is_empty(), "they came as a table");
    db.ingest(home_of(0), many(SPAN - 1, SPAN), &|| ()).unwrap();
    db.ingest(home_of(1), many(SPAN, end), &|| ()).unwrap();
    assert_eq!(numbers(&db), (0..end).collect::<Vec<_>>());
    drop(db);
    for _ in 0..2 {
        let db = open(directory.path());
        assert_eq!(numbers(&db), (0..SPAN - 1).collect::<Vec<_>>());
    }
    let db = open(directory.path());
    // The journal tells of them again; by now every other one has ended.
    let changes = many(SPAN - 1, end).into_iter().step_by(2).collect();
    commit(&db, Batch { changes, applied: 2 }).unwrap();
    let left: Vec<u64> = (0..SPAN - 1).chain((SPAN - 1..end).step_by(2)).collect();
    assert_eq!(numbers(&db), left);
    drop(db);
    assert_eq!(numbers(&open(directory.path())), left);
}

/// Claims waited for a third of a second whenever a part went, because all of its rows were looked at first.
#[test]
fn a_part_is_counted_as_its_rows_come_and_go() {
    let directory = tempfile::tempdir().unwrap();
    let mut db = open(directory.path());
    let counted = |db: &Db| {
        let census = &db.counted()[&0];
        (census.rows, census.numbers(0).collect::<Vec<u64>>())
    };
    let expected = |numbers: Vec<u64>| (numbers.len() as u64, numbers);
    // As a table, one by one, and twice.
    let mut changes = many(0, SPAN - 9);
    changes.push(change(7, None));
    commit(&db, Batch { changes, applied: 1 }).unwrap();
    commit(&db, Batch { changes: many(SPAN - 9, SPAN + 1), applied: 2 }).unwrap();
    commit(&db, Batch { changes: many(SPAN - 20, SPAN), applied: 3 }).unwrap();
    assert_eq!(counted(&db), expected((0..SPAN).filter(|no| *no != 7).collect()));
    let odd: Vec<u64> = (0..SPAN).filter(|no| no % 2 == 1).collect();
    let changes = odd.iter().chain(&odd).map(|no| change(*no, None)).collect();
    commit(&db, Batch { changes, applied: 4 }).unwrap();
    assert_eq!(counted(&db), expected((0..SPAN).step_by(2).collect()));
    drop(db);
    // After an opening nothing is known until it seems to pay.
    db = open(directory.path());
    assert!(!db.retire_part().unwrap() && db.counted().is_empty());
    let changes = (0..SPAN - 2).step_by(2).map(|no| change(no, None)).collect();
    commit(&db, Batch { changes, applied: 5 }).unwrap();
    assert!(db.retire_part().unwrap());
    assert_eq!(db.parts().keys().copied().collect::<Vec<_>>(), [1]);
    assert!(row(&db.space(Space::Task).unwrap(), SPAN - 2));
}

#[test]
fn a_scan_looks_at_all_parts_that_its_bounds_touch() {
    let key = |no: u64| no.to_be_bytes().to_vec();
    let cases: [(Bounds, RangeInclusive<u64>); 6] = [
        ((Bound::Unbounded, Bound::Unbounded), 0..=u64::MAX),
        ((Bound::Included(key(SPAN)), Bound::Excluded(key(2 * SPAN - 1))), 1..=1),
        ((Bound::Included(key(SPAN - 1)), Bound::Excluded(key(SPAN + 1))), 0..=1),
        ((Bound::Included(vec![]), Bound::Included(vec![])), 0..=u64::MAX / SPAN),
        ((Bound::Excluded([key(SPAN), vec![7]].concat()), Bound::Unbounded), 1..=u64::MAX),
        ((Bound::Included(key(2 * SPAN)), Bound::Excluded(key(0))), 2..=2),
    ];
    for (bounds, parts) in cases {
        assert_eq!(parts_between(&bounds), parts, "{bounds:?}");
    }
}

#[test]
fn tasks_of_before_there_were_tables_stay() {
    let directory = tempfile::tempdir().unwrap();
    let db = open(directory.path());
    commit(&db, Batch { changes: many(0, 3 * SPAN), applied: 1 }).unwrap();
    // The last part is there and empty.
    let changes = (2 * SPAN..3 * SPAN).map(|no| change(no, None)).collect();
    commit(&db, Batch { changes, applied: 2 }).unwrap();
    db.position.remove(FILLED).unwrap();
    drop(db);
    for _ in 0..2 {
        let db = open(directory.path());
        assert_eq!(db.number(FILLED).unwrap(), Some(2 * SPAN));
        assert_eq!(numbers(&db).len() as u64, 2 * SPAN);
    }
}

/// The table comes first, and its part is made before the one of lower numbers, which then goes at once.
#[test]
fn a_few_new_tasks_before_a_part_full_of_them() {
    let directory = tempfile::tempdir().unwrap();
    let db = open(directory.path());
    let changes = [3, 9].map(|no| change(no, Some("a"))).into_iter().chain(many(SPAN, 2 * SPAN));
    commit(&db, Batch { changes: changes.collect(), applied: 1 }).unwrap();
    assert_eq!(db.tasks.free.load(Ordering::Relaxed), 2);
    drop(db);
    let db = open(directory.path());
    assert_eq!(numbers(&db), (SPAN..2 * SPAN).collect::<Vec<_>>());
    let common = db.space(Space::Task).unwrap();
    assert!(row(&common, 3) && row(&common, 9));
}

#[test]
fn the_last_change_of_a_new_task_wins_in_a_table_too() {
    let directory = tempfile::tempdir().unwrap();
    let db = open(directory.path());
    let mut changes = many(0, SPAN);
    changes.extend([change(3, None), change(4, None), change(4, Some("b"))]);
    commit(&db, Batch { changes, applied: 1 }).unwrap();
    assert_eq!(numbers(&db).len() as u64, SPAN - 1);
    assert_eq!(db.parts()[&0].get(4u64.to_be_bytes()).unwrap().unwrap().as_ref(), b"b");
}

/// Room on the disk ends between the tables and the rest, again and again; then the batch comes to its end.
#[test]
fn a_batch_that_is_repeated_after_its_tables_were_written_is_there_once() {
    let directory = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        let db = open(directory.path());
        db.ingest(home_of(0), many(0, SPAN), &|| ()).unwrap();
    }
    let db = open(directory.path());
    assert_eq!(numbers(&db), Vec::<u64>::new());
    db.ingest(home_of(0), many(0, SPAN), &|| ()).unwrap();
    commit(&db, Batch { changes: many(0, SPAN + 3), applied: 1 }).unwrap();
    drop(db);
    let db = open(directory.path());
    assert_eq!(numbers(&db), (0..SPAN + 3).collect::<Vec<_>>());
    assert_eq!(db.number(FILLED).unwrap(), Some(SPAN + 3));
}
