//! Nothing acknowledged is lost: every task is there, whole, and as far as a client saw it come; and nothing
//! is there that nobody asked for.

use super::{Checked, broken};
use crate::sim::ledger::{Account, Ledger, progress};
use crate::sim::look::Look;
use codeq_queue::{Body, State, TaskId};
use std::collections::{BTreeMap, BTreeSet};

const CHECK: &str = "lost";

pub fn at_rest(ledger: &Ledger, look: &Look) -> Checked {
    for (id, account) in &ledger.accounts {
        let Some(task) = look.tasks.get(id) else {
            if !may_be_gone(ledger, account) {
                return broken(CHECK, format!("gone at {:?}: {account:?}", ledger.latest));
            }
            continue;
        };
        if task.body != account.body && !(account.may_be_requeued && is_requeued(&task.body, &account.body)) {
            return broken(CHECK, format!("{task:?} was {:?}", account.body));
        }
        if progress(&task.state, task.attempts) < account.progress {
            return broken(CHECK, format!("{task:?} fell back behind {account:?}"));
        }
    }
    listed_once(look)?;
    asked_for(ledger, look)
}

/// What comes again waits for nobody, leaves a batch that has ended, and counts as accepted then.
fn is_requeued(now: &Body, before: &Body) -> bool {
    let lasting = |body: &Body| {
        let mut options = body.options.as_deref().cloned().unwrap_or_default();
        (options.accepted, options.batch) = (None, None);
        (options.after, options.on_failure) = Default::default();
        Body { options: options.boxed(), ..body.clone() }
    };
    lasting(now) == lasting(before)
}

fn may_be_gone(ledger: &Ledger, account: &Account) -> bool {
    if account.may_be_removed {
        return true;
    }
    match &account.ended {
        Some((state, record)) => {
            ledger.kept(state).is_some_and(|kept| record.completed_at.plus(kept) <= ledger.latest)
        }
        // Its end went unheard. It lived then, so it did not end before.
        None => {
            let kept = ledger.rules.dead_retention.unwrap_or(ledger.rules.retention);
            account.alive_at.plus(kept.min(ledger.rules.retention)) <= ledger.latest
        }
    }
}

/// The listing has every task once. Dead letters may go while it is made.
fn listed_once(look: &Look) -> Checked {
    let listed: BTreeSet<TaskId> = look.listed.iter().copied().collect();
    if listed.len() != look.listed.len() {
        return broken(CHECK, format!("listed twice: {:?}", look.listed));
    }
    let missing = look.tasks.values().find(|task| task.state != State::Dead && !listed.contains(&task.id));
    match missing {
        Some(task) => broken(CHECK, format!("not listed: {task:?}")),
        None => Ok(()),
    }
}

/// Every call makes one task at most, so no payload is there more often than it was sent.
fn asked_for(ledger: &Ledger, look: &Look) -> Checked {
    let mut made: BTreeMap<&str, u64> = BTreeMap::new();
    for task in look.tasks.values() {
        let made = made.entry(&task.body.payload).or_default();
        *made += 1;
        if ledger.sent.get(&*task.body.payload).is_none_or(|(sent, _)| *made > *sent) {
            return broken(CHECK, format!("nobody asked for {task:?}"));
        }
    }
    Ok(())
}
