//! Timers are exact: nothing is lent before its time, and nothing waits or is leased beyond it.

use super::{Checked, broken};
use crate::sim::ledger::Ledger;
use crate::sim::look::{Look, is_over};
use codeq_queue::{State, Task};

const CHECK: &str = "timers";

pub fn lent(ledger: &Ledger, task: &Task) -> Checked {
    let not_before = ledger.accounts.get(&task.id).and_then(|account| account.not_before);
    match not_before.filter(|time| ledger.latest < *time) {
        Some(time) => broken(CHECK, format!("lent at {:?}, before {time:?}: {task:?}", ledger.latest)),
        None => Ok(()),
    }
}

pub fn at_rest(ledger: &Ledger, look: &Look) -> Checked {
    for task in look.tasks.values() {
        let account = ledger.accounts.get(&task.id);
        // Nothing but time makes it ready.
        let is_early = matches!(task.state, State::Ready { .. })
            && account
                .filter(|account| task.attempts == 0 && !account.may_be_requeued)
                .and_then(|account| account.not_before)
                .is_some_and(|time| ledger.latest < time);
        if is_early || is_over(&task.state, ledger.now) {
            return broken(CHECK, format!("at {:?}: {task:?}", ledger.now));
        }
    }
    Ok(())
}
