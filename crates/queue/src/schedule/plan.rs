//! When a schedule ticks: a cron expression in a time zone, or an interval, between two bounds.
//!
//! Where clocks change, an hour field of `*` or `*/n` means elapsed time: every instant whose local time matches,
//! both passes of a repeated hour, none for a skipped one. Any other hour field means what the clock on the wall
//! shows: times that are skipped tick once, together, when the gap ends; times that come twice tick the first
//! time. Intervals know no clock on the wall.

use super::cron::Cron;
use crate::time::Time;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};

/// Calendar or interval.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rhythm {
    /// Whenever the calendar matches.
    Cron(Cron),
    /// At `anchor` and all multiples of the interval before and after it.
    Every {
        /// The interval; 1 to 31,622,400.
        seconds: u64,
        /// One of the ticks.
        anchor: Time,
    },
}

/// A zone of the time zone database that is compiled in: the same on every machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Zone {
    name: Box<str>,
    rules: TimeZone,
}

impl Zone {
    /// The zone of an IANA name.
    pub fn parse(name: &str) -> Option<Zone> {
        let rules = TimeZone::get(name).ok()?;
        let name = rules.iana_name()?.into();
        Some(Zone { name, rules })
    }

    /// Its IANA name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// When a schedule ticks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Calendar or interval.
    pub rhythm: Rhythm,
    /// Whose calendar a cron expression means; intervals do without.
    pub zone: Zone,
    /// No tick before this.
    pub start_at: Option<Time>,
    /// No tick at or after this.
    pub end_at: Option<Time>,
}

/// Ticks that were passed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passed {
    /// At least 1.
    pub count: u64,
    /// The latest of them.
    pub last: Time,
    /// The first tick after them.
    pub next: Option<Time>,
}

impl Plan {
    /// The first tick after `after`.
    pub fn next(&self, after: Time) -> Option<Time> {
        let before_start = self.start_at.map(|start| Time::from_millis(start.millis().saturating_sub(1)));
        let after = before_start.map_or(after, |before| before.max(after));
        let tick = match &self.rhythm {
            Rhythm::Every { seconds, anchor } => next_multiple(*seconds, *anchor, after)?,
            Rhythm::Cron(cron) => next_match(cron, &self.zone.rules, after)?,
        };
        self.end_at.is_none_or(|end| tick < end).then_some(tick)
    }

    /// Passes over the ticks from `tick`, which is one, to those before `until`; of a cron expression at most `most`,
    /// because each has to be looked for.
    pub fn pass(&self, tick: Time, until: Time, most: u64) -> Passed {
        if let Rhythm::Every { seconds, .. } = &self.rhythm {
            let step = i64::try_from(*seconds).unwrap_or(i64::MAX).saturating_mul(1000);
            let until = self.end_at.map_or(until, |end| end.min(until));
            let more = (until.millis().saturating_sub(1) - tick.millis()).max(0) / step;
            let last = Time::from_millis(tick.millis() + more * step);
            let count = u64::try_from(more).expect("not negative") + 1;
            return Passed { count, last, next: self.next(last) };
        }
        let mut passed = Passed { count: 1, last: tick, next: self.next(tick) };
        while let Some(next) = passed.next.filter(|next| *next < until && passed.count < most) {
            passed = Passed { count: passed.count + 1, last: next, next: self.next(next) };
        }
        passed
    }
}

fn next_multiple(seconds: u64, anchor: Time, after: Time) -> Option<Time> {
    let step = i64::try_from(seconds).ok()?.checked_mul(1000)?;
    let passed = after.millis().checked_sub(anchor.millis())?.div_euclid(step);
    let next = passed.checked_add(1)?.checked_mul(step)?.checked_add(anchor.millis())?;
    Some(Time::from_millis(next))
}

fn next_match(cron: &Cron, zone: &TimeZone, after: Time) -> Option<Time> {
    let after = Timestamp::from_second(after.millis().div_euclid(1000)).ok()?;
    let found = match cron.is_elapsed() {
        true => next_elapsed(cron, zone, after),
        false => next_shown(cron, zone, after),
    };
    Some(Time::from_millis(found?.as_millisecond()))
}

const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// Between two changes of the clock local time is elapsed time, so each stretch is searched by itself.
fn next_elapsed(cron: &Cron, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    let mut offset = zone.to_offset(after);
    let mut from = after;
    let mut local = offset.to_datetime(after);
    // Two changes a year, for as long as a match may be away.
    for _ in 0..200 {
        let change = zone.following(from).next();
        let last = change.as_ref().map_or(Date::MAX, |change| offset.to_datetime(change.timestamp()).date());
        let found = cron.next(local, last).and_then(|found| offset.to_timestamp(found).ok());
        match (found, change) {
            (Some(found), change) if change.as_ref().is_none_or(|change| found < change.timestamp()) => {
                return Some(found);
            }
            (_, Some(change)) => {
                (from, offset) = (change.timestamp(), change.offset());
                local = offset.to_datetime(from).checked_sub(SECOND).ok()?;
            }
            (_, None) => return None,
        }
    }
    None
}

/// Local times in their order lead to instants in the same order, each to one.
fn next_shown(cron: &Cron, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    let mut local = zone.to_datetime(after);
    loop {
        local = cron.next(local, Date::MAX)?;
        let at = instant(zone, local)?;
        // In the second pass of a repeated hour its times have had their tick.
        if at > after {
            return Some(at);
        }
    }
}

fn instant(zone: &TimeZone, local: DateTime) -> Option<Timestamp> {
    match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(local).ok(),
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok(),
        AmbiguousOffset::Gap { before, after } => {
            // The change lies between the two readings of the time that does not exist.
            let (early, late) = (after.to_timestamp(local).ok()?, before.to_timestamp(local).ok()?);
            let mut changes = zone.following(early);
            let gap = changes.find(|change| change.offset() == after || change.timestamp() > late);
            gap.map(|change| change.timestamp())
        }
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
