//! Starts per time, exactly: the generic cell rate algorithm.
//!
//! `burst` starts may come at once, then one per `period / limit`. What is remembered is one instant: when the next
//! start would be due if starts came evenly. So a limit costs the same for one start as for a million.

use crate::time::Time;

const NANOS_PER_MILLI: i64 = 1_000_000;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// At most `limit` starts in `period_seconds`, of which `burst` may come at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// At least 1.
    pub limit: u32,
    /// At most 86,400 in a policy.
    pub period_seconds: u32,
    /// 1 to `limit`.
    pub burst: u32,
}

/// When the next start would be due if starts came evenly, in nanoseconds since the epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct RateState(i64);

impl RateState {
    /// As it was stored.
    pub const fn from_nanos(nanos: i64) -> RateState {
        RateState(nanos)
    }

    /// As it is stored: nanoseconds since the epoch.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// From when on it restricts nothing: a start then finds the whole burst, as if there had been none before.
    pub fn is_over_at(self) -> Time {
        let whole = self.0.div_euclid(NANOS_PER_MILLI);
        Time::from_millis(whole + i64::from(self.0.rem_euclid(NANOS_PER_MILLI) > 0))
    }
}

impl Rate {
    /// Between two starts. Rounded up, so that a limit is never exceeded.
    pub fn interval_nanos(&self) -> i64 {
        let period = u64::from(self.period_seconds) * NANOS_PER_SECOND;
        i64::try_from(period.div_ceil(u64::from(self.limit.max(1)))).unwrap_or(i64::MAX)
    }

    /// The first instant at which a start is allowed, to the millisecond in which it falls.
    pub fn opens_at(&self, state: RateState) -> Time {
        let ahead = self.interval_nanos().saturating_mul(i64::from(self.burst.max(1) - 1));
        Time::from_millis(state.0.saturating_sub(ahead).div_euclid(NANOS_PER_MILLI))
    }

    /// The state after a start at this instant.
    pub fn start(&self, state: RateState, at: Time) -> RateState {
        let at = at.millis().saturating_mul(NANOS_PER_MILLI);
        RateState(state.0.max(at).saturating_add(self.interval_nanos()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small generator: the rules know no other randomness.
    fn numbers(mut state: u64) -> impl FnMut(u64) -> u64 {
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        }
    }

    /// Tries to start at every arrival; gives the starts.
    fn starts(rate: Rate, arrivals: &[i64]) -> Vec<i64> {
        let mut state = RateState::default();
        let mut started = Vec::new();
        for at in arrivals {
            if rate.opens_at(state) <= Time::from_millis(*at) {
                state = rate.start(state, Time::from_millis(*at));
                started.push(*at);
            }
        }
        started
    }

    #[test]
    fn a_burst_comes_at_once_and_then_one_per_interval() {
        let rate = Rate { limit: 100, period_seconds: 1, burst: 10 };
        let every_milli: Vec<i64> = (5_000..35_000).flat_map(|at| [at; 20]).collect();
        let started = starts(rate, &every_milli);
        assert_eq!(started.iter().filter(|at| **at == 5_000).count(), 10);
        assert_eq!(started.len(), 3_009, "30 s of 100 a second, and the burst");
        assert!(started.windows(2).skip(10).all(|pair| pair[1] - pair[0] == 10));
    }

    #[test]
    fn no_window_holds_more_than_limit_and_burst_allow() {
        for seed in 0..200 {
            let mut random = numbers(seed);
            let limit = 1 + random(50) as u32;
            let burst = 1 + random(u64::from(limit)) as u32;
            let rate = Rate { limit, period_seconds: 1 + random(3) as u32, burst };
            let mut arrivals: Vec<i64> = (0..3_000).map(|_| 10_000 + random(20_000) as i64).collect();
            arrivals.sort_unstable();
            let started = starts(rate, &arrivals);
            let period = i64::from(rate.period_seconds) * 1_000;
            for (n, from) in started.iter().enumerate() {
                let within = started[n..].iter().take_while(|at| **at < from + period).count();
                assert!(within <= (limit + burst - 1) as usize, "seed {seed}: {within} of {rate:?}");
            }
        }
    }

    /// A bucket of `burst` drops that leaks one per interval holds back the same arrivals.
    #[test]
    fn it_equals_a_leaky_bucket_on_random_arrivals() {
        for seed in 0..200 {
            let mut random = numbers(seed ^ 0x5eed);
            // Intervals of whole milliseconds, in which the naive bucket is exact.
            let interval = 1 + random(200) as i64;
            let burst = 1 + random(8) as u32;
            let (period_seconds, limit) = (interval as u32, 1_000);
            let rate = Rate { limit, period_seconds, burst };
            let mut arrivals: Vec<i64> = (0..2_000).map(|_| 1_000_000 + random(60_000) as i64).collect();
            arrivals.sort_unstable();
            let (mut level, mut last) = (0i64, 0i64);
            let mut bucket = Vec::new();
            for at in &arrivals {
                level = (level - (at - last)).max(0);
                last = *at;
                if level <= (i64::from(burst) - 1) * interval {
                    level += interval;
                    bucket.push(*at);
                }
            }
            assert_eq!(starts(rate, &arrivals), bucket, "seed {seed}: {rate:?}");
        }
    }

    /// Whoever forgets a state when it is over allows no start that it would not have allowed.
    #[test]
    fn a_state_that_is_over_can_be_forgotten() {
        for seed in 0..200 {
            let mut random = numbers(seed ^ 0xf0e);
            let burst = 1 + random(8) as u32;
            let rate = Rate { limit: 8 + random(1_000) as u32, period_seconds: 1 + random(9) as u32, burst };
            let mut arrivals: Vec<i64> = (0..500).map(|_| 1_000_000 + random(60_000) as i64).collect();
            arrivals.sort_unstable();
            let (mut state, mut started) = (RateState::default(), Vec::new());
            for at in &arrivals {
                let at = Time::from_millis(*at);
                if state.is_over_at() <= at {
                    state = RateState::default();
                }
                if rate.opens_at(state) <= at {
                    state = rate.start(state, at);
                    started.push(at.millis());
                }
            }
            assert_eq!(started, starts(rate, &arrivals), "seed {seed}: {rate:?}");
        }
    }

    #[test]
    fn extremes_saturate() {
        let rate = Rate { limit: 1, period_seconds: 86_400, burst: 1 };
        let state = rate.start(RateState::from_nanos(i64::MAX), Time::MAX);
        assert!(rate.opens_at(state) > Time::from_millis(0));
        let fast = Rate { limit: 1_000_000, period_seconds: 1, burst: 1 };
        let at = Time::from_millis(7_000);
        let mut state = RateState::default();
        let mut count = 0;
        while fast.opens_at(state) <= at {
            state = fast.start(state, at);
            count += 1;
        }
        assert_eq!(count, 1_000, "a million a second is a thousand in a millisecond");
    }
}
