//! The counts of every queue are what counting its tasks gives. Dead letters are not counted while one may
//! go at any moment.

use super::{Checked, broken};
use crate::sim::ledger::Ledger;
use crate::sim::look::Look;
use codeq_queue::{Place, QueueKey};
use std::collections::BTreeMap;

pub fn at_rest(ledger: &Ledger, look: &Look) -> Checked {
    let counts_dead = u64::from(look.overdue(ledger, ledger.now).next().is_none());
    let mut counted: BTreeMap<QueueKey, [u64; 5]> = BTreeMap::new();
    for task in look.tasks.values() {
        let counts = counted.entry(QueueKey::new(&task.body.tenant, &task.body.command)).or_default();
        match task.state.place() {
            Place::PendingList => counts[0] += 1,
            Place::DelayedSet => counts[1] += 1,
            Place::InProgressSet => counts[2] += 1,
            Place::DeadLetterSet => counts[3] += counts_dead,
            Place::HeldSet => counts[4] += 1,
            Place::None => {}
        }
    }
    counted.retain(|_, counts| *counts != [0; 5]);
    let mut said = BTreeMap::new();
    for stats in &look.queues {
        let dead = stats.dead * counts_dead;
        let counts = [stats.ready_total(), stats.delayed, stats.in_progress, dead, stats.held];
        if counts != [0; 5] {
            said.insert(QueueKey::new(&stats.tenant, &stats.command), counts);
        }
    }
    match said == counted {
        true => Ok(()),
        false => {
            broken("stats", format!("ready, delayed, running, dead, held: {said:?}, counted: {counted:?}"))
        }
    }
}
