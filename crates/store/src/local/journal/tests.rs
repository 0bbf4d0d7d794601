//! The journal on a disk that forgets. `Rig` plays the owner: it appends, acknowledges, crashes and
//! reopens, and knows what must be found again.

mod crashes;
mod damage;
mod sizes;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::local::directory::files::Files;
use crate::testing::forgetful::{Fault, ForgetfulDisk};

const KEY: u64 = 0x5eed;

fn options() -> Options {
    Options { segment_bytes: 16 << 10, largest_bytes: 64 << 10, spares: 2, sync: true }
}

type Replayed = Vec<(u64, Vec<u8>)>;

fn open_at(disk: &ForgetfulDisk, epoch: u32, applied: u64) -> Result<(Opened, Replayed), OpenError> {
    let mut replayed = Vec::new();
    let opened = open(Arc::new(disk.clone()), options(), epoch, KEY, applied, &mut |position, payload| {
        replayed.push((position, payload.to_vec()));
        Ok(())
    })?;
    Ok((opened, replayed))
}

fn payload(salt: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (salt as usize * 31 + at * 7) as u8 | 1).collect()
}

fn framed(payload: &[u8]) -> Vec<u8> {
    let mut buffer = vec![0; FRAME_HEADER];
    buffer.extend_from_slice(payload);
    buffer
}

struct Rig {
    disk: ForgetfulDisk,
    opened: Opened,
    epoch: u32,
    durable: u64,
    applied: u64,
    written: BTreeMap<u64, Vec<u8>>,
}

impl Rig {
    fn new() -> Self {
        Self::on(ForgetfulDisk::new())
    }

    fn on(disk: ForgetfulDisk) -> Self {
        let (opened, replayed) = open_at(&disk, 1, 0).unwrap();
        assert!(replayed.is_empty());
        Self { disk, opened, epoch: 1, durable: 0, applied: 0, written: BTreeMap::new() }
    }

    fn frame(&mut self, bytes: usize) -> Write {
        while self.opened.appender.ensure_room(bytes).is_err() {
            self.opened.journal.prepare().unwrap();
        }
        // The same position of another epoch gets other bytes.
        let payload = payload(u64::from(self.epoch) * 1000 + self.written.len() as u64, bytes);
        let write = self.opened.appender.frame(framed(&payload), self.durable);
        self.written.insert(write.position, payload);
        write
    }

    fn append(&mut self, bytes: usize) -> u64 {
        let write = self.frame(bytes);
        write.perform(true).unwrap();
        self.durable = write.position;
        write.position
    }

    fn settle(&self) {
        while self.opened.journal.prepare().unwrap() {}
    }

    /// Reopens and checks that all that was promised is there, and nothing that was never written.
    fn reopen(&mut self) -> Opened {
        self.epoch += 1;
        let (opened, replayed) = open_at(&self.disk, self.epoch, self.applied).unwrap();
        let positions: Vec<u64> = replayed.iter().map(|(position, _)| *position).collect();
        let expected: Vec<u64> = (self.applied + 1..=opened.last_position).collect();
        assert_eq!(positions, expected, "in order and without gaps");
        assert!(opened.last_position >= self.durable, "{} of {}", opened.last_position, self.durable);
        for (position, payload) in &replayed {
            assert!(self.written.get(position) == Some(payload), "frame {position} differs");
        }
        self.written.split_off(&(opened.last_position + 1));
        self.durable = opened.last_position;
        std::mem::replace(&mut self.opened, opened)
    }

    fn release(&mut self, applied: u64) {
        assert!(applied <= self.durable);
        self.applied = applied;
        self.opened.journal.release(applied);
    }

    fn bytes_of(&self, name: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        load(&*self.disk.open(name).unwrap(), &mut bytes).unwrap();
        bytes
    }

    fn names(&self) -> Vec<String> {
        self.disk.list().unwrap()
    }

    /// The places of all intact frames, by position.
    fn spots(&self) -> BTreeMap<u64, (String, u64, u64)> {
        let mut spots = BTreeMap::new();
        for name in self.names() {
            let bytes = self.bytes_of(&name);
            for (offset, frame) in frame::search(&bytes, SEGMENT_HEADER, KEY) {
                spots.insert(frame.position, (name.clone(), offset as u64, frame.size as u64));
            }
        }
        spots
    }
}

#[test]
fn frames_survive_reopening_in_order() {
    let mut rig = Rig::new();
    for round in 0..5 {
        for size in [0, 1, 7, 8, 9, 500, 3000, 40] {
            rig.append(size + round);
        }
        rig.reopen();
    }
    assert_eq!(rig.durable, 40);
    let report = inspect(&rig.disk, KEY, 0).unwrap();
    assert_eq!((report.frames, report.first_position, report.last_position), (40, Some(1), Some(40)));
    assert_eq!(report.torn_bytes, 0);
}

#[test]
fn an_applied_journal_goes_on_numbering_from_there() {
    let mut rig = Rig::new();
    rig.append(10);
    let (opened, replayed) = open_at(&rig.disk, 9, 7).unwrap();
    assert!(replayed.is_empty());
    assert_eq!(opened.last_position, 7);
    drop(opened);
    let (opened, _) = open_at(&rig.disk, 10, 9).unwrap();
    assert_eq!(opened.last_position, 9);
}

