//! What the committers measure: how long a sync takes, and how many transitions it covers.
//!
//! Counting is a few additions to atomics that only committers write; whoever looks reads them without
//! stopping anyone. So a reading may be one sync old in one number and not in another.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the durations, in seconds.
pub const SYNC_SECONDS: [f64; 12] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5];
/// Upper bounds of the group sizes.
pub const GROUP_SIZES: [f64; 12] =
    [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 4096.0];

/// Shared by the shards of a store and whoever shows it.
#[derive(Debug, Default)]
pub struct Meters {
    sync: Meter,
    group: Meter,
    damaged: AtomicU64,
}

/// Counts by upper bound; the last place is for what is above all.
#[derive(Debug, Default)]
pub struct Meter {
    counts: [AtomicU64; 13],
    /// Nanoseconds, or transitions.
    sum: AtomicU64,
}

/// What was measured since the start.
#[derive(Clone, PartialEq, Debug)]
pub struct Reading {
    /// How many were at most this much, for each bound.
    pub up_to: Vec<(f64, u64)>,
    pub count: u64,
    pub sum: f64,
}

impl Meters {
    /// A group of so many transitions became durable; `took` is `None` where nothing is synced.
    pub fn committed(&self, transitions: usize, took: Option<Duration>) {
        let transitions = u64::try_from(transitions).unwrap_or(u64::MAX);
        // Exact: groups are far smaller than 2^52.
        self.group.add(&GROUP_SIZES, transitions as f64, transitions);
        if let Some(took) = took {
            let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            self.sync.add(&SYNC_SECONDS, took.as_secs_f64(), nanos);
        }
    }

    /// A task was met of which something is damaged in the tables.
    pub fn met_damage(&self) {
        self.damaged.fetch_add(1, Ordering::Relaxed);
    }

    /// How often that was.
    pub fn damaged(&self) -> u64 {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Seconds a sync took.
    pub fn sync(&self) -> Reading {
        self.sync.read(&SYNC_SECONDS, 1e-9)
    }

    /// Transitions that one sync covered.
    pub fn group(&self) -> Reading {
        self.group.read(&GROUP_SIZES, 1.0)
    }
}

impl Meter {
    pub fn add(&self, bounds: &[f64; 12], value: f64, raw: u64) {
        let place = bounds.partition_point(|bound| *bound < value);
        self.counts[place].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(raw, Ordering::Relaxed);
    }

    pub fn read(&self, bounds: &[f64; 12], unit: f64) -> Reading {
        let mut count = 0;
        let mut up_to = Vec::with_capacity(bounds.len());
        for (place, counted) in self.counts.iter().enumerate() {
            count += counted.load(Ordering::Relaxed);
            up_to.extend(bounds.get(place).map(|bound| (*bound, count)));
        }
        Reading { up_to, count, sum: self.sum.load(Ordering::Relaxed) as f64 * unit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_count_up_to_each_bound() {
        let meters = Meters::default();
        meters.committed(1, Some(Duration::from_micros(100)));
        meters.committed(3, Some(Duration::from_secs(9)));
        meters.committed(9000, None);
        let (sync, group) = (meters.sync(), meters.group());
        assert_eq!((sync.count, sync.up_to[0], sync.up_to[11]), (2, (0.0001, 1), (2.5, 1)));
        assert!((sync.sum - 9.0001).abs() < 1e-9);
        assert_eq!((group.count, group.sum), (3, 9004.0));
        assert_eq!(group.up_to[..3], [(1.0, 1), (2.0, 1), (4.0, 2)]);
        assert_eq!(group.up_to[11], (4096.0, 2));
    }
}
