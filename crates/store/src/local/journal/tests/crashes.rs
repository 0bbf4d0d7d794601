//! Crashes and failing calls.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;

#[test]
fn a_tail_torn_at_any_byte_is_cut_and_nothing_before_it() {
    let mut rig = Rig::new();
    for size in [10, 700, 100] {
        rig.append(size);
    }
    let (name, offset, size) = rig.spots()[&3].clone();
    for torn in 0..size {
        let disk = rig.disk.snapshot();
        let bytes = rig.bytes_of(&name);
        let file = disk.open(&name).unwrap();
        // From here on the frame never reached the disk.
        file.write_at(&vec![0; (size - torn) as usize], offset + torn).unwrap();
        let same = bytes[(offset + torn) as usize..(offset + size) as usize].iter().all(|byte| *byte == 0);
        let (opened, replayed) = open_at(&disk, 2, 0).unwrap();
        let expected = if same { 3 } else { 2 };
        assert_eq!(replayed.len(), expected, "torn at {torn}");
        assert_eq!(replayed[1], (2, rig.written[&2].clone()));
        assert_eq!(opened.last_position, expected as u64);
        // Its header is whole from byte 25 on, as the rest of `durable` is zero anyway.
        assert_eq!(opened.torn_bytes, if same || torn < 25 { 0 } else { size });
    }
}

/// Pipelined groups: the first is lost, the second reached the disk, neither was acknowledged.
#[test]
fn frames_behind_a_torn_one_are_cut_for_good() {
    let mut rig = Rig::new();
    rig.settle();
    rig.append(100);
    let lost = rig.frame(100);
    let ahead = rig.frame(100);
    let next_segment = rig.frame(15 << 10 >> 1);
    let last = rig.frame(15 << 10 >> 1);
    drop(lost);
    for write in [&ahead, &next_segment, &last] {
        write.perform(true).unwrap();
    }
    rig.disk.crash_keep_none();
    let (opened, replayed) = open_at(&rig.disk, 2, 0).unwrap();
    assert_eq!((replayed.len(), opened.last_position), (1, 1));
    assert_eq!(opened.torn_bytes, (ahead.bytes() + next_segment.bytes() + last.bytes()) as u64);
    // The new epoch writes other frames under the numbers that were cut off.
    rig.written.split_off(&2);
    rig.opened = opened;
    rig.epoch = 2;
    for applied in 0..4 {
        rig.append(200);
        rig.applied = applied;
        rig.reopen();
    }
    rig.settle();
    rig.reopen();
}

#[test]
fn stale_frames_of_a_recycled_segment_are_never_replayed() {
    let mut rig = Rig::new();
    for _ in 0..30 {
        rig.append(1000);
    }
    rig.release(30);
    // Every file now has stale frames behind its header, and the epoch is still the same.
    rig.settle();
    rig.append(1000);
    let expected = (31, rig.written[&31].clone());
    let write = rig.frame(1000);
    write.perform(false).unwrap();
    let mut lost = 0;
    for seed in 0..50 {
        let disk = rig.disk.snapshot();
        disk.crash(seed);
        let (opened, replayed) = open_at(&disk, 2, 30).unwrap();
        assert!(replayed[0] == expected);
        assert!(replayed.get(1).is_none_or(|second| *second == (32, rig.written[&32].clone())));
        assert_eq!(opened.last_position, 30 + replayed.len() as u64);
        lost += 2 - replayed.len();
    }
    assert!(lost > 10, "most crashes tear the second frame");
}

#[test]
fn a_recycled_spare_alone_replays_nothing() {
    let mut rig = Rig::new();
    for _ in 0..30 {
        rig.append(1000);
    }
    rig.release(30);
    rig.settle();
    let stale = rig.spots();
    assert!(stale.len() > 10, "the test needs stale frames");
    // Only files with recycled headers are left.
    for name in rig.names() {
        let bytes = rig.bytes_of(&name);
        let segment::HeaderState::Valid(header) = segment::Header::decode(&bytes, KEY) else { continue };
        if header.floor < 30 {
            rig.disk.remove(&name).unwrap();
        }
    }
    let (opened, replayed) = open_at(&rig.disk, 2, 30).unwrap();
    assert!(replayed.is_empty());
    assert_eq!((opened.frames, opened.last_position), (0, 30));
    assert!(matches!(open_at(&rig.disk, 3, 20), Err(OpenError::Gap { applied: 20, found: 31, .. })));
}

#[test]
fn a_half_made_file_is_used_again() {
    for bytes in [0, 100, 4096, 9000, 16 << 10] {
        let mut rig = Rig::new();
        rig.append(100);
        let file = rig.disk.create("journal-000077.seg").unwrap();
        file.write_at(&vec![0; bytes], 0).unwrap();
        rig.reopen();
        rig.settle();
        assert_eq!(rig.bytes_of("journal-000077.seg").len() as u64, options().segment_bytes);
        for _ in 0..10 {
            rig.append(5000);
        }
        assert!(rig.spots().values().any(|(name, ..)| name == "journal-000077.seg"));
        rig.disk.crash_keep_none();
        rig.reopen();
    }
}

