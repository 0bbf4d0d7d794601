//! Cron expressions: what they say of the civil calendar. Time zones are the business of [`Plan`](super::Plan).
//!
//! Five fields (minute, hour, day of month, month, day of week), or six with seconds in front. Names, ranges,
//! steps and lists everywhere; `L` and `L-n` for the last days of a month, `5L` for the last Friday, `MON#2`
//! for the second Monday. Day of month and day of week both restricted: either matches.

use jiff::civil::{Date, DateTime, Time};

/// Longest expression.
const TEXT_BYTES: usize = 256;
/// How far ahead a matching day is looked for. The longest that two matching days can lie apart are the forty
/// years between two fifth Sundays of February around 2100.
const YEARS: i16 = 45;

/// A cron expression, read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cron {
    text: Box<str>,
    /// Bit n stands for n.
    seconds: u64,
    minutes: u64,
    hours: u64,
    months: u64,
    days: Days,
    weekdays: Weekdays,
    /// The hour field is `*` or `*/n`: ticks go by elapsed time and not by what the clock on the wall shows.
    is_elapsed: bool,
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Days {
    is_any: bool,
    set: u64,
    /// Bit n stands for n days before the last one.
    from_last: u64,
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Weekdays {
    is_any: bool,
    /// Sunday is 0.
    set: u64,
    /// The n-th of its kind in the month, by n.
    nth: [u64; 6],
    last: u64,
}

struct Field {
    name: &'static str,
    low: u64,
    high: u64,
    names: &'static [&'static str],
}

