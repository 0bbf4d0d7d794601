//! Rot, missing files, and other things that must be refused, or must do no harm.

use super::*;

/// Three epochs over several segments, some holding a single frame; the last two frames stand in for the
/// tail.
fn grown() -> Rig {
    let mut rig = Rig::new();
    for size in [100, 0, 3000, 9000, 12_200, 12_000, 50] {
        rig.append(size);
    }
    rig.reopen();
    for size in [64, 11_000, 12_248] {
        rig.append(size);
    }
    rig.reopen();
    for size in [1000, 20, 30] {
        rig.append(size);
    }
    rig.settle();
    rig
}

#[test]
fn a_flip_anywhere_in_an_earlier_frame_is_refused_in_its_place() {
    let rig = grown();
    let last = rig.durable;
    for (position, (name, offset, size)) in rig.spots() {
        let step = if size > 400 { 97 } else { 1 };
        let places = (0..FRAME_HEADER as u64).chain((FRAME_HEADER as u64..size).step_by(step));
        for at in places {
            let disk = rig.disk.snapshot();
            disk.corrupt(&name, offset + at, 1 << (at % 8));
            let outcome = open_at(&disk, 9, 0);
            if position == last {
                let (opened, _) = outcome.unwrap();
                assert_eq!(opened.last_position, last - 1, "nothing vouches for the last frame");
                continue;
            }
            match outcome {
                Err(OpenError::Damaged { file, offset: found, .. }) => {
                    assert_eq!((file, found), (disk.path_of(&name), offset), "frame {position} byte {at}");
                }
                Err(other) => panic!("frame {position} byte {at}: {other}"),
                Ok(_) => panic!("frame {position} byte {at}: accepted"),
            }
        }
    }
}

#[test]
fn a_flip_in_a_header_is_refused_if_the_segment_is_needed() {
    let rig = grown();
    let spots = rig.spots();
    for name in rig.names() {
        let used = spots.values().any(|(used, ..)| *used == name);
        for at in (0..200).chain((200..SEGMENT_HEADER as u64).step_by(50)) {
            let disk = rig.disk.snapshot();
            disk.corrupt(&name, at, 1 << (at % 8));
            match open_at(&disk, 9, 0) {
                Err(OpenError::Damaged { file, offset, .. }) => {
                    assert!(used && at < 56, "{name} byte {at}");
                    assert_eq!((file, offset), (disk.path_of(&name), 0));
                }
                Err(other) => panic!("{name} byte {at}: {other}"),
                Ok((opened, replayed)) => {
                    assert!(!used || at >= 56, "{name} byte {at} accepted");
                    assert_eq!((opened.last_position, replayed.len() as u64), (rig.durable, rig.durable));
                }
            }
        }
    }
}

#[test]
fn a_flip_in_an_unused_area_is_harmless() {
    let rig = grown();
    let spots = rig.spots();
    for name in rig.names() {
        let ends = spots.values().filter(|(used, ..)| *used == name).map(|(_, offset, size)| offset + size);
        let end = ends.max().unwrap_or(SEGMENT_HEADER as u64);
        for at in (end..options().segment_bytes).step_by(61) {
            let disk = rig.disk.snapshot();
            disk.corrupt(&name, at, 0xff);
            let (opened, replayed) = open_at(&disk, 9, 0).unwrap();
            assert_eq!((opened.last_position, replayed.len() as u64), (rig.durable, rig.durable));
        }
    }
}

#[test]
fn damage_to_what_is_applied_already_is_harmless() {
    let rig = grown();
    let spots = rig.spots();
    for applied in 1..=rig.durable {
        for position in 1..=applied {
            let disk = rig.disk.snapshot();
            let (name, offset, _) = &spots[&position];
            disk.corrupt(name, offset + 17, 0xff);
            let (opened, replayed) = open_at(&disk, 9, applied).unwrap();
            assert_eq!(opened.last_position, rig.durable, "applied {applied}, frame {position}");
            assert_eq!(replayed.len() as u64, rig.durable - applied);
        }
    }
}

