//! Who sits the exam: a store, the clock it lives by, and how to close and open it again.

use crate::{ManualClock, Rules};
use codeq_queue::{Store, Time};
use std::sync::Arc;

/// The instant at which every candidate's clock stands when it is opened.
pub const START: Time = Time::from_millis(1_700_000_000_000);

pub trait Candidate: Send + Sync {
    /// The store as it is open now; another one after [`Candidate::reopen`].
    fn store(&self) -> Arc<dyn Store>;
    fn clock(&self) -> Arc<ManualClock>;
    fn rules(&self) -> Rules;
    /// Whether what was acknowledged outlives closing.
    fn keeps_on_reopen(&self) -> bool;
    /// Closes the store and opens it again on the same data. Called only if it keeps what it has.
    fn reopen(&self);
    /// Stops the store without closing it, opens it again with everything acknowledged, and says so. A
    /// candidate that cannot do that answers `false` and does nothing.
    fn crash(&self) -> bool {
        false
    }
}

/// Gives a new, empty store whose clock stands at [`START`].
pub type Open = Arc<dyn Fn(Rules) -> Arc<dyn Candidate> + Send + Sync>;
