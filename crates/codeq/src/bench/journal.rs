//! The ceiling: the bare journal writing the same bytes, one group after another, nothing else.

use super::meter::{Reading, histogram, record};
use super::report::Row;
use codeq_store::local::files::DiskFiles;
use codeq_store::local::journal::{self, FRAME_HEADER};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Writes groups of `in_flight` entries of a cycle's average size for so long.
pub fn run(directory: &Path, in_flight: usize, seconds: f64, cycle_bytes: [usize; 3]) -> anyhow::Result<Row> {
    let directory = directory.join("bare");
    std::fs::create_dir_all(&directory)?;
    let files = Arc::new(DiskFiles::new(&directory));
    let opened = journal::open(files, journal::Options::default(), 1, 1, 0, &mut |_, _| Ok(()))?;
    let (journal, mut appender) = (opened.journal, opened.appender);
    while journal.prepare()? {}
    let (mut latencies, mut operations) = (histogram(), 0u64);
    let started = Reading::take();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut buffer = vec![0u8; FRAME_HEADER];
    let mut stage = 0;
    while Instant::now() < end {
        for _ in 0..in_flight {
            buffer.resize(buffer.len() + cycle_bytes[stage % 3], b'x');
            stage += 1;
        }
        let at = Instant::now();
        let bytes = buffer.len();
        if appender.ensure_room(bytes).is_err() {
            while journal.prepare()? {}
            appender.wait_room(bytes, Duration::from_secs(5))?;
        }
        let write = appender.frame(buffer, 0);
        write.perform(true)?;
        record(&mut latencies, at.elapsed());
        // Everything is released at once: the same few segments are recycled.
        journal.release(write.position);
        buffer = write.into_buffer();
        operations += in_flight as u64;
    }
    let row = Row::new("journal", in_flight, operations / 3, &started.used(), &latencies);
    drop((appender, journal));
    std::fs::remove_dir_all(&directory)?;
    Ok(Row { ratio: Some(1.0), ..row })
}
