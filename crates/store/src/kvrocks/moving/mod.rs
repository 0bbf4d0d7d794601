//! Tasks that come from another shard or from the original server.

pub(in crate::kvrocks) mod foreign;
pub(in crate::kvrocks) mod migrate;
pub(in crate::kvrocks) mod moves;
pub(in crate::kvrocks) mod relocate;
pub(in crate::kvrocks) mod within;
