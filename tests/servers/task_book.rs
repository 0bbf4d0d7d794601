//! What is known of one task, and what about it cannot be.
//!
//! All judgements are conservative and on the clients' clock. Whoever was lent attempt `n` holds the task from
//! then on, at least until the lease counted from *before* the claim was sent is over, or until the holder
//! itself begins to report. A later attempt whose answer arrived before that was lent too early.

use super::clients::{Claimed, Deed, Lent};
use std::time::{Duration, Instant, SystemTime};

/// How far the wall clock of the server and the monotonic one of the clients may drift apart in one lease.
const SLACK: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Wrong {
    /// Acknowledged, and nowhere.
    Lost,
    /// Lent to two workers at once.
    Doubled,
    /// Alive, and nobody gets it.
    Stuck,
    /// Anything else that must not be.
    Unexpected,
}

pub type Wrongs = Vec<(Wrong, String)>;

/// How a task was ended by a worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct End {
    pub attempt: u32,
    pub is_completed: bool,
    pub mark: String,
}

#[derive(Debug)]
struct Hold {
    attempt: u32,
    received: Instant,
    /// The lease lives at least until then.
    lease_end: Instant,
    /// From when on the holder itself may have given the task away.
    let_go: Option<Instant>,
    /// A report was sent and not answered.
    is_unsure: bool,
}

impl Hold {
    fn ends(&self) -> Instant {
        self.let_go.map_or(self.lease_end, |let_go| let_go.min(self.lease_end))
    }
}

#[derive(Default, Debug)]
pub struct TaskBook {
    pub serial: u64,
    holds: Vec<Hold>,
    /// Ends that were asked for; each may have happened.
    pub asked: Vec<End>,
    pub end: Option<End>,
    /// The attempt of which a worker was told that it made the task a dead letter.
    pub dead: Option<u32>,
    /// A later attempt must not be received before.
    not_before: Vec<(u32, Instant)>,
}

impl TaskBook {
    pub fn last_attempt(&self) -> u32 {
        self.holds.iter().map(|hold| hold.attempt).max().unwrap_or(0)
    }

    pub fn lend(&mut self, lent: &Lent, claimed: &Claimed) -> Wrongs {
        let mut wrongs = Wrongs::new();
        let by_text = until(&lent.lease_until).map(|left| claimed.received + left);
        let by_request = claimed.sent + claimed.lease;
        let lease_end = by_text.map_or(by_request, |at| at.max(by_request)) - SLACK;
        let hold = Hold {
            attempt: lent.attempt,
            received: claimed.received,
            lease_end,
            let_go: None,
            is_unsure: false,
        };
        for other in &self.holds {
            let (first, then) = if other.attempt <= hold.attempt { (other, &hold) } else { (&hold, other) };
            if first.attempt == then.attempt || then.received < first.ends() {
                let text = format!("{}: attempt {} while {} is held", lent.id, then.attempt, first.attempt);
                wrongs.push((Wrong::Doubled, text));
            }
        }
        self.holds.push(hold);
        wrongs.extend(self.check_order(&lent.id));
        wrongs
    }

    /// Nothing is lent after its end, nor before its time.
    fn check_order(&self, id: &str) -> Wrongs {
        let mut wrongs = Wrongs::new();
        let ended = self.end.as_ref().map(|end| end.attempt).into_iter().chain(self.dead).max();
        for hold in &self.holds {
            if ended.is_some_and(|ended| hold.attempt > ended) {
                let text = format!("{id}: attempt {} after the end by {ended:?}", hold.attempt);
                wrongs.push((Wrong::Unexpected, text));
            }
            let is_early = |(attempt, at): &(u32, Instant)| hold.attempt > *attempt && hold.received < *at;
            if self.not_before.iter().any(is_early) {
                let text = format!("{id}: attempt {} before the backoff was over", hold.attempt);
                wrongs.push((Wrong::Unexpected, text));
            }
        }
        wrongs
    }

