//! Something broke, in contrast to a refusal.

use thiserror::Error;

/// Something broke. What was asked may or may not have happened; asking again is safe.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Failure {
    /// The store cannot take this now (disk full, sync failed, backend unreachable).
    #[error("storage unavailable: {reason}")]
    Unavailable {
        /// For the log.
        reason: String,
        /// Whether what was asked may have happened all the same.
        outcome_unknown: bool,
    },
    /// The store is closing or closed.
    #[error("the store is closed")]
    Closed,
    /// A record was found damaged, or an invariant does not hold.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Failure {
    /// Nothing has happened.
    pub fn unavailable(reason: impl Into<String>) -> Failure {
        Failure::Unavailable { reason: reason.into(), outcome_unknown: false }
    }

    /// It may have happened.
    pub fn unknown(reason: impl Into<String>) -> Failure {
        Failure::Unavailable { reason: reason.into(), outcome_unknown: true }
    }
}
