//! Callers and processes that wait for each other: events, waiting calls, who listens.

pub(in crate::kvrocks) mod events;
mod line;
pub(in crate::kvrocks) mod presence;
pub(in crate::kvrocks) mod signal;
pub(in crate::kvrocks) mod waiting;
pub(in crate::kvrocks) mod watchers;