    fn hold(&mut self, attempt: u32) -> Option<&mut Hold> {
        self.holds.iter_mut().find(|hold| hold.attempt == attempt)
    }

    /// Before a report is sent.
    pub fn reporting(&mut self, attempt: u32, deed: Deed, mark: &str, at: Instant) {
        if deed.is_end() {
            let end = End { attempt, is_completed: deed == Deed::Complete, mark: mark.to_owned() };
            if !self.asked.contains(&end) {
                self.asked.push(end);
            }
        }
        let Some(hold) = self.hold(attempt) else { return };
        match deed {
            Deed::Beat { extend } => hold.lease_end = hold.lease_end.min(at + extend - SLACK),
            _ => hold.let_go = Some(hold.let_go.map_or(at, |earlier| earlier.min(at))),
        }
    }

    /// Nobody knows what a report did.
    pub fn unsure(&mut self, attempt: u32) {
        if let Some(hold) = self.hold(attempt) {
            hold.is_unsure = true;
        }
    }

    pub fn extended(&mut self, attempt: u32, sent: Instant, extend: Duration) {
        if let Some(hold) = self.hold(attempt) {
            hold.lease_end = sent + extend - SLACK;
        }
    }

    pub fn ended(&mut self, id: &str, end: End) -> Wrongs {
        let mut wrongs = Wrongs::new();
        if self.end.as_ref().is_some_and(|earlier| *earlier != end) || self.dead.is_some() {
            wrongs.push((Wrong::Unexpected, format!("{id}: ended twice, {:?} and {end:?}", self.end)));
        }
        self.end = Some(end);
        wrongs.extend(self.check_order(id));
        wrongs
    }

    pub fn died(&mut self, id: &str, attempt: u32) -> Wrongs {
        let mut wrongs = Wrongs::new();
        if self.end.is_some() || self.dead.is_some() {
            wrongs.push((Wrong::Unexpected, format!("{id}: died after its end, {:?}", self.end)));
        }
        self.dead = Some(attempt);
        wrongs.extend(self.check_order(id));
        wrongs
    }

    pub fn returned(&mut self, id: &str, attempt: u32, sent: Instant, delay: Duration) -> Wrongs {
        if delay > SLACK {
            self.not_before.push((attempt, sent + delay - SLACK));
        }
        self.check_order(id)
    }

    /// A refusal is wrong while the lease lives and nothing else was said about the attempt.
    pub fn refused(&mut self, id: &str, attempt: u32, text: &str, answered: Instant) -> Wrongs {
        match text.replace(['-', ' '], "_").as_str() {
            "task_not_found" | "not_found" => {
                return vec![(Wrong::Lost, format!("{id}: {text} for its holder"))];
            }
            "lease_lost" | "not_in_progress" | "not_owner" => {}
            _ => return vec![(Wrong::Unexpected, format!("{id}: refused with {text}"))],
        }
        let hold = self.hold(attempt);
        match hold.is_some_and(|hold| !hold.is_unsure && answered < hold.lease_end) {
            true => vec![(Wrong::Doubled, format!("{id}: {text} while attempt {attempt} holds it"))],
            false => Wrongs::new(),
        }
    }
}

