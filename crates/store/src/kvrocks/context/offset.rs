//! How far a server's clock is from ours.
//!
//! Asked for the time, a server tells it somewhere between sending and receiving, so that every answer gives a range. All ranges
//! hold together as long as both clocks run on: one quick answer tells more than many slow ones, and a slow one changes
//! nothing. A range that does not fit those before it means that a clock was set, or that another server is the master
//! now; then it counts alone.

/// Milliseconds in which the clocks may drift apart by one.
const DRIFT: i64 = 5_000;

/// Milliseconds from our clock to the server's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offset {
    pub value: i64,
    low: i64,
    high: i64,
    /// When it was measured, by our clock.
    at: i64,
}

impl Offset {
    /// By what a server told between two instants of our clock. What is known stays as it is if it fits: nothing falls due
    /// early because an answer was slow.
    pub fn told(known: Option<Offset>, sent: i64, received: i64, server: i64) -> Offset {
        // Either clock is read in whole milliseconds.
        let (low, high) = (server - received - 1, server - sent + 1);
        let of = |low: i64, high: i64, before: i64| {
            let value = if (low..=high).contains(&before) { before } else { low + (high - low) / 2 };
            Offset { value, low, high, at: received }
        };
        let Some(known) = known else { return of(low, high, 0) };
        let drift = (received - known.at).max(0) / DRIFT + 1;
        let (narrow_low, narrow_high) = (low.max(known.low - drift), high.min(known.high + drift));
        match narrow_low <= narrow_high {
            true => of(narrow_low, narrow_high, known.value),
            false => of(low, high, known.value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a server whose clock is `ahead` tells after `there` milliseconds, when the answer takes `back`.
    fn told(known: Option<Offset>, sent: i64, ahead: i64, (there, back): (i64, i64)) -> Option<Offset> {
        Some(Offset::told(known, sent, sent + there + back, sent + there + ahead))
    }

    #[test]
    fn a_slow_answer_of_a_clock_like_ours_changes_nothing() {
        for slow in [(0, 180), (180, 0), (90, 90)] {
            assert_eq!(told(None, 5_000, 0, slow).unwrap().value, 0);
        }
    }

    /// Two processes that had measured a server by slow answers, one each way, were up to two answers apart: what one lent for
    /// a second the other took back early.
    #[test]
    fn a_slow_answer_after_a_quick_one_changes_nothing() {
        let quick = told(None, 5_000, 60_000, (1, 1));
        assert!((quick.unwrap().value - 60_000).abs() <= 1, "{quick:?}");
        for slow in [(0, 200), (200, 0)] {
            assert_eq!(told(quick, 15_000, 60_000, slow).unwrap().value, quick.unwrap().value);
        }
    }

    #[test]
    fn a_quick_answer_after_a_slow_one_is_believed() {
        let slow = told(None, 5_000, 60_000, (200, 0));
        assert!((slow.unwrap().value - 60_000).abs() <= 101, "{slow:?}");
        let quick = told(slow, 15_000, 60_000, (0, 1));
        assert!((quick.unwrap().value - 60_000).abs() <= 1, "{quick:?}");
    }

    #[test]
    fn clocks_that_drift_apart_are_followed_and_one_that_was_set_at_once() {
        let mut offset = told(None, 0, 0, (0, 1));
        for round in 1..1_000 {
            offset = told(offset, round * 10_000, round, (0, 1));
            assert!((offset.unwrap().value - round).abs() <= 2, "{round}: {offset:?}");
        }
        let set = told(offset, 10_000_000, 3_600_000, (1, 1));
        assert!((set.unwrap().value - 3_600_000).abs() <= 1, "{set:?}");
    }
}
