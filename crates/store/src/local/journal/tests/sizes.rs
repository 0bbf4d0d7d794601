//! Segments of several sizes: larger ones for large groups, more of them under load, few at rest.

use super::*;
use std::time::Duration;

const USUAL: u64 = 16 << 10;
const LARGE: u64 = 64 << 10;

impl Rig {
    /// Makes room for a payload of any size, as the owner does.
    fn reserve(&self, bytes: usize) {
        while self.opened.appender.reserve(bytes, Duration::ZERO).is_err() {
            self.opened.journal.prepare().unwrap();
        }
    }

    /// The background thread, for as long as nothing happens so many times.
    fn rest(&self, times: usize) {
        self.settle();
        for _ in 0..times {
            self.opened.journal.wait_for_work(Duration::ZERO);
            self.opened.journal.wait_for_work(Duration::ZERO);
            self.settle();
        }
    }

    fn sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.names().iter().map(|name| self.bytes_of(name).len() as u64).collect();
        sizes.sort_unstable();
        sizes
    }
}

#[test]
fn a_new_journal_has_one_active_segment_and_its_spares() {
    let rig = Rig::new();
    rig.rest(3);
    assert_eq!(rig.sizes(), [USUAL; 3]);
}

#[test]
fn a_group_that_no_usual_segment_holds_gets_a_larger_one() {
    let mut rig = Rig::new();
    rig.settle();
    rig.append(100);
    for bytes in [20_000, 60_000, 10, 40_000, 16_000, 3000] {
        rig.reserve(bytes);
        rig.append(bytes);
    }
    let spots = rig.spots();
    assert_eq!(spots.len(), 7);
    assert!(rig.sizes().contains(&LARGE));
    rig.disk.crash_keep_none();
    rig.reopen();
    assert_eq!(rig.durable, 7);
}

#[test]
fn a_promised_segment_stays_until_it_is_used() {
    let mut rig = Rig::new();
    rig.settle();
    rig.reserve(60_000);
    rig.rest(200);
    assert_eq!(rig.opened.appender.ensure_room(60_000), Ok(()));
    rig.append(60_000);
    rig.reopen();
}

#[test]
fn a_large_group_on_a_full_disk_is_refused_and_usual_ones_go_on() {
    let mut rig = Rig::new();
    rig.settle();
    rig.disk.set_full(true);
    assert_eq!(rig.opened.appender.reserve(60_000, Duration::ZERO), Err(NoRoom::Preparing));
    assert!(rig.opened.journal.prepare().is_err());
    let refused = rig.opened.appender.wait_room(60_000, Duration::from_secs(60));
    assert!(matches!(refused, Err(NoRoom::Failed(_))), "{refused:?}");
    rig.append(3000);
    rig.disk.set_full(false);
    rig.reserve(60_000);
    rig.append(60_000);
    rig.disk.crash_keep_none();
    rig.reopen();
    assert_eq!(rig.durable, 2);
}

#[test]
fn what_load_has_made_is_kept_for_the_next_one_and_goes_at_rest() {
    let mut rig = Rig::new();
    rig.settle();
    let burst = |rig: &mut Rig| {
        for _ in 0..24 {
            rig.append(9000);
            rig.settle();
        }
        rig.release(rig.durable);
        rig.settle();
    };
    // The first one began in an empty segment.
    burst(&mut rig);
    burst(&mut rig);
    let most = rig.sizes().len();
    assert!(most > 24, "{most} segments");
    let names = rig.names();
    burst(&mut rig);
    assert_eq!(rig.names(), names, "nothing is made or removed under a steady load");
    rig.rest(100);
    assert_eq!(rig.sizes(), [USUAL; 3]);
    rig.reopen();
}

#[test]
fn large_segments_go_at_rest() {
    let mut rig = Rig::new();
    for _ in 0..4 {
        rig.reserve(60_000);
        rig.append(60_000);
    }
    rig.release(4);
    rig.rest(100);
    // The active one is used up first.
    assert_eq!(rig.sizes(), [USUAL, USUAL, LARGE]);
    for _ in 0..4 {
        rig.append(9000);
        rig.settle();
    }
    rig.release(8);
    rig.rest(100);
    assert_eq!(rig.sizes(), [USUAL; 3]);
    rig.disk.crash_keep_none();
    rig.reopen();
    assert_eq!(rig.durable, 8);
}

/// One life in which segments grow, are recycled and shrink, ending at the first failing call.
fn live(rig: &mut Rig) -> io::Result<()> {
    for step in 1..=16 {
        let bytes = [3000, 50_000, 9000, 200][step % 4] + step;
        let mut tries = 0;
        while rig.opened.appender.reserve(bytes, Duration::ZERO).is_err() {
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
        if step == 8 {
            for _ in 0..60 {
                rig.opened.journal.wait_for_work(Duration::ZERO);
                let _ = rig.opened.journal.prepare();
            }
        }
    }
    Ok(())
}

#[test]
fn a_failure_or_crash_at_any_call_of_growing_loses_nothing() {
    let mut before = Rig::new();
    let start = before.disk.calls();
    live(&mut before).unwrap();
    let calls = before.disk.calls() - start;
    let mut failed = 0;
    let stops = [(Fault::Full, 0), (Fault::Io, 1), (Fault::Io, 2), (Fault::Full, 3), (Fault::Io, 4)];
    for call in 1..=calls {
        // Each call is stopped in two of the ways, and neighbouring calls in all of them.
        for way in [call, call + 2] {
            let (fault, crash) = stops[way as usize % stops.len()];
            let mut rig = Rig::new();
            rig.disk.fail_at(call, fault);
            failed += u64::from(live(&mut rig).is_err());
            match crash {
                0 => {}
                1 => rig.disk.crash_keep_none(),
                2 => rig.disk.crash_keep_all(),
                seed => rig.disk.crash(call * seed),
            }
            rig.reopen();
            live(&mut rig).unwrap();
            rig.disk.crash_keep_none();
            rig.reopen();
        }
    }
    assert!(failed > 20, "failing writes are reported: {failed}");
}
