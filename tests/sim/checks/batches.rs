//! Batches end once, by the ends of their members, and what waits for others goes on when they have ended.

use super::{Checked, broken};
use crate::sim::ledger::Ledger;
use crate::sim::look::Look;
use codeq_queue::batch::Batch;
use codeq_queue::{State, Task, TaskId};

const CHECK: &str = "batches";

pub fn at_rest(ledger: &Ledger, look: &Look) -> Checked {
    for (id, account) in &ledger.batches {
        let Some(batch) = look.batches.get(id) else {
            let may_be_gone = account.end.is_none_or(|end| end.expires <= ledger.latest);
            match may_be_gone {
                true => continue,
                false => return broken(CHECK, format!("gone at {:?}: {account:?}", ledger.latest)),
            }
        };
        if account.end.is_some() && account.end != batch.end {
            return broken(CHECK, format!("{account:?} ended again: {batch:?}"));
        }
        if account.is_closed && batch.closed_at.is_none() {
            return broken(CHECK, format!("open again: {batch:?}"));
        }
        if batch.end.is_none() {
            counted(look, batch)?;
        }
    }
    Ok(())
}

fn members(look: &Look, id: TaskId) -> impl Iterator<Item = &Task> {
    look.tasks.values().filter(move |task| task.body.batch() == Some(id))
}

/// The counts are what counting the members gives; ended ones may have gone since.
fn counted(look: &Look, batch: &Batch) -> Checked {
    let live = members(look, batch.id).filter(|task| task.state.is_live()).count() as u64;
    let completed = members(look, batch.id).filter(|task| task.state == State::Completed).count() as u64;
    let all = members(look, batch.id).count() as u64;
    let said = batch.counts();
    let is_right = said.live == live && said.completed >= completed && said.failed >= all - live - completed;
    match is_right {
        true => Ok(()),
        false => broken(CHECK, format!("{live} live, {completed} completed of {all}: {batch:?}")),
    }
}

/// Held tasks that nothing holds any more.
pub fn stuck(look: &Look) -> Option<&Task> {
    let has_ended = |id: &TaskId| match (look.tasks.get(id), look.batches.get(id)) {
        (Some(task), _) => !task.state.is_live(),
        (None, Some(batch)) => batch.end.is_some(),
        (None, None) => true,
    };
    look.tasks.values().find(|task| match &task.state {
        State::Held(held) => held.open.iter().any(has_ended),
        _ => false,
    })
}

/// Everything has ended: so have the batches, each as its members did.
pub fn over(ledger: &Ledger, look: &Look) -> Checked {
    for (id, batch) in &look.batches {
        let Some(end) = batch.end else { return broken(CHECK, format!("it never ends: {batch:?}")) };
        let may_be_cancelled = ledger.batches.get(id).is_some_and(|account| account.may_be_cancelled);
        let counts = batch.counts();
        if counts.live > 0 || end.is_completed && counts.failed > 0 {
            return broken(CHECK, format!("it should not have ended so: {batch:?}"));
        }
        if !end.is_completed && counts.failed == 0 && !may_be_cancelled {
            return broken(CHECK, format!("nothing failed, and yet it did: {batch:?}"));
        }
    }
    Ok(())
}
