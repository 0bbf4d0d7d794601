//! What happens because it is time, and what ties tasks to others that end.

pub(in crate::kvrocks) mod carrying;
pub(in crate::kvrocks) mod clock;
pub(in crate::kvrocks) mod flow;
pub(in crate::kvrocks) mod glance;
pub(in crate::kvrocks) mod homes;
pub(in crate::kvrocks) mod links;
pub(in crate::kvrocks) mod pointers;
pub(in crate::kvrocks) mod shares;
pub(in crate::kvrocks) mod sweep;
pub(in crate::kvrocks) mod ticking;
pub(in crate::kvrocks) mod waits;
pub(in crate::kvrocks) mod walking;
