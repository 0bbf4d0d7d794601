//! The history as a chart wants it: a bounded number of points, all of the same width.

use super::series::{BUCKETS, FINE, Sample, Series, UNIT};
use super::{History, Kept, STEP_MILLIS, lock};
use codeq_queue::{QueueKey, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// Steps that a rate is taken over.
const RATE_STEPS: usize = 3;
/// Minutes that are kept step by step.
const FINE_MINUTES: i64 = 60;

#[derive(Clone, PartialEq, Debug)]
pub struct Shown {
    pub since: Time,
    /// The end of the last point.
    pub until: Time,
    pub step_seconds: u64,
    pub queues: Vec<ShownQueue>,
    /// All these queues together.
    pub total: Vec<Point>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct ShownQueue {
    pub tenant: Arc<str>,
    pub command: Arc<str>,
    pub created_per_second: f64,
    pub ended_per_second: f64,
    pub created: Vec<u64>,
    pub ended: Vec<u64>,
    pub failed: Vec<u64>,
}

/// Samples that were added up, in time or over queues.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Point {
    pub created: u64,
    pub claimed: u64,
    pub completed: u64,
    pub failed: u64,
    pub returned: u64,
    pub depth: [u64; 4],
    took: [u64; BUCKETS],
}

impl Point {
    /// The time that `part` of the tasks took at most, in milliseconds; `None` if none ended.
    pub fn took_millis(&self, part: f64) -> Option<f64> {
        let total: u64 = self.took.iter().sum();
        let mut left = part * total as f64;
        for (bucket, count) in self.took.iter().enumerate().filter(|(_, count)| **count > 0) {
            let high = (1_u64 << bucket) as f64;
            let low = if bucket == 0 { 0.0 } else { high / 2.0 };
            if left <= *count as f64 {
                return Some(low + (high - low) * left / *count as f64);
            }
            left -= *count as f64;
        }
        None
    }

    fn add_counts(&mut self, sample: &Sample) {
        self.created += u64::from(sample.created);
        self.claimed += u64::from(sample.claimed);
        self.completed += u64::from(sample.completed);
        self.failed += u64::from(sample.failed);
        self.returned += u64::from(sample.returned);
        for (sum, count) in self.took.iter_mut().zip(sample.took) {
            *sum += u64::from(count);
        }
    }

    fn add_depth(&mut self, sample: &Sample) {
        for (sum, count) in self.depth.iter_mut().zip(sample.depth) {
            *sum += u64::from(count);
        }
    }
}

/// Which samples make which point. Samples and points are numbered from the epoch, so that a point holds
/// the same samples whenever it is asked for.
struct Grid {
    /// Whether points are made of steps; of minutes otherwise.
    is_fine: bool,
    /// Samples of a point.
    width: i64,
    /// The number of the newest sample.
    newest: i64,
    first: i64,
    count: i64,
}

impl Grid {
    fn new(kept: &Kept, since: Time, minutes: i64, points: i64) -> Grid {
        let is_fine = minutes <= FINE_MINUTES;
        let (unit, newest) = match is_fine {
            true => (1, kept.step),
            false => (UNIT, (kept.step + 1).div_euclid(UNIT) - 1),
        };
        let samples = minutes * UNIT / unit;
        let width = samples.div_euclid(points).max(1);
        let end = (newest + 1).div_euclid(width);
        let began = since.millis().div_euclid(STEP_MILLIS * unit).div_euclid(width);
        let first = (end - samples / width).max(began).min(end);
        Grid { is_fine, width, newest, first, count: end - first }
    }

    fn step_millis(&self) -> i64 {
        self.width * STEP_MILLIS * if self.is_fine { 1 } else { UNIT }
    }

    fn add(&self, series: &Series, points: &mut [Point]) {
        let ring = if self.is_fine { &series.fine } else { &series.coarse };
        for (point, number) in points.iter_mut().zip(self.first..) {
            let samples = (number * self.width)..((number + 1) * self.width);
            for sample in samples.clone().filter_map(|sample| self.sample(ring, sample)) {
                point.add_counts(sample);
            }
            if let Some(last) = self.sample(ring, samples.end - 1) {
                point.add_depth(last);
            }
        }
    }

    fn sample<'a>(&self, ring: &'a VecDeque<Sample>, number: i64) -> Option<&'a Sample> {
        let back = usize::try_from(self.newest - number).ok()?;
        ring.get(ring.len().checked_sub(back + 1)?)
    }
}

impl History {
    /// The last `minutes`, in `points` points at most, of the queues of a tenant or of all, of one command
    /// or of all.
    pub fn show(&self, tenant: Option<&str>, command: Option<&str>, minutes: i64, points: i64) -> Shown {
        let kept = lock(&self.kept);
        let grid = Grid::new(&kept, self.since, minutes, points);
        let blank = vec![Point::default(); usize::try_from(grid.count).unwrap_or(0)];
        let mut total = blank.clone();
        let is_asked = |queue: &QueueKey| {
            tenant.is_none_or(|tenant| *queue.tenant == *tenant)
                && command.is_none_or(|command| queue.command.eq_ignore_ascii_case(command))
        };
        let mut queues = Vec::new();
        for (queue, series) in kept.series.iter().filter(|(queue, _)| is_asked(queue)) {
            let mut own = blank.clone();
            grid.add(series, &mut own);
            grid.add(series, &mut total);
            queues.push(shown(queue, series, &own));
        }
        queues.sort_by(|a, b| (&a.command, &a.tenant).cmp(&(&b.command, &b.tenant)));
        let step = grid.step_millis();
        Shown {
            since: self.since,
            until: Time::from_millis((grid.first + grid.count) * step),
            step_seconds: u64::try_from(step / 1000).unwrap_or(0),
            queues,
            total,
        }
    }
}

fn shown(queue: &QueueKey, series: &Series, points: &[Point]) -> ShownQueue {
    let mut recent = Point::default();
    series.fine.iter().rev().take(RATE_STEPS.min(FINE)).for_each(|sample| recent.add_counts(sample));
    let seconds = RATE_STEPS as f64 * STEP_MILLIS as f64 / 1000.0;
    ShownQueue {
        tenant: queue.tenant.clone(),
        command: series.command.clone(),
        created_per_second: recent.created as f64 / seconds,
        ended_per_second: (recent.completed + recent.failed) as f64 / seconds,
        created: points.iter().map(|point| point.created).collect(),
        ended: points.iter().map(|point| point.completed + point.failed).collect(),
        failed: points.iter().map(|point| point.failed).collect(),
    }
}
