//! A flipped bit anywhere is told, and what it spoils is never served.

use super::*;

type Row = (Group, Vec<u8>, Option<Vec<u8>>);

/// All rows, by walking through every table and by looking each of them up.
fn everything(version: &Version) -> Result<Vec<Row>, TableError> {
    let mut rows = Vec::new();
    for group in version.groups() {
        let mut walk = version.walk(group, &[], &[])?;
        while let Some((key, row)) = walk.row() {
            rows.push((group, key.to_vec(), row.map(<[u8]>::to_vec)));
            walk.advance()?;
        }
    }
    for (group, key, row) in &rows {
        // A wrong filter would hide it.
        let found = version.newest(*group, key)?;
        assert_eq!(found.as_ref(), Some(row), "what is walked over is found by its key");
    }
    Ok(rows)
}

/// Tables of every group with several blocks each.
fn filled() -> ForgetfulDisk {
    let disk = ForgetfulDisk::new();
    let tables = open(Arc::new(disk.clone())).unwrap();
    let mut rng = SmallRng::seed_from_u64(3);
    let mut text = || -> Vec<u8> { (0..300).map(|_| rng.random()).collect() };
    let mut rows = Rows::default();
    for no in 0..60u64 {
        rows.put(Group::Bodies, &body_key(no), Some(&text()));
        rows.put(Group::Bodies, &head_key(no), Some(b"head"));
        rows.put(Group::Rows, &state_key(no), (no % 3 > 0).then(&mut text).as_deref());
        rows.put(Group::Dead, &(no + 100).to_be_bytes(), Some(&text()));
        rows.put(Group::Ended(2_000_000), &(no + 200).to_be_bytes(), Some(&text()));
        for hash in 0..5 {
            let until = Time::from_millis(1_900_000);
            rows.put(Group::Keys, &hint_key(hash * 1_000_003, no + 200), Some(&write_until(until)));
        }
    }
    rows.show(&tables, 1);
    tables.persist(vec!["journal-000001.seg".to_owned()]).unwrap();
    assert_eq!(tables.version().groups().count(), 5);
    disk
}

/// Closer together than blocks of rows, indexes, pages of filters and footers are long.
const STRIDE: usize = 97;

#[test]
fn a_flipped_bit_in_any_block_of_a_table_is_told_and_never_served() {
    let disk = filled();
    let sound = everything(&open(Arc::new(disk.snapshot())).unwrap().version()).unwrap();
    let names: Vec<_> = disk.list().unwrap().into_iter().filter(|name| name.ends_with(".tab")).collect();
    let mut told_by_reading = 0;
    for (count, name) in names.iter().enumerate() {
        let length = disk.open(name).unwrap().len().unwrap();
        for at in (count as u64 % 7..length).step_by(STRIDE) {
            let copy = disk.snapshot();
            copy.corrupt(name, at, 1 << (at % 8));
            let version = open(Arc::new(copy)).expect("opening reads the catalog").version();
            match everything(&version) {
                Ok(found) => assert_eq!(found, sound, "byte {at} of {name}"),
                Err(error) => {
                    told_by_reading += 1;
                    assert!(error.to_string().contains(name), "byte {at} of {name}: {error}");
                }
            }
            let told = version.tables().filter_map(|table| table.check().err()).count();
            assert_eq!(told, 1, "byte {at} of {name} is found by a check");
        }
    }
    assert!(told_by_reading > 300, "{told_by_reading} were told by reading alone");
}

#[test]
fn a_flipped_bit_anywhere_in_the_catalog_refuses_to_open() {
    let disk = filled();
    for at in 0..disk.open(CATALOG_NAME).unwrap().len().unwrap() {
        let copy = disk.snapshot();
        copy.corrupt(CATALOG_NAME, at, 1 << (at % 8));
        let refused = open(Arc::new(copy)).err().unwrap_or_else(|| panic!("byte {at} is not missed"));
        assert!(refused.to_string().contains(CATALOG_NAME), "byte {at}: {refused}");
    }
}