#[test]
fn the_largest_group_fits_and_a_larger_one_is_named() {
    let mut rig = Rig::new();
    let usual = rig.opened.appender.usual_payload();
    rig.append(100);
    rig.append(usual);
    rig.append(usual);
    let max = rig.opened.appender.max_payload();
    let error = rig.opened.appender.ensure_room(max + 1).unwrap_err();
    assert_eq!(error, NoRoom::TooLarge { bytes: max + 1, max });
    rig.reopen();
}

#[test]
fn a_buffer_is_handed_back_for_reuse() {
    let mut rig = Rig::new();
    let write = rig.frame(100);
    assert_eq!(write.bytes(), 144);
    assert_eq!(write.into_buffer(), vec![0; FRAME_HEADER]);
}

#[test]
fn segments_are_recycled_and_surplus_files_removed() {
    let mut rig = Rig::new();
    rig.settle();
    for _ in 0..200 {
        let position = rig.append(3000);
        if position.is_multiple_of(10) {
            rig.release(position - 2);
            rig.settle();
            assert!(rig.opened.journal.segments() <= 6, "{}", rig.opened.journal.segments());
        }
    }
    let bytes = rig.opened.journal.disk_bytes();
    assert_eq!(bytes, rig.opened.journal.segments() as u64 * options().segment_bytes);
    assert_eq!(rig.names().len(), rig.opened.journal.segments());
    rig.reopen();
}

#[test]
fn other_files_in_the_directory_are_left_alone() {
    let disk = ForgetfulDisk::new();
    for name in ["manifest", "LOCK", "journal-x.seg", "journal-000001.seg.bak"] {
        disk.create(name).unwrap().write_at(b"mine", 0).unwrap();
    }
    let mut rig = Rig::on(disk);
    rig.append(9000);
    rig.append(9000);
    rig.reopen();
    for name in ["manifest", "LOCK", "journal-x.seg", "journal-000001.seg.bak"] {
        assert_eq!(rig.bytes_of(name), b"mine");
    }
}

#[test]
fn the_background_thread_keeps_the_appender_supplied() {
    let mut rig = Rig::new();
    let journal = Arc::clone(&rig.opened.journal);
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let background = std::thread::spawn(move || {
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            journal.wait_for_work(std::time::Duration::from_secs(60));
            journal.prepare().unwrap();
        }
    });
    for position in 1..=200 {
        rig.opened.appender.wait_room(5000, std::time::Duration::from_secs(60)).unwrap();
        rig.append(5000);
        rig.release(position);
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    rig.opened.journal.wake();
    background.join().unwrap();
    rig.reopen();
}

#[test]
fn room_is_refused_while_a_spare_is_being_made() {
    let mut rig = Rig::new();
    rig.append(8000);
    assert_eq!(rig.opened.appender.ensure_room(8000), Err(NoRoom::Preparing));
    let waited = rig.opened.appender.wait_room(8000, std::time::Duration::from_millis(5));
    assert_eq!(waited, Err(NoRoom::Preparing));
    rig.opened.journal.prepare().unwrap();
    assert_eq!(rig.opened.appender.ensure_room(8000), Ok(()));
}

#[test]
fn a_full_disk_is_reported_until_space_returns() {
    let mut rig = Rig::new();
    rig.append(8000);
    rig.disk.set_full(true);
    assert!(rig.opened.journal.prepare().is_err());
    let error = rig.opened.appender.ensure_room(8000).unwrap_err();
    assert!(matches!(&error, NoRoom::Failed(text) if text.contains("journal-")), "{error}");
    assert_eq!(rig.opened.appender.ensure_room(100), Ok(()), "the active segment still has room");
    rig.disk.set_full(false);
    rig.disk.set_free_bytes(1000);
    assert!(rig.opened.journal.prepare().is_err(), "a segment is not begun that cannot be ended");
    assert_eq!(rig.names().len(), 1);
    rig.disk.set_free_bytes(1 << 30);
    rig.opened.journal.prepare().unwrap();
    assert_eq!(rig.opened.appender.ensure_room(8000), Ok(()));
    rig.append(8000);
    rig.reopen();
}

#[test]
fn recycling_needs_no_space() {
    let mut rig = Rig::new();
    rig.settle();
    for position in 1..=3 {
        rig.append(8000);
        if position == 3 {
            rig.disk.set_full(true);
        }
    }
    assert_eq!(rig.opened.appender.ensure_room(8000), Err(NoRoom::Preparing));
    rig.release(2);
    rig.settle();
    rig.append(8000);
    rig.reopen();
}

#[test]
fn files_of_another_size_are_read_and_replaced() {
    let mut rig = Rig::new();
    for _ in 0..5 {
        rig.append(8000);
    }
    let larger = Options { segment_bytes: 32 << 10, ..options() };
    let files: Arc<dyn Files> = Arc::new(rig.disk.clone());
    let mut count = 0;
    let opened = open(files, larger, 2, KEY, 3, &mut |_, _| {
        count += 1;
        Ok(())
    });
    let opened = opened.unwrap();
    assert_eq!(count, 2);
    opened.journal.release(5);
    while opened.journal.prepare().unwrap() {}
    let sizes = rig.names().into_iter().map(|name| rig.bytes_of(&name).len());
    assert!(sizes.filter(|size| *size == 32 << 10).count() >= 3);
}
