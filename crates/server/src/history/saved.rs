//! The history in a file, so that charts go on where they were when the server starts again.
//!
//! The file is a convenience: what cannot be read, is of another form or lies in the future is left alone, and charts
//! begin anew. It is replaced whole, every [`EVERY`] and at the end; a crash loses what came after.

use super::series::{BUCKETS, COARSE, FINE, Sample, Series, UNIT};
use super::{History, Kept, QUEUES, lock, step_of};
use codeq_queue::{QueueKey, Time};
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Between two times that the file is written.
pub const EVERY: Duration = Duration::from_secs(10 * 60);
/// Beside what the store keeps in its directory.
pub const FILE: &str = "charts";
/// Names the form; another number is another form.
const MAGIC: &[u8] = b"codeq charts 1\n";
/// Bytes of a file that is read; the largest that is written is smaller.
const FILE_BYTES: u64 = 128 << 20;

/// Writes the history into this directory.
pub fn save(history: &History, directory: &Path) -> io::Result<()> {
    let bytes = write(history);
    let (new, file) = (directory.join(format!("{FILE}.new")), directory.join(FILE));
    std::fs::write(&new, bytes)?;
    std::fs::rename(new, file)
}

/// The history that was saved in this directory, brought up to now; `None` if there is none to go on with.
pub fn load(directory: &Path, now: Time) -> Option<History> {
    let file = directory.join(FILE);
    if std::fs::metadata(&file).ok()?.len() > FILE_BYTES {
        return None;
    }
    let (since, mut kept) = read(&mut Reader(&std::fs::read(file).ok()?))?;
    let (step, oldest) = (step_of(now), COARSE as i64 * UNIT);
    if kept.step > step || step - kept.step >= oldest {
        return None;
    }
    // Charts count backwards from now: the time without a server is there, and empty.
    for missed in kept.step + 1..step {
        kept.put(missed, HashMap::new());
    }
    Some(History { since, gathered: std::sync::Mutex::default(), kept: std::sync::Mutex::new(kept) })
}

fn write(history: &History) -> Vec<u8> {
    let kept = lock(&history.kept);
    let mut bytes = MAGIC.to_vec();
    bytes.extend(history.since.millis().to_le_bytes());
    bytes.extend(kept.step.to_le_bytes());
    bytes.extend((kept.series.len() as u32).to_le_bytes());
    for (queue, series) in &kept.series {
        for text in [&queue.tenant, &queue.command, &series.command] {
            bytes.extend((text.len() as u32).to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        bytes.extend(series.quiet.to_le_bytes());
        for ring in [&series.fine, &series.coarse] {
            bytes.extend((ring.len() as u32).to_le_bytes());
            ring.iter().for_each(|sample| write_sample(&mut bytes, sample));
        }
    }
    bytes
}

/// Most samples of most queues are quiet: those take one byte.
fn write_sample(bytes: &mut Vec<u8>, sample: &Sample) {
    bytes.push(u8::from(!sample.is_quiet()));
    if sample.is_quiet() {
        return;
    }
    let counts = [sample.created, sample.claimed, sample.completed, sample.failed, sample.returned];
    counts.iter().chain(&sample.depth).for_each(|count| bytes.extend(count.to_le_bytes()));
    sample.took.iter().for_each(|count| bytes.extend(count.to_le_bytes()));
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.take().map(i64::from_le_bytes)
    }

    fn text(&mut self) -> Option<Arc<str>> {
        let length = usize::try_from(self.u32()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok().map(Arc::from)
    }

    fn sample(&mut self) -> Option<Sample> {
        if self.take::<1>()? == [0] {
            return Some(Sample::default());
        }
        let mut counts = [0; 9];
        for count in &mut counts {
            *count = self.u32()?;
        }
        let [created, claimed, completed, failed, returned, depth @ ..] = counts;
        let mut took = [0; BUCKETS];
        for count in &mut took {
            *count = u16::from_le_bytes(self.take()?);
        }
        Some(Sample { created, claimed, completed, failed, returned, depth, took })
    }

    fn ring(&mut self, most: usize) -> Option<VecDeque<Sample>> {
        let length = usize::try_from(self.u32()?).ok().filter(|length| *length <= most)?;
        let mut ring = VecDeque::with_capacity(most);
        for _ in 0..length {
            ring.push_back(self.sample()?);
        }
        Some(ring)
    }
}

fn read(reader: &mut Reader<'_>) -> Option<(Time, Kept)> {
    reader.0 = reader.0.strip_prefix(MAGIC)?;
    let (since, step) = (Time::from_millis(reader.i64()?), reader.i64()?);
    let count = usize::try_from(reader.u32()?).ok().filter(|count| *count <= QUEUES)?;
    let mut series = HashMap::with_capacity(count);
    for _ in 0..count {
        let (tenant, name, command) = (reader.text()?, reader.text()?, reader.text()?);
        let quiet = reader.u32()?;
        let (fine, coarse) = (reader.ring(FINE)?, reader.ring(COARSE)?);
        series.insert(QueueKey::new(&tenant, &name), Series { command, fine, coarse, quiet });
    }
    reader.0.is_empty().then_some((since, Kept { step, series }))
}