/// After a failed sync the page cache shows a frame that is not on disk and that no sync would put there.
#[test]
fn a_frame_replayed_after_a_failed_sync_is_written_again() {
    let mut rig = Rig::new();
    rig.append(100);
    let write = rig.frame(2000);
    rig.disk.fail_at(2, Fault::Io);
    assert!(write.perform(true).is_err());
    rig.reopen();
    assert_eq!(rig.durable, 2, "the cache still has it");
    rig.append(50);
    rig.disk.crash_keep_none();
    rig.reopen();
    assert_eq!(rig.durable, 3);
}

/// One life of a store, ending at the first failing call. True if it came to its end.
fn live(rig: &mut Rig) -> io::Result<()> {
    for step in 1..=14 {
        let bytes = 1500 * (step % 4) + 3000;
        let mut tries = 0;
        while rig.opened.appender.ensure_room(bytes).is_err() {
            tries += 1;
            if let Err(error) = rig.opened.journal.prepare()
                && tries > 3
            {
                return Err(error);
            }
        }
        let write = rig.frame(bytes);
        write.perform(true)?;
        rig.durable = write.position;
        if step % 3 == 0 {
            rig.release(rig.durable - 1);
        }
        let _ = rig.opened.journal.prepare();
    }
    Ok(())
}

#[test]
fn a_failure_of_any_call_loses_nothing_that_was_acknowledged() {
    let mut before = Rig::new();
    let start = before.disk.calls();
    live(&mut before).unwrap();
    let calls = before.disk.calls() - start;
    let mut failed = 0;
    for fault in [Fault::Full, Fault::Io] {
        for call in 1..=calls {
            for crash in 0..4 {
                let mut rig = Rig::new();
                rig.disk.fail_at(call, fault);
                failed += u64::from(live(&mut rig).is_err());
                match crash {
                    0 => {}
                    1 => rig.disk.crash_keep_none(),
                    2 => rig.disk.crash_keep_all(),
                    _ => rig.disk.crash(call),
                }
                rig.reopen();
                live(&mut rig).unwrap();
                rig.disk.crash_keep_none();
                rig.reopen();
            }
        }
    }
    assert!(failed > calls, "failing writes are reported");
}

#[test]
fn an_opening_that_fails_at_any_call_can_be_repeated() {
    let mut rig = Rig::new();
    live(&mut rig).unwrap();
    let write = rig.frame(600);
    write.perform(false).unwrap();
    for call in 1.. {
        let disk = rig.disk.snapshot();
        disk.fail_at(call, Fault::Io);
        if open_at(&disk, 2, rig.applied).is_ok() {
            assert!(call > 4, "there were calls to fail");
            break;
        }
        for crash in 0..3 {
            let disk = disk.snapshot();
            match crash {
                0 => {}
                1 => disk.crash_keep_none(),
                _ => disk.crash(call),
            }
            let (opened, replayed) = open_at(&disk, 3, rig.applied).unwrap();
            assert!(opened.last_position >= rig.durable);
            assert!(replayed.iter().all(|(position, payload)| rig.written[position] == *payload));
        }
    }
}

/// Groups are written in any order, up to three in flight; the store crashes at any moment.
fn random_life(rig: &mut Rig, rng: &mut SmallRng) {
    let mut flying: Vec<Write> = Vec::new();
    let mut landed = std::collections::BTreeSet::new();
    if rng.random_bool(0.2) {
        rig.disk.fail_at(rng.random_range(1..60), if rng.random_bool(0.5) { Fault::Io } else { Fault::Full });
    }
    for _ in 0..rng.random_range(0..40) {
        let bytes =
            if rng.random_bool(0.1) { rng.random_range(0..12_000) } else { rng.random_range(0..1500) };
        if flying.len() < 3 && rig.opened.appender.ensure_room(bytes).is_ok() {
            flying.push(rig.frame(bytes));
        }
        if !flying.is_empty() && rng.random_bool(0.7) {
            let write = flying.swap_remove(rng.random_range(0..flying.len()));
            let sync = rng.random_bool(0.9);
            if write.perform(sync).is_err() || !sync {
                return;
            }
            landed.insert(write.position);
            while landed.contains(&(rig.durable + 1)) {
                rig.durable += 1;
            }
        }
        if rng.random_bool(0.3) {
            let _ = rig.opened.journal.prepare();
        }
        if rng.random_bool(0.1) {
            rig.release(rng.random_range(rig.applied..=rig.durable));
        }
    }
}

#[test]
fn whatever_a_crash_drops_every_synced_frame_is_replayed() {
    let mut recycled = 0;
    for seed in 0..150 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut rig = Rig::new();
        for _ in 0..25 {
            random_life(&mut rig, &mut rng);
            match rng.random_range(0..10) {
                0 => rig.disk.crash_keep_none(),
                1 => rig.disk.crash_keep_all(),
                2 => rig.disk.fail_at(1 << 40, Fault::Io),
                _ => rig.disk.crash(rng.random()),
            }
            inspect(&rig.disk, KEY, rig.applied).unwrap();
            rig.reopen();
        }
        recycled += u64::from(rig.applied > 20);
    }
    assert!(recycled > 50, "the rounds went through recycling");
}
