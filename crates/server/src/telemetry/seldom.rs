//! Limits how often a repeated log line is written, so that it cannot fill the disk.

use codeq_queue::Time;
use std::sync::atomic::{AtomicI64, Ordering};

/// Milliseconds between two.
const BETWEEN: i64 = 1000;

/// At most once a second.
#[derive(Default)]
pub struct ThrottledLog {
    /// In milliseconds.
    last: AtomicI64,
}

impl ThrottledLog {
    /// Whether it is time for another one.
    pub fn may(&self, now: Time) -> bool {
        let (now, last) = (now.millis(), self.last.load(Ordering::Relaxed));
        let is_due = now - last >= BETWEEN;
        is_due && self.last.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_a_second_is_enough() {
        let seldom = ThrottledLog::default();
        let may = |millis| seldom.may(Time::from_millis(millis));
        assert_eq!([5000, 5001, 5999, 6000, 6001].map(may), [true, false, false, true, false]);
    }
}
