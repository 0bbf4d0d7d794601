//! Tasks that come back: how often each was given back, and how long to rest before the next claim.

use std::collections::HashMap;
use std::time::Duration;

/// The rest after a task was given back for the second time; it doubles with every further time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Tasks that are remembered; beyond, all are forgotten.
const REMEMBERED_TASKS: usize = 10_000;

#[derive(Default)]
pub struct Sightings {
    times: HashMap<String, u32>,
}

impl Sightings {
    /// How long to rest after this task was given back: the first time not at all.
    pub fn pause_after(&mut self, id: &str) -> Duration {
        if self.times.len() >= REMEMBERED_TASKS {
            self.times.clear();
        }
        let times = self.times.entry(id.to_owned()).or_default();
        *times = times.saturating_add(1);
        match *times {
            1 => Duration::ZERO,
            again => FIRST_PAUSE.saturating_mul(1 << (again - 2).min(10)).min(LONGEST_PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_task_is_given_back_ever_more_slowly() {
        let mut seen = Sightings::default();
        let pauses: Vec<u128> = (0..8).map(|_| seen.pause_after("a").as_millis()).collect();
        assert_eq!(pauses, [0, 250, 500, 1000, 2000, 4000, 5000, 5000]);
        assert_eq!(seen.pause_after("b"), Duration::ZERO);
        for n in 0..REMEMBERED_TASKS * 2 {
            seen.pause_after(&n.to_string());
        }
        assert!(seen.times.len() <= REMEMBERED_TASKS);
    }
}
