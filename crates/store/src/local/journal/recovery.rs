//! The walk over a journal's frames, shared by opening and by the offline check.
//!
//! It takes frames in order, each numbered one higher than the last, and stops at the first that is not
//! there. Then it judges the stop. It is a torn tail, to be cut off, unless something proves that the
//! missing frame had been kept: a later frame that was written knowing it synced, a header of a later
//! opening that had read it, or frames in a file whose header is broken (headers are synced first).
//! With proof, it is damage and the walk refuses: nothing acknowledged is ever dropped in silence.
//!
//! Frames at or below `applied` are in the tables already. They may be missing or broken without harm.
//! Rot in the very last frames, those that nothing later vouches for, cannot be told from a torn tail.

use std::collections::VecDeque;

use super::OpenError;
use super::frame::{self, FRAME_HEADER, Frame};
use super::segment::{self, SEGMENT_HEADER};
use super::survey::Survey;

pub type Replay<'a> = dyn FnMut(u64, &[u8]) -> Result<(), String> + 'a;

/// A place in a segment of the survey.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    pub segment: usize,
    pub offset: usize,
}

/// A frame above `applied` that nothing proves to be on disk rather than in the page cache.
#[derive(Debug, Clone, Copy)]
pub struct Unproven {
    position: u64,
    pub place: Place,
    pub size: usize,
}

#[derive(Debug, Default)]
pub struct Walk {
    pub first: Option<u64>,
    /// The last good frame; 0 if there is none.
    pub last: u64,
    /// All good frames, applied or not.
    pub frames: u64,
    /// Segments with good frames, in order, and the last good position in each.
    pub used: Vec<(usize, u64)>,
    pub unproven: VecDeque<Unproven>,
    /// Bytes of frames cut off, as far as they can still be recognised.
    pub torn_bytes: u64,
}

impl Walk {
    /// Something later vouches for all frames up to here.
    fn prove(&mut self, durable: u64) {
        while self.unproven.front().is_some_and(|unproven| unproven.position <= durable) {
            self.unproven.pop_front();
        }
    }
}

/// Walks all frames, handing those above `applied` to `replay`.
pub fn walk(survey: &Survey, key: u64, applied: u64, replay: &mut Replay<'_>) -> Result<Walk, OpenError> {
    let mut walker = Walker { survey, key, applied, epoch: 0, stop: None, walk: Walk::default() };
    let mut bytes = Vec::new();
    for index in 0..survey.segments.len() {
        survey.segments[index].found.load(&mut bytes)?;
        walker.take_segment(index, &bytes, replay)?;
    }
    walker.judge(&mut bytes)?;
    Ok(walker.walk)
}

struct Walker<'a> {
    survey: &'a Survey,
    key: u64,
    applied: u64,
    /// Of the last good frame.
    epoch: u32,
    /// Where the next frame would be, in the last segment that had any.
    stop: Option<Place>,
    walk: Walk,
}

