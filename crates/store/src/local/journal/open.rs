//! Opening a journal, and checking one without opening it.

use std::sync::{Arc, Condvar, Mutex};

use super::appender::Appender;
use super::lifecycle::{BUSY_MAX, Free, Shared, Used};
use super::recovery::{self, Replay, Walk};
use super::survey::{Found, Survey};
use super::{Journal, OpenError, Options, segment};
use crate::local::directory::files::Files;

/// A journal ready for writing.
pub struct Opened {
    pub journal: Arc<Journal>,
    pub appender: Appender,
    /// The next frame gets the position after this one.
    pub last_position: u64,
    /// How many frames were replayed or found to be applied already.
    pub frames: u64,
    /// Bytes of frames cut off at the end, as far as they could still be recognised.
    pub torn_bytes: u64,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Segment files, in whatever state.
    pub segments: usize,
    pub frames: u64,
    pub first_position: Option<u64>,
    pub last_position: Option<u64>,
    /// Bytes of frames that opening would cut off, as far as they can still be recognised.
    pub torn_bytes: u64,
}

/// Opens the journal, handing every frame above `applied` to `replay` in order. When it returns, all that
/// was replayed is on disk, and the first segment of the new epoch is ready. When it fails, nothing that
/// was replayed may be kept; what `replay` refuses is reported as damage in that place.
pub fn open(
    files: Arc<dyn Files>,
    options: Options,
    epoch: u32,
    key: u64,
    applied: u64,
    replay: &mut Replay<'_>,
) -> Result<Opened, OpenError> {
    let options = options.rounded();
    if options.sync {
        // A removal that a crash of the machine could still undo would bring an old segment back.
        files.sync_dir().map_err(|source| OpenError::Io { file: files.path_of(""), source })?;
    }
    let survey = Survey::take(&*files, key)?;
    check_epoch(&survey, epoch)?;
    let walk = recovery::walk(&survey, key, applied, replay)?;
    if options.sync {
        harden(&survey, &walk, applied)?;
    }
    let last_position = walk.last.max(applied);
    let (frames, torn_bytes) = (walk.frames, walk.torn_bytes);
    let shared = take_stock(survey, &walk, applied, &options);
    let journal = Arc::new(Journal {
        files,
        options,
        epoch,
        key,
        base: last_position,
        turn: Mutex::new(()),
        shared: Mutex::new(shared),
        room: Condvar::new(),
        work: Condvar::new(),
    });
    let appender = start(&journal, last_position + 1)?;
    Ok(Opened { journal, appender, last_position, frames, torn_bytes })
}

/// Checks the journal without writing anything.
pub fn inspect(files: &dyn Files, key: u64, applied: u64) -> Result<Report, OpenError> {
    read(files, key, applied, &mut |_, _| Ok(()))
}

/// As `inspect`, handing every frame above `applied` to `replay` as `open` would.
pub fn read(files: &dyn Files, key: u64, applied: u64, replay: &mut Replay<'_>) -> Result<Report, OpenError> {
    let survey = Survey::take(files, key)?;
    let walk = recovery::walk(&survey, key, applied, replay)?;
    Ok(Report {
        segments: survey.segments.len() + survey.headless.len(),
        frames: walk.frames,
        first_position: walk.first,
        last_position: walk.first.map(|_| walk.last),
        torn_bytes: walk.torn_bytes,
    })
}

/// Stale frames are told apart by their epoch, so it has to rise.
fn check_epoch(survey: &Survey, epoch: u32) -> Result<(), OpenError> {
    match survey.newest() {
        Some(segment) if segment.header.epoch >= epoch => {
            let (file, found) = (segment.found.path.clone(), segment.header.epoch);
            Err(OpenError::Epoch { file, epoch, found })
        }
        _ => Ok(()),
    }
}

/// Puts on disk what may only be in the page cache. Frames that nothing vouches for are written again:
/// after a failed sync the kernel takes their pages for clean, and another sync alone would skip them.
fn harden(survey: &Survey, walk: &Walk, applied: u64) -> Result<(), OpenError> {
    for unproven in &walk.unproven {
        let found = &survey.segments[unproven.place.segment].found;
        let mut bytes = vec![0; unproven.size];
        let offset = unproven.place.offset as u64;
        segment::read_full(&*found.file, &mut bytes, offset)
            .and_then(|_| found.file.write_at(&bytes, offset))
            .map_err(|source| found.failed(source))?;
    }
    for (index, last) in &walk.used {
        let found = &survey.segments[*index].found;
        if *last > applied {
            found.file.sync_data().map_err(|source| found.failed(source))?;
        }
    }
    Ok(())
}

fn take_stock(survey: Survey, walk: &Walk, applied: u64, options: &Options) -> Shared {
    let mut shared = Shared {
        released: applied,
        next_sequence: 1,
        next_number: 1,
        bytes: options.segment_bytes,
        // As many as were worth keeping before.
        busy: survey.segments.len().min(BUSY_MAX),
        ..Shared::default()
    };
    for (index, segment) in survey.segments.into_iter().enumerate() {
        shared.next_sequence = segment.header.sequence + 1;
        shared.count(&segment.found);
        let Found { name, file, .. } = segment.found;
        let needed = walk.used.iter().find(|(used, last)| *used == index && *last > applied);
        match needed {
            Some((_, last)) => shared.used.push_back(Used { name, file, last: *last }),
            None => shared.free.push(Free { name, file: Some(file) }),
        }
    }
    for found in survey.headless {
        shared.count(&found);
        // Its making may have been cut short, so it is filled again.
        shared.free.push(Free { name: found.name, file: None });
    }
    shared
}

impl Shared {
    fn count(&mut self, found: &Found) {
        self.sizes.insert(found.name.clone(), found.bytes);
        let number = segment::number_of(&found.name).unwrap_or(0);
        self.next_number = self.next_number.max(number.saturating_add(1));
    }
}

/// Makes the first segment of the new epoch ready and takes it.
fn start(journal: &Arc<Journal>, next: u64) -> Result<Appender, OpenError> {
    let failed = |source| OpenError::Io { file: journal.files.path_of(""), source };
    loop {
        if let Some(active) = journal.shared().ready.pop_front() {
            return Ok(Appender::new(Arc::clone(journal), active, next));
        }
        journal.prepare().map_err(failed)?;
    }
}
