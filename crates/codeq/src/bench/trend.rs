//! Whether a figure grows: a line through samples that a few wild ones cannot bend.

use serde::Serialize;

/// Points that a line is laid through; more samples are summed up by their medians.
const POINTS: usize = 400;

#[derive(Serialize, Clone, Debug)]
pub struct Trend {
    pub per_hour: f64,
    /// Along the line, from the first sample to the last.
    pub grown: f64,
    /// How far samples stray from the line: the width that holds nine of ten.
    pub noise: f64,
    pub is_flat: bool,
    /// Where the line begins and ends.
    #[serde(skip)]
    pub ends: [(f64, f64); 2],
}

impl Trend {
    /// `None` for fewer samples than a line needs. Samples are (seconds, value) in order of time; growth
    /// within `tolerance`, or within the noise, is no growth.
    pub fn of(samples: &[(f64, f64)], tolerance: f64) -> Option<Trend> {
        let points = thinned(samples);
        let (first, last) = (points.first()?.0, points.last()?.0);
        let slope = median(slopes(&points))?;
        let level = median(points.iter().map(|(at, value)| value - slope * at).collect())?;
        let on_line = |at: f64| level + slope * at;
        let mut strays: Vec<f64> = points.iter().map(|(at, value)| value - on_line(*at)).collect();
        strays.sort_by(f64::total_cmp);
        let noise = strays[strays.len() * 95 / 100] - strays[strays.len() * 5 / 100];
        let grown = slope * (last - first);
        Some(Trend {
            per_hour: rounded(slope * 3600.0),
            grown: rounded(grown),
            noise: rounded(noise),
            is_flat: grown <= noise.max(tolerance),
            ends: [(first, on_line(first)), (last, on_line(last))],
        })
    }

    pub fn words(&self, unit: &str) -> String {
        let shape = if self.is_flat { "flat" } else { "growing" };
        let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
        format!("{shape} ({:+}{unit}/h, noise {}{unit})", self.per_hour, self.noise)
    }
}

fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// The slopes between all pairs.
fn slopes(points: &[(f64, f64)]) -> Vec<f64> {
    let pairs =
        points.iter().enumerate().flat_map(|(n, from)| points[n + 1..].iter().map(move |to| (from, to)));
    pairs.filter(|(from, to)| to.0 > from.0).map(|(from, to)| (to.1 - from.1) / (to.0 - from.0)).collect()
}

fn thinned(samples: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let each = samples.len().div_ceil(POINTS).max(1);
    let summed = samples.chunks(each).filter_map(|chunk| {
        let at = chunk[chunk.len() / 2].0;
        Some((at, median(chunk.iter().map(|sample| sample.1).collect())?))
    });
    summed.collect()
}

pub fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A saw of height 8, as allocators draw it, on a line.
    fn saw(per_second: f64, seconds: u32) -> Vec<(f64, f64)> {
        let value = |at: f64| 100.0 + per_second * at + (at % 9.0);
        (0..seconds).map(|at| (f64::from(at), value(f64::from(at)))).collect()
    }

    #[test]
    fn a_saw_is_flat_and_a_leak_below_it_is_not() {
        let flat = Trend::of(&saw(0.0, 1200), 2.0).expect("enough samples");
        assert!(flat.is_flat && flat.grown.abs() < 0.5, "{flat:?}");
        let leak = Trend::of(&saw(0.01, 1200), 2.0).expect("enough samples");
        assert!(!leak.is_flat && (leak.per_hour - 36.0).abs() < 1.0, "{leak:?}");
    }

    #[test]
    fn a_few_wild_samples_bend_nothing() {
        let mut samples = saw(0.0, 300);
        for wild in &mut samples[290..] {
            wild.1 = 10_000.0;
        }
        assert!(Trend::of(&samples, 2.0).expect("enough samples").is_flat);
    }

    #[test]
    fn what_falls_does_not_grow_and_nothing_is_not_a_line() {
        assert!(Trend::of(&saw(-0.1, 100), 0.0).expect("enough samples").is_flat);
        assert!(Trend::of(&[(0.0, 1.0)], 0.0).is_none());
        assert!(Trend::of(&[], 0.0).is_none());
    }
}
