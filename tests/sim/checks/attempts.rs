//! Attempts only grow: with the id they are the fencing token.

use super::{Checked, broken};
use crate::sim::ledger::Ledger;
use crate::sim::look::Look;
use codeq_queue::Task;

const CHECK: &str = "attempts";

pub fn lent(ledger: &Ledger, task: &Task) -> Checked {
    match ledger.accounts.get(&task.id) {
        Some(account) if task.attempts <= account.progress.0 => {
            broken(CHECK, format!("attempt {} was lent after {account:?}", task.attempts))
        }
        _ => Ok(()),
    }
}

pub fn at_rest(ledger: &Ledger, look: &Look) -> Checked {
    for (id, account) in &ledger.accounts {
        if let Some(task) = look.tasks.get(id).filter(|task| task.attempts < account.progress.0) {
            return broken(CHECK, format!("{task:?} had more: {account:?}"));
        }
    }
    Ok(())
}
