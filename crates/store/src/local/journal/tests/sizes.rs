//! Segments of several sizes: larger ones for large groups, more of them under load, few at rest.

use super::*;
use crate::local::directory::files::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};
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

/// A disk that asks, whenever the name of a segment may still come or go with the power, whether somebody needs it.
struct AskingFiles {
    disk: ForgetfulDisk,
    journal: OnceLock<Arc<Journal>>,
    made: Mutex<Option<String>>,
    asked: Mutex<Vec<String>>,
}

impl AskingFiles {
    fn ask(&self, name: &str) {
        let Some(journal) = self.journal.get() else { return };
        assert!(!journal.segments_after(0).contains(&name.to_owned()), "{name} is needed and may be gone");
        self.asked.lock().unwrap().push(name.to_owned());
    }
}

impl Files for AskingFiles {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        *self.made.lock().unwrap() = Some(name.to_owned());
        self.disk.create(name)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.disk.open(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)?;
        self.ask(name);
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        if let Some(name) = self.made.lock().unwrap().take() {
            self.ask(&name);
        }
        self.disk.sync_dir()
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.disk.path_of(name)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes()
    }
}

/// A catalog that was written at such a moment named a segment that a loss of power, or the journal itself, then took: the
/// store refused to open.
#[test]
fn a_segment_that_is_being_made_or_deleted_is_not_needed() {
    let disk = ForgetfulDisk::new();
    let (journal, made, asked) = (OnceLock::new(), Mutex::default(), Mutex::default());
    let files = Arc::new(AskingFiles { disk: disk.clone(), journal, made, asked });
    let opened = open(files.clone(), options(), 1, KEY, 0, &mut |_, _| Ok(())).unwrap();
    assert!(files.journal.set(opened.journal.clone()).is_ok());
    let mut rig = Rig { disk, opened, epoch: 1, durable: 0, applied: 0, written: BTreeMap::new() };
    rig.settle();
    let made = files.asked.lock().unwrap().len();
    assert!(made > 0, "spares are made");
    rig.reserve(60_000);
    let last = rig.append(60_000);
    rig.reserve(60_000);
    rig.append(60_000);
    rig.opened.journal.release(last);
    rig.rest(200);
    assert!(files.asked.lock().unwrap().len() > made + 1, "large ones are made and deleted");
    assert_eq!(rig.opened.journal.segments_after(last).len(), 1, "the active one is needed");
}
