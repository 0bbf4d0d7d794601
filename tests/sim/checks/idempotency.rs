//! One task per key, as long as the task is kept.

use super::{Checked, broken};
use crate::sim::ledger::Ledger;
use crate::sim::look::Look;
use codeq_queue::NewTask;
use codeq_queue::store::Created;
use std::collections::BTreeMap;

const CHECK: &str = "idempotency";

pub fn created(ledger: &Ledger, new: &NewTask, made: &Created) -> Checked {
    let body = &made.task.body;
    let Some(key) = &new.body.idempotency_key else {
        // Whoever claimed it in the same step may have been heard first.
        let is_old = ledger.accounts.get(&made.task.id).is_some_and(|known| known.heard < ledger.step);
        let is_new = !made.is_replay && !is_old;
        return if is_new { Ok(()) } else { broken(CHECK, format!("no key, and yet a replay: {made:?}")) };
    };
    if !made.is_replay && *body.payload != *new.body.payload {
        return broken(CHECK, format!("{new:?} made {made:?}"));
    }
    let first = ledger.keys.get(&(new.body.command.to_ascii_lowercase(), key.to_string()));
    let Some(account) = first.and_then(|id| ledger.accounts.get(id)) else { return Ok(()) };
    let least = ledger.rules.dead_retention.unwrap_or(ledger.rules.retention).min(ledger.rules.retention);
    let since = match &account.ended {
        Some((_, record)) => record.completed_at,
        None => account.alive_at,
    };
    let may_be_gone = account.may_be_removed || since.plus(least) <= ledger.latest;
    match made.task.id == account.named.id || may_be_gone {
        true => Ok(()),
        false => broken(CHECK, format!("{key} names {} and {}", account.named.id, made.task.id)),
    }
}

pub fn at_rest(look: &Look) -> Checked {
    let mut keys = BTreeMap::new();
    for task in look.tasks.values() {
        let Some(key) = &task.body.idempotency_key else { continue };
        let first = keys.insert((task.body.command.to_ascii_lowercase(), key), task.id);
        if let Some(first) = first {
            return broken(CHECK, format!("{key} names {first} and {}", task.id));
        }
    }
    Ok(())
}
