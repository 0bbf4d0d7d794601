//! Order within a priority: tasks stand in the order in which they became ready, and are lent so.

use super::{Checked, broken};
use crate::sim::ledger::{Account, Ledger};
use crate::sim::look::Look;
use codeq_queue::{State, Task, TaskId};
use std::cmp::Reverse;

const CHECK: &str = "order";

/// What was heard of before another was asked for stands in front of it.
pub fn at_rest(ledger: &Ledger, look: &Look) -> Checked {
    let mut lanes: Vec<(&str, u64, &Task)> = Vec::new();
    for task in look.tasks.values() {
        // What an operator gave another life stands where it did so, and what was held where it was released.
        let is_plain = |account: &&Account| {
            account.not_before.is_none() && !account.may_be_requeued && account.body.after().is_empty()
        };
        let account = ledger.accounts.get(&task.id).filter(is_plain);
        if let (State::Ready { seq }, 0, Some(_)) = (&task.state, task.attempts, account) {
            lanes.push((&task.body.command, *seq, task));
        }
    }
    lanes.sort_by_key(|(command, seq, _)| (*command, *seq));
    for pair in lanes.windows(2) {
        let (front, back) = (&ledger.accounts[&pair[0].2.id], &ledger.accounts[&pair[1].2.id]);
        if pair[0].0 == pair[1].0 && back.heard < front.asked {
            return broken(CHECK, format!("{front:?} stands in front of {back:?}"));
        }
    }
    Ok(())
}

/// The first `count` of one queue, as they stand.
pub fn heads(look: &Look, command: &str, count: usize) -> Vec<TaskId> {
    let ready = look.tasks.values().filter_map(|task| match task.state {
        State::Ready { seq } if &*task.body.command == command => {
            Some((Reverse(task.priority), seq, task.id))
        }
        _ => None,
    });
    let mut ready: Vec<_> = ready.collect();
    ready.sort();
    ready.into_iter().take(count).map(|(_, _, id)| id).collect()
}

/// A claim of one queue, made while nobody else was at work.
pub fn lent(expected: &[TaskId], tasks: &[Task]) -> Checked {
    let lent: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
    match lent == expected {
        true => Ok(()),
        false => broken(CHECK, format!("{lent:?} were lent, it was the turn of {expected:?}")),
    }
}
