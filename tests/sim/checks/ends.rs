//! Every end has its result and, with a webhook, its callback; nothing that lives has either.

use super::{Checked, broken};
use crate::sim::ledger::{Account, Ledger, result_text};
use crate::sim::look::Look;
use codeq_queue::{Delivery, ResultRecord, State, Task, TaskId};
use std::collections::BTreeMap;

const CHECK: &str = "ends";

pub fn at_rest(ledger: &Ledger, look: &Look) -> Checked {
    if let Some(id) = look.without_lookup.first() {
        return broken(CHECK, format!("{id} is there and its result is unknown"));
    }
    let mut callbacks: BTreeMap<TaskId, Vec<&Delivery>> = BTreeMap::new();
    for delivery in &look.deliveries {
        callbacks.entry(delivery.task_id).or_default().push(delivery);
    }
    for task in look.tasks.values() {
        let account = ledger.accounts.get(&task.id);
        let record = look.records.get(&task.id);
        result(task, record, account)?;
        let waiting = callbacks.get(&task.id).map(Vec::as_slice).unwrap_or_default();
        called_back(task, waiting, account, ledger.confirmed.contains(&task.id))?;
    }
    Ok(())
}

fn result(task: &Task, record: Option<&ResultRecord>, account: Option<&Account>) -> Checked {
    if task.state.is_live() != record.is_none() {
        return broken(CHECK, format!("{task:?} has {record:?}"));
    }
    let Some(record) = record else { return Ok(()) };
    if task.state == State::Completed
        && record.result.as_deref() != Some(&*result_text(task.id, task.attempts))
    {
        return broken(CHECK, format!("{task:?} has the result of another attempt: {record:?}"));
    }
    match account.and_then(|account| account.ended.as_ref()) {
        Some((state, told)) if *state != task.state || told != record => {
            broken(CHECK, format!("{state:?} {told:?} became {:?} {record:?}", task.state))
        }
        _ => Ok(()),
    }
}

/// One callback for one end, until a receiver has confirmed it. A task that was revived has an end more.
fn called_back(task: &Task, waiting: &[&Delivery], account: Option<&Account>, is_confirmed: bool) -> Checked {
    let is_due = task.body.webhook.is_some() && !task.state.is_live();
    if account.is_some_and(|account| account.may_be_requeued) {
        return Ok(());
    }
    let is_right = match (is_due, waiting.len()) {
        (true, 1) | (false, 0) => true,
        (true, 0) => is_confirmed,
        _ => false,
    };
    let is_same = account.is_none_or(|account| {
        let other = |delivery: &&&Delivery| !account.callbacks.contains(&delivery.id);
        account.callbacks.is_empty() || !waiting.iter().any(|delivery| other(&delivery))
    });
    match is_right && is_same {
        true => Ok(()),
        false => broken(CHECK, format!("{task:?} has the callbacks {waiting:?}: {account:?}")),
    }
}
