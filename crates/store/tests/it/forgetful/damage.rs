//! Journals that are torn at the end, which is mended, and journals damaged elsewhere, which is refused.

use super::Ground;
use codeq_queue::Task;
use codeq_store::local::files::Files;
use codeq_store::local::{self, LocalOptions, Parts};
use codeq_store::testing::exam::bench::Bench;
use codeq_store::testing::forgetful::ForgetfulDisk;
use codeq_store::testing::observed::{Call, When};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// In front of the frames of a segment.
const SEGMENT_HEADER: u64 = 4096;

/// One frame as the journal wrote it.
#[derive(Clone, Debug)]
struct Written {
    name: String,
    offset: u64,
    bytes: usize,
}

impl Written {
    fn read(&self, disk: &ForgetfulDisk) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes];
        let count = disk.open(&self.name).unwrap().read_at(&mut bytes, self.offset).unwrap();
        assert_eq!(count, self.bytes);
        bytes
    }
}

/// Remembers every frame from now on. Headers are written at the beginning of a file.
fn frames(ground: &Ground) -> Arc<Mutex<Vec<Written>>> {
    let frames: Arc<Mutex<Vec<Written>>> = Arc::default();
    let seen = frames.clone();
    ground.files.set_watch(Some(Arc::new(move |call, when| match call {
        Call::Write { name, offset, bytes } if *offset >= SEGMENT_HEADER && when == When::After => {
            seen.lock().unwrap().push(Written { name: name.clone(), offset: *offset, bytes: *bytes });
        }
        _ => {}
    })));
    frames
}

async fn assert_there(bench: &Bench, tasks: &[Task]) {
    for task in tasks {
        assert_eq!(bench.get(task.id).await, *task);
    }
}

#[tokio::test]
async fn a_frame_torn_at_any_byte_is_cut_off_and_nothing_else() {
    let mut ground = Ground::small();
    let bench = ground.bench();
    let kept = [bench.create("first").await, bench.create("second").await];
    let (frames, before) = (frames(&ground), ground.disk.snapshot());
    let newest = bench.create("newest").await;
    let frame = frames.lock().unwrap().pop().expect("the create was written");
    let (old, new) = (frame.read(&before), frame.read(&ground.disk));
    for cut in 0..=frame.bytes {
        let mut copy = ground.without_tables();
        for at in cut..frame.bytes {
            copy.disk.corrupt(&frame.name, frame.offset + at as u64, old[at] ^ new[at]);
        }
        let is_whole = old[cut..] == new[cut..];
        let bench = copy.bench();
        assert_there(&bench, &kept).await;
        assert_eq!(bench.find(newest.id).await.is_some(), is_whole, "cut at {cut} of {}", frame.bytes);
        assert_eq!(bench.stats("newest").await.ready_total(), u64::from(is_whole));
        if cut.is_multiple_of(16) {
            let next = bench.create("next").await;
            let again = copy.without_tables().bench();
            assert_there(&again, &kept).await;
            assert_there(&again, &[next]).await;
        }
    }
}

#[tokio::test]
async fn a_flipped_bit_in_a_frame_that_was_kept_is_refused_with_file_and_offset() {
    let mut ground = Ground::small();
    let bench = ground.bench();
    let frames = frames(&ground);
    for command in ["first", "second", "third"] {
        bench.create(command).await;
    }
    let mut frames = frames.lock().unwrap().clone();
    frames.pop().expect("the last frame looks torn when it is damaged");
    assert_eq!(frames.len(), 2);
    for frame in frames {
        for at in 0..frame.bytes {
            let mut copy = ground.without_tables();
            copy.disk.corrupt(&frame.name, frame.offset + at as u64, 1 << (at % 8));
            let refused = copy.open().err().unwrap_or_else(|| panic!("byte {at} of {frame:?} is not missed"));
            let expected = format!("/forgetful/{} is damaged at byte {}", frame.name, frame.offset);
            assert!(refused.to_string().starts_with(&expected), "byte {at} of {frame:?}: {refused}");
        }
    }
}

#[tokio::test]
async fn a_damaged_header_in_front_of_frames_is_refused_with_file_and_offset() {
    let mut ground = Ground::small();
    let bench = ground.bench();
    let frames = frames(&ground);
    bench.create("first").await;
    let name = frames.lock().unwrap().pop().expect("the create was written").name;
    for at in 0..56 {
        let mut copy = ground.without_tables();
        copy.disk.corrupt(&name, at, 0x10);
        let refused = copy.open().err().unwrap_or_else(|| panic!("byte {at} of the header is not missed"));
        let expected = format!("/forgetful/{name} is damaged at byte 0");
        assert!(refused.to_string().starts_with(&expected), "byte {at}: {refused}");
    }
}

#[tokio::test]
async fn a_journal_that_lost_a_file_is_refused() {
    let mut ground = Ground::small();
    let bench = ground.bench();
    let frames = frames(&ground);
    let files = || frames.lock().unwrap().iter().map(|frame| frame.name.clone()).collect::<BTreeSet<_>>();
    while files().len() < 2 {
        bench.create("first").await;
    }
    bench.create("second").await;
    let first = frames.lock().unwrap()[0].name.clone();
    let mut copy = ground.without_tables();
    copy.disk.remove(&first).unwrap();
    let refused = copy.open().err().expect("frames are missing").to_string();
    assert!(refused.starts_with("/forgetful/journal-"), "{refused}");
}

/// A store that was refused left the threads of its healthy shards behind, which went on writing to files that
/// were no longer locked.
#[tokio::test]
async fn a_refused_store_leaves_no_threads_at_its_healthy_shards() {
    let mut ground = Ground::small();
    let frames = frames(&ground);
    ground.bench().create("first").await;
    let damaged = ground.without_tables();
    damaged.disk.corrupt(&frames.lock().unwrap()[0].name, 0, 0x10);
    let healthy = Arc::new(ForgetfulDisk::new());
    let shards: Vec<Arc<dyn Files>> = vec![healthy.clone(), Arc::new(damaged.disk)];
    assert!(local::assemble(LocalOptions::new("/forgetful"), Parts::over(shards, 9)).is_err());
    assert_eq!(Arc::strong_count(&healthy), 1, "nobody holds the files any more");
}
