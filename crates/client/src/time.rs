//! Instants on the wire, and durations in whole seconds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// RFC 3339 in UTC with nine digits. What lies before 1970 is 1970: for a task both mean now.
pub(crate) fn rfc3339(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second, nanos) = (second / 3600, second / 60 % 60, second % 60, since.subsec_nanos());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z")
}

/// The date that is `days` after 1970-01-01, counted in years that begin in March, so that the leap day is
/// the last one.
fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
}

/// An instant of the server; none for anything that is none.
pub(crate) fn instant(text: &str) -> Option<SystemTime> {
    text.parse::<prost_types::Timestamp>().ok()?.try_into().ok()
}

/// Whole seconds, rounded up: a delay is never shorter than asked for.
pub(crate) fn whole_seconds(duration: Duration) -> i64 {
    let seconds = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_written_as_dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000000Z"),
            (1_772_366_400, "2026-03-01T12:00:00.000000000Z"),
            (4_107_542_399, "2100-02-28T23:59:59.000000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000000Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
        assert!(rfc3339(UNIX_EPOCH + Duration::from_nanos(5)).ends_with("00.000000005Z"));
    }

    #[test]
    fn instants_are_read_as_they_are_written() {
        let at = UNIX_EPOCH + Duration::new(1_772_366_400, 5);
        assert_eq!(instant(&rfc3339(at)), Some(at));
        assert_eq!(instant("2026-03-01T12:00:00.000000005Z"), Some(at));
        assert_eq!(instant("soon"), None);
    }

    #[test]
    fn durations_are_rounded_up() {
        assert_eq!(whole_seconds(Duration::from_millis(1)), 1);
        assert_eq!(whole_seconds(Duration::from_secs(2)), 2);
        assert_eq!(whole_seconds(Duration::MAX), i64::MAX);
    }
}