const SECOND: Field = Field { name: "second", low: 0, high: 59, names: &[] };
const MINUTE: Field = Field { name: "minute", low: 0, high: 59, names: &[] };
const HOUR: Field = Field { name: "hour", low: 0, high: 23, names: &[] };
const DAY: Field = Field { name: "day of month", low: 1, high: 31, names: &[] };
const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const MONTH: Field = Field { name: "month", low: 1, high: 12, names: &MONTHS };
/// 7 is Sunday, too.
const WEEKDAY: Field =
    Field { name: "day of week", low: 0, high: 7, names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"] };

const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

impl Cron {
    /// The error says what is wrong with which field.
    pub fn parse(text: &str) -> Result<Cron, String> {
        let text = text.trim();
        if text.len() > TEXT_BYTES {
            return Err(format!("must be at most {TEXT_BYTES} bytes long"));
        }
        let mut fields = text;
        if text.starts_with('@') {
            let known = NICKNAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
            fields = known.ok_or_else(|| format!("{text} is not known"))?.1;
        }
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let (second, rest) = match fields.len() {
            5 => ("0", &fields[..]),
            6 => (fields[0], &fields[1..]),
            count => return Err(format!("must have 5 or 6 fields, has {count}")),
        };
        Ok(Cron {
            text: text.into(),
            seconds: SECOND.set(second)?,
            minutes: MINUTE.set(rest[0])?,
            hours: HOUR.set(rest[1])?,
            is_elapsed: rest[1] == "*" || (rest[1].starts_with("*/") && !rest[1].contains(',')),
            days: Days::parse(rest[2])?,
            months: MONTH.set(rest[3])?,
            weekdays: Weekdays::parse(rest[4])?,
        })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether elapsed time counts where clocks change: both passes of the autumn fold, and nothing in the spring gap.
    pub fn is_elapsed(&self) -> bool {
        self.is_elapsed
    }

    /// The first matching second after `after`, on `last` at the latest.
    pub fn next(&self, after: DateTime, last: Date) -> Option<DateTime> {
        let start = after.checked_add(jiff::SignedDuration::from_secs(1)).ok()?;
        let mut date = start.date();
        let mut from = start.time();
        let furthest = Date::new(start.year().saturating_add(YEARS).min(9999), 12, 31).ok()?;
        while date <= last && date <= furthest {
            if !has(self.months, date.month()) {
                date = date.last_of_month().tomorrow().ok()?;
                from = Time::midnight();
                continue;
            }
            if self.has_day(date)
                && let Some(time) = self.first_time(from)
            {
                return Some(date.to_datetime(time));
            }
            date = date.tomorrow().ok()?;
            from = Time::midnight();
        }
        None
    }

    fn has_day(&self, date: Date) -> bool {
        match (self.days.is_any, self.weekdays.is_any) {
            (true, true) => true,
            (false, true) => self.days.has(date),
            (true, false) => self.weekdays.has(date),
            (false, false) => self.days.has(date) || self.weekdays.has(date),
        }
    }

    /// The first matching time of a day, not before `from`.
    fn first_time(&self, from: Time) -> Option<Time> {
        let (hour, minute, second) = (from.hour(), from.minute(), from.second());
        let in_minute = || {
            let is_now = has(self.hours, hour) && has(self.minutes, minute);
            Some((hour, minute, first(self.seconds, second).filter(|_| is_now)?))
        };
        let in_hour = || {
            let is_now = has(self.hours, hour);
            Some((hour, first(self.minutes, minute + 1).filter(|_| is_now)?, first(self.seconds, 0)?))
        };
        let later = || Some((first(self.hours, hour + 1)?, first(self.minutes, 0)?, first(self.seconds, 0)?));
        let (hour, minute, second) = in_minute().or_else(in_hour).or_else(later)?;
        Time::new(hour, minute, second, 0).ok()
    }
}

fn has(set: u64, value: i8) -> bool {
    set >> value & 1 == 1
}

/// The smallest member that is not below `low`.
fn first(set: u64, low: i8) -> Option<i8> {
    let rest = set >> low;
    (rest != 0).then(|| low + i8::try_from(rest.trailing_zeros()).expect("a set has 64 bits"))
}

impl Days {
    fn parse(text: &str) -> Result<Days, String> {
        let mut days = Days { is_any: is_any(text), ..Days::default() };
        for item in text.split(',') {
            match item.strip_prefix(['L', 'l']) {
                Some("") => days.from_last |= 1,
                Some(rest) => {
                    let back = rest.strip_prefix('-').and_then(|back| back.parse().ok());
                    let back: u64 = back.filter(|back| (1..=30).contains(back)).ok_or_else(|| {
                        format!("day of month: {item} is not L or L-n with n from 1 through 30")
                    })?;
                    days.from_last |= 1 << back;
                }
                None => days.set |= DAY.item(item)?,
            }
        }
        Ok(days)
    }

    fn has(&self, date: Date) -> bool {
        has(self.set, date.day()) || has(self.from_last, date.days_in_month() - date.day())
    }
}

impl Weekdays {
    fn parse(text: &str) -> Result<Weekdays, String> {
        let mut weekdays = Weekdays { is_any: is_any(text), ..Weekdays::default() };
        for item in text.split(',') {
            if let Some((day, nth)) = item.split_once('#') {
                let nth: Option<usize> = nth.parse().ok().filter(|nth| (1..=5).contains(nth));
                let nth = nth.ok_or_else(|| format!("day of week: {item} must end with #1 through #5"))?;
                weekdays.nth[nth] |= 1 << (WEEKDAY.value(day)? % 7);
            } else if let Some(day) = item.strip_suffix(['L', 'l']) {
                weekdays.last |= 1 << (WEEKDAY.value(day)? % 7);
            } else {
                let set = WEEKDAY.item(item)?;
                weekdays.set |= (set | set >> 7) & 0x7f;
            }
        }
        Ok(weekdays)
    }

    fn has(&self, date: Date) -> bool {
        let weekday = date.weekday().to_sunday_zero_offset();
        let nth = usize::try_from((date.day() - 1) / 7 + 1).expect("days begin with 1");
        let is_last = date.day() + 7 > date.days_in_month();
        has(self.set, weekday) || has(self.nth[nth], weekday) || (is_last && has(self.last, weekday))
    }
}

fn is_any(text: &str) -> bool {
    matches!(text, "*" | "*/1")
}

impl Field {
    fn set(&self, text: &str) -> Result<u64, String> {
        text.split(',').try_fold(0, |set, item| Ok(set | self.item(item)?))
    }

    /// One item of a list: a value, a range or all, with or without a step.
    fn item(&self, item: &str) -> Result<u64, String> {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(self.step(step)?)),
            None => (item, None),
        };
        let (from, to) = match (range, range.split_once('-')) {
            ("*", _) => (self.low, self.high),
            (_, Some((from, to))) => (self.value(from)?, self.end(to)?),
            (one, None) => {
                let one = self.value(one)?;
                (one, if step.is_some() { self.high } else { one })
            }
        };
        if from > to {
            return Err(format!("{}: {range} ends before it begins", self.name));
        }
        Ok((from..=to).step_by(step.unwrap_or(1)).fold(0, |set, value| set | 1 << value))
    }

    fn step(&self, text: &str) -> Result<usize, String> {
        let step: Option<u64> = number(text).filter(|step| (1..=self.high).contains(step));
        let step = step.ok_or_else(|| {
            format!("{}: the step \"{text}\" is not between 1 and {}", self.name, self.high)
        })?;
        Ok(usize::try_from(step).expect("below 64"))
    }

    fn value(&self, text: &str) -> Result<u64, String> {
        if let Some(index) = self.names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
            return Ok(self.low + index as u64);
        }
        let value = number(text).filter(|value| (self.low..=self.high).contains(value));
        value
            .ok_or_else(|| format!("{}: \"{text}\" is not between {} and {}", self.name, self.low, self.high))
    }

    /// The end of a range. Sunday ends the week where it does not begin it.
    fn end(&self, text: &str) -> Result<u64, String> {
        let value = self.value(text)?;
        Ok(if self.name == WEEKDAY.name && value == 0 { 7 } else { value })
    }
}