impl Walker<'_> {
    fn take_segment(&mut self, index: usize, bytes: &[u8], replay: &mut Replay<'_>) -> Result<(), OpenError> {
        let segment = &self.survey.segments[index];
        self.walk.prove(segment.header.base);
        let mut offset = SEGMENT_HEADER;
        while let Some((at, frame)) = self.next_frame(index, bytes, offset) {
            if frame.position > self.applied {
                replay(frame.position, frame.payload).map_err(|reason| segment.found.damaged(at, reason))?;
            }
            self.note(Place { segment: index, offset: at }, &frame);
            offset = at + frame.size;
        }
        Ok(())
    }

    /// The frame at `offset` if it continues the walk. Below `applied` a gap is no loss, so there the
    /// walk may also resume further on.
    fn next_frame<'b>(&self, index: usize, bytes: &'b [u8], offset: usize) -> Option<(usize, Frame<'b>)> {
        let fits = |frame: &Frame<'_>| {
            let expected = self.walk.last + 1;
            let skips_applied = frame.position > expected && frame.position <= self.applied + 1;
            self.survey.segments[index].owns(frame) && (frame.position == expected || skips_applied)
        };
        let here = frame::read(bytes, offset, self.key).filter(&fits).map(|frame| (offset, frame));
        if here.is_some() || self.walk.last >= self.applied {
            return here;
        }
        frame::search(bytes, offset, self.key).find(|(_, frame)| fits(frame))
    }

    fn note(&mut self, place: Place, frame: &Frame<'_>) {
        let walk = &mut self.walk;
        walk.first.get_or_insert(frame.position);
        walk.last = frame.position;
        walk.frames += 1;
        match walk.used.last_mut() {
            Some((index, last)) if *index == place.segment => *last = frame.position,
            _ => walk.used.push((place.segment, frame.position)),
        }
        walk.prove(frame.durable);
        if frame.position > self.applied {
            walk.unproven.push_back(Unproven { position: frame.position, place, size: frame.size });
        }
        self.epoch = frame.epoch;
        self.stop = Some(Place { segment: place.segment, offset: place.offset + frame.size });
    }

    /// Decides whether the end of the walk is the end of the journal.
    fn judge(&mut self, bytes: &mut Vec<u8>) -> Result<(), OpenError> {
        let missing = self.walk.last.max(self.applied) + 1;
        for found in &self.survey.headless {
            found.load(bytes)?;
            let living = |frame: &Frame<'_>| frame.position >= missing && frame.epoch >= self.epoch;
            if let Some((_, frame)) = frame::search(bytes, 0, self.key).find(|(_, frame)| living(frame)) {
                let reason = format!("the header is broken, but frame {} is in the file", frame.position);
                return Err(found.damaged(0, reason));
            }
        }
        let start = self.stop.unwrap_or(Place { segment: 0, offset: SEGMENT_HEADER });
        for index in start.segment..self.survey.segments.len() {
            let offset = if index == start.segment { start.offset } else { SEGMENT_HEADER };
            self.survey.segments[index].found.load(bytes)?;
            self.judge_segment(Place { segment: index, offset }, missing, bytes)?;
        }
        Ok(())
    }

    fn judge_segment(&mut self, from: Place, missing: u64, bytes: &[u8]) -> Result<(), OpenError> {
        let segment = &self.survey.segments[from.segment];
        let seen = segment.header.base.max(segment.header.floor);
        if seen >= missing {
            return Err(self.blame(from.segment, missing, Some(seen + 1)));
        }
        let started = |offset: usize| {
            let header = frame::read_header(bytes, offset, self.key)?;
            let torn = header.position == missing && segment.owns(&header);
            (torn && frame::read(bytes, offset, self.key).is_none()).then_some(header.size as u64)
        };
        let mut torn = started(from.offset).unwrap_or(0);
        for (_, frame) in frame::search(bytes, from.offset, self.key) {
            if !segment.owns(&frame) || frame.position < missing {
                continue;
            }
            if frame.durable >= missing {
                let first = frame::read(bytes, SEGMENT_HEADER, self.key).filter(|first| segment.owns(first));
                return Err(self.blame(from.segment, missing, first.map(|first| first.position)));
            }
            torn += frame.size as u64;
        }
        self.walk.torn_bytes += torn;
        Ok(())
    }

    /// Names the place where the missing frame should be, given that segment `witness` proves that it
    /// was kept. `found` is what the witness goes on with, unless its own first frame is broken.
    fn blame(&self, witness: usize, missing: u64, found: Option<u64>) -> OpenError {
        let reason = format!("frame {missing} is broken or missing, but had been kept");
        let first = self.stop.map_or(0, |stop| stop.segment + 1);
        let starts = (first..=witness).map(|segment| Place { segment, offset: SEGMENT_HEADER });
        let mut candidates = self.stop.into_iter().chain(starts);
        let suspect = candidates.find(|place| self.resembles(*place, missing)).or(match (self.stop, found) {
            (Some(stop), Some(_)) => Some(stop),
            (Some(stop), None) if stop.segment == witness => Some(stop),
            (_, None) => Some(Place { segment: witness, offset: SEGMENT_HEADER }),
            (None, Some(_)) => None,
        });
        match (suspect, found) {
            (Some(place), _) => self.survey.segments[place.segment].found.damaged(place.offset, reason),
            (None, found) => OpenError::Gap {
                file: self.survey.segments[witness].found.path.clone(),
                applied: self.applied,
                found: found.unwrap_or(missing),
            },
        }
    }

    /// A read error here only costs precision: there is damage either way.
    fn resembles(&self, place: Place, missing: u64) -> bool {
        let segment = &self.survey.segments[place.segment];
        let mut header = [0; FRAME_HEADER];
        let count = segment::read_full(&*segment.found.file, &mut header, place.offset as u64);
        count.is_ok_and(|count| count == FRAME_HEADER)
            && frame::resembles(&header, self.key, segment.header.epoch, missing)
    }
}
