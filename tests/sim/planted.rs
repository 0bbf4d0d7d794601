//! Every planted bug is found: a simulation that finds nothing in a broken store would prove nothing by
//! finding nothing in a sound one.

use codeq_tests::sim;
use codeq_tests::sim::plants::Plant;
use std::sync::{Mutex, PoisonError};

/// Each is found by one of the first few.
const SEEDS: u64 = 2000;

/// Some bugs are in every store of the process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn found_by(plant: Plant, checks: &[&str]) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    Plant::sow(Some(plant));
    let threads = 2 * std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let (counts, failing) = sim::campaign(1, SEEDS, threads, Some(plant));
    Plant::sow(None);
    let failing = failing.unwrap_or_else(|| panic!("{plant:?} was not found: {counts:?}"));
    println!("{plant:?} was found by seed {} after {} lives", failing.seed, counts.seeds);
    assert!(checks.contains(&failing.violation.check), "{plant:?}: {}", failing.violation);
}

#[test]
fn an_answer_before_the_sync_is_found() {
    found_by(Plant::AnswerBeforeSync, &["lost", "attempts", "owner", "ends"]);
}

#[test]
fn reports_that_are_not_fenced_are_found() {
    found_by(Plant::NoFencing, &["owner", "ends"]);
}

#[test]
fn a_lost_wake_up_is_found() {
    found_by(Plant::LostWakeup, &["wake"]);
}

#[test]
fn a_checksum_that_is_not_looked_at_is_found() {
    // A torn frame that is believed may also keep the store from opening.
    found_by(Plant::SkippedChecksum, &["damage", "lost"]);
}

#[test]
fn a_key_checked_outside_the_transition_is_found() {
    found_by(Plant::KeyOutsideTransition, &["idempotency"]);
}

#[test]
fn a_timer_off_by_one_is_found() {
    found_by(Plant::TimerOffByOne, &["timers", "owner"]);
}

#[test]
fn a_limit_off_by_one_is_found() {
    found_by(Plant::LimitOffByOne, &["limits"]);
}

#[test]
fn a_member_counted_twice_is_found() {
    found_by(Plant::CountedTwice, &["batches"]);
}

#[test]
fn an_end_that_is_not_told_is_found() {
    found_by(Plant::EndNotTold, &["reach"]);
}
