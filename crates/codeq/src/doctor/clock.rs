//! Does the clock make sense? Leases, delays and tokens live by it.

use super::report::Report;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// No release of codeQ is older.
const EARLIEST: u64 = 1_767_225_600; // 2026-01-01
/// From here on it is worth a word.
const NOTABLE: u64 = 5;

/// `other` is the `Date` of an issuer, and how far its clock may be from ours.
pub fn check(report: &mut Report, other: Option<(String, Duration)>) {
    let next = "set the clock, and keep it set with NTP (timedatectl set-ntp true)";
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    if now < EARLIEST {
        return report.error("clock", "this machine lives in the past", next);
    }
    let Some((theirs, allowed)) = other.and_then(|(date, allowed)| Some((seconds(&date)?, allowed))) else {
        return report.ok("clock", "plausible; no other clock to compare with");
    };
    match now.abs_diff(theirs) {
        apart @ 0..NOTABLE => report.ok("clock", format!("{apart} s from the clock of the issuer")),
        apart if apart <= allowed.as_secs() => {
            report.warn("clock", format!("{apart} s from the clock of the issuer"), next);
        }
        apart => {
            let text =
                format!("{apart} s from the clock of the issuer: its tokens look expired or not valid yet");
            report.error("clock", text, next);
        }
    }
}

/// Seconds since 1970 of a `Date` header: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn seconds(date: &str) -> Option<u64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let words: Vec<&str> = date.split_whitespace().collect();
    let [_, day, month, year, time, "GMT"] = words[..] else { return None };
    let month = u32::try_from(MONTHS.find(month)? / 3 + 1).ok()?;
    let text = format!("{year:0>4}-{month:02}-{day:0>2}T{time}Z");
    u64::try_from(codeq_server::stamp::parse(&text)?.millis() / 1000).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_http_are_read() {
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(seconds("yesterday"), None);
    }
}
