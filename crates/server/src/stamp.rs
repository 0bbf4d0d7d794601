//! Instants on the wire.

use codeq_queue::Time;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::cell::RefCell;

/// Prints instants at the offset of the configured time zone.
#[derive(Clone, Debug)]
pub struct WireTime {
    zone: TimeZone,
}

impl WireTime {
    pub fn new(zone: TimeZone) -> WireTime {
        WireTime { zone }
    }

    /// RFC 3339, the fraction without trailing zeros.
    pub fn text(&self, time: Time) -> String {
        if self.zone == TimeZone::UTC {
            return utc(time);
        }
        let timestamp = timestamp(time);
        timestamp.display_with_offset(self.zone.to_offset(timestamp)).to_string()
    }
}

thread_local! {
    /// The last instant that was printed: the tasks of a batch mostly share one.
    static LAST: RefCell<(Time, String)> = RefCell::new((Time::ZERO, Time::ZERO.to_utc()));
}

fn utc(time: Time) -> String {
    LAST.with_borrow_mut(|last| {
        if last.0 != time {
            *last = (time, time.to_utc());
        }
        last.1.clone()
    })
}

/// UTC, whole seconds, truncated.
pub fn utc_seconds(time: Time) -> String {
    Time::from_millis(time.millis().div_euclid(1000) * 1000).to_utc()
}

/// An RFC 3339 instant with a full time and an offset; nothing more lenient.
pub fn parse(text: &str) -> Option<Time> {
    split(text)?;
    let timestamp: Timestamp = text.parse().ok()?;
    Some(Time::from_millis(timestamp.as_millisecond()))
}

/// The instant in whole seconds at the offset it was sent with.
pub fn as_sent(text: &str) -> Option<String> {
    let (_, offset) = split(text)?;
    let timestamp: Timestamp = text.parse().ok()?;
    let seconds = Timestamp::from_second(timestamp.as_millisecond().div_euclid(1000)).ok()?;
    if offset.eq_ignore_ascii_case("z") {
        return Some(seconds.to_string());
    }
    let offset = jiff::fmt::strtime::parse("%:z", offset).ok()?.offset()?;
    Some(seconds.display_with_offset(offset).to_string())
}

fn timestamp(time: Time) -> Timestamp {
    Timestamp::from_millisecond(time.millis()).unwrap_or(Timestamp::MAX)
}

/// Date and time, and the offset, of a text that has the shape of RFC 3339.
fn split(text: &str) -> Option<(&str, &str)> {
    let bytes = text.as_bytes();
    let shaped = bytes.iter().zip(b"dddd-dd-ddTdd:dd:dd").all(|(got, want)| match want {
        b'd' => got.is_ascii_digit(),
        b'T' => matches!(got, b'T' | b't'),
        want => got == want,
    });
    if !shaped || bytes.len() < 20 {
        return None;
    }
    let fraction = match bytes[19] {
        b'.' => 1 + bytes[20..].iter().take_while(|c| c.is_ascii_digit()).count(),
        _ => 0,
    };
    let (_, offset) = text.split_at_checked(19 + fraction)?;
    let is_offset = match offset.as_bytes() {
        [b'Z' | b'z'] => true,
        [b'+' | b'-', h1, h2, b':', m1, m2] => [h1, h2, m1, m2].iter().all(|c| c.is_ascii_digit()),
        _ => false,
    };
    (is_offset && fraction != 1).then_some((&text[..19 + fraction], offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_print_at_the_offset_of_the_zone() {
        let time = Time::from_millis(1_772_366_405_250);
        assert_eq!(WireTime::new(TimeZone::UTC).text(time), "2026-03-01T12:00:05.25Z");
        let zone = TimeZone::get("America/Sao_Paulo").unwrap();
        assert_eq!(WireTime::new(zone).text(time), "2026-03-01T09:00:05.25-03:00");
        assert_eq!(utc_seconds(time), "2026-03-01T12:00:05Z");
    }

    #[test]
    fn only_rfc3339_is_read() {
        for good in ["2026-03-01T12:00:05Z", "2026-03-01t12:00:05.25z", "2026-03-01T09:00:05.123456789-03:00"]
        {
            assert!(parse(good).is_some(), "{good}");
        }
        assert_eq!(parse("2026-03-01T09:00:05.25-03:00"), Some(Time::from_millis(1_772_366_405_250)));
        for bad in [
            "",
            "now",
            "2026-03-01",
            "2026-03-01T12:00Z",
            "2026-03-01 12:00:05Z",
            "2026-03-01T12:00:05",
            "2026-03-01T12:00:05.Z",
            "2026-03-01T12:00:05+0300",
            "2026-03-01T12:00:05Z[UTC]",
            "2026-02-30T12:00:05Z",
            "2026-03-01T25:00:05Z",
            "+02026-03-01T12:00:05Z",
            "2026-03-01T12:00:05é",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_instant_is_echoed_at_the_offset_it_was_sent_with() {
        assert_eq!(as_sent("2026-03-01T09:00:05.25-03:00").unwrap(), "2026-03-01T09:00:05-03:00");
        assert_eq!(as_sent("2026-03-01T12:00:05Z").unwrap(), "2026-03-01T12:00:05Z");
    }
}