/// Digits only: `+5` is no number here.
fn number(text: &str) -> Option<u64> {
    (text.bytes().all(|c| c.is_ascii_digit()) && text.len() <= 3).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    /// The next matches after the beginning of 2026.
    fn matches(text: &str, count: usize) -> Vec<String> {
        let cron = Cron::parse(text).unwrap();
        let mut at = date(2025, 12, 31).at(23, 59, 59, 0);
        let mut found = Vec::new();
        while found.len() < count {
            at = cron.next(at, Date::MAX).unwrap();
            found.push(at.strftime("%m-%d %H:%M:%S").to_string());
        }
        found
    }

    #[test]
    fn fields_mean_what_cron_users_expect() {
        for (text, expected) in [
            ("* * * * *", &["01-01 00:00:00", "01-01 00:01:00"][..]),
            ("*/20 * * * * *", &["01-01 00:00:00", "01-01 00:00:20", "01-01 00:00:40", "01-01 00:01:00"]),
            ("5,35 9-10 * * *", &["01-01 09:05:00", "01-01 09:35:00", "01-01 10:05:00", "01-01 10:35:00"]),
            ("0 8-16/4 * * *", &["01-01 08:00:00", "01-01 12:00:00", "01-01 16:00:00", "01-02 08:00:00"]),
            ("30 22/1 * * *", &["01-01 22:30:00", "01-01 23:30:00", "01-02 22:30:00"]),
            ("0 0 31 * *", &["01-31 00:00:00", "03-31 00:00:00", "05-31 00:00:00"]),
            ("0 0 L * *", &["01-31 00:00:00", "02-28 00:00:00", "03-31 00:00:00"]),
            ("0 0 L-1,1 feb *", &["02-01 00:00:00", "02-27 00:00:00"]),
            ("0 12 * * MON-fri/2", &["01-02 12:00:00", "01-05 12:00:00", "01-07 12:00:00"]),
            ("0 12 * * FRI-SUN", &["01-02 12:00:00", "01-03 12:00:00", "01-04 12:00:00", "01-09 12:00:00"]),
            ("0 12 * * 7", &["01-04 12:00:00", "01-11 12:00:00"]),
            ("0 12 * * 0", &["01-04 12:00:00", "01-11 12:00:00"]),
            ("0 12 * * TUE#2", &["01-13 12:00:00", "02-10 12:00:00"]),
            ("0 12 * * 5L", &["01-30 12:00:00", "02-27 12:00:00"]),
            // Both restricted: either matches.
            ("0 0 13 * FRI", &["01-02 00:00:00", "01-09 00:00:00", "01-13 00:00:00", "01-16 00:00:00"]),
            ("0 0 */15 * FRI", &["01-01 00:00:00", "01-02 00:00:00", "01-09 00:00:00", "01-16 00:00:00"]),
            ("0 0 13 * *", &["01-13 00:00:00", "02-13 00:00:00"]),
            ("@hourly", &["01-01 00:00:00", "01-01 01:00:00"]),
            ("@daily", &["01-01 00:00:00", "01-02 00:00:00"]),
            ("@midnight", &["01-01 00:00:00", "01-02 00:00:00"]),
            ("@Weekly", &["01-04 00:00:00", "01-11 00:00:00"]),
            ("@monthly", &["01-01 00:00:00", "02-01 00:00:00"]),
            ("@yearly", &["01-01 00:00:00", "01-01 00:00:00"]),
            ("@annually", &["01-01 00:00:00", "01-01 00:00:00"]),
            ("  0   0 1 JAN-DEC/6 *  ", &["01-01 00:00:00", "07-01 00:00:00"]),
        ] {
            assert_eq!(matches(text, expected.len()), expected, "{text}");
        }
    }

    #[test]
    fn rare_days_are_found_and_days_that_never_come_are_not() {
        let from = date(2026, 1, 1).at(0, 0, 0, 0);
        let next = |text: &str, from: DateTime| Cron::parse(text).unwrap().next(from, Date::MAX);
        assert_eq!(next("0 0 29 2 *", from), Some(date(2028, 2, 29).at(0, 0, 0, 0)));
        assert_eq!(next("0 0 * 2 SUN#5", from), Some(date(2032, 2, 29).at(0, 0, 0, 0)));
        let before = date(2088, 3, 1).at(0, 0, 0, 0);
        assert_eq!(next("0 0 * 2 SUN#5", before), Some(date(2128, 2, 29).at(0, 0, 0, 0)));
        for never in ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 L-30 2 *"] {
            assert_eq!(next(never, from), None, "{never}");
        }
        assert_eq!(next("0 0 30 2 MON", from), Some(date(2026, 2, 2).at(0, 0, 0, 0)));
    }

    #[test]
    fn every_field_refuses_what_it_cannot_mean() {
        for (text, part) in [
            ("", "5 or 6 fields"),
            ("* * * *", "5 or 6 fields"),
            ("* * * * * * *", "5 or 6 fields"),
            ("@reboot", "@reboot is not known"),
            ("60 * * * * *", "second"),
            ("60 * * * *", "minute: \"60\" is not between 0 and 59"),
            ("-1 * * * *", "minute"),
            ("+1 * * * *", "minute"),
            ("1,,2 * * * *", "minute"),
            ("*/0 * * * *", "step"),
            ("*/60 * * * *", "step"),
            ("*/x * * * *", "step"),
            ("5/ * * * *", "step"),
            ("10-5 * * * *", "ends before it begins"),
            ("* 24 * * *", "hour"),
            ("* MON * * *", "hour"),
            ("* * 0 * *", "day of month"),
            ("* * 32 * *", "day of month"),
            ("* * L-31 * *", "day of month"),
            ("* * LW * *", "day of month"),
            ("* * 15W * *", "day of month"),
            ("* * ? * *", "day of month"),
            ("* * * 13 *", "month"),
            ("* * * 0 *", "month"),
            ("* * * foo *", "month"),
            ("* * * * 8", "day of week"),
            ("* * * * MON#6", "#1 through #5"),
            ("* * * * MON#", "#1 through #5"),
            ("* * * * L", "day of week"),
            ("* * * * MONDAY", "day of week"),
            ("99999999999999999999 * * * *", "minute"),
        ] {
            let error = Cron::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(Cron::parse(&format!("{} * * * *", "1,".repeat(200))).unwrap_err().contains("256 bytes"));
    }
}