#[test]
fn a_missing_or_shortened_segment_file_is_refused() {
    let rig = grown();
    let spots = rig.spots();
    let last = &spots[&rig.durable].0;
    let names: std::collections::BTreeSet<&String> = spots.values().map(|(name, ..)| name).collect();
    assert!(names.len() > 5);
    for name in names.into_iter().filter(|name| *name != last) {
        let disk = rig.disk.snapshot();
        disk.remove(name).unwrap();
        let outcome = open_at(&disk, 9, 0);
        assert!(matches!(outcome, Err(OpenError::Damaged { .. } | OpenError::Gap { .. })), "{name}");
        for bytes in [0, 100, 4096, 4100] {
            let disk = rig.disk.snapshot();
            disk.truncate(name, bytes);
            let outcome = open_at(&disk, 9, 0);
            assert!(matches!(outcome, Err(OpenError::Damaged { .. } | OpenError::Gap { .. })), "{name}");
        }
    }
}

#[test]
fn a_journal_that_begins_after_what_is_applied_is_a_gap() {
    let mut rig = Rig::new();
    for _ in 0..10 {
        rig.append(9000);
    }
    let (name, ..) = rig.spots()[&1].clone();
    rig.disk.remove(&name).unwrap();
    match open_at(&rig.disk, 2, 0) {
        Err(OpenError::Gap { file, applied: 0, found: 2 }) => {
            assert_eq!(file, rig.disk.path_of(&rig.spots()[&2].0));
        }
        _ => panic!("not refused as a gap"),
    }
    let (opened, replayed) = open_at(&rig.disk, 2, 1).unwrap();
    assert_eq!((opened.last_position, replayed.len()), (10, 9));
}

/// The last frame of an epoch rotted after a later opening had read it.
#[test]
fn a_later_opening_vouches_for_what_it_read() {
    let mut rig = Rig::new();
    rig.append(100);
    rig.append(100);
    let (name, offset, _) = rig.spots()[&2].clone();
    rig.reopen();
    rig.disk.corrupt(&name, offset + 50, 4);
    match open_at(&rig.disk, 9, 0) {
        Err(OpenError::Damaged { file, offset: found, .. }) => {
            assert_eq!((file, found), (rig.disk.path_of(&name), offset));
        }
        _ => panic!("accepted"),
    }
}

#[test]
fn another_key_is_refused_before_anything_is_overwritten() {
    let rig = grown();
    let files: Arc<dyn Files> = Arc::new(rig.disk.clone());
    let outcome = open(files, options(), 9, KEY + 1, 0, &mut |_, _| Ok(()));
    assert!(matches!(outcome, Err(OpenError::Damaged { offset: 0, .. })));
    open_at(&rig.disk, 9, 0).unwrap();
}

#[test]
fn an_epoch_that_does_not_rise_is_refused() {
    let rig = grown();
    assert!(matches!(open_at(&rig.disk, 3, 0), Err(OpenError::Epoch { epoch: 3, found: 3, .. })));
}

#[test]
fn what_replay_refuses_is_damage_in_that_place() {
    let rig = grown();
    let (name, offset, _) = rig.spots()[&4].clone();
    let files: Arc<dyn Files> = Arc::new(rig.disk.clone());
    let outcome = open(files, options(), 9, KEY, 0, &mut |position, _| {
        if position == 4 { Err("nonsense".into()) } else { Ok(()) }
    });
    match outcome {
        Err(OpenError::Damaged { file, offset: found, reason }) => {
            assert_eq!((file, found, reason), (rig.disk.path_of(&name), offset, "nonsense".into()));
        }
        _ => panic!("accepted"),
    }
}

/// A payload that is made to look like frames must neither pass for one nor slow the search down.
#[test]
fn a_payload_of_look_alikes_is_only_a_payload() {
    let mut rig = Rig::new();
    rig.append(100);
    let (name, offset, size) = rig.spots()[&1].clone();
    let mut forged = rig.bytes_of(&name)[offset as usize..(offset + size) as usize].to_vec();
    forged[16] = 9;
    let write = {
        rig.opened.appender.ensure_room(forged.len() * 10).unwrap();
        rig.opened.appender.frame(framed(&forged.repeat(10)), 1)
    };
    write.perform(true).unwrap();
    let spot = offset + size;
    rig.disk.corrupt(&name, spot + 20, 1);
    let (opened, replayed) = open_at(&rig.disk, 2, 0).unwrap();
    assert_eq!((opened.last_position, replayed.len()), (1, 1));
}

#[test]
fn inspecting_changes_nothing() {
    let rig = grown();
    let calls = rig.disk.calls();
    let report = inspect(&rig.disk, KEY, 0).unwrap();
    assert_eq!(report.segments, rig.names().len());
    assert_eq!(report.last_position, Some(rig.durable));
    assert_eq!(rig.disk.calls(), calls);
}
