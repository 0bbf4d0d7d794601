//! Instants, to the millisecond. The rules never ask what time it is; they are told.

use std::fmt;
use std::time::Duration;

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(i64);

impl Time {
    /// The epoch.
    pub const ZERO: Time = Time(0);
    /// The last instant; what is due then never happens.
    pub const MAX: Time = Time(i64::MAX);

    /// The instant this many milliseconds after the epoch.
    pub const fn from_millis(millis: i64) -> Time {
        Time(millis)
    }

    /// Milliseconds since the epoch.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Saturates instead of wrapping: a deadline too far away is "never".
    pub fn plus(self, duration: Duration) -> Time {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Time(self.0.saturating_add(millis))
    }

    /// This many seconds later, or the last instant there is.
    pub fn plus_seconds(self, seconds: u64) -> Time {
        self.plus(Duration::from_secs(seconds))
    }

    /// Zero if `earlier` is not earlier.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// RFC 3339 in UTC, the fraction without trailing zeros: `2026-03-01T12:00:05.25Z`.
    pub fn to_utc(self) -> String {
        let clamped = jiff::Timestamp::from_millisecond(self.0).unwrap_or(jiff::Timestamp::MAX);
        clamped.to_string()
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_print_as_rfc3339_without_trailing_zeros() {
        assert_eq!(Time::from_millis(1_772_366_405_250).to_utc(), "2026-03-01T12:00:05.25Z");
        assert_eq!(Time::from_millis(1_772_366_405_000).to_utc(), "2026-03-01T12:00:05Z");
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Time::MAX.plus_seconds(1), Time::MAX);
        assert_eq!(Time::from_millis(5).plus(Duration::MAX), Time::MAX);
        assert_eq!(Time::from_millis(5).since(Time::from_millis(9)), Duration::ZERO);
    }
}
