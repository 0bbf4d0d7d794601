//! What lies in the directory when a journal is opened: the segment files and their headers, in order.
//! Reads headers only; which frames count is for the walk to say.

use std::path::PathBuf;
use std::sync::Arc;

use super::OpenError;
use super::frame::Frame;
use super::segment::{self, Header, HeaderState, SEGMENT_HEADER};
use crate::local::directory::files::{File, Files};

/// A file that carries a segment's name.
pub struct Found {
    pub name: String,
    pub path: PathBuf,
    pub file: Arc<dyn File>,
    pub bytes: u64,
}

/// A file with an intact header.
pub struct Segment {
    pub found: Found,
    pub header: Header,
    /// Frames above it were cut off by a later epoch.
    ceiling: u64,
}

pub struct Survey {
    /// In order of their sequence numbers, which is the order of writing.
    pub segments: Vec<Segment>,
    /// Files without a valid header: half made, or damaged.
    pub headless: Vec<Found>,
}

impl Found {
    pub fn damaged(&self, offset: usize, reason: impl Into<String>) -> OpenError {
        OpenError::Damaged { file: self.path.clone(), offset: offset as u64, reason: reason.into() }
    }

    pub fn load(&self, buffer: &mut Vec<u8>) -> Result<(), OpenError> {
        segment::load(&*self.file, buffer).map_err(|source| self.failed(source))
    }

    pub fn failed(&self, source: std::io::Error) -> OpenError {
        OpenError::Io { file: self.path.clone(), source }
    }
}

impl Segment {
    /// Whether this intact frame was written since the header was, and was not cut off later.
    pub fn owns(&self, frame: &Frame<'_>) -> bool {
        frame.epoch == self.header.epoch
            && frame.position > self.header.floor
            && frame.position <= self.ceiling
    }
}

impl Survey {
    pub fn take(files: &dyn Files, key: u64) -> Result<Self, OpenError> {
        let mut survey = Self { segments: Vec::new(), headless: Vec::new() };
        let mut broken = None;
        let directory = |source| OpenError::Io { file: files.path_of(""), source };
        for name in files.list().map_err(directory)? {
            if segment::number_of(&name).is_some() {
                survey.add(files, name, key, &mut broken)?;
            }
        }
        survey.segments.sort_by_key(|segment| segment.header.sequence);
        survey.headless.sort_by(|a, b| a.name.cmp(&b.name));
        // With a wrong key nothing verifies, and everything would look free to overwrite.
        if survey.segments.is_empty()
            && let Some(file) = broken
        {
            let reason = "no segment header verifies: damaged, or of another store".into();
            return Err(OpenError::Damaged { file, offset: 0, reason });
        }
        survey.check_order()?;
        survey.draw_ceilings();
        Ok(survey)
    }

    /// The highest epoch seen, and the file that carries it.
    pub fn newest(&self) -> Option<&Segment> {
        self.segments.iter().max_by_key(|segment| segment.header.epoch)
    }

    fn add(
        &mut self,
        files: &dyn Files,
        name: String,
        key: u64,
        broken: &mut Option<PathBuf>,
    ) -> Result<(), OpenError> {
        let path = files.path_of(&name);
        let failed = |source| OpenError::Io { file: path.clone(), source };
        let file = files.open(&name).map_err(failed)?;
        let bytes = file.len().map_err(failed)?;
        let mut head = [0; SEGMENT_HEADER];
        let count = segment::read_full(&*file, &mut head, 0).map_err(failed)?;
        let found = Found { name, path, file, bytes };
        match Header::decode(&head[..count], key) {
            HeaderState::Valid(header) => {
                self.segments.push(Segment { found, header, ceiling: u64::MAX });
            }
            HeaderState::Unknown(version) => {
                return Err(found.damaged(0, format!("format version {version} is not known here")));
            }
            HeaderState::Broken => {
                broken.get_or_insert_with(|| found.path.clone());
                self.headless.push(found);
            }
            HeaderState::Absent => self.headless.push(found),
        }
        Ok(())
    }

    fn check_order(&self) -> Result<(), OpenError> {
        for pair in self.segments.windows(2) {
            let (before, after) = (&pair[0], &pair[1]);
            if before.header.sequence == after.header.sequence {
                let reason = format!("has the same sequence number as {}", before.found.name);
                return Err(after.found.damaged(0, reason));
            }
            if before.header.epoch > after.header.epoch {
                let reason = format!("is of an earlier epoch than {}, which precedes it", before.found.name);
                return Err(after.found.damaged(0, reason));
            }
        }
        Ok(())
    }

    fn draw_ceilings(&mut self) {
        let headers: Vec<Header> = self.segments.iter().map(|segment| segment.header).collect();
        for segment in &mut self.segments {
            let later = headers.iter().filter(|header| header.epoch > segment.header.epoch);
            segment.ceiling = later.map(|header| header.base).min().unwrap_or(u64::MAX);
        }
    }
}
