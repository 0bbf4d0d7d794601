//! The promises, one file each: what is held against every answer a client hears, and against every look at
//! a store at rest.

pub mod attempts;
pub mod batches;
pub mod damage;
pub mod ends;
pub mod idempotency;
pub mod limits;
pub mod lost;
pub mod order;
pub mod owner;
pub mod reach;
pub mod retention;
pub mod stats;
pub mod timers;
pub mod wake;

use super::ledger::Ledger;
use super::look::Look;
use std::fmt;

/// A broken promise.
#[derive(Debug)]
pub struct Violation {
    pub check: &'static str,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.what)
    }
}

pub type Checked = Result<(), Violation>;

pub fn broken(check: &'static str, what: impl Into<String>) -> Checked {
    Err(Violation { check, what: what.into() })
}

/// Everything that must hold while nobody is at work.
pub fn at_rest(ledger: &Ledger, look: &Look) -> Checked {
    attempts::at_rest(ledger, look)?;
    lost::at_rest(ledger, look)?;
    owner::at_rest(ledger, look)?;
    timers::at_rest(ledger, look)?;
    order::at_rest(ledger, look)?;
    ends::at_rest(ledger, look)?;
    idempotency::at_rest(look)?;
    retention::at_rest(ledger, look)?;
    stats::at_rest(ledger, look)?;
    limits::at_rest(ledger, look)?;
    batches::at_rest(ledger, look)
}
