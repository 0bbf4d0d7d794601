//! At most one live owner: nobody is lent what another holds, and nobody speaks for an attempt that is over.

use super::{Checked, broken};
use crate::sim::action::Action;
use crate::sim::ledger::Ledger;
use crate::sim::look::Look;
use codeq_queue::Task;

const CHECK: &str = "owner";

pub fn lent(ledger: &Ledger, task: &Task) -> Checked {
    let Some(account) = ledger.accounts.get(&task.id) else { return Ok(()) };
    if account.progress.1 == 3 {
        return broken(CHECK, format!("{task:?} was lent after its end: {account:?}"));
    }
    match &account.lent {
        Some(lent) if !lent.may_be_over && ledger.latest < lent.until => {
            broken(CHECK, format!("lent at {:?} while {lent:?}: {task:?}", ledger.latest))
        }
        _ => Ok(()),
    }
}

/// A report was taken that was known, when it was sent, to speak for an attempt that is over.
pub fn reported(action: &Action, is_stale: bool) -> Checked {
    match is_stale {
        true => broken(CHECK, format!("a report of an attempt that is over was taken: {action:?}")),
        false => Ok(()),
    }
}

/// Who was told of a lease that nobody asked to end still has it.
pub fn at_rest(ledger: &Ledger, look: &Look) -> Checked {
    for account in ledger.accounts.values() {
        let Some(lent) = &account.lent else { continue };
        if lent.may_be_over || ledger.latest >= lent.until {
            continue;
        }
        let task = look.tasks.get(&account.named.id);
        let lease = task.and_then(|task| task.state.lease());
        if lease.is_none_or(|lease| lease.owner != lent.owner) {
            return broken(CHECK, format!("at {:?} {lent:?} has lost its task: {task:?}", ledger.latest));
        }
    }
    Ok(())
}