/// The time left until an instant in the words of the server; none if it is over or cannot be read.
fn until(text: &str) -> Option<Duration> {
    let at = text.parse::<jiff::Timestamp>().ok()?;
    SystemTime::from(at).duration_since(SystemTime::now()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    fn lent(attempt: u32) -> Lent {
        Lent { id: "t".into(), attempt, payload: Vec::new(), lease_until: String::new() }
    }

    fn claimed(at: Instant) -> Claimed {
        Claimed { sent: at, received: at, lease: LEASE, tasks: Vec::new() }
    }

    fn kinds(wrongs: &Wrongs) -> Vec<Wrong> {
        wrongs.iter().map(|(wrong, _)| *wrong).collect()
    }

    #[test]
    fn two_holders_at_once_are_seen_in_either_order() {
        let start = Instant::now();
        // Attempt 2 cannot have come before the end of attempt 1, whoever is heard of first.
        for (first, then) in [(1, 2), (2, 1)] {
            let mut book = TaskBook::default();
            assert_eq!(book.lend(&lent(first), &claimed(start)), []);
            let wrongs = book.lend(&lent(then), &claimed(start + Duration::from_secs(5)));
            assert_eq!(kinds(&wrongs), [Wrong::Doubled]);
        }
    }

    #[test]
    fn who_let_go_or_whose_lease_is_over_does_not_hold() {
        let start = Instant::now();
        let mut book = TaskBook::default();
        book.lend(&lent(1), &claimed(start));
        book.reporting(1, Deed::Abandon { refund: false }, "", start + Duration::from_secs(1));
        assert_eq!(book.lend(&lent(2), &claimed(start + Duration::from_secs(2))), []);
        assert_eq!(book.lend(&lent(3), &claimed(start + Duration::from_secs(12))), []);
        assert_eq!(
            kinds(&book.lend(&lent(3), &claimed(start + LEASE * 9))),
            [Wrong::Doubled],
            "a number twice"
        );
    }

    #[test]
    fn an_extension_counts_once_it_is_acknowledged() {
        let start = Instant::now();
        let (beat, long) = (start + Duration::from_secs(9), Duration::from_secs(20));
        for (is_acknowledged, expected) in [(false, vec![]), (true, vec![Wrong::Doubled])] {
            let mut book = TaskBook::default();
            book.lend(&lent(1), &claimed(start));
            book.reporting(1, Deed::Beat { extend: long }, "", beat);
            if is_acknowledged {
                book.extended(1, beat, long);
            }
            assert_eq!(kinds(&book.lend(&lent(2), &claimed(start + LEASE))), expected);
        }
    }

    #[test]
    fn an_end_is_the_end() {
        let start = Instant::now();
        let end = |mark: &str| End { attempt: 1, is_completed: true, mark: mark.into() };
        let mut book = TaskBook::default();
        book.lend(&lent(1), &claimed(start));
        book.reporting(1, Deed::Complete, "a", start);
        assert_eq!(book.ended("t", end("a")), []);
        assert_eq!(book.ended("t", end("a")), [], "told again");
        assert_eq!(kinds(&book.ended("t", end("b"))), [Wrong::Unexpected]);
        assert_eq!(kinds(&book.died("t", 1)), [Wrong::Unexpected]);
        assert_eq!(kinds(&book.lend(&lent(2), &claimed(start + LEASE))), [Wrong::Unexpected]);
    }

    #[test]
    fn a_backoff_is_waited_for() {
        let start = Instant::now();
        let mut book = TaskBook::default();
        book.lend(&lent(1), &claimed(start));
        book.reporting(1, Deed::Nack { delay_seconds: 2 }, "", start);
        assert_eq!(book.returned("t", 1, start, Duration::from_secs(2)), []);
        let early = book.lend(&lent(2), &claimed(start + Duration::from_secs(1)));
        assert_eq!(kinds(&early), [Wrong::Unexpected]);
    }

    #[test]
    fn a_holder_is_not_refused() {
        let start = Instant::now();
        let mut book = TaskBook::default();
        book.lend(&lent(1), &claimed(start));
        assert_eq!(kinds(&book.refused("t", 1, "not-owner", start)), [Wrong::Doubled]);
        assert_eq!(kinds(&book.refused("t", 1, "task not found", start)), [Wrong::Lost]);
        assert_eq!(kinds(&book.refused("t", 1, "invalid_body", start)), [Wrong::Unexpected]);
        assert_eq!(book.refused("t", 1, "lease_lost", start + LEASE), [], "it is over");
        book.unsure(1);
        assert_eq!(book.refused("t", 1, "not_in_progress", start), [], "its first report may have counted");
    }
}
