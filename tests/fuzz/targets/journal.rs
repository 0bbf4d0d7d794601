//! A segment of a journal, changed anywhere.

use super::tables::a_life;
use codeq_store::local::files::Files;
use codeq_store::local::journal;
use codeq_store::testing::forgetful::ForgetfulDisk;
use std::sync::Arc;

/// As the doubles of the store use them.
const KEY: u64 = 2;
const SEGMENT_BYTES: u64 = 16 << 10;

pub struct Segment {
    name: String,
    pub bytes: Vec<u8>,
}

impl Segment {
    /// The first segment of a store that has lived a little.
    pub fn record() -> Segment {
        let disk = a_life(SEGMENT_BYTES);
        let names = disk.list().expect("the disk is in memory");
        let contents = |name: &String| {
            let file = disk.open(name).expect("it was listed");
            let mut bytes = vec![0; usize::try_from(file.len().expect("it is open")).expect("a small file")];
            file.read_at(&mut bytes, 0).expect("it is open");
            bytes
        };
        let used = |bytes: &Vec<u8>| bytes.iter().filter(|byte| **byte != 0).count();
        let all = names.iter().map(|name| (name.clone(), contents(name)));
        let (name, bytes) = all.max_by_key(|(_, bytes)| used(bytes)).expect("a store has a journal");
        Segment { name, bytes }
    }

    pub fn read(&self, input: &[u8]) {
        let disk = ForgetfulDisk::new();
        let file = disk.create(&self.name).expect("the disk is in memory");
        file.write_at(input, 0).expect("the disk is in memory");
        let options = journal::Options { segment_bytes: SEGMENT_BYTES, sync: false, ..Default::default() };
        drop(journal::open(Arc::new(disk), options, 9, KEY, 0, &mut |_, _| Ok(())));
    }
}
