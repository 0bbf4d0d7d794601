//! Tables with a damaged block: what does not need it goes on.

use super::*;

/// The same tables were chosen again each time, so nothing was merged any more.
#[test]
fn a_damaged_table_is_not_merged_and_all_others_are() {
    let disk = ForgetfulDisk::new();
    let tables = open(Arc::new(disk.clone())).unwrap();
    for no in 0..24u64 {
        let mut rows = Rows::default();
        rows.put(Group::Ended(9_000_000), &no.to_be_bytes(), Some(&[b'e'; 2000]));
        rows.put(Group::Dead, &(no + 1000).to_be_bytes(), Some(&[b'd'; 2000]));
        rows.put(Group::Rows, &state_key(no), None);
        rows.show(&tables, no + 1);
        tables.persist(Vec::new()).unwrap();
    }
    let damaged = tables.version().group(Group::Ended(9_000_000))[3].number;
    let name = catalog::name_of(damaged);
    drop(tables);
    disk.corrupt(&name, 20, 1);
    let tables = open(Arc::new(disk.clone())).unwrap();
    let mut told = 0;
    for _ in 0..100 {
        match tables.merge_some(NOW, usize::MAX, &|| ()) {
            Ok(false) => break,
            Ok(true) => {}
            Err(error) => {
                told += 1;
                assert!(error.to_string().contains(&name), "{error}");
            }
        }
    }
    assert_eq!(told, 1, "it is told once");
    let version = tables.version();
    let count = version.tables().count();
    assert!(count < 20, "{count} tables are left");
    assert!(version.group(Group::Ended(9_000_000)).iter().any(|table| table.number == damaged), "it is kept");
    for no in (0..24u64).filter(|no| *no != 3) {
        assert!(version.ended(no).unwrap().is_some(), "{no}");
        assert!(version.get(Group::Dead, &(no + 1000).to_be_bytes()).unwrap().is_some());
    }
    assert!(version.ended(3).is_err());
    let files = disk.list().unwrap().iter().filter(|name| name.ends_with(".tab")).count();
    assert_eq!(files, count, "nothing is left of the attempt");
}
