//! The time that tasks live by: it follows the wall clock, but does not believe every step of it.
//!
//! Leases, delays and retention are measured in this time. It never goes back and never stands still. A wall
//! clock that is set back is waited for at nine tenths of the speed; one that is set forward is followed at
//! once by [`limits::CLOCK_AHEAD`] in all, and beyond that no faster than twice the speed. So a clock that
//! goes wrong for seconds, by years, costs minutes at most.
//!
//! Retention has a time of its own that never runs faster than monotonic time does: what is kept for a day
//! is kept for a day that has passed.

use crate::limits;
use crate::time::Time;
use std::time::Duration;

/// Of what has passed, a tenth is taken back while the wall clock is behind.
const SLOWING: i64 = 10;
/// Looks closer together than this do not move the time against the monotonic clock.
const LEAST: i64 = 1000;
/// However long nobody looked, a step is not trusted more than after this time.
const TRUST_AT_ONCE: i64 = 10_000_000;

/// How long after a start it matters how long nobody ran: as long as results are kept.
const DOUBTED: Duration = Duration::from_secs(7 * 24 * 3600);

/// What one look at the clocks gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// What leases, delays and schedules go by; never earlier than in the reading before.
    pub now: Time,
    /// For retention: at or before `now`.
    pub aged: Time,
    /// How far the wall clock is ahead of `now`, in milliseconds; below zero: behind.
    pub wall_ahead_ms: i64,
}

/// Microseconds throughout; offsets are from monotonic time.
#[derive(Clone, Debug)]
pub struct Slew {
    /// The last look, in monotonic time.
    looked: i64,
    offset: i64,
    /// What the offset would be without what was followed at once.
    trusted: i64,
    /// The lowest offset there has been since the start.
    lowest: i64,
    /// The highest that retention may go by, while it matters how long nobody ran.
    stored: Option<i64>,
    begun: i64,
    latest: i64,
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}

fn wall_micros(wall: Time) -> i64 {
    wall.millis().clamp(0, i64::MAX / 4000) * 1000
}

impl Slew {
    /// A time that begins with the wall clock, which is all there is to know at the start.
    pub fn begin(wall: Time, elapsed: Duration) -> Slew {
        let (wall, looked) = (wall_micros(wall), micros(elapsed));
        let offset = wall - looked;
        Slew { looked, offset, trusted: offset, lowest: offset, stored: None, begun: looked, latest: wall }
    }

    /// A store was last written at `last`: time does not go back behind it, and what it keeps has aged until
    /// then, and little since, whatever the wall clock says about how long nobody ran. Of several stores the
    /// latest counts. One that was never written says nothing.
    pub fn saw(&mut self, last: Time) {
        if last == Time::ZERO {
            return;
        }
        let last = wall_micros(last);
        let offset = last - self.looked;
        if offset > self.offset {
            (self.offset, self.trusted) = (offset, self.trusted.max(offset));
        }
        self.latest = self.latest.max(last);
        let stored = offset + micros(limits::CLOCK_AHEAD);
        self.stored = Some(self.stored.map_or(stored, |known| known.max(stored)));
    }

    /// What time it is, from what two clocks say now.
    pub fn look(&mut self, wall: Time, elapsed: Duration) -> Reading {
        let (wall, elapsed) = (wall_micros(wall), micros(elapsed).max(self.looked));
        let passed = elapsed - self.looked;
        if passed >= LEAST {
            self.looked = elapsed;
            self.follow(wall - elapsed, passed);
        }
        // The offset is of the last look that counted; what the wall clock says now is at least as good.
        let believed = wall.min(elapsed + self.trusted + micros(limits::CLOCK_AHEAD));
        self.latest = self.latest.max(elapsed + self.offset).max(believed);
        let millis = |micros: i64| Time::from_millis(micros.div_euclid(1000));
        Reading {
            now: millis(self.latest),
            aged: millis((elapsed + self.aging(elapsed)).min(self.latest)),
            wall_ahead_ms: (wall - self.latest) / 1000,
        }
    }

    /// The offset that retention goes by. What was stored before the start has aged by itself when the
    /// process has run for long enough.
    fn aging(&self, elapsed: i64) -> i64 {
        let is_doubted = elapsed - self.begun < micros(DOUBTED);
        self.stored.filter(|_| is_doubted).map_or(self.lowest, |stored| stored.min(self.lowest))
    }

