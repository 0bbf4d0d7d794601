//! The history of one queue: two rings of samples.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Samples kept step by step: an hour.
pub const FINE: usize = 720;
/// Samples kept minute by minute: a day.
pub const COARSE: usize = 1440;
/// Steps of a minute.
pub const UNIT: i64 = 12;
/// Times are told apart by powers of two of a millisecond; the last is everything from two hours on.
pub const BUCKETS: usize = 24;

/// What happened within one step or minute, and how it stood at its end.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Sample {
    pub created: u32,
    pub claimed: u32,
    pub completed: u32,
    pub failed: u32,
    pub returned: u32,
    /// Ready, delayed, in progress, dead.
    pub depth: [u32; 4],
    /// How long tasks took from create to end.
    pub took: [u16; BUCKETS],
}

impl Sample {
    pub fn took(&mut self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let bucket = (u64::BITS - millis.leading_zeros()) as usize;
        let count = &mut self.took[bucket.min(BUCKETS - 1)];
        *count = count.saturating_add(1);
    }

    pub fn is_quiet(&self) -> bool {
        *self == Sample::default()
    }

    /// What follows in time.
    fn then(&mut self, next: &Sample) {
        self.created = self.created.saturating_add(next.created);
        self.claimed = self.claimed.saturating_add(next.claimed);
        self.completed = self.completed.saturating_add(next.completed);
        self.failed = self.failed.saturating_add(next.failed);
        self.returned = self.returned.saturating_add(next.returned);
        self.depth = next.depth;
        for (sum, count) in self.took.iter_mut().zip(next.took) {
            *sum = sum.saturating_add(count);
        }
    }
}

pub struct Series {
    /// As it was last spelled.
    pub command: Arc<str>,
    pub fine: VecDeque<Sample>,
    pub coarse: VecDeque<Sample>,
    /// Steps since something was there.
    pub quiet: u32,
}

impl Series {
    /// Most bytes of one.
    pub const BYTES: usize = (FINE + COARSE) * size_of::<Sample>() + 512;

    pub fn new(command: Arc<str>) -> Series {
        let (fine, coarse) = (VecDeque::with_capacity(FINE), VecDeque::with_capacity(COARSE));
        Series { command, fine, coarse, quiet: 0 }
    }

    pub fn put(&mut self, command: Option<Arc<str>>, sample: Sample, ends_minute: bool) {
        if let Some(command) = command {
            self.command = command;
        }
        self.quiet = if sample.is_quiet() { self.quiet.saturating_add(1) } else { 0 };
        push(&mut self.fine, sample, FINE);
        if ends_minute {
            let unit = usize::try_from(UNIT).unwrap_or(usize::MAX);
            let mut minute = Sample::default();
            self.fine.iter().skip(self.fine.len().saturating_sub(unit)).for_each(|step| minute.then(step));
            push(&mut self.coarse, minute, COARSE);
        }
    }
}

fn push(ring: &mut VecDeque<Sample>, sample: Sample, most: usize) {
    if ring.len() == most {
        ring.pop_front();
    }
    ring.push_back(sample);
}
