//! Retention is exact: what has ended is there until its time, and gone from then on. Dead letters may stay
//! one interval of the cleanup longer. That nothing goes early is `lost`'s to see.

use super::{Checked, broken};
use crate::sim::ledger::Ledger;
use crate::sim::look::Look;
use codeq_queue::State;
use std::time::Duration;

pub fn at_rest(ledger: &Ledger, look: &Look) -> Checked {
    for (id, record) in &look.records {
        let task = &look.tasks[id];
        let lag = if task.state == State::Dead { ledger.rules.cleanup_interval } else { Duration::ZERO };
        let Some(kept) = ledger.kept(&task.state) else { continue };
        if record.completed_at.plus(kept).plus(lag) <= ledger.now {
            return broken("retention", format!("still there at {:?}: {task:?} {record:?}", ledger.now));
        }
    }
    Ok(())
}