    fn follow(&mut self, wall: i64, passed: i64) {
        let back = passed / SLOWING;
        self.trusted += (wall - self.trusted).clamp(-back, passed.min(TRUST_AT_ONCE));
        let wanted = wall.min(self.trusted + micros(limits::CLOCK_AHEAD));
        self.offset = wanted.max(self.offset - back);
        self.lowest = self.lowest.min(self.offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_700_000_000_000;

    /// A machine whose wall clock is off by this many milliseconds.
    struct Machine {
        slew: Slew,
        elapsed_ms: i64,
        off_ms: i64,
        latest: Reading,
    }

    impl Machine {
        fn new() -> Machine {
            let slew = Slew::begin(Time::from_millis(START), Duration::ZERO);
            let latest = Reading { now: Time::from_millis(START), aged: Time::ZERO, wall_ahead_ms: 0 };
            Machine { slew, elapsed_ms: 0, off_ms: 0, latest }
        }

        /// Lets time pass, with a look every 100 ms, none of which may go back.
        fn pass(&mut self, ms: i64) -> Reading {
            for _ in 0..ms / 100 {
                self.elapsed_ms += 100;
                let wall = Time::from_millis(START + self.elapsed_ms + self.off_ms);
                let reading = self.slew.look(wall, Duration::from_millis(self.elapsed_ms as u64));
                let went = reading.now.millis() - self.latest.now.millis();
                assert!(went >= 90, "time went on by {went} ms in 100");
                assert!(reading.aged <= reading.now);
                assert!(reading.aged.millis() <= START + self.elapsed_ms, "retention outran what has passed");
                self.latest = reading;
            }
            self.latest
        }

        fn step(&mut self, ms: i64) {
            self.off_ms += ms;
        }

        /// How far the time is from what has truly passed.
        fn ahead_ms(&self) -> i64 {
            self.latest.now.millis() - START - self.elapsed_ms
        }
    }

    const HOUR: i64 = 3_600_000;

    #[test]
    fn a_wall_clock_that_flows_is_followed_exactly() {
        let mut machine = Machine::new();
        machine.pass(10_000);
        assert_eq!((machine.ahead_ms(), machine.latest.wall_ahead_ms), (0, 0));
        machine.step(3000);
        machine.pass(1000);
        assert_eq!(machine.ahead_ms(), 3000, "a small step is followed at once");
    }

    #[test]
    fn a_clock_that_is_wrong_for_seconds_costs_minutes_at_most_and_time_goes_on() {
        for step in [HOUR, 48 * HOUR, 10 * 365 * 24 * HOUR, -HOUR, -48 * HOUR] {
            let mut machine = Machine::new();
            machine.pass(10_000);
            machine.step(step);
            machine.pass(5000);
            assert!(machine.ahead_ms() <= 305_100, "{step}: {} ms ahead", machine.ahead_ms());
            assert!(machine.ahead_ms() >= -1000, "{step}: {} ms behind", -machine.ahead_ms());
            machine.step(-step);
            let before = machine.latest.now;
            machine.pass(5000);
            assert!(machine.latest.now.since(before) >= Duration::from_millis(4500), "{step}");
            machine.pass(2 * HOUR);
            assert_eq!(machine.ahead_ms(), 0, "{step}: in step again");
        }
    }

    #[test]
    fn a_step_that_stays_is_followed_in_the_end() {
        let mut machine = Machine::new();
        machine.step(2 * HOUR);
        machine.pass(60_000);
        assert!(machine.latest.wall_ahead_ms > HOUR);
        machine.pass(2 * HOUR);
        assert_eq!(machine.latest.wall_ahead_ms, 0);
        machine.step(-HOUR);
        machine.pass(11 * HOUR);
        assert_eq!(machine.latest.wall_ahead_ms, 0);
    }

    #[test]
    fn many_small_steps_are_no_way_around_the_bound() {
        let mut machine = Machine::new();
        for _ in 0..100 {
            machine.step(240_000);
            machine.pass(100);
        }
        assert!(machine.ahead_ms() <= 310_100, "{} ms ahead", machine.ahead_ms());
    }

    #[test]
    fn a_store_from_the_future_is_gone_on_with_and_one_from_long_ago_ages_slowly() {
        let mut slew = Slew::begin(Time::from_millis(START), Duration::ZERO);
        slew.saw(Time::from_millis(START + HOUR));
        let at = |slew: &mut Slew, ms: i64| {
            slew.look(Time::from_millis(START + ms), Duration::from_millis(ms as u64))
        };
        let (first, later) = (at(&mut slew, 100), at(&mut slew, 10_000));
        assert!(first.now >= Time::from_millis(START + HOUR));
        assert!(later.now.since(first.now) >= Duration::from_millis(8900), "time goes on");
        let mut slew = Slew::begin(Time::from_millis(START), Duration::ZERO);
        slew.saw(Time::from_millis(START - 48 * HOUR));
        let reading = at(&mut slew, 1000);
        assert_eq!(
            reading.now,
            Time::from_millis(START + 1000),
            "leases and delays run on while nobody runs"
        );
        assert_eq!(reading.aged, Time::from_millis(START - 48 * HOUR + 300_000 + 1000));
        slew.saw(Time::from_millis(START - HOUR));
        slew.saw(Time::ZERO);
        let reading = at(&mut slew, 2000);
        assert_eq!(reading.aged.millis() / 1000, (START - HOUR + 300_000 + 1000) / 1000, "the latest counts");
    }
}
